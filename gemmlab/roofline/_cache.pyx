# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Simulated caches, and the CPU rungs replayed on them: `cache.h` has the caches, `replay.h` runs loops as data.

cpu-packed records its loops; the caches take its accesses.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free

from cpython.exc cimport PyErr_CheckSignals

cdef extern from "replay.h" nogil:
    enum:
        LINE_BYTES
        NO_LINE
        DIRTY
    ctypedef struct Place:
        pass
    ctypedef struct Set:
        uint32_t newest, oldest
    ctypedef struct Level:
        uint32_t sets, ways
        Set *set
        Place *place
        int64_t brought_in, written_back
    ctypedef int64_t Count
    ctypedef struct Core:
        Level *first
        Level *memory
    ctypedef struct Matrix:
        Count start, pitch
    ctypedef struct Operands:
        Count m, n, k, size
        Matrix a, b, c
        Count copy_of_a, copy_of_b
    Count round_up(Count, Count)
    void one(const Core *, Count, uint32_t)
    void piece(const Core *, Count, Count, uint32_t)
    void write_back_all(Level *, const Level *, uint32_t)
    ctypedef struct Block:
        Count start, extent
    ctypedef struct Step:
        Count end, index, over, by, matrix
    void replay(const Core *, const Operands *, const Step *, Count, Count, Block *)

cdef enum:
    PAGE_BYTES = 4096
    MAX_LEVELS = 8
    MAX_INDICES = 64
    CHECKED_ACCESSES = 1 << 20  # between two looks for Ctrl-C


# Where recorded accesses go: memory from `origin` on is the caches' memory.
cdef struct Sink:
    Core core
    size_t origin
    Count nbytes, accesses
    bint outside


cdef class Caches:
    """Caches, empty at first, over so many bytes of memory.

    Parameters
    ----------
    levels : sequence of (int, int)
        Sets and ways of each level, the core's nearest first.
    nbytes : int
        Memory behind them; addresses run from 0.

    Attributes
    ----------
    moved : list of (int, int)
        For each level, lines that were brought in from the next, and lines that were written back to it.
    """

    cdef Level levels[MAX_LEVELS]
    cdef Sink sink
    cdef Count lines

    def __cinit__(self, levels, Py_ssize_t nbytes):
        cdef Level *x = self.levels
        cdef uint32_t i
        self.sink.core.first = self.sink.core.memory = self.levels
        self.lines = max(1, (nbytes + LINE_BYTES - 1) // LINE_BYTES)
        if not 1 <= len(levels) <= MAX_LEVELS:
            raise ValueError(f"caches have 1 to {MAX_LEVELS} levels, not {len(levels)}")
        if self.lines >= <Count> NO_LINE:
            raise ValueError(f"{nbytes} bytes are too many to simulate")
        for sets, ways in levels:
            if sets < 1 or ways < 1:
                raise ValueError(f"a cache has at least one set and one way, not {sets} and {ways}")
            x.sets, x.ways = sets, ways
            x.set = <Set *> calloc(x.sets, sizeof(Set))
            x.place = <Place *> calloc(self.lines, sizeof(Place))
            self.sink.core.memory += 1
            if x.set == NULL or x.place == NULL:
                raise MemoryError(f"no memory to simulate {self.lines} lines")
            for i in range(x.sets):
                x.set[i].newest = x.set[i].oldest = NO_LINE
            x += 1

    def __dealloc__(self):
        cdef Level *x
        for x in self.sink.core.first[:self.sink.core.memory - self.sink.core.first]:
            free(x.set)
            free(x.place)

    @property
    def moved(self):
        levels = range(self.sink.core.memory - self.sink.core.first)
        return [(self.levels[i].brought_in, self.levels[i].written_back) for i in levels]

    def touch(self, Py_ssize_t address, bint write=False):
        """One access of the core."""
        if not 0 <= address < self.lines * LINE_BYTES:
            raise ValueError(f"no memory at {address}")
        one(&self.sink.core, address, DIRTY if write else 0)

    def finish(self):
        """Write back what was written and is not in memory yet."""
        with nogil:
            write_back_all(self.sink.core.first, self.sink.core.memory, <uint32_t> self.lines)

    cdef Operands operands(self, Count m, Count n, Count k, Count size, Count of_a, Count of_b, Count pad) except *:
        """A, B and C, each on separate pages, rows with `pad` numbers behind them, and after them copies of so many
        numbers of A and B."""
        cdef Operands x
        x.m, x.n, x.k, x.size = m, n, k, size
        x.a.pitch, x.b.pitch, x.c.pitch = (k + pad) * size, (n + pad) * size, (n + pad) * size
        x.a.start = 0
        x.b.start = round_up(m * x.a.pitch, PAGE_BYTES)
        x.c.start = x.b.start + round_up(k * x.b.pitch, PAGE_BYTES)
        x.copy_of_a = x.c.start + round_up(m * x.c.pitch, PAGE_BYTES)
        x.copy_of_b = x.copy_of_a + round_up(of_a * size, PAGE_BYTES)
        if x.copy_of_b + round_up(of_b * size, PAGE_BYTES) > self.lines * LINE_BYTES:
            raise ValueError(f"operands and buffers do not fit {self.lines * LINE_BYTES} bytes of memory")
        return x

    def replay(self, Count m, Count n, Count k, Count size, const int64_t[:, ::1] steps, copies=(0, 0), Count pad=0):
        """Replay loops, a row each as in the struct Step, for numbers of `size` bytes. `copies`: how many numbers those
        of a block of A and of one of B have; `pad`: how many follow each row of a matrix."""
        cdef Operands x = self.operands(m, n, k, size, copies[0], copies[1], pad)
        cdef Block blocks[MAX_INDICES]
        if steps.shape[1] * sizeof(int64_t) != sizeof(Step) or steps.shape[0] > MAX_INDICES - 3:
            raise ValueError(f"{steps.shape[0]} steps of {steps.shape[1]} numbers are no loops")
        blocks[0].start = blocks[1].start = blocks[2].start = 0
        blocks[0].extent, blocks[1].extent, blocks[2].extent = m, n, k
        self.run(&x, <const Step *> &steps[0, 0], 0, steps.shape[0], blocks, 0)

    cdef int run(self, Operands *x, const Step *steps, Count start, Count end, Block *blocks, int depth) except -1:
        """The outermost two loops, with a look for Ctrl-C at each iteration."""
        cdef const Step *s
        cdef Block over
        cdef Count done
        while start < end:
            s = steps + start
            if s.matrix >= 0 or depth == 2:
                PyErr_CheckSignals()
                with nogil:
                    replay(&self.sink.core, x, steps, start, s.end, blocks)
            else:
                over, done = blocks[s.over], 0
                while done < over.extent:
                    blocks[s.index].start = over.start + done
                    blocks[s.index].extent = min(s.by, over.extent - done)
                    self.run(x, steps, start + 1, s.end, blocks, depth + 1)
                    done += s.by
            start = s.end
        return 0

    def take(self, record, size_t origin):
        """Take the accesses of a recorded product, with memory that begins at the address `origin`.

        `record` is called with the addresses of a function and of its context, as in `PackedKernel.record`.
        """
        self.sink.origin, self.sink.nbytes, self.sink.accesses = origin, self.lines * LINE_BYTES, 0
        self.sink.outside = False
        record(<size_t> &take_access, <size_t> &self.sink)
        PyErr_CheckSignals()
        if self.sink.outside:
            raise ValueError(f"operands and buffers do not fit {self.sink.nbytes} bytes of memory")


cdef int take_access(void *context, const void *address, Py_ssize_t nbytes, int write) noexcept nogil:
    """One recorded access; 1 where no more are wanted."""
    cdef Sink *sink = <Sink *> context
    cdef Count start = <Count> (<size_t> address - sink.origin)
    if start < 0 or start + nbytes > sink.nbytes:
        sink.outside = True
        return 1
    piece(&sink.core, start, nbytes, DIRTY if write else 0)
    sink.accesses += 1
    if sink.accesses % CHECKED_ACCESSES == 0:
        with gil:
            return interrupted()
    return 0


cdef int interrupted() noexcept:
    """Whether a signal's handler raised; `take` raises what it left."""
    return PyErr_CheckSignals() < 0
