// local4: as local, but each work-item computes PER_ITEM elements of one column of C. So each element of tile_b that
// it reads is used PER_ITEM times.
//
//     each TILE x TILE tile of C, by a work-group of TILE x (TILE / PER_ITEM) work-items:
//         for p0 in 0..k by TILE:
//             tile_a = A[i0:i0+TILE, p0:p0+TILE], tile_b = B[p0:p0+TILE, j0:j0+TILE]
//             for p in 0..TILE, UNROLL at a time:
//                 for r in 0..PER_ITEM:             sum[r] += tile_a[y + r STEP, p] tile_b[p,x]
//         C[i0+y+r STEP, j0+x] = sum[r]             with STEP = TILE / PER_ITEM
//
// Source: "block+" of the Russian oneAPI report (2021).
//
// Traffic: from global memory the same as local. From local memory 1 + 1 / PER_ITEM elements per multiply-add; those
// of tile_a are the same for all work-items of a row.

#define STEP (TILE / PER_ITEM)

__kernel GROUP void gemm(OPERANDS)
{
    __local real tile_a[TILE][TILE] ALIGNED, tile_b[TILE][TILE] ALIGNED;
    THIS_PRODUCT;
    const int x = get_local_id(0), y = get_local_id(1);
    const int i0 = get_group_id(1) * TILE, j = get_group_id(0) * TILE + x;
    real sum[PER_ITEM];
    #pragma unroll
    for (int r = 0; r < PER_ITEM; r++)
        sum[r] = 0;
    for (int p0 = 0; p0 < k; p0 += TILE) {
        #pragma unroll
        for (int r = 0; r < PER_ITEM; r++) {
            const int row = y + r * STEP;
            tile_a[row][x] = i0 + row < m && p0 + x < k ? A[(i0 + row) * lda + p0 + x] : 0;
            tile_b[row][x] = p0 + row < k && j < n ? B[(p0 + row) * ldb + j] : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll UNROLL
        for (int p = 0; p < TILE; p++) {
            const real b = tile_b[p][x];
            #pragma unroll
            for (int r = 0; r < PER_ITEM; r++)
                sum[r] += tile_a[y + r * STEP][p] * b;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    for (int r = 0; r < PER_ITEM; r++) {
        const int i = i0 + y + r * STEP;
        if (i < m && j < n)
            C[i * ldc + j] = sum[r];
    }
}
