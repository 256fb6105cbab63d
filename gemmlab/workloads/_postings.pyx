# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Posting lists in compiled loops, shared among threads; `loops/collection.h` has the methods."""

cimport numpy as cnp
from cython.parallel cimport prange, threadid
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from gemmlab._cpu.threads._threads cimport usable_threads

from gemmlab._cpu import isa

cnp.import_array()

cdef extern from "tables.h" nogil:
    const int BLOCK
    const int IN_BUCKET
    const int TILE
    const int STEP
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
    ctypedef struct postings_loops:
        int64_t (*run_query)(const collection *, method, const int64_t *, size_t, worker *) noexcept nogil
        size_t (*out_of_order)(const uint32_t *, size_t) noexcept nogil
        void (*build_ends)(const uint32_t *, size_t, uint32_t *) noexcept nogil
        void (*build_bounds)(const uint32_t *, size_t, int, size_t, uint32_t *) noexcept nogil
        size_t (*count_words)(const uint32_t *, size_t) noexcept nogil
        void (*build_bitmap)(const uint32_t *, size_t, size_t, uint64_t *, uint32_t *, uint64_t *) noexcept nogil
        int (*best_counting)() noexcept nogil
        void (*panel_of)(int, const uint64_t *, size_t, size_t, size_t, size_t, int64_t *) noexcept nogil
        size_t (*set_row)(const uint32_t *, size_t, size_t, uint64_t, uint64_t, uint64_t *) noexcept nogil
        int64_t (*tiles_again)(int, const uint64_t *, size_t, size_t) noexcept nogil

COUNTINGS = ("words", "adders", "vpopcnt")  # in the order of `enum counting`
METHODS = ("auto", "merge", "svs", "adp", "skip", "bucket", "bitmap")  # in the order of `enum method`


def walk(cnp.ndarray[uint32_t, mode="c"] buffer):
    """The starts and lengths of lists that are stored as [length, numbers...], one after the other.

    If the last is cut off, the third value is where its length stands, else -1.
    """
    cdef Py_ssize_t at = 0, count = 0, size = buffer.shape[0], t
    while at < size:
        at += 1 + <Py_ssize_t>buffer[at]
        count += 1
    starts, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    cdef int64_t *starts_ = <int64_t *> cnp.PyArray_DATA(starts)
    cdef int64_t *lengths_ = <int64_t *> cnp.PyArray_DATA(lengths)
    at = 0
    for t in range(count):
        starts_[t], lengths_[t] = at + 1, buffer[at]
        at += 1 + lengths_[t]
    return starts, lengths, (starts_[count - 1] - 1 if at > size else -1)


def _begins(counts):
    """Where parts of these sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


cdef const void *_data(array):
    return NULL if array is None else cnp.PyArray_DATA(array)


cdef class Loops:
    """The loops of one instruction set, by default the one in force."""

    cdef const postings_loops *loops

    def __init__(self, str isa_name=None):
        self.loops = <const postings_loops *> <size_t> isa.table("gemmlab.workloads.loops", "postings", isa_name)

    def first_out_of_order(self, cnp.ndarray[uint32_t, mode="c"] buffer, cnp.ndarray[int64_t, mode="c"] starts,
                           cnp.ndarray[int64_t, mode="c"] lengths, int threads):
        """Where in the buffer a number stands that is not more than the one before it in its list; -1 if none does."""
        cdef Py_ssize_t t, count = starts.shape[0]
        cdef int team = usable_threads(threads)
        cdef cnp.ndarray[int64_t, mode="c"] at = np.zeros(count, np.int64)
        for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
            at[t] = self.loops.out_of_order(&buffer[0] + starts[t], lengths[t])
        wrong = np.flatnonzero(at)
        return starts[wrong[0]] + at[wrong[0]] if wrong.size else -1

    def skips(self, cnp.ndarray[uint32_t, mode="c"] buffer,
              cnp.ndarray[int64_t, mode="c"] starts, cnp.ndarray[int64_t, mode="c"] lengths, int threads):
        """What the method "skip" needs: the last numbers of blocks, and where those of each list begin."""
        first = _begins(lengths // BLOCK)
        ends = np.empty(first[len(first) - 1], np.uint32)
        cdef int64_t *first_ = <int64_t *> cnp.PyArray_DATA(first)
        cdef uint32_t *ends_ = <uint32_t *>cnp.PyArray_DATA(ends)
        cdef Py_ssize_t t
        cdef int team = usable_threads(threads)
        for t in prange(starts.shape[0], nogil=True, num_threads=team, schedule="dynamic"):
            self.loops.build_ends(&buffer[0] + starts[t], lengths[t], ends_ + first_[t])
        return {"ends": ends, "first": first}

    def buckets(self, cnp.ndarray[uint32_t, mode="c"] buffer,
                cnp.ndarray[int64_t, mode="c"] starts, cnp.ndarray[int64_t, mode="c"] lengths,
                int64_t documents, int threads):
        """What the method "bucket" needs: where each bucket begins, where those of each list begin, the lists' shifts.

        A list's buckets are as wide as a power of two, so that they have about IN_BUCKET numbers each.
        """
        shifts = np.floor(np.log2(np.clip(IN_BUCKET * documents / np.maximum(lengths, 1), 1, 2**31))).astype(np.uint8)
        widths = ((documents - 1) >> shifts.astype(np.int64)) + 1
        first = _begins(widths + 1)
        bounds = np.empty(first[len(first) - 1], np.uint32)
        cdef int64_t *first_ = <int64_t *> cnp.PyArray_DATA(first)
        cdef uint8_t *shifts_ = <uint8_t *> cnp.PyArray_DATA(shifts)
        cdef uint32_t *bounds_ = <uint32_t *>cnp.PyArray_DATA(bounds)
        cdef Py_ssize_t t
        cdef int team = usable_threads(threads)
        for t in prange(starts.shape[0], nogil=True, num_threads=team, schedule="dynamic"):
            self.loops.build_bounds(
                &buffer[0] + starts[t], lengths[t], shifts_[t], first_[t + 1] - first_[t] - 1, bounds_ + first_[t])
        return {"bounds": bounds, "first": first, "shifts": shifts}

    def bitmaps(self, cnp.ndarray[uint32_t, mode="c"] buffer,
                cnp.ndarray[int64_t, mode="c"] starts, cnp.ndarray[int64_t, mode="c"] lengths,
                int64_t documents, int threads):
        """What the method "bitmap" needs: words, where those of each list begin, summaries, and ranks."""
        cdef Py_ssize_t t, count = starts.shape[0]
        cdef size_t summary_words = (documents + 4095) // 4096
        cdef int team = usable_threads(threads)
        counts = np.empty(count, np.int64)
        cdef int64_t *counts_ = <int64_t *> cnp.PyArray_DATA(counts)
        for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
            counts_[t] = self.loops.count_words(&buffer[0] + starts[t], lengths[t])
        first = _begins(counts)
        words = np.empty(first[len(first) - 1], np.uint64)
        summaries, ranks = (np.empty((count, summary_words), dtype) for dtype in (np.uint64, np.uint32))
        cdef int64_t *first_ = <int64_t *> cnp.PyArray_DATA(first)
        cdef uint64_t *words_ = <uint64_t *>cnp.PyArray_DATA(words)
        cdef uint64_t *summaries_ = <uint64_t *>cnp.PyArray_DATA(summaries)
        cdef uint32_t *ranks_ = <uint32_t *>cnp.PyArray_DATA(ranks)
        for t in prange(count, nogil=True, num_threads=team, schedule="dynamic"):
            self.loops.build_bitmap(
                &buffer[0] + starts[t], lengths[t], summary_words, summaries_ + t * summary_words,
                ranks_ + t * summary_words, words_ + first_[t])
        return {"words": words, "first": first, "summaries": summaries, "ranks": ranks}

    def intersect(self, str how not None, cnp.ndarray[uint32_t, mode="c"] buffer,
                  cnp.ndarray[int64_t, mode="c"] starts, cnp.ndarray[int64_t, mode="c"] lengths,
                  cnp.ndarray[int64_t, mode="c"] terms,
                  cnp.ndarray[int64_t, mode="c"] first, dict structure not None, int threads):
        """The numbers that the lists of each query share, as arrays.

        Query q has the lists terms[first[q]:first[q + 1]], at least one, the shortest first.
        """
        cdef Py_ssize_t q, n, count = first.shape[0] - 1
        cdef int team = usable_threads(threads), me
        cdef method chosen = <method><int>METHODS.index(how)
        cdef collection x
        cdef cnp.npy_intp size
        cdef cnp.ndarray one
        cdef cnp.ndarray[int64_t, mode="c"] counts = np.empty(count, np.int64), begins = np.empty(count, np.int64)
        cdef cnp.ndarray[int, mode="c"] owners = np.empty(count, np.intc)
        x.buffer, x.starts, x.lengths = &buffer[0] if buffer.shape[0] else NULL, &starts[0], &lengths[0]
        x.ends = <const uint32_t *>_data(structure.get("ends"))
        x.bounds = <const uint32_t *>_data(structure.get("bounds"))
        x.first = <const int64_t *>_data(structure.get("first"))
        x.shifts = <const uint8_t *>_data(structure.get("shifts"))
        x.summaries = <const uint64_t *>_data(structure.get("summaries"))
        x.ranks = <const uint32_t *>_data(structure.get("ranks"))
        x.words = <const uint64_t *>_data(structure.get("words"))
        x.summary_words = structure["summaries"].shape[1] if "summaries" in structure else 0
        cdef worker *workers = <worker *>calloc(team, sizeof(worker))
        if workers == NULL:
            raise MemoryError()
        try:
            for q in prange(count, nogil=True, num_threads=team, schedule="dynamic", chunksize=2):
                me = threadid()
                begins[q] = workers[me].used
                owners[q] = me
                counts[q] = self.loops.run_query(&x, chosen, &terms[first[q]], first[q + 1] - first[q], &workers[me])
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

    def countings(self):
        """The ways to count shared bits that this build and this CPU have, the fastest last."""
        return COUNTINGS[:self.loops.best_counting() + 1]

    def count_pairs(self, cnp.ndarray[uint32_t, mode="c"] buffer,
                    cnp.ndarray[int64_t, mode="c"] starts, cnp.ndarray[int64_t, mode="c"] lengths,
                    int64_t documents,
                    cnp.ndarray[int64_t, ndim=2, mode="c"] counts, str counting not None, Py_ssize_t words,
                    Py_ssize_t panel, int threads):
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
        cdef cnp.ndarray[int64_t, mode="c"] at = np.zeros(lists, np.int64)
        for begin in range(0, documents, width):
            for t in prange(lists, nogil=True, num_threads=team, schedule="dynamic", chunksize=16):
                at[t] = self.loops.set_row(
                    &buffer[0] + starts[t], lengths[t], at[t], begin, begin + width, bits + t * words)
            for p in prange(panels, nogil=True, num_threads=team, schedule="dynamic"):
                last = panels - p  # the longest first
                self.loops.panel_of(way, bits, words, (last - 1) * panel, min(last * panel, rows), lists, &counts[0, 0])

    def count_again(self, str counting not None, cnp.ndarray[uint64_t, mode="c"] rows, Py_ssize_t words,
                    Py_ssize_t times):
        """Count the shared bits of two tiles of rows so many times: the instructions alone."""
        return self.loops.tiles_again(COUNTINGS.index(counting), &rows[0], words, times)
