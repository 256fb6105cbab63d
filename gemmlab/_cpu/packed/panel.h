/* Packing: a piece of A or B, with any strides, becomes a panel that the micro-kernel reads from start to end.

       for p in 0..depth:
           for i in 0..width:      panel[p * padded + i] = x[i * across + p * along]
           for i in width..padded: panel[p * padded + i] = 0

   A is packed across its rows, B across its columns; strides are in bytes. Three ways, by which of the two strides is
   that of adjacent numbers: copy vectors, transpose squares of vectors, or take a few numbers one by one.

   Included once for each pair of types, S as stored and T as multiplied: NUMBER(x) converts one S, NUMBERS(x) a vector
   of LANES adjacent ones; SAME says that the two types are one. */

/* Part of a vector, of numbers that need no conversion; a panel has room for it in multiples of 4 bytes. */
#define IN_PARTS (SAME && sizeof(T) >= 4)

INLINE V PAIR(load)(const char *x, Count numbers) {
    if (IN_PARTS && numbers < LANES) return (V)load_part(x, part_of(numbers * (Count)sizeof(T)));
    return NUMBERS(x);
}

/* The first numbers of a vector, in a panel that ends at `end`. What lies behind them is written over as far as that: it
   belongs to the panel's next rows, which come afterwards. To store a part costs AVX2 as much as many whole vectors. */
INLINE void PAIR(store)(T *to, V x, Count numbers, const T *end) {
    if (numbers >= LANES || to + LANES <= end)
        LOOSE(to) = x;
    else
        memcpy(to, &x, numbers * sizeof(T));
}

/* Numbers that are adjacent across the panel: vectors of them. */
INLINE void PAIR(pack_adjacent)(T *to, const char *x, Count along, Count width, Count padded, Count depth) {
    const Count whole = width / LANES * LANES;
    const T *const end = to + depth * padded;
    for (Count p = 0; p < depth; p++, to += padded, x += along) {
        for (Count i = 0; i < whole; i += LANES) LOOSE(to + i) = NUMBERS(x + i * sizeof(S));
        Count i = whole;
        if (IN_PARTS && whole < padded) {
            PAIR(store)(to + whole, PAIR(load)(x + whole * sizeof(S), width - whole), padded - whole, end);
            i += LANES;
        }
        for (; i < width; i++) to[i] = NUMBER(x + i * sizeof(S));
        for (; i < padded; i++) to[i] = 0;
    }
}

/* A square of vectors: its pieces of 16 bytes are transposed in place, `few` x `few` numbers of as many rows, and then
   the pieces of rows that lie so far apart change places. */
INLINE void PAIR(transpose)(V *x) {
    const int few = 16 / sizeof(T);
    V next[LANES];
    UNROLL for (int first = 0; first < LANES; first += few)
        UNROLL for (int w = 1; w < few; w *= 2) {
            UNROLL for (int i = 0; i < few / 2; i++) {
                const V upper = x[first + i], lower = x[first + i + few / 2];
                next[2 * i] = SHUFFLE(LANES_NUMBER, upper, lower, LOWER);
                next[2 * i + 1] = SHUFFLE(LANES_NUMBER, upper, lower, UPPER);
            }
            UNROLL for (int i = 0; i < few; i++) x[first + i] = next[i];
        }
#if VECTOR_BYTES > 16
    const int pieces = LANES / few;
    UNROLL for (int w = 1; w < pieces; w *= 2) {
        UNROLL for (int s = 0; s < few; s++)
            UNROLL for (int i = 0; i < pieces / 2; i++) {
                const V upper = x[2 * i * few + s], lower = x[(2 * i + 1) * few + s];
                next[i * few + s] = SHUFFLE(LANES_NUMBER, upper, lower, EVEN);
                next[(i + pieces / 2) * few + s] = SHUFFLE(LANES_NUMBER, upper, lower, ODD);
            }
        UNROLL for (int i = 0; i < LANES; i++) x[i] = next[i];
    }
#endif
}

/* Numbers that are adjacent along the panel: `depth` of them from each of some rows, as that many rows of `columns`. */
INLINE void PAIR(square)(T *to, Count padded, const char *x, Count across, Count rows, Count columns, const Count depth,
                         const T *end) {
    V square[LANES];
    if (rows == LANES) {
        UNROLL for (int i = 0; i < LANES; i++) square[i] = PAIR(load)(x + i * across, depth);
    } else {
        UNROLL for (int i = 0; i < LANES; i++) square[i] = i < rows ? PAIR(load)(x + i * across, depth) : (V){0};
    }
    PAIR(transpose)(square);
    UNROLL for (int q = 0; q < LANES; q++) {
        if (q == depth) return;
        PAIR(store)(to + q * padded, square[q], columns, end);
    }
}

/* Numbers at any distance: as many at a time as 16 bytes hold. */
typedef T PAIR(Few) __attribute__((vector_size(16), aligned(1), may_alias));
INLINE void PAIR(pack_apart)(T *to, const char *x, Count across, Count along, Count width, Count padded, Count depth) {
    const int some = 16 / sizeof(T);
    for (Count p = 0; p < depth; p++, to += padded, x += along) {
        const char *from = x;
        Count i = 0;
        if (across == -(Count)sizeof(S))
            for (; i + LANES <= width; i += LANES, from -= LANES * sizeof(S)) {
                const V forwards = NUMBERS(from - (LANES - 1) * sizeof(S));
                LOOSE(to + i) = SHUFFLE(LANES_NUMBER, forwards, forwards, REVERSED);
            }
        for (; i + some <= width; i += some, from += some * across) {
            PAIR(Few) few;
            UNROLL for (int q = 0; q < some; q++) few[q] = NUMBER(from + q * across);
            *(PAIR(Few) *)(to + i) = few;
        }
        for (; i < width; i++, from += across) to[i] = NUMBER(from);
        for (; i < padded; i++) to[i] = 0;
    }
}

static void PAIR(pack)(void *panel, const char *x, Count across, Count along, Count width, Count padded, Count depth) {
    T *to = panel;
    const T *const end = to + depth * padded;
    Count p = 0;
    if (across == sizeof(S)) {
        PAIR(pack_adjacent)(to, x, along, width, padded, depth);
        return;
    }
    if (along == sizeof(S))
        for (; p + LANES <= depth || (IN_PARTS && p < depth); p += LANES)
            for (Count i = (padded - 1) / LANES * LANES; i >= 0; i -= LANES) {  /* the part of a vector first */
                const Count rows = most(0, least(LANES, width - i)), columns = least(LANES, padded - i);
                const char *from = x + i * across + p * sizeof(S);
                T *const square = to + p * padded + i;
                if (p + LANES <= depth)
                    PAIR(square)(square, padded, from, across, rows, columns, LANES, end);
                else
                    PAIR(square)(square, padded, from, across, rows, columns, depth - p, end);
            }
    if (p < depth) PAIR(pack_apart)(to + p * padded, x + p * along, across, along, width, padded, depth - p);
}
