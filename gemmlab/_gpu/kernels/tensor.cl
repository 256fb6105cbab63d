// tensor: a work-group's block of C by matrix units, on NVIDIA's GPUs. As tuned, with four ideas more:
//
//     matrix unit     one instruction of a warp multiplies small matrices: 16 rows of A by 8 columns of B, 32 bytes of k
//     async copies    16 bytes at a time, from global to local memory, without registers in between
//     stages          STAGES tiles of each operand in local memory: STAGES - 1 of them are on their way during the work
//     swizzle         where a row's 16 bytes lie depends on the row, so that no eight rows meet in one bank
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

__kernel GROUP void gemm(OPERANDS)
{
    LOCAL_ARRAY(uint4, local_tiles, STAGES * (VECTORS_A + VECTORS_B));
    LOCAL_POINTER uint4 *tiles = local_tiles;
    const int blocks_x = (n + BLOCK_X - 1) / BLOCK_X, blocks_y = (m + BLOCK_Y - 1) / BLOCK_Y;
    const int product = (int)get_group_id(0) / (blocks_x * blocks_y);
    const int2 first = first_of_tile((int)get_group_id(0) % (blocks_x * blocks_y), blocks_x, blocks_y);
    const __global uchar *of_a_block = (const __global uchar *)(A + A_start + product * A_step + first.y * (A_ALONG_K ? lda : 1));
    const __global uchar *of_b_block = (const __global uchar *)(B + B_start + product * B_step + first.x * (B_ALONG_K ? ldb : 1));
    const int rows = m - first.y, columns = n - first.x;
    real c[TILES_Y][TILES_X][4];
    clear(c);

    // The tiles of step `next`, whose first number of k is `at`: on their way to stage next % STAGES.
#define START(at, stage)                                                                                               \
    if ((at) < k) {                                                                                                    \
        start_copies(tiles + (stage) * VECTORS_A, of_a_block + (at) * (A_ALONG_K ? 1 : lda) * SIZE, lda * SIZE,        \
                     A_ALONG_K ? rows : k - (at), (A_ALONG_K ? k - (at) : rows) * (long)SIZE,                          \
                     ROWS(BLOCK_Y, A_ALONG_K), VECTORS(BLOCK_Y, A_ALONG_K));                                           \
        start_copies(tiles + STAGES * VECTORS_A + (stage) * VECTORS_B,                                                 \
                     of_b_block + (at) * (B_ALONG_K ? 1 : ldb) * SIZE, ldb * SIZE,                                     \
                     B_ALONG_K ? columns : k - (at), (B_ALONG_K ? k - (at) : columns) * (long)SIZE,                    \
                     ROWS(BLOCK_X, B_ALONG_K), VECTORS(BLOCK_X, B_ALONG_K));                                           \
    }                                                                                                                  \
    commit_copies()

    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        START(stage * STEP_K, stage);
    }
    int stage = 0, next = STAGES - 1;
    for (int p0 = 0; p0 < k; p0 += STEP_K) {
        wait_for_copies(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE); // all have copied the tiles of p0, and none still reads those before
        START(p0 + (STAGES - 1) * STEP_K, next);
        multiply_tiles(c, tiles + stage * VECTORS_A, tiles + STAGES * VECTORS_A + stage * VECTORS_B);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = next + 1 < STAGES ? next + 1 : 0;
    }
    write_tile(C + C_start + product * C_step + first.y * ldc + first.x, ldc, c, rows, columns, product);
}
