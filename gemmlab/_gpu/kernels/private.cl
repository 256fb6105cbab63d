// private: as naive, but the sum is a private variable and C is written once.
//
//     each (i, j) of C:
//         for p in 0..k:                            sum += A[i,p] B[p,j]
//         C[i,j] = sum
//
// Source: algorithm 4 of the Russian oneAPI report (2021); the first version of the Chinese oneAPI report.
//
// Traffic: each multiply-add reads A and B: 2 m n k elements. C is written once.

__kernel GROUP void gemm(OPERANDS)
{
    THIS_PRODUCT;
    const int i = get_global_id(1), j = get_global_id(0);
    if (i >= m || j >= n)
        return;
    real sum = 0;
    for (int p = 0; p < k; p++)
        sum += A[i * lda + p] * B[p * ldb + j];
    C[i * ldc + j] = sum;
}
