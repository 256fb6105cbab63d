# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Multiply-adds a second, of vectors and of single numbers, and the clock: loops of `fma.c` and `narrow.c`."""

from time import perf_counter

from cython.parallel cimport prange

from gemmlab._cpu.threads._threads cimport usable_threads

from gemmlab._cpu import isa

cdef extern from "loops.h" nogil:
    ctypedef void (*repeated)(long long) noexcept nogil
    ctypedef struct fma_loops:
        repeated vectors[4]
        repeated scalars[2]
        int vector_flops[4]
        int scalar_flops
        repeated additions
        int additions_an_iteration

DTYPES = ("float32", "float64", "int8", "bfloat16")  # of vectors; the first two of single numbers as well


cdef class Loops:
    """The loops of one instruction set, by default the one in force, or of an extra of v4 as in "v4+amx"; ImportError
    where they were not compiled."""

    cdef const fma_loops *loops
    cdef repeated additions
    cdef int additions_an_iteration

    def __init__(self, str isa_name=None):
        level, _, extra = (isa_name or isa.chosen()).partition("+")
        self.loops = table("fma", level)
        self.additions, self.additions_an_iteration = self.loops.additions, self.loops.additions_an_iteration
        if extra:
            self.loops = table("narrow", extra)

    def dtypes(self, bint scalar=False):
        """The dtypes that have a loop, of vectors or of single numbers."""
        return DTYPES[:2] if scalar else tuple([x for i, x in enumerate(DTYPES) if self.loops.vectors[i] is not NULL])

    def flops_per_iteration(self, str dtype not None, bint scalar=False):
        """Operations of one iteration on one thread: two a multiply-add."""
        cdef int of_dtype = self.number_of(dtype, scalar)
        return self.loops.scalar_flops if scalar else self.loops.vector_flops[of_dtype]

    def run(self, str dtype not None, int threads, long long iterations, bint scalar=False):
        """Seconds that `threads` threads take for `iterations` iterations each, all at the same time."""
        cdef int of_dtype = self.number_of(dtype, scalar)
        return seconds(self.loops.scalars[of_dtype] if scalar else self.loops.vectors[of_dtype], threads, iterations)

    def clock_ghz(self, int threads, long long iterations):
        """The clock of the slowest of `threads` cores, from chains of additions that all do at the same time."""
        took_s = seconds(self.additions, threads, iterations)
        return iterations * self.additions_an_iteration / took_s / 1e9

    cdef int number_of(self, str dtype, bint scalar) except -1:
        dtypes = self.dtypes(scalar)
        if dtype not in dtypes:
            raise ValueError(f"the multiply-add loop does {', '.join(dtypes)}, not {dtype}")
        return DTYPES.index(dtype)


cdef const fma_loops *table(str name, str build) except NULL:
    return <const fma_loops *> <size_t> isa.table("gemmlab.roofline.loops", name, build)


cdef double seconds(repeated loop, int threads, long long iterations):
    cdef int _thread, team = usable_threads(threads)
    start = perf_counter()
    with nogil:
        for _thread in prange(threads, num_threads=team, schedule="static", chunksize=1):
            loop(iterations)
    return perf_counter() - start
