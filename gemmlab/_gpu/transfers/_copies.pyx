# cython: language_level=3, freethreading_compatible=True
"""Copies of host arrays by several threads, without the GIL."""

cimport numpy as cnp

cnp.import_array()

cdef extern from "copies.h" nogil:
    void copy_rows(char *to, long to_row, const char *source, long from_row, long rows, long size, int threads)
    void copy_elements(char *to, long to_row, long to_column, const char *source, long from_row, long from_column,
                       long rows, long columns, int itemsize, int threads)


def copy(cnp.ndarray target not None, cnp.ndarray source not None, int threads):
    """Copy one matrix or vector to another of the same shape, of elements of 1, 4 or 8 bytes with any strides."""
    cdef int item = <int>cnp.PyArray_ITEMSIZE(source), last = source.ndim - 1
    if not 1 <= source.ndim <= 2 or source.ndim != target.ndim or item != cnp.PyArray_ITEMSIZE(target):
        raise ValueError("copy takes two matrices, or two vectors, with elements of the same size")
    cdef long columns = source.shape[last], rows = source.shape[0] if last else 1
    if target.shape[last] != columns or (target.shape[0] if last else 1) != rows:
        raise ValueError("copy takes two arrays of the same shape")
    cdef long to_row = target.strides[0] if last else columns * item
    cdef long from_row = source.strides[0] if last else columns * item
    cdef long to_column = target.strides[last], from_column = source.strides[last]
    cdef char *to = <char *>cnp.PyArray_DATA(target)
    cdef const char *from_ = <const char *>cnp.PyArray_DATA(source)
    if rows == 0 or columns == 0:
        return
    cdef bint by_rows = (to_column == item and from_column == item) or columns == 1 and item not in (4, 8)
    if not by_rows and item not in (4, 8):
        raise ValueError(f"single elements are of 4 or 8 bytes, not {item}")
    with nogil:
        if by_rows:
            copy_rows(to, to_row, from_, from_row, rows, columns * item, threads)
        else:
            copy_elements(to, to_row, to_column, from_, from_row, from_column, rows, columns, item, threads)
