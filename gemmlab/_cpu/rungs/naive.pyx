# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""cpu-naive: the textbook's triple loop, the serial reference of every report.

    for i in 0..m:
        for j in 0..n:
            for p in 0..k:      C[i,j] += A[i,p] B[p,j]

One thread. The sum lives in memory: each step loads C[i,j], adds one product and stores it again, and waits
for the store before it; B is read down a column, a new cache line each step.

Traffic: 2 loads of operands, a load and a store of C for each multiply-add. Once a column of B no longer fits
the first-level cache (k lines of 64 bytes), every step of B is a miss of that level.
"""

from gemmlab._cpu.rungs.rung cimport Gemm32, Gemm64, RungParams, real


cdef void gemm(real *A, Py_ssize_t lda, real *B, Py_ssize_t ldb, real *C, Py_ssize_t ldc,
               Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, RungParams *params) noexcept nogil:
    cdef bint fresh = not params.accumulate
    cdef Py_ssize_t i, j, p
    for i in range(m):
        for j in range(n):
            if fresh:
                C[i * ldc + j] = 0
            for p in range(k):
                C[i * ldc + j] += A[i * lda + p] * B[p * ldb + j]


cdef Gemm32 f32 = gemm[float]
cdef Gemm64 f64 = gemm[double]
address = {"float32": <size_t> f32, "float64": <size_t> f64}
