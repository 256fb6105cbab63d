"""The compiled way's view of a kernel."""

cimport numpy as cnp

from gemmlab._cpu.rungs.blocks cimport BlockRule
from gemmlab._cpu.rungs.rung cimport RungParams


cdef bint is_rows(cnp.ndarray x) noexcept
cdef bint is_columns(cnp.ndarray x) noexcept


cdef class Library:
    cdef int inside
    cdef readonly bint is_lost
    cdef object __weakref__

    cdef void enter(self) noexcept
    cdef void leave(self) noexcept


cdef object product_of_numpy(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out)


cdef class CompiledWay:
    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, int of_c,
                           bint accumulate, packed)


cdef class Kernel(CompiledWay):
    cdef void *f32
    cdef void *f64
    cdef int convention
    cdef readonly bint serial
    cdef readonly Library library
    cdef BlockRule rule
    cdef double band_flop

    cdef RungParams params(self, int type_num, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, Py_ssize_t ldb, int threads)
    cdef int multiply(self, int type_num, char *a, Py_ssize_t lda, bint at, char *b, Py_ssize_t ldb, bint bt,
                      char *c, Py_ssize_t ldc, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
                      RungParams *params) except -1 nogil
    cdef void call(self, int type_num, char *a, Py_ssize_t lda, bint at, char *b, Py_ssize_t ldb, bint bt,
                   char *c, Py_ssize_t ldc, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
                   RungParams *params) noexcept nogil
