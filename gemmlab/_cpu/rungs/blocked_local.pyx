# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""cpu-blocked-local: the blocked loops, with part of a row of C in a thread-private buffer.

    parallel for i0 in 0..m by bs_r:                # block rows of C
        for p0 in 0..k by bs_k:
            for j0 in 0..n by bs_c:                 # B[p0:p0+bs_k, j0:j0+bs_c] stays in L1
                for i in i0..i0+bs_r:
                    for j1 in j0..j0+bs_c by STRIP:
                        buffer[0:STRIP] = 0
                        for p in p0..p0+bs_k:
                            for j in 0..STRIP:      buffer[j] += A[i,p] B[p,j1+j]
                        C[i,j1:j1+STRIP] += buffer

Source: the appendix of the Russian oneAPI report (2021). No other pointer can reach the buffer and its length
is known, so the compiler keeps it in vector registers through the whole loop over p (STRIP is eight vectors:
enough independent sums to hide the latency of a multiply-add). A whole strip is added to C from these registers.

Traffic: as `cpu-blocked`, but C is loaded and stored once per block instead of once per multiply-add. One load of B
remains for each vector multiply-add. B is not packed: the distance between rows of a block is that of the whole
matrix, and where it is a power of two they share few cache sets (conflict misses), so that a block has few rows
(`blocks.pxd`). Packing is the next rung.
"""

from cython.parallel cimport prange

from gemmlab._cpu.rungs.rung cimport Gemm32, Gemm64, RungParams, blocks, past_line, real


cdef extern from "rung.h":
    enum:
        STRIP_BYTES
        MOST_IN_STRIP


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
                    A + i0 * lda + p0, lda, B + p0 * ldb, ldb, C + i0 * ldc, ldc,
                    min(bs_r, m - i0), n, j0, j1, min(bs_k, k - p0), fresh and p0 == 0)


cdef void multiply_block(real *A, Py_ssize_t lda, real *B, Py_ssize_t ldb, real *C, Py_ssize_t ldc, Py_ssize_t rows,
                         Py_ssize_t n, Py_ssize_t j0, Py_ssize_t j1, Py_ssize_t depth, bint first) noexcept nogil:
    """C[:rows, j0:j1] += A[:rows, :depth] B[:depth, j0:j1]; the `first` block of k starts from zero, unless the
    product accumulates.

    A strip always has its full width, so that its length is a constant: one that would stick out of the matrix
    is moved back into it. `multiply_part` adds some of a strip's columns, `multiply_strip` all of them, from registers.
    """
    cdef Py_ssize_t strip = STRIP_BYTES // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t i, j, s, start
    for i in range(rows):
        for s in range(blocks(j1 - j0, strip)):
            j = j0 + s * strip
            start = min(j, n - strip)
            if start == j and j1 - j >= strip:
                multiply_strip(A + i * lda, B + j, ldb, C + i * ldc + j, depth, first)
            elif start >= 0:
                multiply_part(A + i * lda, B + start, ldb, C + i * ldc + start,
                              strip, j - start, min(j1 - start, strip), depth, first)
            else:
                multiply_part(A + i * lda, B, ldb, C + i * ldc, n, j, j1, depth, first)


cdef void multiply_strip(real *A, real *B, Py_ssize_t ldb, real *C, Py_ssize_t depth, bint first) noexcept nogil:
    """C[:strip] += A[:depth] B[:depth, :strip]."""
    cdef Py_ssize_t strip = STRIP_BYTES // <Py_ssize_t> sizeof(real)
    cdef real buffer[MOST_IN_STRIP]
    cdef Py_ssize_t j
    sum_up(A, B, ldb, buffer, strip, depth)
    for j in range(strip):
        C[j] = buffer[j] if first else C[j] + buffer[j]


cdef void multiply_part(real *A, real *B, Py_ssize_t ldb, real *C, Py_ssize_t width,
                        Py_ssize_t from_, Py_ssize_t to, Py_ssize_t depth, bint first) noexcept nogil:
    """C[from_:to] += A[:depth] B[:depth, from_:to]; the sums of all `width` columns stay in a buffer until the end."""
    cdef Py_ssize_t strip = STRIP_BYTES // <Py_ssize_t> sizeof(real)
    cdef real buffer[MOST_IN_STRIP]
    cdef Py_ssize_t j
    if width == strip:
        sum_up(A, B, ldb, buffer, strip, depth)
    else:
        sum_up(A, B, ldb, buffer, width, depth)
    for j in range(from_, to):
        C[j] = buffer[j] if first else C[j] + buffer[j]


cdef inline void sum_up(real *A, real *B, Py_ssize_t ldb, real *buffer,
                        Py_ssize_t width, Py_ssize_t depth) noexcept nogil:
    """buffer[:width] = A[:depth] B[:depth, :width]."""
    cdef Py_ssize_t j, p
    for j in range(width):
        buffer[j] = 0
    for p in range(depth):
        for j in range(width):
            buffer[j] += A[p] * B[p * ldb + j]


cdef Gemm32 f32 = gemm[float]
cdef Gemm64 f64 = gemm[double]
address = {"float32": <size_t> f32, "float64": <size_t> f64}
