// register-global: one tile of C per work-item as in register, but nothing is held in registers: each multiply-add
// reads A, B and C from global memory and writes C back.
//
//     each TILE_Y x TILE_X tile of C:
//         for p in 0..k, y in 0..TILE_Y, x in 0..TILE_X:
//                                                   C[i0+y,j0+x] += A[i0+y,p] B[p,j0+x]
//
// Source: the "general strategy" of the Chinese oneAPI report, which shows by contrast what register gains.
//
// Traffic: 2 TILE_Y TILE_X k reads of A and B per tile, where register needs (TILE_Y + TILE_X) k.

__kernel GROUP void gemm(OPERANDS)
{
    THIS_PRODUCT;
    const int i0 = get_global_id(1) * TILE_Y, j0 = get_global_id(0) * TILE_X;
    const int i1 = min(i0 + TILE_Y, m), j1 = min(j0 + TILE_X, n);
    for (int i = i0; i < i1; i++)
        for (int j = j0; j < j1; j++)
            C[i * ldc + j] = 0;
    for (int p = 0; p < k; p++)
        for (int i = i0; i < i1; i++)
            for (int j = j0; j < j1; j++)
                C[i * ldc + j] += A[i * lda + p] * B[p * ldb + j];
}
