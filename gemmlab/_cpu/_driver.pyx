# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Calls a rung, or a BLAS, on NumPy arrays: the compiled call that every CPU product ends in.

A `Kernel` is a pair of addresses, one for each dtype, with the way to call them: a rung takes row-major
operands and its parameters; a BLAS takes Fortran's argument list, where a row-major C = A B is C' = B' A'; BLIS has its
own list, with a stride for rows and one for columns.
"""

cimport numpy as cnp

from gemmlab._cpu.rungs.blocks cimport BlockRule, choose_blocks
from gemmlab._cpu.rungs.rung cimport Gemm32, Gemm64, RungParams
from gemmlab._cpu.threads._threads cimport TEAM_FLOP, threads_for, usable_threads

import numpy

from gemmlab._process import forks

cnp.import_array()

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define COUNT(number, by) __atomic_fetch_add(&(number), by, __ATOMIC_SEQ_CST)
    #else
    #define COUNT(number, by) ((number) += (by))
    #endif
    """
    void COUNT(int number, int by)

cdef extern from "openmp_or_serial.h" nogil:
    void set_schedule(int kind, int *old_kind, int *old_chunk)
    void restore_schedule(int kind, int chunk)
    int may_be_main_thread()

ctypedef void (*Sgemm)(char *, char *, int *, int *, int *, float *, float *, int *, float *, int *,
                       float *, float *, int *) noexcept nogil
ctypedef void (*Dgemm)(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *,
                       double *, double *, int *) noexcept nogil

# BLIS's typed interface; its dim_t and inc_t are 64 bits wide, its trans_t is 0 for "as it lies".
ctypedef void (*BliSgemm)(int, int, long long, long long, long long, float *, float *, long long, long long,
                          float *, long long, long long, float *, float *, long long, long long) noexcept nogil
ctypedef void (*BliDgemm)(int, int, long long, long long, long long, double *, double *, long long, long long,
                          double *, long long, long long, double *, double *, long long,
                          long long) noexcept nogil

cdef extern from "Python.h":
    int PyErr_CheckSignals()  # leaves the exception

cdef extern from *:
    """
    #include <time.h>
    static double seconds_now(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return now.tv_sec + now.tv_nsec * 1e-9;
    }
    """
    double seconds_now() nogil

# Ctrl-C ends a long product of a rung between two bands of C: some block rows, or some columns of one. Each number of C
# is computed as without bands. Threads wait for each other at the end of a band, so bands grow until they take BAND_S.
cdef double FIRST_FLOP = 2e7, BAND_S = 0.25  # of the first band, but where a rung has another number; a further one


cdef int ask_for_signals() except -1 nogil:
    """In the main thread, run the handlers of signals that have come, which may raise."""
    if not may_be_main_thread():
        return 0
    with gil:
        return PyErr_CheckSignals()


cdef enum Convention:
    RUNG
    FORTRAN
    BLIS

CONVENTIONS = {"rung": RUNG, "fortran": FORTRAN, "blis": BLIS}

# Rows go to whichever thread is free: on a shared machine no thread is as fast as the other. The bits are the
# same for every schedule.
SCHEDULES = {"static": 1, "dynamic": 2, "guided": 3}
DEFAULT_SCHEDULE = "dynamic"
cdef int DYNAMIC = 2


def default_blocks(rule, Py_ssize_t itemsize, Py_ssize_t m, Py_ssize_t n, Py_ssize_t ldb, int threads):
    """`bs_r`, `bs_c` and `bs_k` of a blocked rung. `rule`: a BlockRule (`rungs/blocks.pxd`)."""
    cdef BlockRule bytes_ = rule_of(rule)
    cdef RungParams params
    params.threads = threads
    choose_blocks(&bytes_, itemsize, m, n, ldb, &params)
    return params.bs_r, params.bs_c, params.bs_k


cdef BlockRule rule_of(rule) except *:
    cdef BlockRule bytes_
    bytes_.least, bytes_.widest, bytes_.l1, bytes_.way, bytes_.l2, bytes_.l3, bytes_.tile_rows = rule
    return bytes_


def layout(cnp.ndarray x):
    """How the last two axes lie: "C" rows of adjacent numbers, "F" columns of adjacent numbers, "S" neither."""
    if not cnp.PyArray_ISBEHAVED_RO(x):
        return "S"
    if is_rows(x):
        return "C"
    return "F" if is_columns(x) else "S"


def leading_dimension(cnp.ndarray x):
    """Distance of one row, or of one column where they lie in columns, to the next, in numbers."""
    return leading(x, not is_rows(x))


cdef bint is_rows(cnp.ndarray x) noexcept:
    return adjacent(x, 1) and apart(x, 0)


cdef bint is_columns(cnp.ndarray x) noexcept:
    return adjacent(x, 0) and apart(x, 1)


cdef inline Py_ssize_t extent(cnp.ndarray x, int axis) noexcept:
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 2 + axis)


cdef inline Py_ssize_t step(cnp.ndarray x, int axis) noexcept:
    return cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - 2 + axis)


cdef inline bint adjacent(cnp.ndarray x, int axis) noexcept:
    return extent(x, axis) <= 1 or step(x, axis) == cnp.PyArray_ITEMSIZE(x)


cdef inline bint apart(cnp.ndarray x, int axis) noexcept:
    """Whether the lines along the other axis follow one another without overlap: a leading dimension."""
    return extent(x, axis) <= 1 or (
        step(x, axis) >= extent(x, 1 - axis) * cnp.PyArray_ITEMSIZE(x)
        and step(x, axis) % cnp.PyArray_ITEMSIZE(x) == 0)


cdef inline Py_ssize_t leading(cnp.ndarray x, bint transposed) noexcept:
    """The leading dimension, in numbers; for a single line any legal value does."""
    cdef int lines = 1 if transposed else 0
    if extent(x, lines) <= 1:
        return max(1, extent(x, 1 - lines))
    return step(x, lines) // cnp.PyArray_ITEMSIZE(x)


cdef class Library:
    """Somebody else's BLAS, and how many calls of ours are inside it. If there were any at a fork, the child has lost
    it: there it might wait for ever for the threads and locks of its parent."""

    def __cinit__(self):
        forks.tell(self)

    cdef void enter(self) noexcept:
        COUNT(self.inside, 1)

    cdef void leave(self) noexcept:
        COUNT(self.inside, -1)

    def __enter__(self):
        self.enter()

    def __exit__(self, *_):
        self.leave()

    def forked(self):
        """Called in the child of a fork."""
        self.is_lost = self.is_lost or self.inside > 0
        self.inside = 0


numpys = Library()
cdef Library _numpys = numpys
cdef object numpy_matmul = numpy.matmul


cdef object product_of_numpy(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out):
    """NumPy's matmul; None for arrays of other classes, which it would ask."""
    if not cnp.PyArray_CheckExact(a) or not cnp.PyArray_CheckExact(b):
        return None
    _numpys.enter()
    try:
        return numpy_matmul(a, b, out)
    finally:
        _numpys.leave()


cdef class CompiledWay:
    """The compiled way of plain products, which `_front` calls."""

    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, int of_c,
                           bint accumulate, packed):
        """A plain product, or None. `threads`: as asked, or 0; `of_c`: the result's type; `packed`: of B, or None."""
        raise NotImplementedError


cdef class Kernel(CompiledWay):
    """A product for float32 and float64, by address.

    Parameters
    ----------
    float32, float64 : int
        Addresses of the functions.
    convention : {"rung", "fortran", "blis"}
        How they are called: as a rung, as a BLAS's `sgemm_` and `dgemm_`, or as `bli_sgemm` and `bli_dgemm`.
    serial : bool
        Whether they ignore the number of threads (then none is recorded but 1).
    blocks, band_flop : tuple of int, float
        Of a rung: what block sizes follow from (`default_blocks`), and operations of a long product's first band.
    """

    def __init__(self, size_t float32, size_t float64, *, str convention="rung", bint serial=False,
                 blocks=(1, 1, 1, 1, 0, 0, 1), double band_flop=FIRST_FLOP):
        self.f32 = <void *> float32
        self.f64 = <void *> float64
        self.convention = CONVENTIONS[convention]
        self.serial = serial
        self.library = Library()
        self.rule = rule_of(blocks)
        self.band_flop = band_flop

    cdef RungParams params(self, int type_num, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, Py_ssize_t ldb, int threads):
        """The default parameters of a product; `threads` is 0 where the caller names no number."""
        cdef RungParams params
        params.threads, params.accumulate, params.failed = 1, False, False
        if self.convention == RUNG and not self.serial:
            params.threads = usable_threads(min(threads, m) if threads else threads_for(2.0 * m * n * k, TEAM_FLOP))
        choose_blocks(&self.rule, 4 if type_num == cnp.NPY_FLOAT else 8, m, n, ldb, &params)
        return params

    cdef void call(self, int type_num, char *a, Py_ssize_t lda, bint at, char *b, Py_ssize_t ldb, bint bt,
                   char *c, Py_ssize_t ldc, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
                   RungParams *params) noexcept nogil:
        """C = A B; `at` and `bt` say that an operand lies in columns (a BLAS only)."""
        cdef float one32 = 1, zero32 = 0
        cdef double one64 = 1, zero64 = 0
        cdef int m_, n_, k_, lda_, ldb_, ldc_
        cdef char ta = b'T' if at else b'N'
        cdef char tb = b'T' if bt else b'N'
        cdef bint float32 = type_num == cnp.NPY_FLOAT
        if self.convention == RUNG and float32:
            (<Gemm32> self.f32)(<float *> a, lda, <float *> b, ldb, <float *> c, ldc, m, n, k, params)
        elif self.convention == RUNG:
            (<Gemm64> self.f64)(<double *> a, lda, <double *> b, ldb, <double *> c, ldc, m, n, k, params)
        elif self.convention == BLIS and float32:
            (<BliSgemm> self.f32)(0, 0, m, n, k, &one32, <float *> a, 1 if at else lda, lda if at else 1,
                                  <float *> b, 1 if bt else ldb, ldb if bt else 1, &zero32, <float *> c, ldc, 1)
        elif self.convention == BLIS:
            (<BliDgemm> self.f64)(0, 0, m, n, k, &one64, <double *> a, 1 if at else lda, lda if at else 1,
                                  <double *> b, 1 if bt else ldb, ldb if bt else 1, &zero64, <double *> c, ldc, 1)
        else:
            m_, n_, k_, lda_, ldb_, ldc_ = <int> m, <int> n, <int> k, <int> lda, <int> ldb, <int> ldc
            if float32:
                (<Sgemm> self.f32)(&tb, &ta, &n_, &m_, &k_, &one32, <float *> b, &ldb_, <float *> a, &lda_,
                                   &zero32, <float *> c, &ldc_)
            else:
                (<Dgemm> self.f64)(&tb, &ta, &n_, &m_, &k_, &one64, <double *> b, &ldb_, <double *> a, &lda_,
                                   &zero64, <double *> c, &ldc_)

    cdef int multiply(self, int type_num, char *a, Py_ssize_t lda, bint at, char *b, Py_ssize_t ldb, bint bt,
                      char *c, Py_ssize_t ldc, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
                      RungParams *params) except -1 nogil:
        """`call`; for a long product of a rung, in bands."""
        cdef bint has_blocks = self.rule.widest > 1
        cdef double first = self.band_flop, start
        cdef Py_ssize_t size = 4 if type_num == cnp.NPY_FLOAT else 8, rows = m, columns = n, i = 0, j = 0, high, wide
        if self.convention == RUNG and 2.0 * m * n * k > first:
            rows = (params.bs_r if has_blocks else 1) * params.threads
            wide = params.bs_c if has_blocks else 1
            columns = min(n, max(1, <Py_ssize_t> (first / (2.0 * k * rows * wide))) * wide)
        while True:
            high, wide, start = min(rows, m - i), min(columns, n - j), seconds_now()
            self.call(type_num, a + i * lda * size, lda, at, b + j * size, ldb, bt, c + (i * ldc + j) * size, ldc,
                      high, wide, k, params)
            if params.failed:
                with gil:
                    raise MemoryError("there is no memory for the copies that this rung makes of its operands")
            j += wide
            if j == n:
                i, j = i + high, 0
            if i == m:
                return 0
            if seconds_now() - start < BAND_S:
                columns, rows = min(n, 2 * columns), rows if columns < n else 2 * rows
            ask_for_signals()

    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, int of_c,
                           bint accumulate, packed):
        """Plain are two row-major matrices of one dtype, agreeing shapes, and an `out` that fits and lies apart."""
        cdef int type_num = cnp.PyArray_TYPE(a)
        cdef Py_ssize_t m, n, k
        cdef cnp.npy_intp shape[2]
        if packed is not None or (self.convention != RUNG and (threads or accumulate)) or not (  # limited elsewhere
                cnp.PyArray_NDIM(a) == 2 and cnp.PyArray_NDIM(b) == 2 and cnp.PyArray_TYPE(b) == type_num == of_c
                and (type_num == cnp.NPY_FLOAT or type_num == cnp.NPY_DOUBLE)):
            return None
        m, k, n = cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(a, 1), cnp.PyArray_DIM(b, 1)
        if (cnp.PyArray_DIM(b, 0) != k or m < 1 or n < 1 or k < 1 or not is_rows(a) or not is_rows(b)
                or not cnp.PyArray_ISBEHAVED_RO(a) or not cnp.PyArray_ISBEHAVED_RO(b)
                or (self.convention == FORTRAN and max(m, n, k, leading(a, 0), leading(b, 0)) > 0x7fffffff)):
            return None
        if out is None:
            shape[0], shape[1] = m, n
            out = cnp.PyArray_EMPTY(2, shape, type_num, 0)
        elif not (cnp.PyArray_NDIM(out) == 2 and cnp.PyArray_DIM(out, 0) == m and cnp.PyArray_DIM(out, 1) == n
                  and cnp.PyArray_TYPE(out) == type_num and cnp.PyArray_ISBEHAVED(out) and is_rows(out)
                  and (self.convention != FORTRAN or leading(out, 0) <= 0x7fffffff)
                  and clear_of(out, a) and clear_of(out, b)):
            return None
        cdef RungParams params = self.params(type_num, m, n, k, leading(b, 0), threads)
        cdef Py_ssize_t lda = leading(a, 0), ldb = leading(b, 0), ldc = leading(out, 0)
        cdef int old_kind, old_chunk
        params.accumulate = accumulate
        self.library.enter()
        if params.threads > 1:
            set_schedule(DYNAMIC, &old_kind, &old_chunk)
        try:
            with nogil:
                self.multiply(type_num, <char *> cnp.PyArray_DATA(a), lda, 0, <char *> cnp.PyArray_DATA(b), ldb, 0,
                              <char *> cnp.PyArray_DATA(out), ldc, m, n, k, &params)
        finally:
            self.library.leave()
            if params.threads > 1:
                restore_schedule(old_kind, old_chunk)
        return out

    def run(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, *, int threads=1, str schedule=DEFAULT_SCHEDULE,
            Py_ssize_t bs_r=1, Py_ssize_t bs_c=1, Py_ssize_t bs_k=1, bint accumulate=False):
        """Fill `out` with a @ b, added to what it holds if `accumulate` (a rung only): matrices, or batches of one
        leading shape, of one dtype.

        `a` and `b` are row-major, or column-major for a BLAS, and `out` is row-major. No extent of m, n, k and the
        batch is 0. Nothing is checked here.
        """
        cdef int type_num = cnp.PyArray_TYPE(a)
        cdef int ndim = cnp.PyArray_NDIM(out)
        cdef bint at = not is_rows(a), bt = not is_rows(b)
        cdef Py_ssize_t m = extent(a, 0), k = extent(a, 1), n = extent(b, 1)
        cdef Py_ssize_t lda = leading(a, at), ldb = leading(b, bt), ldc = leading(out, 0)
        cdef char *a_ = <char *> cnp.PyArray_DATA(a)
        cdef char *b_ = <char *> cnp.PyArray_DATA(b)
        cdef char *c_ = <char *> cnp.PyArray_DATA(out)
        cdef cnp.npy_intp *a_steps = cnp.PyArray_STRIDES(a)
        cdef cnp.npy_intp *b_steps = cnp.PyArray_STRIDES(b)
        cdef cnp.npy_intp *c_steps = cnp.PyArray_STRIDES(out)
        cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(out)
        cdef cnp.npy_intp index[64]
        cdef int axis, kind = SCHEDULES[schedule], old_kind, old_chunk
        cdef double unasked = 0
        cdef RungParams params
        params.threads, params.bs_r, params.bs_c, params.bs_k = usable_threads(min(threads, m)), bs_r, bs_c, bs_k
        params.accumulate, params.failed = accumulate, False
        for axis in range(ndim - 2):
            index[axis] = 0
        set_schedule(kind, &old_kind, &old_chunk)
        self.library.enter()
        try:
            with nogil:
                while True:
                    self.multiply(type_num, a_, lda, at, b_, ldb, bt, c_, ldc, m, n, k, &params)
                    unasked += 2.0 * m * n * k
                    if unasked > FIRST_FLOP and self.convention == RUNG:
                        ask_for_signals()
                        unasked = 0
                    axis = ndim - 3
                    while axis >= 0:  # an odometer over the batch
                        index[axis] += 1
                        a_ += a_steps[axis]
                        b_ += b_steps[axis]
                        c_ += c_steps[axis]
                        if index[axis] < shape[axis]:
                            break
                        a_ -= shape[axis] * a_steps[axis]
                        b_ -= shape[axis] * b_steps[axis]
                        c_ -= shape[axis] * c_steps[axis]
                        index[axis] = 0
                        axis -= 1
                    if axis < 0:
                        break
        finally:
            self.library.leave()
            restore_schedule(old_kind, old_chunk)


cdef inline bint clear_of(cnp.ndarray out, cnp.ndarray x) noexcept:
    """Whether two row-major matrices share no byte, judged by the ends of their memory."""
    cdef char *o = <char *> cnp.PyArray_DATA(out)
    cdef char *d = <char *> cnp.PyArray_DATA(x)
    return o >= d + bytes_of(x) or d >= o + bytes_of(out)


cdef inline Py_ssize_t bytes_of(cnp.ndarray x) noexcept:
    return ((cnp.PyArray_DIM(x, 0) - 1) * cnp.PyArray_STRIDE(x, 0)
            + cnp.PyArray_DIM(x, 1) * cnp.PyArray_ITEMSIZE(x))
