// naive: one work-item an element of C, which it keeps in global memory while it sums.
//
//     each (i, j) of C:
//         for p in 0..k:                            C[i,j] += A[i,p] B[p,j]
//
// Source: algorithm 3 of the Russian oneAPI report (2021).
//
// Traffic: each multiply-add reads A, B and C and writes C: 4 m n k numbers. What saves it are the caches: the
// work-items of a row of a group read one element of A, and neighbours in B.

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
