// tuned_cpu: the form of tuned for CPU devices. The caches do here what local memory does on a GPU.
//
//     one work-item    is a work-group, with one tile of C
//     vectors          b and c are vectors of WIDE elements
//     tile order       work-groups go down GROUP_M tiles of C, then to the next column: A and B are found in a cache
//     panels           with PACKED, B is copied first, into panels of TILE_X columns: a tile reads one from end to end
//
//     each TILE_Y x TILE_X tile of C:
//         for p in 0..k:
//             for x in vectors of the tile:
//                 b = B[p, WIDE columns], or from their panel
//                 for y in 0..TILE_Y:               c[y,x] += A[i0+y,p] b
//         C[i0:i0+TILE_Y, j0:j0+TILE_X] = c
//
// Source: Goto and van de Geijn 2008, for a tile of C in registers.
//
// Traffic: A is read n / TILE_X times and B m / TILE_Y times.

#define VECTORS (TILE_X / WIDE)

// A vector of B of which `left` elements are in the matrix. Vectors go by pointers: compilers warn of functions that
// take or return those of AVX-512.
void load(wide *to, const __global stored *from, const int left)
{
    if (left >= WIDE) {
        *to = READ_ROW(from);
        return;
    }
    *to = 0;
    for (int e = 0; e < left; e++)
        ((real *)to)[e] = READ(from + e);
}

#if PACKED
#define PANELS , __global real *panels, const long panels_start
// The panel of B from a column on: of this product, or of all products.
#define PANEL(j0)                                                                                                      \
    ((__global wide *)(panels + panels_start) + ((B_step ? (long)get_group_id(2) : 0) * ((n + TILE_X - 1) / TILE_X)    \
                                                 + (j0) / TILE_X) * k * VECTORS)

// Copy PACKED_ROWS rows of a panel, filled up with zeros.
__kernel GROUP void pack(OPERANDS PANELS)
{
    const int j0 = get_group_id(0) * TILE_X, first = get_group_id(1) * PACKED_ROWS;
    __global wide *panel = PANEL(j0);
    THIS_PRODUCT;
    for (int p = first; p < min(k, first + PACKED_ROWS); p++)
        #pragma unroll
        for (int x = 0; x < VECTORS; x++) {
            wide b;
            load(&b, B + p * ldb + j0 + x * WIDE, n - j0 - x * WIDE);
            panel[(long)p * VECTORS + x] = b;
        }
}
#else
#define PANELS
#endif

void store(__global stored_c *to, const wide *from, const int left)
{
    const wide all = *from;
    if (left >= WIDE)
        WRITE_ROW(to, all);
    else
        for (int e = 0; e < left; e++)
            WRITE(to + e, ((const real *)&all)[e]);
}

__kernel GROUP void gemm(OPERANDS PANELS)
{
    wide c[TILE_Y][VECTORS];
    const __global stored *row[TILE_Y];
    const int columns = get_num_groups(0), number = get_group_id(1) * columns + get_group_id(0);
    const int2 first = first_of_tile(number, columns, get_num_groups(1));
    const int j0 = first.x, i0 = first.y;
#if PACKED
    const __global wide *panel = PANEL(j0);
#endif
    THIS_PRODUCT;
    B += j0;
    C += j0;
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++) {
        row[y] = A + min(i0 + y, m - 1) * lda;
        #pragma unroll
        for (int x = 0; x < VECTORS; x++)
            c[y][x] = 0;
    }
    for (int p = 0; p < k; p++)
        #pragma unroll
        for (int x = 0; x < VECTORS; x++) {
#if PACKED
            const wide b = panel[(long)p * VECTORS + x];
#else
            wide b;
            load(&b, B + p * ldb + x * WIDE, n - j0 - x * WIDE);
#endif
            #pragma unroll
            for (int y = 0; y < TILE_Y; y++)
                c[y][x] += READ(row[y] + p) * b;
        }
    #pragma unroll
    for (int y = 0; y < TILE_Y; y++)
        #pragma unroll
        for (int x = 0; x < VECTORS; x++)
            if (i0 + y < m)
                store(C + (i0 + y) * ldc + x * WIDE, &c[y][x], n - j0 - x * WIDE);
}
