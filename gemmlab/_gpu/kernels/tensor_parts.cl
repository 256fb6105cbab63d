// tensor_parts: a float32 product out of the products of bfloat16 or float16 parts, by a matrix unit. As tensor, but for
//
//     parts    a stage has a tile of each part of A and of B: each is copied once, and multiplied by several
//     sums     a unit cuts its sums off; so it sums the products of a slice alone, and these sums are added in float32
//
//     each BLOCK_Y x BLOCK_X tile of C, by a work-group:
//         for p0 in 0..k by STEP_K, each slice, each warp:
//             c = 0
//             for i + j = LARGEST..0:                        c[y,x] += part i of a[y] @ part j of b[x]
//             total += c
//
// docs/precision/emulated.md explains the parts. Part i of A follows part i - 1, `ld` numbers a row; B lies by columns.

// total += this warp's part of the products of two tiles' parts, in each slice the smallest first.
INLINED void multiply_parts(real total[TILES_Y][TILES_X][4], const LOCAL_POINTER uint4 *tiles_a, const LOCAL_POINTER uint4 *tiles_b)
{
    const int first_y = WARP_NUMBER / WARPS_X * TILE_Y, first_x = WARP_NUMBER % WARPS_X * TILE_X;
    #pragma unroll
    for (int slice = 0; slice < STEP_BYTES / SLICE_BYTES; slice++) {
        part a[PARTS][4], b[PARTS][TILES_X][2];
        #pragma unroll
        for (int j = 0; j < PARTS; j++)
            #pragma unroll
            for (int x = 0; x < TILES_X; x += 2)
                pick_b(b[j][x], tiles_b + j * VECTORS_B, first_x + x * 8, slice);
        #pragma unroll
        for (int y = 0; y < TILES_Y; y++) {
            real c[TILES_X][4];
            #pragma unroll
            for (int x = 0; x < TILES_X; x++)
                c[x][0] = c[x][1] = c[x][2] = c[x][3] = 0;
            #pragma unroll
            for (int i = 0; i < PARTS; i++)
                pick_a(a[i], tiles_a + i * VECTORS_A, first_y + y * 16, slice);
            #pragma unroll
            for (int sum = LARGEST; sum >= 0; sum--)
                #pragma unroll
                for (int i = PARTS - 1; i >= 0; i--)
                    if (i <= sum && sum - i < PARTS)
                        #pragma unroll
                        for (int x = 0; x < TILES_X; x++)
                            multiply_add(c[x], a[i], b[sum - i][x]);
            #pragma unroll
            for (int x = 0; x < TILES_X; x++)
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    total[y][x][i] += c[x][i];
        }
    }
}

__kernel GROUP void gemm(const int m, const int n, const int k, __global const stored *parts, const long a_start,
                         const long b_start, const long ld, __global stored_c *C, const long C_start, const long ldc)
{
    LOCAL_ARRAY(uint4, local_tiles, STAGES * PARTS * (VECTORS_A + VECTORS_B));
    LOCAL_POINTER uint4 *tiles = local_tiles;
    const int2 first = first_of_tile((int)get_group_id(0), (n + BLOCK_X - 1) / BLOCK_X, (m + BLOCK_Y - 1) / BLOCK_Y);
    const __global uchar *a_block = (const __global uchar *)(parts + a_start + first.y * ld);
    const __global uchar *b_block = (const __global uchar *)(parts + b_start + first.x * ld);
    const int rows = m - first.y, columns = n - first.x;
    real total[TILES_Y][TILES_X][4];
    clear(total);

    // The tiles of all parts from `at` of k on, to a stage.
#define START(at, stage)                                                                                               \
    if ((at) < k)                                                                                                      \
        for (int i = 0; i < PARTS; i++) {                                                                              \
            const long skipped = (at) * (long)SIZE, bytes = (k - (at)) * (long)SIZE;                                   \
            start_copies(tiles + ((stage) * PARTS + i) * VECTORS_A, a_block + i * m * ld * SIZE + skipped, ld * SIZE,  \
                         rows, bytes, BLOCK_Y, STEP_BYTES / 16);                                                       \
            start_copies(tiles + STAGES * PARTS * VECTORS_A + ((stage) * PARTS + i) * VECTORS_B,                       \
                         b_block + i * n * ld * SIZE + skipped, ld * SIZE, columns, bytes, BLOCK_X, STEP_BYTES / 16);  \
        }                                                                                                              \
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
        multiply_parts(total, tiles + stage * PARTS * VECTORS_A,
                       tiles + STAGES * PARTS * VECTORS_A + stage * PARTS * VECTORS_B);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = next + 1 < STAGES ? next + 1 : 0;
    }
    write_tile(C + C_start + first.y * ldc + first.x, ldc, total, rows, columns, 0);
}
