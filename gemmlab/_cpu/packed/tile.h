/* The micro-kernel: C[rows x columns] (+)= A[rows x depth] B[depth x columns], all sums in registers.

       for p in 0..steps:
           for i in 0..rows:
               for v in 0..vectors:        sum[i][v] += A[i,p] * B[p, v's lanes]

   Each sum is one chain of multiply-adds in the order of p, in every instance of this text: so a number of C has the
   same bits whichever tile computes it. The registers, of 32 with AVX-512 and 16 else:

                      sums        B       A, product      instance
       f32, f64       14 x 2      2       0 + 0           A from memory, broadcast by the multiply-add itself
       c64, c128      14 x 1 re, im   re, im              the same; B apart in real and imaginary parts
       integers       12 x 2      2       1 + 1
       in place       6 x 4       4       0 + 0           operands where they lie, for few rows and small products
       AVX2, f32      6 x 2       2       1 + 0

   Included once for each type T of sums. */

#if defined(__AVX512F__)
#define MR (UNFUSED ? 12 : 14)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define IN_PLACE_VECTORS 4
#else
#define MR (UNFUSED ? 4 : 6)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define IN_PLACE_VECTORS 2
#endif
#define IN_PLACE_ROWS 6
#define WHOLE_PANELS 0  /* panels of A are of any height */
#define AHEAD 1024   /* bytes of a panel of B that are fetched before they are used: it is longer than L1 */
#define VECTORS 2                                      /* of a packed panel of B */
#define NR (COMPLEX ? LANES : VECTORS * LANES)         /* columns of a packed panel of B */
INLINE void NAME(put_rows)(const int rows, const int vectors, const int whole, V sum[][4], char *c, Count ci,
                           Count columns, int add) {
    const int last = vectors - 1;
    const Part part = part_of((columns - last * LANES) * (Count)sizeof(T));
    if (add) {
        UNROLL for (int i = 0; i < rows; i++) {
            const char *row = c + i * ci, *end = row + last * VECTOR_BYTES;
            UNROLL for (int v = 0; v < last; v++) sum[i][v] = ADD(LOOSE(row + v * VECTOR_BYTES), sum[i][v]);
            sum[i][last] = ADD(whole ? (V)LOOSE(end) : (V)load_part(end, part), sum[i][last]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        char *row = c + i * ci, *end = row + last * VECTOR_BYTES;
        UNROLL for (int v = 0; v < last; v++) LOOSE(row + v * VECTOR_BYTES) = sum[i][v];
        if (whole)
            LOOSE(end) = sum[i][last];
        else
            store_part(end, part, (Bytes)sum[i][last]);
    }
}

/* A part of a vector costs as much as many whole ones where it is stored by AVX2. */
INLINE void NAME(put)(const int rows, const int vectors, V sum[][4], char *c, Count ci, Count cj, Count columns,
                      int add) {
    if (COMPLEX || cj != sizeof(T) || (sizeof(T) < 4 && columns != vectors * LANES)) {
        T sums[MR * 4 * LANES];
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int v = 0; v < vectors; v++) LOOSE(sums + (i * vectors + v) * LANES) = sum[i][v];
        NAME(scatter)(sums, vectors * LANES, rows, columns, c, ci, cj, add);
    } else if (columns == vectors * LANES)
        NAME(put_rows)(rows, vectors, 1, sum, c, ci, columns, add);
    else
        NAME(put_rows)(rows, vectors, 0, sum, c, ci, columns, add);
}

/* `whole` says that the last vector of B may be read to its end, `packed` that B lies in a panel. */
INLINE void NAME(tile)(const int rows, const int vectors, const int whole, const int packed, Count steps,
                       const char *a, Count ai, Count ap, const char *b, Count bp, char *c, Count ci, Count cj,
                       Count columns, int add) {
    V sum[MR][4];
    const int last = vectors - 1;
    const Part part = part_of((columns - last * LANES) * (Count)sizeof(T));
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = (V){0};
    for (Count p = 0; p < steps; p++) {
        V row[4];
        if (packed)
            UNROLL for (int l = 0; l < vectors * VECTOR_BYTES; l += LINE_BYTES) __builtin_prefetch(b + AHEAD + l);
        UNROLL for (int v = 0; v < last; v++) row[v] = LOOSE(b + v * VECTOR_BYTES);
        row[last] = whole ? (V)LOOSE(b + last * VECTOR_BYTES) : (V)load_part(b + last * VECTOR_BYTES, part);
        UNROLL for (int i = 0; i < rows; i++) {
#if COMPLEX
            const T re = ((const T *)(a + i * ai))[0], im = ((const T *)(a + i * ai))[1];
            sum[i][0] = sum[i][0] + row[0] * re;
            sum[i][1] = sum[i][1] + row[1] * re;
            sum[i][0] = sum[i][0] - row[1] * im;
            sum[i][1] = sum[i][1] + row[0] * im;
#else
            const T x = *(const T *)(a + i * ai);
            UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = MULTIPLY_ADD(sum[i][v], row[v], x);
#endif
        }
        a += ap;
        b += bp;
    }
    NAME(put)(rows, vectors, sum, c, ci, cj, columns, add);
}

/* The lines of C's tile, on their way while the loop over p runs. */
INLINE void NAME(expect)(const int rows, const char *c, Count ci) {
    UNROLL for (int i = 0; i < rows; i++)
        for (int line = 0; line <= VECTORS * VECTOR_BYTES; line += LINE_BYTES) __builtin_prefetch(c + i * ci + line, 1);
}

/* Packed: A in a panel of `rows`, B in a panel of NR, both read from start to end. */
typedef void (*NAME(Tile))(Count steps, const char *a, const char *b, char *c, Count ci, Count cj, Count columns,
                           int add);
#define PACKED(r, v)                                                                                              \
    static void NAME(packed_##r##_##v)(Count steps, const char *a, const char *b, char *c, Count ci, Count cj,    \
                                       Count columns, int add) {                                                  \
        if (r > MR) return;                                                                                       \
        NAME(expect)(r, c, ci);                                                                                   \
        NAME(tile)(r, COMPLEX ? 2 : v, 1, 1, steps, a, STEP, r * STEP, b, VECTORS * VECTOR_BYTES, c, ci, cj,      \
                   columns, add);                                                                                 \
    }
#define PACKED_ROWS(r) PACKED(r, 1) PACKED(r, 2)
#define PACKED_ENTRY(r) {NAME(packed_##r##_1), NAME(packed_##r##_2)},
EACH_ROWS(PACKED_ROWS)
static const NAME(Tile) NAME(packed)[][VECTORS] = {EACH_ROWS(PACKED_ENTRY)};

/* The tile of so many rows and columns of C. */
INLINE void NAME(run_tile)(Count rows, Count columns, Count steps, const char *a, const char *b, char *c, Count ci,
                           Count cj, int add) {
    NAME(packed)[rows - 1][columns > LANES](steps, a, b, c, ci, cj, columns, add);
}
INLINE void NAME(begin)(void) {}
INLINE void NAME(end)(void) {}

/* In place: A with any strides, B with adjacent columns. */
#if IN_PLACE
typedef void (*NAME(InPlace))(const Place *x, const char *a, const char *b, char *c);
#define PLACED(r, v, w)                                                                                          \
    static void NAME(placed_##r##_##v##_##w)(const Place *x, const char *a, const char *b, char *c) {            \
        const Place y = *x;                                                                                      \
        for (Count i = 0; i < y.products; i++, a += y.a_step, b += y.b_step, c += y.c_step)                      \
            NAME(tile)(r, v, w, 0, y.depth, a, y.ai, y.ap, b, y.bp, c, y.ci, y.cj, y.columns, y.add);               \
    }
#define PLACED_ROWS_2(r) PLACED(r, 1, 0) PLACED(r, 1, 1) PLACED(r, 2, 0) PLACED(r, 2, 1)
#define PLACED_PAIR(r, v) {NAME(placed_##r##_##v##_0), NAME(placed_##r##_##v##_1)}
#define PLACED_ENTRY_2(r) PLACED_PAIR(r, 1), PLACED_PAIR(r, 2)
#if IN_PLACE_VECTORS == 4
#define PLACED_ROWS(r) PLACED_ROWS_2(r) PLACED(r, 3, 0) PLACED(r, 3, 1) PLACED(r, 4, 0) PLACED(r, 4, 1)
#define PLACED_ENTRY(r)                                                                                           \
    {PLACED_ENTRY_2(r), PLACED_PAIR(r, 3), PLACED_PAIR(r, 4)},
#else
#define PLACED_ROWS(r) PLACED_ROWS_2(r)
#define PLACED_ENTRY(r) {PLACED_ENTRY_2(r)},
#endif
#define EACH_PLACED(X) X(1) X(2) X(3) X(4) X(5) X(6)
EACH_PLACED(PLACED_ROWS)
static const NAME(InPlace) NAME(placed)[IN_PLACE_ROWS][IN_PLACE_VECTORS][2] = {EACH_PLACED(PLACED_ENTRY)};
#endif
