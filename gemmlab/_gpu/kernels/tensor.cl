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
// units.h has the instructions, tiles.h the tiles.

// c += this warp's part of the product of two tiles.
INLINED void multiply_tiles(real c[TILES_Y][TILES_X][4], const LOCAL_POINTER uint4 *tile_a, const LOCAL_POINTER uint4 *tile_b)
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
INLINED void multiply(real c[TILES_Y][TILES_X][4], const __global uchar *A, const long lda, const int rows,
              const __global uchar *B, const long ldb, const int columns, const int depth, LOCAL_POINTER uint4 *tiles)
{
    // The tiles of the step whose first number of k is `at`: on their way to a stage.
#define START(at, stage)                                                                                               \
    if ((at) < depth)                                                                                                  \
        start_step(tiles, stage, FROM(at, A, lda, A_ALONG_K), lda, rows, FROM(at, B, ldb, B_ALONG_K), ldb, columns,    \
                   depth - (at));                                                                                      \
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
            keep_sum(sums + sums_start, share, begin == 0, c);
        }
        pair += end - begin;
    } while (pair < last);
}
#endif
