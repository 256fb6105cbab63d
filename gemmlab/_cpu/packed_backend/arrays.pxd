"""Where arrays are in memory, and how their leading axes broadcast."""

cimport numpy as cnp

from gemmlab._cpu.packed_backend.loops cimport Batch, Product


cdef inline Py_ssize_t dim(cnp.ndarray x, int from_last) noexcept:
    """The extent of the last axis (1), or of the one before (2)."""
    return cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - from_last)


cdef inline Py_ssize_t step(cnp.ndarray x, int from_last) noexcept:
    return cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - from_last)


cdef inline void ends(cnp.ndarray x, char **low, char **high) noexcept:
    """The memory of an array, whichever way its strides lead."""
    cdef int axis
    cdef Py_ssize_t reach
    low[0] = <char *> cnp.PyArray_DATA(x)
    high[0] = low[0] + cnp.PyArray_ITEMSIZE(x)
    for axis in range(cnp.PyArray_NDIM(x)):
        reach = (cnp.PyArray_DIM(x, axis) - 1) * cnp.PyArray_STRIDE(x, axis)
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach


cdef inline bint apart_in_memory(cnp.ndarray x, cnp.ndarray y) noexcept:
    cdef char *x_low
    cdef char *x_high
    cdef char *y_low
    cdef char *y_high
    ends(x, &x_low, &x_high)
    ends(y, &y_low, &y_high)
    return x_high <= y_low or y_high <= x_low


cdef inline bint shares_nothing(cnp.ndarray x) noexcept:
    """Whether the strides of an array show that no two of its numbers overlap: each is beyond all that smaller ones
    reach. No extent is 0."""
    cdef int axis, other, axes = cnp.PyArray_NDIM(x)
    cdef Py_ssize_t reach, across
    for axis in range(axes):
        across = abs(cnp.PyArray_STRIDE(x, axis))
        if cnp.PyArray_DIM(x, axis) == 1:
            continue
        reach = cnp.PyArray_ITEMSIZE(x)
        for other in range(axes):
            if other != axis and abs(cnp.PyArray_STRIDE(x, other)) <= across:
                reach += (cnp.PyArray_DIM(x, other) - 1) * abs(cnp.PyArray_STRIDE(x, other))
        if across < reach:
            return False
    return True


cdef inline bint broadcast(cnp.ndarray a, cnp.ndarray b, int axes, cnp.npy_intp *shape, Batch *batch) noexcept:
    """The leading shape of a product and the steps of A and B in it; False where they do not agree, or are empty."""
    cdef int axis, to_a = axes + 2 - cnp.PyArray_NDIM(a), to_b = axes + 2 - cnp.PyArray_NDIM(b)
    cdef Py_ssize_t of_a, of_b
    batch.axes = axes
    for axis in range(axes):
        of_a = cnp.PyArray_DIM(a, axis - to_a) if axis >= to_a else 1
        of_b = cnp.PyArray_DIM(b, axis - to_b) if axis >= to_b else 1
        if (of_a != of_b and of_a != 1 and of_b != 1) or of_a == 0 or of_b == 0:
            return False
        shape[axis] = batch.shape[axis] = max(of_a, of_b)
        batch.a[axis] = cnp.PyArray_STRIDE(a, axis - to_a) if of_a > 1 else 0
        batch.b[axis] = cnp.PyArray_STRIDE(b, axis - to_b) if of_b > 1 else 0
    return True


cdef inline void join_rows(Product *x, Batch *batch) noexcept:
    """Products with one B for all become one product, where their rows lie as the rows of one A."""
    cdef int axis
    while batch.axes and batch.b[batch.axes - 1] == 0:
        axis = batch.axes - 1
        if x.m == 1:
            x.rs_a, x.rs_c = batch.a[axis], batch.c[axis]
        if batch.a[axis] != x.m * x.rs_a or batch.c[axis] != x.m * x.rs_c:
            break
        x.m *= batch.shape[axis]
        batch.axes -= 1
