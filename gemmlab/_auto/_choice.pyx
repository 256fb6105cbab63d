# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The classes of shape, and what "auto" decides about plain products in compiled code.

Every product is of one class, the first below that it fits. `docs/auto.md` has the same list in words, and the suite
`classes` (`measure/problems.py`) draws its shapes from all but `large`.
"""

cimport numpy as cnp

from gemmlab._cpu._driver cimport CompiledWay, is_columns, is_rows, product_of_numpy

import numpy

cnp.import_array()

cdef enum Class:
    STACK, SMALL, COLUMN_VECTOR, ROW_VECTOR, DEEP_K, FEW_ROWS, FEW_COLUMNS, SHORT_K, MIDDLE_SIZED, ONE_THIN_EXTENT
    LARGE

CLASSES = ("stack", "small", "column vector", "row vector", "deep k", "few rows", "few columns", "short k",
           "middle-sized", "one thin extent", "large")  # in the order of `Class`

cdef enum:
    TYPES = 24  # NumPy's own


cdef inline Class class_of(bint is_stack, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t longest = max(m, n, k)
    if is_stack:
        return STACK
    if longest <= 64:
        return SMALL
    if n == 1:
        return COLUMN_VECTOR
    if m == 1:
        return ROW_VECTOR
    if k // 32 >= max(m, n):
        return DEEP_K
    if m <= 16:
        return FEW_ROWS
    if n <= 16:
        return FEW_COLUMNS
    if k <= 48:
        return SHORT_K
    if longest <= 700:
        return MIDDLE_SIZED
    return ONE_THIN_EXTENT if min(m, n, k) <= 250 else LARGE


def shape_class(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, Py_ssize_t batch=1):
    """The class of a product's shape: one of CLASSES.

    Examples
    --------
    >>> shape_class(7, 4096, 4096)
    'few rows'
    """
    return CLASSES[<int> class_of(batch > 1, m, n, k)]


cdef class Choice(CompiledWay):
    """What "auto" does with plain products: NumPy's matmul, the general way, or the kernel of `cpu-packed`.

    Parameters
    ----------
    ours : CompiledWay
        That kernel.
    rows : iterable of (str, str, str)
        Products that are NumPy's: dtype, letters of the layouts of A, B and C ("C" or "F"; of C always "C"), class.
    extents : mapping of str to int
        For a dtype, the least extent of products that go the general way, since the profile has another backend for
        them.
    """

    cdef CompiledWay ours
    cdef unsigned int numpys[TYPES][4]  # by dtype and layouts, a bit for each class
    cdef Py_ssize_t extents[TYPES]  # 0: none

    def __init__(self, CompiledWay ours not None, rows, extents):
        self.ours = ours
        for dtype, layout, name in rows:
            for number in _type_numbers(dtype):
                self.numpys[<int> number][2 * (layout[0] == "F") + (layout[1] == "F")] |= 1u << CLASSES.index(name)
        for dtype, extent in extents.items():
            for number in _type_numbers(dtype):
                self.extents[<int> number] = extent

    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, int of_c,
                           bint accumulate, packed):
        """See `CompiledWay`."""
        cdef int type_num = cnp.PyArray_TYPE(a), na = cnp.PyArray_NDIM(a), nb = cnp.PyArray_NDIM(b)
        cdef Py_ssize_t m, n, k
        if of_c != type_num or accumulate or packed is not None:  # no row of the table is about these
            return (None if of_c < TYPES and self.extents[of_c]
                    else self.ours.plain(a, b, out, threads, of_c, accumulate, packed))
        if (na < 2 or nb < 2) and type_num < TYPES and (self.extents[type_num] or self.has_rows(type_num)):
            return None  # one of many shapes that the table may give to NumPy
        if type_num < TYPES and na >= 2 and nb >= 2:
            m, k, n = cnp.PyArray_DIM(a, na - 2), cnp.PyArray_DIM(a, na - 1), cnp.PyArray_DIM(b, nb - 1)
            if self.extents[type_num] and min(m, n, k) >= self.extents[type_num]:
                return None
            if (not threads and self.classes(a, b) >> <int> class_of(is_stack(a) or is_stack(b), m, n, k) & 1
                    and (out is None or fits(out, type_num, max(na, nb)))):
                return product_of_numpy(a, b, out)
        return self.ours.plain(a, b, out, threads, of_c, accumulate, packed)

    cdef inline bint has_rows(self, int type_num) noexcept:
        cdef const unsigned int *own = self.numpys[type_num]
        return own[0] | own[1] | own[2] | own[3]

    cdef inline unsigned int classes(self, cnp.ndarray a, cnp.ndarray b) noexcept:
        """The classes that are NumPy's, for operands of one dtype in these layouts."""
        cdef int type_num = cnp.PyArray_TYPE(a)
        cdef const unsigned int *own = self.numpys[type_num]
        cdef bint a_rows, b_rows
        if not self.has_rows(type_num) or cnp.PyArray_TYPE(b) != type_num:
            return 0
        a_rows, b_rows = is_rows(a), is_rows(b)
        if (not cnp.PyArray_ISBEHAVED_RO(a) or not cnp.PyArray_ISBEHAVED_RO(b)
                or not (a_rows or is_columns(a)) or not (b_rows or is_columns(b))):
            return 0
        return own[2 * (not a_rows) + (not b_rows)]


cdef inline bint is_stack(cnp.ndarray x) noexcept:
    cdef int axis
    for axis in range(cnp.PyArray_NDIM(x) - 2):
        if cnp.PyArray_DIM(x, axis) != 1:
            return True
    return False


cdef inline bint fits(cnp.ndarray out, int type_num, int ndim) noexcept:
    """Whether an `out` is row-major and of the product's dtype, as a row of the table has it."""
    return (cnp.PyArray_TYPE(out) == type_num and cnp.PyArray_NDIM(out) == ndim and cnp.PyArray_ISBEHAVED(out)
            and is_rows(out))


def _type_numbers(dtype):
    """NumPy's numbers of the types of this name; C has two names for some."""
    return [numpy.dtype(code).num for code in "?bBhHiIlLqQefdFD" if numpy.dtype(code).name == dtype]
