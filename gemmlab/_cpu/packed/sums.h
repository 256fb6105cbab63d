/* Sums of T, and their way from a buffer to any C. Included once for each type T of sums. */

#define PARTS (COMPLEX ? 2 : 1)  /* numbers T that make one number of C */
#define CELL ((Count)(PARTS * sizeof(T)))

/* Where C's columns are not adjacent, or its numbers have two parts: from a copy of the sums, one by one. */
static void NAME(scatter)(const T *sums, Count width, Count rows, Count columns, char *c, Count ci, Count cj, int add) {
    for (Count i = 0; i < rows; i++)
        for (Count j = 0; j < columns; j++)
            for (int part = 0; part < PARTS; part++) {
                T *number = (T *)(c + i * ci + j * cj) + part;
                T sum = sums[i * width + part * LANES + j];
                *number = add ? (T)ADD(*number, sum) : sum;
            }
}
