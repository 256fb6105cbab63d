// local: a work-group copies tiles of A and B to local memory, and all its work-items read them there.
//
//     each TILE_Y x TILE_X tile of C, by a work-group with one work-item per element:
//         for p0 in 0..k by TILE_K:
//             tile_a = A[i0:i0+TILE_Y, p0:p0+TILE_K], tile_b = B[p0:p0+TILE_K, j0:j0+TILE_X]
//             for p in 0..TILE_K:                   sum += tile_a[y,p] tile_b[p,x]
//         C[i0+y, j0+x] = sum
//
// Source: algorithm 5 of the Russian oneAPI report (2021); the kernel of Xiao et al. (2020).
//
// Traffic: A is read from global memory n / TILE_X times and B m / TILE_Y times, instead of n and m times. Each
// multiply-add still reads two elements from local memory, and there are two barriers per tile.
//
// Beyond the edges the last row or column is read again: a read without a condition is faster than one with.

__kernel GROUP void gemm(OPERANDS)
{
    __local real tile_a[TILE_Y][TILE_K] ALIGNED, tile_b[TILE_K][TILE_X] ALIGNED;
    THIS_PRODUCT;
    const int x = get_local_id(0), y = get_local_id(1);
    const int i = get_group_id(1) * TILE_Y + y, j = get_group_id(0) * TILE_X + x;
    real sum = 0;
    for (int p0 = 0; p0 < k; p0 += TILE_K) {
        #pragma unroll
        for (int p = 0; p < TILE_K; p += TILE_X)
            if (TILE_K % TILE_X == 0 || p + x < TILE_K) {
                const real read = A[min(i, m - 1) * lda + min(p0 + p + x, k - 1)];
                tile_a[y][p + x] = p0 + p + x < k ? read : 0;
            }
        #pragma unroll
        for (int p = 0; p < TILE_K; p += TILE_Y)
            if (TILE_K % TILE_Y == 0 || p + y < TILE_K) {
                const real read = B[min(p0 + p + y, k - 1) * ldb + min(j, n - 1)];
                tile_b[p + y][x] = p0 + p + y < k ? read : 0;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < TILE_K; p++)
            sum += tile_a[y][p] * tile_b[p][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < m && j < n)
        C[i * ldc + j] = sum;
}
