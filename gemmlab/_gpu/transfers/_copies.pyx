# cython: language_level=3, freethreading_compatible=True
"""Copies between a host array and pinned buffers by several threads, without the GIL."""

cimport numpy as cnp
from libc.stdlib cimport calloc, free

cnp.import_array()

cdef extern from "copies.h" nogil:
    ctypedef struct piece:
        char *host
        Py_ssize_t row, column, rows, columns

    ctypedef struct transfer:
        const piece *pieces
        char **buffer
        Py_ssize_t count, buffers, itemsize
        int to_buffer
        Py_ssize_t next, allowed
        char *done

    void copy_pieces(transfer *t, int threads)
    int wait_until_done(const transfer *t, Py_ssize_t i)

cdef extern from *:
    """
    static inline void set_allowed(ptrdiff_t *allowed, ptrdiff_t count)
    {
        __atomic_store_n(allowed, count, __ATOMIC_RELEASE);
    }
    """
    void set_allowed(Py_ssize_t *allowed, Py_ssize_t count) nogil


cdef class Copies:
    """The copies of one transfer. Piece i, a matrix or vector, lies in buffer i modulo their number, row-major.

    One thread calls `run`, another one allows pieces and waits for them.
    """

    cdef transfer of
    cdef piece *pieces
    cdef char **places
    cdef object kept

    def __cinit__(self, pieces, buffers, bint to_buffer):
        cdef cnp.ndarray array
        cdef Py_ssize_t i
        self.kept = pieces, buffers
        self.pieces = <piece *>calloc(max(1, len(pieces)), sizeof(piece))
        self.places = <char **>calloc(len(buffers), sizeof(char *))
        self.of.done = <char *>calloc(max(1, len(pieces)), 1)
        if self.pieces == NULL or self.places == NULL or self.of.done == NULL:
            raise MemoryError
        for i in range(len(buffers)):
            array = buffers[i]
            self.places[i] = <char *>cnp.PyArray_DATA(array)
        for i in range(len(pieces)):
            array = pieces[i]
            if not 1 <= array.ndim <= 2:
                raise ValueError(f"a piece is a matrix or a vector, not an array with {array.ndim} axes")
            self.of.itemsize = array.itemsize
            self.pieces[i].host = <char *>cnp.PyArray_DATA(array)
            self.pieces[i].columns = array.shape[array.ndim - 1]
            self.pieces[i].column = array.strides[array.ndim - 1]
            self.pieces[i].rows = array.shape[0] if array.ndim == 2 else 1
            self.pieces[i].row = array.strides[0] if array.ndim == 2 else array.shape[0] * array.itemsize
        self.of.pieces, self.of.buffer = self.pieces, self.places
        self.of.count, self.of.buffers, self.of.to_buffer = len(pieces), len(buffers), to_buffer

    def __dealloc__(self):
        free(self.pieces)
        free(self.places)
        free(self.of.done)

    def run(self, int threads):
        """Copy the pieces, each as soon as it is allowed; returns when all are done, or after `stop`."""
        with nogil:
            copy_pieces(&self.of, threads)

    def allow(self, Py_ssize_t count):
        """The first `count` pieces may be copied."""
        set_allowed(&self.of.allowed, count)

    def stop(self):
        """Let `run` and `wait_for` return."""
        set_allowed(&self.of.allowed, -1)

    def wait_for(self, Py_ssize_t number):
        """Block until a piece has been copied, or until `stop`."""
        with nogil:
            wait_until_done(&self.of, number)
