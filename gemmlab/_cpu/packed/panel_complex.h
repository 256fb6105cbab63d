/* Packing complex numbers: A as it is, a real and an imaginary part side by side to be broadcast; B apart, the real
   parts of a panel's row as one vector and the imaginary ones as the next. Strides are in bytes. */

static void PAIR(pack_a)(void *panel, const char *x, Count across, Count along, Count width, Count padded,
                         Count depth) {
    T *to = panel;
    (void)padded;  /* panels of A are as wide as their rows */
    for (Count p = 0; p < depth; p++, to += 2 * width)
        for (Count i = 0; i < width; i++) {
            const T *from = (const T *)(x + i * across + p * along);
            to[2 * i] = from[0];
            to[2 * i + 1] = from[1];
        }
}

static void PAIR(pack_b)(void *panel, const char *x, Count across, Count along, Count width, Count padded,
                         Count depth) {
    T *to = panel;
    for (Count p = 0; p < depth; p++, to += 2 * padded) {
        const char *from = x + p * along;
        if (across == 2 * sizeof(T))
            for (Count j = 0; j < width; j++) {
                to[j] = ((const T *)from)[2 * j];
                to[padded + j] = ((const T *)from)[2 * j + 1];
            }
        else
            for (Count j = 0; j < width; j++) {
                to[j] = ((const T *)(from + j * across))[0];
                to[padded + j] = ((const T *)(from + j * across))[1];
            }
        for (Count j = width; j < padded; j++) to[j] = to[padded + j] = 0;
    }
}
