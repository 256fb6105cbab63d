// The blocks of C of kernels of matrix units, and even waves, as in tuned: pairs of a tile and a step of k are numbered tile
// by tile; a tile before `whole` has a work-group to itself, and the pairs of the others are cut into equal, contiguous
// shares. Of a tile in several, each share keeps a sum, and `add_shares` adds them in the order of k.

// The operands of a block of C: a tile of one of the products of the batch.
#define FIND_BLOCK(tile)                                                                                               \
    const int blocks_x = (n + BLOCK_X - 1) / BLOCK_X, blocks_y = (m + BLOCK_Y - 1) / BLOCK_Y;                          \
    const int product = (tile) / (blocks_x * blocks_y);                                                                \
    const int2 first = first_of_tile((tile) % (blocks_x * blocks_y), blocks_x, blocks_y);                              \
    const int rows = m - first.y, columns = n - first.x;                                                               \
    const __global stored *block_of_a = A + A_start + product * A_step + first.y * (A_ALONG_K ? lda : 1);              \
    const __global stored *block_of_b = B + B_start + product * B_step + first.x * (B_ALONG_K ? ldb : 1);              \
    __global stored_c *block_of_c = C + C_start + product * C_step + first.y * ldc + first.x

#define WORKERS (WARP * WARPS_X * WARPS_Y) // work-items that have a part of C
#define SHARES const int tiles_of_c, const int whole, const int shares, __global real *sums, const long sums_start
#define FIRST_PAIR(share) ((int)((long)(share) * (tiles_of_c - whole) * steps / shares))
#define NUMBERS_OF_SUM (TILES_Y * TILES_X * 4)

// Where a share keeps the sum of a tile that is in other shares too: there are two at most, of the tile that began in an
// earlier one, and of the tile that begins in this. Numbers of all work-items lie side by side.
__global real *sum_of(__global real *sums, const int share, const int begins)
{
    return sums + ((long)share * 2 + begins) * NUMBERS_OF_SUM * WORKERS + get_local_id(0);
}

INLINED void keep_sum(__global real *sums, const int share, const int begins, real c[TILES_Y][TILES_X][4])
{
    __global real *sum = sum_of(sums, share, begins);
    #pragma unroll
    for (int y = 0; y < TILES_Y; y++)
        #pragma unroll
        for (int x = 0; x < TILES_X; x++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                sum[((y * TILES_X + x) * 4 + i) * WORKERS] = c[y][x][i];
}

#if EVEN_WAVES
// Add the sums of a tile, in the order of k: 16 rows of each warp's part of it.
__kernel GROUP void add_shares(OPERANDS, SHARES)
{
    const int steps = (k + STEP_K - 1) / STEP_K, tile = get_group_id(0) / TILES_Y, y = get_group_id(0) % TILES_Y;
    const long pairs = (long)(tiles_of_c - whole) * steps, begin = (long)tile * steps, end = begin + steps;
    const int first_share = ((begin + 1) * shares - 1) / pairs, last_share = (end * shares - 1) / pairs;
    FIND_BLOCK(whole + tile);
    real c[TILES_X][4];
    if (first_share == last_share || (int)get_local_id(0) >= WORKERS) // it is in C
        return;
    #pragma unroll
    for (int x = 0; x < TILES_X; x++)
        c[x][0] = c[x][1] = c[x][2] = c[x][3] = 0;
    for (int share = first_share; share <= last_share; share++) {
        const __global real *sum = sum_of(sums + sums_start, share, begin >= FIRST_PAIR(share)) + y * TILES_X * 4 * WORKERS;
        #pragma unroll
        for (int x = 0; x < TILES_X; x++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                c[x][i] += sum[(x * 4 + i) * WORKERS];
    }
    write_rows(block_of_c, ldc, c, y, rows, columns, product);
}
#endif
