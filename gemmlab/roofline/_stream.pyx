# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""How many bytes a second pass between the cores and a working set; `loops/stream.c` has the loops.

The threads share one piece of memory, each with a separate region:

    | thread 0: stream, stream, .. | thread 1: stream, stream, .. | ...

A thread writes its region first, so that the pages lie in the memory nearest to it. Every stream begins on a page:
streams at odd distances make a load wait for an unrelated store a page away.
"""

from time import perf_counter

cimport numpy as cnp
from cython.parallel cimport prange
from libc.string cimport memset

from gemmlab._cpu.threads._threads cimport usable_threads

import numpy

from gemmlab._cpu import isa

cnp.import_array()

cdef extern from "loops.h" nogil:
    ctypedef struct stream_loops:
        void (*go_through)(int, char *, size_t, size_t, long long) noexcept nogil

STREAMS = {"load": 1, "copy": 2, "triad": 3}
BLOCK_BYTES = 512
PAGE_BYTES = 4096


cdef class Streams:
    """The loops of the instruction set in force, and the memory that they go through.

    Parameters
    ----------
    working_set_bytes : int
        The largest working set of a thread: all its streams together.
    threads : int
        The most threads.

    Raises
    ------
    ImportError
        The loops were not compiled for this instruction set.
    """

    cdef const stream_loops *loops
    cdef cnp.ndarray memory
    cdef char *first
    cdef size_t region  # bytes of a thread

    def __init__(self, size_t working_set_bytes, int threads):
        cdef size_t page = PAGE_BYTES
        cdef int thread, team = usable_threads(threads)
        self.loops = <const stream_loops *> <size_t> isa.table("gemmlab.roofline.loops", "stream")
        self.region = (working_set_bytes // page + 1 + max(STREAMS.values())) * page  # each stream begins on a page
        self.memory = numpy.empty(threads * self.region + page, numpy.int8)
        self.first = <char *> cnp.PyArray_DATA(self.memory)
        self.first += -<size_t> self.first % page
        for thread in prange(threads, nogil=True, num_threads=team, schedule="static", chunksize=1):
            memset(self.first + thread * self.region, 0, self.region)

    def run(self, str operation not None, size_t stream_bytes, int threads, long long repeats):
        """Seconds that `threads` threads take to go `repeats` times, each through separate streams."""
        cdef int streams = STREAMS[operation]
        cdef size_t page = PAGE_BYTES
        cdef size_t pitch = (stream_bytes + page - 1) // page * page
        cdef int thread, team = usable_threads(threads)
        if (stream_bytes % BLOCK_BYTES or streams * pitch > self.region
                or threads * self.region > <size_t> self.memory.size):
            raise ValueError(
                f"{operation} over {stream_bytes} bytes a stream on {threads} threads: needs a multiple of "
                f"{BLOCK_BYTES}, {streams * pitch} of the {self.region} bytes that each thread has, and no more "
                "threads than there is memory for"
            )
        start = perf_counter()
        with nogil:
            for thread in prange(threads, num_threads=team, schedule="static", chunksize=1):
                self.loops.go_through(streams, self.first + thread * self.region, stream_bytes, pitch, repeats)
        return perf_counter() - start
