# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Posting lists in compiled loops, shared among threads; `loops/collection.h` has the methods."""

cimport numpy as cnp
from cython.parallel cimport prange, threadid
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from gemmlab._cpu._driver cimport usable_threads

cnp.import_array()

cdef extern from "collection.h" nogil:
    const int BLOCK
    const int IN_BUCKET
    ctypedef enum method "enum method":
        AUTOMATIC
    ctypedef struct collection:
        const uint32_t *buffer
        const int64_t *starts
        const int64_t *lengths
        const uint32_t *ends
        const uint32_t *bounds
        const int64_t *first
        const uint8_t *shifts
        const uint64_t *summaries
        const uint32_t *ranks
        const uint64_t *words
        size_t summary_words
    ctypedef struct worker:
        uint32_t *found
        uint32_t *between
        size_t used
        void *lists
    int64_t run_query(const collection *x, method how, const int64_t *terms, size_t count, worker *w)
    void build_ends(const uint32_t *list, size_t length, uint32_t *ends)
    void build_bounds(const uint32_t *list, size_t length, int shift, size_t buckets, uint32_t *bounds)
    size_t count_words(const uint32_t *list, size_t length)
    void build_bitmap(const uint32_t *list, size_t length, size_t summary_words, uint64_t *summary, uint32_t *ranks,
                      uint64_t *words)

cdef extern from "bits.h" nogil:
    const int TILE
    const int STEP
    int best_counting()
    void panel_of(int counting, const uint64_t *rows, size_t words, size_t first, size_t last, size_t lists,
                  int64_t *counts)
    size_t set_row(const uint32_t *list, size_t length, size_t at, uint64_t begin, uint64_t end, uint64_t *row)
    int64_t tiles_again(int counting, const uint64_t *rows, size_t words, size_t times)

COUNTINGS = ("words", "adders", "vpopcnt")  # in the order of `enum counting`
METHODS = ("auto", "merge", "svs", "adp", "skip", "bucket", "bitmap")  # in the order of `enum method`


def walk(const uint32_t[::1] buffer):
    """The starts and lengths of lists that are stored as [length, numbers...], one after the other.

    If the last one is cut off, the third value is where its length stands, else -1.
    """
    cdef Py_ssize_t at = 0, count = 0, size = buffer.shape[0], t
    while at < size:
        at += 1 + <Py_ssize_t>buffer[at]
        count += 1
    starts, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    cdef int64_t[::1] starts_ = starts, lengths_ = lengths
    at = 0
    for t in range(count):
        starts_[t], lengths_[t] = at + 1, buffer[at]
        at += 1 + lengths_[t]
    return starts, lengths, (starts_[count - 1] - 1 if at > size else -1)


def first_out_of_order(const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths, int threads):
    """Where in the buffer a number stands that is not more than the one before it in its list; -1 if none does."""
    cdef Py_ssize_t t, i, count = starts.shape[0]
    cdef int wrong
    cdef const uint32_t *list
    cdef int team = usable_threads(threads)
    bad = np.zeros(count, np.uint8)
    cdef uint8_t[::1] bad_ = bad
    for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
        list = &buffer[0] + starts[t]
        wrong = 0
        for i in range(1, lengths[t]):
            wrong = wrong | (list[i] <= list[i - 1])
        bad_[t] = <uint8_t>wrong
    for t in np.flatnonzero(bad):
        for i in range(1, lengths[t]):
            if buffer[starts[t] + i] <= buffer[starts[t] + i - 1]:
                return starts[t] + i
    return -1


def skips(const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths, int threads):
    """What the method "skip" needs: the last numbers of blocks, and where those of each list begin."""
    first = _begins(np.asarray(lengths) // BLOCK)
    ends = np.empty(first[len(first) - 1], np.uint32)
    cdef int64_t[::1] first_ = first
    cdef uint32_t *ends_ = <uint32_t *>cnp.PyArray_DATA(ends)
    cdef Py_ssize_t t
    cdef int team = usable_threads(threads)
    for t in prange(starts.shape[0], nogil=True, num_threads=team, schedule="dynamic"):
        build_ends(&buffer[0] + starts[t], lengths[t], ends_ + first_[t])
    return ends, first


def buckets(const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths, int64_t documents,
            int threads):
    """What the method "bucket" needs: where each bucket begins, where those of each list begin, and the lists' shifts.

    A list's buckets are as wide as a power of two, so that they have about IN_BUCKET numbers each.
    """
    counts = np.asarray(lengths)
    shifts = np.floor(np.log2(np.clip(IN_BUCKET * documents / np.maximum(counts, 1), 1, 2**31))).astype(np.uint8)
    widths = ((documents - 1) >> shifts.astype(np.int64)) + 1
    first = _begins(widths + 1)
    bounds = np.empty(first[len(first) - 1], np.uint32)
    cdef int64_t[::1] first_ = first
    cdef uint8_t[::1] shifts_ = shifts
    cdef uint32_t *bounds_ = <uint32_t *>cnp.PyArray_DATA(bounds)
    cdef Py_ssize_t t
    cdef int team = usable_threads(threads)
    for t in prange(starts.shape[0], nogil=True, num_threads=team, schedule="dynamic"):
        build_bounds(&buffer[0] + starts[t], lengths[t], shifts_[t], first_[t + 1] - first_[t] - 1, bounds_ + first_[t])
    return bounds, first, shifts


def bitmaps(const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths, int64_t documents,
            int threads):
    """What the method "bitmap" needs: words, where those of each list begin, summaries, and ranks."""
    cdef Py_ssize_t t, count = starts.shape[0]
    cdef size_t summary_words = (documents + 4095) // 4096
    cdef int team = usable_threads(threads)
    counts = np.empty(count, np.int64)
    cdef int64_t[::1] counts_ = counts
    for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
        counts_[t] = count_words(&buffer[0] + starts[t], lengths[t])
    first = _begins(counts)
    words = np.empty(first[len(first) - 1], np.uint64)
    summaries, ranks = (np.empty((count, summary_words), dtype) for dtype in (np.uint64, np.uint32))
    cdef int64_t[::1] first_ = first
    cdef uint64_t *words_ = <uint64_t *>cnp.PyArray_DATA(words)
    cdef uint64_t *summaries_ = <uint64_t *>cnp.PyArray_DATA(summaries)
    cdef uint32_t *ranks_ = <uint32_t *>cnp.PyArray_DATA(ranks)
    for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
        build_bitmap(&buffer[0] + starts[t], lengths[t], summary_words, summaries_ + t * summary_words,
                     ranks_ + t * summary_words, words_ + first_[t])
    return words, first, summaries, ranks


def _begins(counts):
    """Where parts of these sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


cdef const void *_data(array):
    return NULL if array is None else cnp.PyArray_DATA(array)


def intersect(
    str how not None, const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths,
    const int64_t[::1] terms, const int64_t[::1] first, dict structure not None, int threads,
):
    """The numbers that the lists of each query share, as arrays.

    Query q has the lists terms[first[q]:first[q + 1]], at least one, the shortest first.
    """
    cdef Py_ssize_t q, n, count = first.shape[0] - 1
    cdef int team = usable_threads(threads), me
    cdef method chosen = <method><int>METHODS.index(how)
    cdef collection x
    cdef cnp.npy_intp size
    cdef cnp.ndarray one
    cdef int64_t[::1] counts = np.empty(count, np.int64), begins = np.empty(count, np.int64)
    cdef int[::1] owners = np.empty(count, np.intc)
    x.buffer, x.starts, x.lengths = &buffer[0] if buffer.shape[0] else NULL, &starts[0], &lengths[0]
    x.ends, x.bounds = <const uint32_t *>_data(structure.get("ends")), <const uint32_t *>_data(structure.get("bounds"))
    x.first, x.shifts = <const int64_t *>_data(structure.get("first")), <const uint8_t *>_data(structure.get("shifts"))
    x.summaries = <const uint64_t *>_data(structure.get("summaries"))
    x.ranks, x.words = <const uint32_t *>_data(structure.get("ranks")), <const uint64_t *>_data(structure.get("words"))
    x.summary_words = structure["summaries"].shape[1] if "summaries" in structure else 0
    cdef worker *workers = <worker *>calloc(team, sizeof(worker))
    if workers == NULL:
        raise MemoryError()
    try:
        for q in prange(count, nogil=True, num_threads=team, schedule="dynamic", chunksize=2):
            me = threadid()
            begins[q] = workers[me].used
            owners[q] = me
            counts[q] = run_query(&x, chosen, &terms[first[q]], first[q + 1] - first[q], &workers[me])
        found = []
        for q in range(count):
            if counts[q] < 0:
                raise MemoryError("no memory for the numbers that the queries' lists share")
            size = counts[q]
            one = cnp.PyArray_SimpleNew(1, &size, cnp.NPY_UINT32)
            memcpy(cnp.PyArray_DATA(one), workers[owners[q]].found + begins[q], size * sizeof(uint32_t))
            found.append(one)
        return found
    finally:
        for n in range(team):
            free(workers[n].found)
            free(workers[n].between)
            free(workers[n].lists)
        free(workers)


def countings():
    """The ways to count shared bits that this build and this CPU have, the fastest last."""
    return COUNTINGS[:best_counting() + 1]


def count_pairs(
    const uint32_t[::1] buffer, const int64_t[::1] starts, const int64_t[::1] lengths, int64_t documents,
    int64_t[:, ::1] counts, str counting not None, Py_ssize_t words, Py_ssize_t panel, int threads,
):
    """Add the numbers that lists i and j share to counts[i, j], for j >= i.

    Blocks of `words` words of all lists' bits are made, and multiplied by themselves, in panels of so many rows.
    """
    cdef Py_ssize_t t, p, lists = starts.shape[0], rows = (lists + TILE - 1) // TILE * TILE
    cdef Py_ssize_t panels = (rows + panel - 1) // panel, last
    cdef int64_t begin, width = 64 * words
    cdef int way = COUNTINGS.index(counting), team = usable_threads(threads)
    if words % STEP or panel % TILE:
        raise ValueError(f"words are a multiple of {STEP}, rows of a panel of {TILE}")
    space = np.zeros(rows * words + 8, np.uint64)
    cdef uint64_t *bits = <uint64_t *>cnp.PyArray_DATA(space)
    bits += (-(<size_t>bits // 8)) % 8  # a cache line begins there
    cdef int64_t[::1] at = np.zeros(lists, np.int64)
    for begin in range(0, documents, width):
        for t in prange(lists, nogil=True, num_threads=team, schedule="dynamic", chunksize=16):
            at[t] = set_row(&buffer[0] + starts[t], lengths[t], at[t], begin, begin + width, bits + t * words)
        for p in prange(panels, nogil=True, num_threads=team, schedule="dynamic"):
            last = panels - p  # the longest first
            panel_of(way, bits, words, (last - 1) * panel, min(last * panel, rows), lists, &counts[0, 0])


def count_again(str counting not None, const uint64_t[::1] rows, Py_ssize_t words, Py_ssize_t times):
    """Count the shared bits of two tiles of rows so many times: the instructions alone."""
    return tiles_again(COUNTINGS.index(counting), &rows[0], words, times)
