# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""cpu-ikj: the two inner loops exchanged, so that rows of B and C are read in memory order.

    parallel for i in 0..m:
        for p in 0..k:
            for j in 0..n:      C[i,j] += A[i,p] B[p,j]

Source: algorithm 1 of the Russian oneAPI report (2021). The inner loop runs along rows, so it vectorises, and
rows of C go to the threads.

Traffic: each row of C goes over the whole of B, m k n numbers in all, from whatever level B fits in; the row
of C is loaded and stored once for each p. Nothing of B is used twice before all of B has passed: once B
outgrows a cache, that cache does not help.
"""

from cython.parallel cimport prange

from gemmlab._cpu.rungs.rung cimport Gemm32, Gemm64, RungParams, real


cdef void gemm(real *A, Py_ssize_t lda, real *B, Py_ssize_t ldb, real *C, Py_ssize_t ldc,
               Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, RungParams *params) noexcept nogil:
    cdef bint fresh = not params.accumulate
    cdef Py_ssize_t i, j, p
    cdef real a
    for i in prange(m, schedule="runtime", num_threads=params.threads):
        if fresh:
            for j in range(n):
                C[i * ldc + j] = 0
        for p in range(k):
            a = A[i * lda + p]
            for j in range(n):
                C[i * ldc + j] += a * B[p * ldb + j]


cdef Gemm32 f32 = gemm[float]
cdef Gemm64 f64 = gemm[double]
address = {"float32": <size_t> f32, "float64": <size_t> f64}
