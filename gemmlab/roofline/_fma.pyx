# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""How many multiply-adds a second this build's vectors reach; `fma.h` has the loop."""

from time import perf_counter

from cython.parallel cimport prange

cdef extern from "fma.h" nogil:
    void multiply_adds_float32(long long iterations)
    void multiply_adds_float64(long long iterations)
    int flops_float32()
    int flops_float64()


def flops_per_iteration(str dtype not None):
    """Floating-point operations of one iteration on one thread: two a multiply-add."""
    return flops_float32() if _is_float32(dtype) else flops_float64()


def run(str dtype not None, int threads, long long iterations):
    """Seconds that `threads` threads take for `iterations` iterations each, all at the same time."""
    cdef bint float32 = _is_float32(dtype)
    cdef int _thread
    start = perf_counter()
    with nogil:
        for _thread in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            if float32:
                multiply_adds_float32(iterations)
            else:
                multiply_adds_float64(iterations)
    return perf_counter() - start


cdef bint _is_float32(str dtype) except -1:
    if dtype not in ("float32", "float64"):
        raise ValueError(f"the multiply-add loop does float32 and float64, not {dtype}")
    return dtype == "float32"
