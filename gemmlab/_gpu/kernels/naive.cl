// naive: one work-item per element of C, which accumulates in global memory.
//
//     each (i, j) of C:
//         for p in 0..k:                            C[i,j] += A[i,p] B[p,j]
//
// Source: algorithm 3 of the Russian oneAPI report (2021).
//
// Traffic: each multiply-add reads A, B and C and writes C: 4 m n k elements. The caches serve most of them: the
// work-items of one row of a work-group read the same element of A and neighbouring elements of B.

__kernel GROUP void gemm(OPERANDS)
{
    THIS_PRODUCT;
    const int i = get_global_id(1), j = get_global_id(0);
    if (i >= m || j >= n)
        return;
    C[i * ldc + j] = 0;
    for (int p = 0; p < k; p++)
        C[i * ldc + j] += A[i * lda + p] * B[p * ldb + j];
}
