// The tiles of kernels whose warps read them into registers: where their vectors lie, and what a warp picks of them.

// Where vector `x` of a row lies. Local memory has 128 bytes a line, eight vectors: any eight rows have the same vector
// at eight places, and two rows have four neighbouring vectors at eight places.
int vector_at(const int row, const int x, const int tile_rows, const int vectors)
{
    const int moved = vectors % 8 == 0 ? (row & 1) << 2 | (row >> 1 & 3) : vectors % 4 == 0 ? row >> 1 & 3 : row >> 2 & 1;
    return row * vectors + (x ^ moved);
}

#if UNIT == F64
// Parts of rows that lie 8 apart, of A, or of columns of B: of each two neighbours. A unit adds products in some order of
// k: any will do, if A and B have the same.
void pick(part *to, const int step, const LOCAL_POINTER uint4 *tile, const int first, const int slice, const int rows,
          const int vectors)
{
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int place = vector_at(first + i * 8 + LANE / 4, slice * 4 + LANE % 4, rows, vectors);
        const double2 pair = *(const LOCAL_POINTER double2 *)(tile + place);
        to[i * step] = pair.x;
        to[i * step + 3 - step] = pair.y;
    }
}
#endif

// 16 rows of A from `first` on, in a slice of k.
INLINED void pick_a(part a[4], const LOCAL_POINTER uint4 *tile, const int first, const int slice)
{
    const int rows = ROWS(BLOCK_Y, A_ALONG_K), vectors = VECTORS(BLOCK_Y, A_ALONG_K);
#if UNIT == F64
    pick(a, 1, tile, first, slice, rows, vectors);
#else
    if (A_ALONG_K)
        load_matrices(a, tile + vector_at(first + LANE % 16, slice * 2 + LANE / 16, rows, vectors));
    else
        load_transposed(a, tile + vector_at(slice * 16 + LANE % 8 + LANE / 16 * 8, first / 8 + LANE / 8 % 2, rows, vectors));
#endif
}

// 16 columns of B from `first` on, as two times eight: four parts in a row.
INLINED void pick_b(part b[4], const LOCAL_POINTER uint4 *tile, const int first, const int slice)
{
    const int rows = ROWS(BLOCK_X, B_ALONG_K), vectors = VECTORS(BLOCK_X, B_ALONG_K);
#if UNIT == F64
    pick(b, 2, tile, first, slice, rows, vectors);
#else
    if (B_ALONG_K)
        load_matrices(b, tile + vector_at(first + LANE % 8 + LANE / 16 * 8, slice * 2 + LANE / 8 % 2, rows, vectors));
    else
        load_transposed(b, tile + vector_at(slice * 16 + LANE % 16, first / 8 + LANE / 16, rows, vectors));
#endif
}
