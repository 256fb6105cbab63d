# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Multiply-adds a second of this build's vectors and of single numbers, and the clock; `fma.h` has the loops."""

from time import perf_counter

from cython.parallel cimport prange

from gemmlab._cpu._driver cimport usable_threads

ctypedef void (*Loop)(long long) noexcept nogil

cdef extern from "fma.h" nogil:
    void multiply_adds_float32(long long iterations)
    void multiply_adds_float64(long long iterations)
    void scalar_multiply_adds_float32(long long iterations)
    void scalar_multiply_adds_float64(long long iterations)
    int flops_of(int lanes)
    void additions(long long iterations)
    int ADDITIONS
    int VECTOR_BYTES


def flops_per_iteration(str dtype not None, bint scalar=False):
    """Floating-point operations of one iteration on one thread: two a multiply-add."""
    cdef bint float32 = _is_float32(dtype)
    return flops_of(1 if scalar else VECTOR_BYTES // (4 if float32 else 8))


def run(str dtype not None, int threads, long long iterations, bint scalar=False):
    """Seconds that `threads` threads take for `iterations` iterations each, all at the same time."""
    cdef Loop loop
    if _is_float32(dtype):
        loop = scalar_multiply_adds_float32 if scalar else multiply_adds_float32
    else:
        loop = scalar_multiply_adds_float64 if scalar else multiply_adds_float64
    return _seconds(loop, threads, iterations)


def clock_ghz(int threads, long long iterations):
    """The clock of the slowest of `threads` cores, from chains of additions that all of them do at the same time."""
    return iterations * ADDITIONS / _seconds(additions, threads, iterations) / 1e9


cdef double _seconds(Loop loop, int threads, long long iterations):
    cdef int _thread, team = usable_threads(threads)
    start = perf_counter()
    with nogil:
        for _thread in prange(threads, num_threads=team, schedule="static", chunksize=1):
            loop(iterations)
    return perf_counter() - start


cdef bint _is_float32(str dtype) except -1:
    if dtype not in ("float32", "float64"):
        raise ValueError(f"the multiply-add loop does float32 and float64, not {dtype}")
    return dtype == "float32"
