// What kernels of matrix units share: the tiles in local memory, how they come there, and how a warp's part of C is written.
// tensor.cl explains the ideas.
//
// A and B lie in local memory as in global memory: along k, or across it (A_ALONG_K, B_ALONG_K). Numbers of 16 bits are
// transposed on their way to registers; others lie along k. Rows begin at a multiple of 16 bytes. Beyond the edges and
// the end of k a tile has zeros.

#define WARP 32
#define WARP_NUMBER ((int)get_local_id(0) / WARP)
#define LANE ((int)get_local_id(0) % WARP)
#define SIZE ((int)sizeof(stored))
#define STEP_BYTES (STEP_K * SIZE)
#define TILES_Y (TILE_Y / 16)
#define TILES_X (TILE_X / 8)
#define SLICE_BYTES (8 * (int)sizeof(part)) // of k, for one multiply_add
#define VECTORS_A (BLOCK_Y * STEP_BYTES / 16) // of 16 bytes, in a tile
#define VECTORS_B (BLOCK_X * STEP_BYTES / 16)

// Before a function whose arrays are registers only where it is part of the kernel.
#ifndef INLINED
#define INLINED __attribute__((always_inline))
#endif

// How a tile lies in local memory: its rows, and the vectors of 16 bytes in each.
#define ROWS(block, along_k) ((along_k) ? (block) : STEP_K)
#define VECTORS(block, along_k) ((along_k) ? STEP_BYTES / 16 : (block) * SIZE / 16)

// Where vector `x` of a row lies, which warp_tiles.h or warpgroup_tiles.h says. Of rows 8 apart it is at the same place.
int vector_at(const int row, const int x, const int tile_rows, const int vectors);

// Which work-items copy: the last COPIERS, or all.
#ifdef COPIERS
#define COPIER ((int)get_local_id(0) % COPIERS)
#else
#define COPIERS GROUP_X
#define COPIER ((int)get_local_id(0))
#endif

// Start to copy a tile, of which so many rows, and bytes of each row, are in the operand. A work-item copies one vector of
// every row that is a multiple of `at_once` after its first.
INLINED void start_copies(LOCAL_POINTER uint4 *tile, const __global uchar *from, const long ld, const int rows, const long bytes,
                  const int tile_rows, const int vectors)
{
    const int at_once = COPIERS / vectors, first = COPIER / vectors, x = COPIER % vectors;
    const int left = (int)max((long)0, min((long)16, bytes - 16 * x));
    from += first * ld + 16 * x;
    #pragma unroll
    for (int i = 0; i < (tile_rows + at_once - 1) / at_once; i++) {
        const int row = first + i * at_once;
        if (tile_rows % at_once != 0 && row >= tile_rows)
            return;
        const int place = at_once % 8 == 0
                              ? vector_at(first, x, tile_rows, vectors) + vector_at(i * at_once, 0, tile_rows, vectors)
                              : vector_at(row, x, tile_rows, vectors);
        copy_16(tile + place, from + i * at_once * ld, row < rows ? left : 0);
    }
}

// Start to copy the tiles of a step of k to a stage: so many rows of A, columns of B, and of k, are left.
INLINED void start_step(LOCAL_POINTER uint4 *tiles, const int stage, const __global uchar *A, const long lda, const int rows,
                const __global uchar *B, const long ldb, const int columns, const int depth)
{
    start_copies(tiles + stage * VECTORS_A, A, lda * SIZE, A_ALONG_K ? rows : depth, (A_ALONG_K ? depth : rows) * (long)SIZE,
                 ROWS(BLOCK_Y, A_ALONG_K), VECTORS(BLOCK_Y, A_ALONG_K));
    start_copies(tiles + STAGES * VECTORS_A + stage * VECTORS_B, B, ldb * SIZE, B_ALONG_K ? columns : depth,
                 (B_ALONG_K ? depth : columns) * (long)SIZE, ROWS(BLOCK_X, B_ALONG_K), VECTORS(BLOCK_X, B_ALONG_K));
}

// From a number of k on, of an operand that lies along k or across it.
#define FROM(at, operand, ld, along_k) ((operand) + (at) * ((along_k) ? 1 : (ld)) * SIZE)

INLINED void clear(real c[TILES_Y][TILES_X][4])
{
    #pragma unroll
    for (int y = 0; y < TILES_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILES_X; x++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                c[y][x][i] = 0;
}

#ifdef MODULI // of residues: a list, with one for each product of the batch
__constant const int moduli[] = {MODULI};
#endif

// A sum as it is stored. The host says RESULT: F16 or BF16 where it is rounded to that, else 0.
stored_c result_of(const real x, const int product)
{
#ifdef MODULI
    const int rest = x % moduli[product];
    return (stored_c)(rest < 0 ? rest + moduli[product] : rest);
#elif RESULT == F16
    stored_c bits;
    vstore_half(x, 0, (half *)&bits);
    return bits;
#elif RESULT == BF16
    const uint bits = as_uint(x), is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (stored_c)(is_nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#else
    return (stored_c)x; // of an int as a char: modulo 2^8
#endif
}

// Write 16 rows of this warp's part of a block of C, of which so many rows and columns are left: two neighbours at once
// where the host says that they are aligned (PAIRS), as a PAIR.
INLINED void write_rows(__global stored_c *block, const long ldc, real c[TILES_X][4], const int y, const int rows,
                const int columns, const int product)
{
    const int first_y = WARP_NUMBER / WARPS_X * TILE_Y + y * 16 + LANE / 4;
    const int first_x = WARP_NUMBER % WARPS_X * TILE_X + LANE % 4 * 2;
    #pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const int row = first_y + i * 4;
        if (row >= rows)
            continue;
        #pragma unroll
        for (int x = 0; x < TILES_X; x++) {
            const int left = columns - first_x - x * 8;
            __global stored_c *to = block + row * ldc + first_x + x * 8;
            const stored_c both[2] ALIGNED = {result_of(c[x][i], product), result_of(c[x][i + 1], product)};
            if (PAIRS && left > 1) {
                *(__global PAIR *)to = *(const PAIR *)both;
                continue;
            }
            if (left > 0)
                to[0] = both[0];
            if (left > 1)
                to[1] = both[1];
        }
    }
}

// All of it.
INLINED void write_tile(__global stored_c *block, const long ldc, real c[TILES_Y][TILES_X][4], const int rows, const int columns,
                const int product)
{
    #pragma unroll
    for (int y = 0; y < TILES_Y; y++)
        write_rows(block, ldc, c[y], y, rows, columns, product);
}
