# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""How many bytes a second pass between the cores and a working set; `stream.h` has the loops.

The threads share one buffer, each with its own region:

    | thread 0: stream, stream, .. | thread 1: stream, stream, .. | ...

A thread writes its region first (`touch`), so that the pages lie in the memory nearest to it. Every stream
begins on a page: streams at odd distances make a load wait for an unrelated store a page away.
"""

from time import perf_counter

from cython.parallel cimport prange
from libc.string cimport memset

from gemmlab._cpu._driver cimport usable_threads

cdef extern from "stream.h" nogil:
    void go_through(int streams, char *start, size_t stream_bytes, size_t pitch, long long repeats)

STREAMS = {"load": 1, "copy": 2, "triad": 3}
BLOCK_BYTES = 512
PAGE_BYTES = 4096


def touch(char[::1] buffer not None, int threads):
    """Write each thread's region of `buffer` from that thread."""
    cdef size_t region = _region_bytes(buffer, threads)
    cdef int thread, team = usable_threads(threads)
    for thread in prange(threads, nogil=True, num_threads=team, schedule="static", chunksize=1):
        memset(&buffer[0] + thread * region, 0, region)


def run(
    str operation not None, char[::1] buffer not None, size_t stream_bytes, int threads, long long repeats
):
    """Seconds that `threads` threads take to go `repeats` times, each through its own streams."""
    cdef int streams = STREAMS[operation]
    cdef size_t region = _region_bytes(buffer, threads)
    cdef size_t page = PAGE_BYTES
    cdef size_t pitch = (stream_bytes + page - 1) // page * page
    cdef int thread, team = usable_threads(threads)
    if stream_bytes % BLOCK_BYTES or streams * pitch > region:
        raise ValueError(
            f"{operation} over {stream_bytes} bytes a stream: needs a multiple of {BLOCK_BYTES}, "
            f"and {streams * pitch} of the {region} bytes that each thread has"
        )
    start = perf_counter()
    with nogil:
        for thread in prange(threads, num_threads=team, schedule="static", chunksize=1):
            go_through(streams, &buffer[0] + thread * region, stream_bytes, pitch, repeats)
    return perf_counter() - start


cdef size_t _region_bytes(char[::1] buffer, int threads) except 0:
    cdef size_t page = PAGE_BYTES
    cdef size_t region = <size_t>buffer.shape[0] // max(threads, 1) // page * page
    if threads < 1 or region == 0 or <size_t>&buffer[0] % page:
        raise ValueError(f"the buffer must begin on a page and hold at least {PAGE_BYTES} bytes a thread")
    return region
