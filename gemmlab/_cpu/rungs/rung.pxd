"""What the CPU rungs share: the numbers they work on, their signature, their parameters.

Every rung is `gemm(A, lda, B, ldb, C, ldc, m, n, k, params)`: row-major, C = A B, with A of m rows and k
columns, B of k rows and n columns, C of m rows and n columns; `ld` is the distance from one row to the next
in numbers. m, n and k are at least 1. What C held before is the first addend if `accumulate` is set, and else never
read.
"""

ctypedef fused real:
    float
    double

cdef extern from "rung.h" nogil:
    enum:
        LINE_BYTES
    ctypedef struct RungParams:
        int threads
        Py_ssize_t bs_r, bs_c, bs_k
        bint accumulate, failed
    ctypedef void (*Gemm32)(
        float *, Py_ssize_t, float *, Py_ssize_t, float *, Py_ssize_t,
        Py_ssize_t, Py_ssize_t, Py_ssize_t, RungParams *) noexcept
    ctypedef void (*Gemm64)(
        double *, Py_ssize_t, double *, Py_ssize_t, double *, Py_ssize_t,
        Py_ssize_t, Py_ssize_t, Py_ssize_t, RungParams *) noexcept


cdef inline Py_ssize_t blocks(Py_ssize_t extent, Py_ssize_t size) noexcept nogil:
    """Blocks of `size` that cover `extent`; the last may be smaller."""
    return (extent + size - 1) // size


cdef inline Py_ssize_t past_line(real *x) noexcept nogil:
    """Numbers between the start of the cache line that `x` is in, and `x`.

    NumPy's arrays start 16 bytes into a line. A vector load that straddles two lines costs two, so the grid of
    blocks is shifted left by this much: then all blocks but the first begin with a line of B.
    """
    return <Py_ssize_t> (<size_t> x % LINE_BYTES // sizeof(real))
