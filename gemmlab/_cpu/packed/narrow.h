/* Sums of T, stored as S: STORED(x) converts one. Included once for each pair of types. */
static void PAIR(narrow)(char *c, Count ci, Count cj, const char *sums, Count rows, Count columns, Count width) {
    for (Count i = 0; i < rows; i++) {
        const T *from = (const T *)sums + i * width;
        if (cj == sizeof(S))
            for (Count j = 0; j < columns; j++) ((S *)(c + i * ci))[j] = STORED(from[j]);
        else
            for (Count j = 0; j < columns; j++) *(S *)(c + i * ci + j * cj) = STORED(from[j]);
    }
}
#undef STORED
