/* Packing: a piece of A or B, with any strides, becomes a panel that the micro-kernel reads from start to end.

       for p in 0..depth:
           for i in 0..width:      panel[p * padded + i] = x[i * across + p * along]
           for i in width..padded: panel[p * padded + i] = 0

   A is packed across its rows, B across its columns; strides are in bytes. Three ways, by which of the two strides is
   that of adjacent numbers: copy vectors, transpose squares of vectors, or take one number after the other.

   Included once for each pair of types, S as stored and T as multiplied: NUMBER(x) converts one S, NUMBERS(x) a vector
   of LANES adjacent ones; SAME says that the two types are one. */

/* Part of a vector, of numbers that need no conversion; a panel has room for it in multiples of 4 bytes. */
#define IN_PARTS (SAME && sizeof(T) >= 4)

static void PAIR(pack)(void *panel, const char *x, Count across, Count along, Count width, Count padded, Count depth) {
    T *to = panel;
    const Count whole = width / LANES * LANES;
    Count p = 0;
    if (across == sizeof(S)) {
        for (; p < depth; p++, to += padded) {
            const char *from = x + p * along;
            for (Count i = 0; i < whole; i += LANES) LOOSE(to + i) = NUMBERS(from + i * sizeof(S));
            if (IN_PARTS && whole < padded) {
                const V rest = (V)load_part(from + whole * sizeof(T), part_of((width - whole) * (Count)sizeof(T)));
                store_part(to + whole, part_of((padded - whole) * (Count)sizeof(T)), (Bytes)rest);
                for (Count i = whole + LANES; i < padded; i++) to[i] = 0;
                continue;
            }
            for (Count i = whole; i < width; i++) to[i] = NUMBER(from + i * sizeof(S));
            for (Count i = width; i < padded; i++) to[i] = 0;
        }
        return;
    }
    if (along == sizeof(S)) {
        for (; p + LANES <= depth; p += LANES, to += LANES * padded)
            for (Count i0 = 0; i0 < padded; i0 += LANES) {
                V square[LANES];
                const Count rows = least(LANES, width - i0), columns = least(LANES, padded - i0);
                if (rows == LANES) {
                    UNROLL for (int i = 0; i < LANES; i++)
                        square[i] = NUMBERS(x + (i0 + i) * across + p * sizeof(S));
                } else {
                    UNROLL for (int i = 0; i < LANES; i++)
                        square[i] = i < rows ? (V)NUMBERS(x + (i0 + i) * across + p * sizeof(S)) : (V){0};
                }
                JOIN(TRANSPOSE, LANES_NUMBER)(V, square)
                if (columns == LANES) {
                    UNROLL for (int q = 0; q < LANES; q++) LOOSE(to + q * padded + i0) = square[q];
                } else if (sizeof(T) >= 4) {
                    const Part part = part_of(columns * (Count)sizeof(T));
                    UNROLL for (int q = 0; q < LANES; q++) store_part(to + q * padded + i0, part, (Bytes)square[q]);
                } else {
                    for (int q = 0; q < LANES; q++) memcpy(to + q * padded + i0, &square[q], columns * sizeof(T));
                }
            }
    }
    for (; p < depth; p++, to += padded) {
        const char *from = x + p * along;
        for (Count i = 0; i < width; i++) to[i] = NUMBER(from + i * across);
        for (Count i = width; i < padded; i++) to[i] = 0;
    }
}
