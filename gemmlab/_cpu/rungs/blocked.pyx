# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""cpu-blocked: the same loops over blocks, so that a block of B is used many times while a cache holds it.

    parallel for i0 in 0..m by bs_r:                # block rows of C
        for p0 in 0..k by bs_k:
            for j0 in 0..n by bs_c:                 # B[p0:p0+bs_k, j0:j0+bs_c] stays in L1
                for i in i0..i0+bs_r:
                    for p in p0..p0+bs_k:
                        for j in j0..j0+bs_c:       C[i,j] += A[i,p] B[p,j]

Source: algorithm 2 of the Russian oneAPI report (2021).

Traffic: B passes from memory once for each block row, m / bs_r times instead of m times; C is loaded and
stored once for each block of k, k / bs_k times. The inner loop still loads and stores C for each
multiply-add, and the one store a cycle caps it near half of the peak. By default a row of a block is about 2 KiB wide:
the next row of B loads what this one stored, and has to wait if a row has too few vectors (`blocks.pxd`).
"""

from cython.parallel cimport prange

from gemmlab._cpu.rungs.rung cimport Gemm32, Gemm64, RungParams, blocks, past_line, real


cdef void gemm(real *A, Py_ssize_t lda, real *B, Py_ssize_t ldb, real *C, Py_ssize_t ldc,
               Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, RungParams *params) noexcept nogil:
    cdef Py_ssize_t bs_r = params.bs_r, bs_c = params.bs_c, bs_k = params.bs_k
    cdef Py_ssize_t shift = past_line(B)
    cdef bint fresh = not params.accumulate
    cdef Py_ssize_t i_block, p_block, j_block, i0, p0, j0, j1
    for i_block in prange(blocks(m, bs_r), schedule="runtime", num_threads=params.threads):
        i0 = i_block * bs_r
        for p_block in range(blocks(k, bs_k)):
            p0 = p_block * bs_k
            for j_block in range(blocks(n + shift, bs_c)):
                j0 = max(0, j_block * bs_c - shift)
                j1 = min(n, (j_block + 1) * bs_c - shift)
                multiply_block(
                    A + i0 * lda + p0, lda, B + p0 * ldb + j0, ldb, C + i0 * ldc + j0, ldc,
                    min(bs_r, m - i0), j1 - j0, min(bs_k, k - p0), fresh and p0 == 0)


cdef void multiply_block(real *A, Py_ssize_t lda, real *B, Py_ssize_t ldb, real *C, Py_ssize_t ldc,
                         Py_ssize_t rows, Py_ssize_t width, Py_ssize_t depth, bint first) noexcept nogil:
    """C[:rows, :width] += A[:rows, :depth] B[:depth, :width]; the `first` block of k starts from zero, unless the
    product accumulates."""
    cdef Py_ssize_t i, j, p
    cdef real a
    for i in range(rows):
        if first:
            for j in range(width):
                C[i * ldc + j] = 0
        for p in range(depth):
            a = A[i * lda + p]
            for j in range(width):
                C[i * ldc + j] += a * B[p * ldb + j]


cdef Gemm32 f32 = gemm[float]
cdef Gemm64 f64 = gemm[double]
address = {"float32": <size_t> f32, "float64": <size_t> f64}
