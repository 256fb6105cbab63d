// What kernels of matrix units share: how tiles lie in local memory, how they come there and from there to a warp, and how
// a warp's part of C is written. tensor.cl explains the ideas.
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

// How a tile lies in local memory: its rows, and the vectors of 16 bytes in each.
#define ROWS(block, along_k) ((along_k) ? (block) : STEP_K)
#define VECTORS(block, along_k) ((along_k) ? STEP_BYTES / 16 : (block) * SIZE / 16)

// Where vector `x` of a row lies. Local memory has 128 bytes a line, eight vectors: any eight rows have the same vector
// at eight places, and two rows have four neighbouring vectors at eight places.
int vector_at(const int row, const int x, const int vectors)
{
    const int moved = vectors % 8 == 0 ? (row & 1) << 2 | (row >> 1 & 3) : vectors % 4 == 0 ? row >> 1 & 3 : row >> 2 & 1;
    return row * vectors + (x ^ moved);
}

// Start to copy a tile, of which so many rows, and bytes of each row, are in the operand. A work-item copies one vector of
// every row that is a multiple of `at_once` after its first.
void start_copies(LOCAL_POINTER uint4 *tile, const __global uchar *from, const long ld, const int rows, const long bytes,
                  const int tile_rows, const int vectors)
{
    const int at_once = GROUP_X / vectors, first = (int)get_local_id(0) / vectors, x = (int)get_local_id(0) % vectors;
    const int left = (int)max((long)0, min((long)16, bytes - 16 * x));
    from += first * ld + 16 * x;
    #pragma unroll
    for (int i = 0; i < (tile_rows + at_once - 1) / at_once; i++) {
        const int row = first + i * at_once;
        if (tile_rows % at_once != 0 && row >= tile_rows)
            return;
        const int place = at_once % 8 == 0 ? vector_at(first, x, vectors) + i * at_once * vectors : vector_at(row, x, vectors);
        copy_16(tile + place, from + i * at_once * ld, row < rows ? left : 0);
    }
}

#if UNIT == F64
// Parts of rows that lie 8 apart, of A, or of columns of B: of each two neighbours. A unit adds products in some order of
// k: any will do, if A and B have the same.
void pick(part *to, const int step, const LOCAL_POINTER uint4 *tile, const int first, const int slice, const int vectors)
{
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int place = vector_at(first + i * 8 + LANE / 4, slice * 4 + LANE % 4, vectors);
        const double2 pair = *(const LOCAL_POINTER double2 *)(tile + place);
        to[i * step] = pair.x;
        to[i * step + 3 - step] = pair.y;
    }
}
#endif

// 16 rows of A from `first` on, in a slice of k.
void pick_a(part a[4], const LOCAL_POINTER uint4 *tile, const int first, const int slice)
{
    const int vectors = VECTORS(BLOCK_Y, A_ALONG_K);
#if UNIT == F64
    pick(a, 1, tile, first, slice, vectors);
#else
    if (A_ALONG_K)
        load_matrices(a, tile + vector_at(first + LANE % 16, slice * 2 + LANE / 16, vectors));
    else
        load_transposed(a, tile + vector_at(slice * 16 + LANE % 8 + LANE / 16 * 8, first / 8 + LANE / 8 % 2, vectors));
#endif
}

// 16 columns of B from `first` on, as two times eight: four parts in a row.
void pick_b(part b[4], const LOCAL_POINTER uint4 *tile, const int first, const int slice)
{
    const int vectors = VECTORS(BLOCK_X, B_ALONG_K);
#if UNIT == F64
    pick(b, 2, tile, first, slice, vectors);
#else
    if (B_ALONG_K)
        load_matrices(b, tile + vector_at(first + LANE % 8 + LANE / 16 * 8, slice * 2 + LANE / 8 % 2, vectors));
    else
        load_transposed(b, tile + vector_at(slice * 16 + LANE % 16, first / 8 + LANE / 16, vectors));
#endif
}

void clear(real c[TILES_Y][TILES_X][4])
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
void write_rows(__global stored_c *block, const long ldc, real c[TILES_X][4], const int y, const int rows,
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
void write_tile(__global stored_c *block, const long ldc, real c[TILES_Y][TILES_X][4], const int rows, const int columns,
                const int product)
{
    #pragma unroll
    for (int y = 0; y < TILES_Y; y++)
        write_rows(block, ldc, c[y], y, rows, columns, product);
}
