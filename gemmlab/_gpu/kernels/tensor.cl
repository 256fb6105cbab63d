// tensor: a work-group's block of C by matrix units, on NVIDIA's GPUs. As tuned, with four ideas more, the first four:
//
//     matrix unit     one instruction of a warp multiplies small matrices: 16 rows of A by 8 columns of B, 32 bytes of k
//     async copies    16 bytes at a time, from global to local memory, without registers in between
//     stages          STAGES tiles of each operand in local memory: STAGES - 1 of them are on their way during the work
//     swizzle         where a row's 16 bytes lie depends on the row, so that no eight rows meet in one bank
//     even waves      as in tuned; see `EVEN_WAVES`
//
//     each BLOCK_Y x BLOCK_X tile of C, by a work-group:
//         for p0 in 0..k by STEP_K:
//             copy tile_a = A[i0:i0+BLOCK_Y, p:p+STEP_K], tile_b = B[p:p+STEP_K, j0:j0+BLOCK_X] for p = p0 + (STAGES-1) STEP_K
//             for each slice of the tiles of p0, by each warp:
//                 a = TILE_Y rows of tile_a, b = TILE_X columns of tile_b
//                 for y, x:                         c[y,x] += a[y] @ b[x]          (multiply_add)
//         C[i0:i0+BLOCK_Y, j0:j0+BLOCK_X] = c of all warps, rounded once
//
// Source: CUTLASS; PTX ISA.
//
// Traffic: A is read n / BLOCK_X times and B m / BLOCK_Y times from global memory. From local memory come
// (1 / TILE_Y + 1 / TILE_X) elements per multiply-add: TILE_Y and TILE_X are a warp's, not a work-item's.
//
// units.h has the instructions, unit_tiles.h the tiles.

// c += this warp's part of the product of two tiles.
void multiply_tiles(real c[TILES_Y][TILES_X][4], const LOCAL_POINTER uint4 *tile_a, const LOCAL_POINTER uint4 *tile_b)
{
    const int first_y = WARP_NUMBER / WARPS_X * TILE_Y, first_x = WARP_NUMBER % WARPS_X * TILE_X;
    #pragma unroll
    for (int slice = 0; slice < STEP_BYTES / SLICE_BYTES; slice++) {
        part a[4], b[TILES_X][2];
        #pragma unroll
        for (int x = 0; x < TILES_X; x += 2)
            pick_b(b[x], tile_b, first_x + x * 8, slice);
        #pragma unroll
        for (int y = 0; y < TILES_Y; y++) {
            pick_a(a, tile_a, first_y + y * 16, slice);
            #pragma unroll
            for (int x = 0; x < TILES_X; x++)
                multiply_add(c[y][x], a, b[x]);
        }
    }
}

// c = this warp's part of the product of a block of A and one of B, which have so many rows and columns from here on, and
// are so deep.
void multiply(real c[TILES_Y][TILES_X][4], const __global uchar *A, const long lda, const int rows,
              const __global uchar *B, const long ldb, const int columns, const int depth, LOCAL_POINTER uint4 *tiles)
{
    // The tiles of the step whose first number of k is `at`: on their way to a stage.
#define START(at, stage)                                                                                               \
    if ((at) < depth) {                                                                                                \
        start_copies(tiles + (stage) * VECTORS_A, A + (at) * (A_ALONG_K ? 1 : lda) * SIZE, lda * SIZE,                 \
                     A_ALONG_K ? rows : depth - (at), (A_ALONG_K ? depth - (at) : rows) * (long)SIZE,                  \
                     ROWS(BLOCK_Y, A_ALONG_K), VECTORS(BLOCK_Y, A_ALONG_K));                                           \
        start_copies(tiles + STAGES * VECTORS_A + (stage) * VECTORS_B,                                                 \
                     B + (at) * (B_ALONG_K ? 1 : ldb) * SIZE, ldb * SIZE,                                              \
                     B_ALONG_K ? columns : depth - (at), (B_ALONG_K ? depth - (at) : columns) * (long)SIZE,            \
                     ROWS(BLOCK_X, B_ALONG_K), VECTORS(BLOCK_X, B_ALONG_K));                                           \
    }                                                                                                                  \
    commit_copies()

    clear(c);
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        START(stage * STEP_K, stage);
    }
    int stage = 0, next = STAGES - 1;
    for (int p0 = 0; p0 < depth; p0 += STEP_K) {
        wait_for_copies(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE); // all have copied the tiles of p0, and none still reads those before
        START(p0 + (STAGES - 1) * STEP_K, next);
        multiply_tiles(c, tiles + stage * VECTORS_A, tiles + STAGES * VECTORS_A + stage * VECTORS_B);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = next + 1 < STAGES ? next + 1 : 0;
    }
}

// The operands of a block of C: a tile of one of the products of the batch.
#define FIND_BLOCK(tile)                                                                                               \
    const int blocks_x = (n + BLOCK_X - 1) / BLOCK_X, blocks_y = (m + BLOCK_Y - 1) / BLOCK_Y;                          \
    const int product = (tile) / (blocks_x * blocks_y);                                                                \
    const int2 first = first_of_tile((tile) % (blocks_x * blocks_y), blocks_x, blocks_y);                              \
    const int rows = m - first.y, columns = n - first.x;                                                               \
    const __global stored *block_of_a = A + A_start + product * A_step + first.y * (A_ALONG_K ? lda : 1);              \
    const __global stored *block_of_b = B + B_start + product * B_step + first.x * (B_ALONG_K ? ldb : 1);              \
    __global stored_c *block_of_c = C + C_start + product * C_step + first.y * ldc + first.x

#define TILES_IN_LOCAL_MEMORY                                                                                          \
    LOCAL_ARRAY(uint4, local_tiles, STAGES * (VECTORS_A + VECTORS_B));                                                 \
    LOCAL_POINTER uint4 *tiles = local_tiles

#if !EVEN_WAVES
__kernel GROUP void gemm(OPERANDS)
{
    TILES_IN_LOCAL_MEMORY;
    real c[TILES_Y][TILES_X][4];
    FIND_BLOCK((int)get_group_id(0));
    multiply(c, (const __global uchar *)block_of_a, lda, rows, (const __global uchar *)block_of_b, ldb, columns, k, tiles);
    write_tile(block_of_c, ldc, c, rows, columns, product);
}
#else
// Even waves, as in tuned: pairs of a tile and a step of k are numbered tile by tile; a tile before `whole` has a work-group
// to itself, and the pairs of the others are cut into equal, contiguous shares. Of a tile in several, each share keeps a
// sum, and `add_shares` adds them in the order of k.
#define SHARES const int tiles_of_c, const int whole, const int shares, __global real *sums, const long sums_start
#define FIRST_PAIR(share) ((int)((long)(share) * (tiles_of_c - whole) * steps / shares))
#define NUMBERS_OF_SUM (TILES_Y * TILES_X * 4)

// Where a share keeps the sum of a tile that is in other shares too: there are two at most, of the tile that began in an
// earlier one, and of the tile that begins in this. Numbers of all work-items lie side by side.
__global real *sum_of(__global real *sums, const int share, const int begins)
{
    return sums + ((long)share * 2 + begins) * NUMBERS_OF_SUM * GROUP_X + get_local_id(0);
}

__kernel GROUP void gemm(OPERANDS, SHARES)
{
    TILES_IN_LOCAL_MEMORY;
    real c[TILES_Y][TILES_X][4];
    const int steps = (k + STEP_K - 1) / STEP_K, share = (int)get_group_id(0) - whole;
    const int last = share < 0 ? steps : FIRST_PAIR(share + 1);
    int pair = share < 0 ? 0 : FIRST_PAIR(share);
    do {
        const int begin = pair % steps, end = min(steps, begin + last - pair);
        const int p0 = begin * STEP_K, depth = min(k, end * STEP_K) - p0;
        FIND_BLOCK(share < 0 ? (int)get_group_id(0) : whole + pair / steps);
        block_of_a += p0 * (A_ALONG_K ? 1 : lda);
        block_of_b += p0 * (B_ALONG_K ? 1 : ldb);
        barrier(CLK_LOCAL_MEM_FENCE); // none still reads the tiles of the block before
        multiply(c, (const __global uchar *)block_of_a, lda, rows, (const __global uchar *)block_of_b, ldb, columns, depth,
                 tiles);
        if (begin == 0 && end == steps) {
            write_tile(block_of_c, ldc, c, rows, columns, product);
        } else {
            __global real *sum = sum_of(sums + sums_start, share, begin == 0);
            #pragma unroll
            for (int y = 0; y < TILES_Y; y++)
                #pragma unroll
                for (int x = 0; x < TILES_X; x++)
                    #pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum[((y * TILES_X + x) * 4 + i) * GROUP_X] = c[y][x][i];
        }
        pair += end - begin;
    } while (pair < last);
}

// Add the sums of a tile, in the order of k: 16 rows of each warp's part of it.
__kernel GROUP void add_shares(OPERANDS, SHARES)
{
    const int steps = (k + STEP_K - 1) / STEP_K, tile = get_group_id(0) / TILES_Y, y = get_group_id(0) % TILES_Y;
    const long pairs = (long)(tiles_of_c - whole) * steps, begin = (long)tile * steps, end = begin + steps;
    const int first_share = ((begin + 1) * shares - 1) / pairs, last_share = (end * shares - 1) / pairs;
    FIND_BLOCK(whole + tile);
    real c[TILES_X][4];
    if (first_share == last_share) // it is in C
        return;
    #pragma unroll
    for (int x = 0; x < TILES_X; x++)
        c[x][0] = c[x][1] = c[x][2] = c[x][3] = 0;
    for (int share = first_share; share <= last_share; share++) {
        const __global real *sum = sum_of(sums + sums_start, share, begin >= FIRST_PAIR(share)) + y * TILES_X * 4 * GROUP_X;
        #pragma unroll
        for (int x = 0; x < TILES_X; x++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                c[x][i] += sum[(x * 4 + i) * GROUP_X];
    }
    write_rows(block_of_c, ldc, c, y, rows, columns, product);
}
#endif
