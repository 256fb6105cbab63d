# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Calls cpu-packed on NumPy arrays: any strides, stacks, every dtype of its table."""

cimport numpy as cnp

from gemmlab._cpu._driver cimport CompiledWay, is_columns, is_rows, threads_for, usable_threads

import numpy

cnp.import_array()

cdef extern from "packed/product.h" nogil:
    enum:
        DOT_KC
    ctypedef void (*Pack)(void *, const char *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    ctypedef void (*Narrow)(char *, Py_ssize_t, Py_ssize_t, const char *, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    ctypedef struct Product:
        Py_ssize_t m, n, k
        const char *a
        Py_ssize_t ai, ap
        const char *b
        Py_ssize_t bp, bj
        char *c
        Py_ssize_t ci, cj
        int threads
        Py_ssize_t mc, kc, nc
        Py_ssize_t most_of_b
        Pack pack_a
        Pack pack_b
        Narrow narrow
        bint as_stored
        const char *packed
        Py_ssize_t packed_n, packed_j
        char *buffer
    ctypedef Py_ssize_t (*Workspace)(const Product *)
    ctypedef void (*Multiply)(const Product *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    ctypedef Py_ssize_t (*PackWhole)(const Product *, char *)
    ctypedef const char *(*Path)(const Product *)
    ctypedef struct Row:
        const char *dtype
        const char *out
        int mc
        int kc
        int group
        int bytes
        bint as_stored
        bint dots
        Pack pack_a
        Pack pack_b
        Narrow narrow
        Multiply multiply
        Workspace workspace
        PackWhole pack_whole
        Path path

cdef extern from "packed/clocked.h" nogil:
    void clock_packing(Product *)
    double packing_seconds()

cdef extern from "packed/stack.h" nogil:
    enum:
        MOST_AXES
    ctypedef struct Stack:
        int axes
        Py_ssize_t *shape
        Py_ssize_t *a
        Py_ssize_t *b
        Py_ssize_t *c
    Py_ssize_t products_in(const Stack *)
    Py_ssize_t workspace_of_stack(const Product *, const Stack *, Workspace)
    void multiply_stack(const Product *, const Stack *, Multiply, Workspace)

cdef extern from "packed/buffers.h" nogil:
    ctypedef struct Buffer:
        char *memory
    Buffer *new_buffer(size_t)
    Buffer *take_buffer(size_t)
    void give_buffer(Buffer *)
    void drop_buffer(Buffer *)
    size_t drop_buffers()

cdef enum:
    TYPES = 25
    BFLOAT16 = 24  # the place after NumPy's own types; its number is another in each process
    LEAST_FLOP = 2000  # what a product of a stack costs at least, in multiply-adds that it might have been

least_flop = LEAST_FLOP

# NumPy's numbers of types, by name.
cdef dict PLACES = {"bfloat16": [BFLOAT16]}
for code in "?bBhHiIlLqQefdFD":
    PLACES.setdefault(numpy.dtype(code).name, []).append(numpy.dtype(code).num)

cdef struct Way:
    const Row *row
    Py_ssize_t mc, kc, nc
    double team_flop  # what a team costs: see _driver.pyx
    Py_ssize_t extent   # products of which no extent is less go the general way; 0: none


def _places(row_dtype, row_out):
    """Where a row of the table belongs: the numbers of its types, signed and unsigned where that is one."""
    outs = [row_out, "u" + row_out] if row_out.startswith("int") else [row_out]
    pairs = [(out if row_dtype == row_out else row_dtype, out) for out in outs]
    return [(narrow, wide) for dtype, out in pairs for narrow in PLACES[dtype] for wide in PLACES[out]]


def rows_of(size_t table):
    """What a table multiplies: for each pair of dtypes of operands and sums, bytes of a number in panels, mc and kc."""
    cdef const Row *row = <const Row *> table
    rows = {}
    while row.dtype != NULL:
        rows[row.dtype.decode(), row.out.decode()] = row.bytes, row.mc, row.kc
        row += 1
    return rows


def free_buffers():
    """Give back the memory that `cpu-packed` keeps between products for its panels.

    Returns
    -------
    int
        Its bytes: a few MiB for each thread that multiplies at the same time.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.free_buffers() >= 0
    True
    """
    return drop_buffers()


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


cdef inline Py_ssize_t even(Py_ssize_t k, Py_ssize_t kc, Py_ssize_t group) noexcept nogil:
    """A block of k: as many as kc makes, all but equal, in whole groups. A function of k, so that A's rows change no
    bit."""
    cdef Py_ssize_t blocks = max(1, (k + kc - 1) // kc)
    return max(1, ((k + blocks - 1) // blocks + group - 1) // group) * group


cdef class PackedOperand:
    """A matrix B in panels, made once by `gemmlab.pack` for many products `gemmlab.matmul(a, packed)`.

    Attributes
    ----------
    shape : tuple of int
        (k, n).
    dtype : dtype
        Of the matrix; `a` must be of it too, or be cast to it without loss.
    nbytes : int
        Bytes of the panels.
    """

    cdef readonly tuple shape
    cdef readonly object dtype
    cdef readonly Py_ssize_t nbytes
    cdef Buffer *buffer
    cdef Py_ssize_t kc

    def __dealloc__(self):
        drop_buffer(self.buffer)

    def __repr__(self):
        return f"<gemmlab.pack of a {self.dtype} matrix of shape {self.shape}>"


cdef class PackedKernel(CompiledWay):
    """The tables of the instruction sets in force, with block sizes for each of their rows.

    Parameters
    ----------
    tables : sequence of int
        Their addresses; what a later one multiplies goes before an earlier one's.
    blocks : mapping of (str, str) to (mc, kc, nc, team_flop)
        For each pair of dtypes, of operands and of sums, as in `rows_of`.
    extents : mapping of str to int, optional
        For a dtype, the least extent of products that are not plain, since they may be another backend's.
    """

    cdef Way ways[TYPES][TYPES]  # by the dtypes of A and B, and of C

    def __init__(self, tables, blocks, extents=None):
        cdef const Row *row
        cdef Way *way
        cdef int of_a, of_c
        for table in tables:
            row = <const Row *> <size_t> table
            while row.dtype != NULL:
                names = row.dtype.decode(), row.out.decode()
                for of_a, of_c in _places(*names):
                    way = &self.ways[of_a][of_c]
                    way.row = row
                    way.mc, way.kc, way.nc, way.team_flop = blocks[names]
                    way.extent = (extents or {}).get(names[1], 0)
                row += 1

    cdef inline int place(self, cnp.ndarray x) noexcept:
        """Where the dtype of an array is in the table, or -1."""
        cdef int type_num = cnp.PyArray_TYPE(x)
        if type_num < BFLOAT16:
            return type_num
        return BFLOAT16 if type_num > 255 and x.dtype.name == "bfloat16" else -1

    cdef inline Way *way(self, cnp.ndarray a, cnp.ndarray c) noexcept:
        """How numbers of the dtype of `a` are multiplied into sums of that of `c`; NULL where they are not."""
        cdef int of_a = self.place(a), of_c = self.place(c)
        if of_a < 0 or of_c < 0 or self.ways[of_a][of_c].row == NULL:
            return NULL
        return &self.ways[of_a][of_c]

    def widens(self, cnp.ndarray a, cnp.ndarray c):
        """Whether numbers of the dtype of `a` are multiplied as they are, into sums of the wider dtype of `c`."""
        return self.way(a, c) != NULL

    cdef void describe(self, Product *x, const Way *way, cnp.ndarray a, cnp.ndarray b, cnp.ndarray c) noexcept:
        """All of a product but its threads and its buffer, from the last two axes."""
        cdef const Row *row = way.row
        cdef int na = cnp.PyArray_NDIM(a), nb = cnp.PyArray_NDIM(b), nc = cnp.PyArray_NDIM(c)
        cdef cnp.npy_intp *a_steps = cnp.PyArray_STRIDES(a)
        cdef cnp.npy_intp *b_steps = cnp.PyArray_STRIDES(b)
        cdef cnp.npy_intp *c_steps = cnp.PyArray_STRIDES(c)
        x.m, x.k = cnp.PyArray_DIM(a, na - 2), cnp.PyArray_DIM(a, na - 1)
        x.n = cnp.PyArray_DIM(b, nb - 1)
        x.a, x.b, x.c = <char *> cnp.PyArray_DATA(a), <char *> cnp.PyArray_DATA(b), <char *> cnp.PyArray_DATA(c)
        x.ai, x.ap = a_steps[na - 2], a_steps[na - 1]
        x.bp, x.bj = b_steps[nb - 2], b_steps[nb - 1]
        x.ci, x.cj = c_steps[nc - 2], c_steps[nc - 1]
        # of a single row or column NumPy's stride may be anything
        if x.k == 1:
            x.ap, x.bp = cnp.PyArray_ITEMSIZE(a), x.n * cnp.PyArray_ITEMSIZE(b)
        if x.n == 1:
            x.bj, x.cj = cnp.PyArray_ITEMSIZE(b), cnp.PyArray_ITEMSIZE(c)
        x.mc, x.nc = way.mc, way.nc
        x.kc = even(x.k, DOT_KC if row.dots and x.n == 1 else way.kc, row.group)
        x.pack_a, x.pack_b, x.narrow = row.pack_a, row.pack_b, row.narrow
        x.as_stored = row.as_stored
        x.packed, x.packed_n, x.packed_j, x.most_of_b = NULL, x.n, 0, 0

    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out):
        """Matrices, or stacks that broadcast, of one dtype and agreeing shapes, in any strides; None for all else (see
        `CompiledWay`)."""
        cdef const Way *way = self.way(a, a)
        cdef int type_num = cnp.PyArray_TYPE(a)
        cdef int na = cnp.PyArray_NDIM(a), nb = cnp.PyArray_NDIM(b), ndim = max(na, nb)
        cdef cnp.npy_intp shape[MOST_AXES]
        cdef Product x
        cdef Stack stack
        cdef double flop
        if (way == NULL or type_num >= BFLOAT16 or cnp.PyArray_TYPE(b) != type_num or na < 2 or nb < 2
                or not cnp.PyArray_ISBEHAVED_RO(a) or not cnp.PyArray_ISBEHAVED_RO(b)
                or cnp.PyArray_DIM(a, na - 1) != cnp.PyArray_DIM(b, nb - 2) or cnp.PyArray_DIM(a, na - 1) < 1):
            return None
        if way.extent and min(cnp.PyArray_DIM(a, na - 2), cnp.PyArray_DIM(a, na - 1),
                              cnp.PyArray_DIM(b, nb - 1)) >= way.extent:
            return None
        shape[ndim - 2], shape[ndim - 1] = cnp.PyArray_DIM(a, na - 2), cnp.PyArray_DIM(b, nb - 1)
        if shape[ndim - 2] < 1 or shape[ndim - 1] < 1 or not broadcast(a, b, ndim - 2, shape, &stack):
            return None
        if out is None:
            out = cnp.PyArray_EMPTY(ndim, shape, type_num, 0)
        elif not (cnp.PyArray_NDIM(out) == ndim and cnp.PyArray_TYPE(out) == type_num
                  and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(out), shape, ndim) and cnp.PyArray_ISBEHAVED(out)
                  and (cnp.PyArray_IS_C_CONTIGUOUS(out) or ndim == 2 and (is_rows(out) or is_columns(out)))
                  and apart_in_memory(out, a) and apart_in_memory(out, b)):
            return None
        self.describe(&x, way, a, b, out)
        flop = products_in(&stack) * max(LEAST_FLOP, 2.0 * x.m * x.n * x.k)
        x.threads = usable_threads(threads_for(flop, way.team_flop))
        self.multiply(way.row, &x, &stack, out)
        return out

    def path(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads):
        """Which way a product goes, in words; for a stack, each of its products."""
        cdef const Way *way = self.way(a, out)
        cdef Product x
        if way == NULL:
            raise TypeError(f"no kernel multiplies {a.dtype} into {out.dtype}")
        self.describe(&x, way, a, b, out)
        x.threads = usable_threads(threads)
        return way.row.path(&x).decode()

    def pack(self, cnp.ndarray b, int threads):
        """The panels of a matrix of a dtype of the table."""
        cdef PackedOperand packed = PackedOperand.__new__(PackedOperand)
        cdef const Way *way = self.way(b, b)
        cdef Product x
        self.describe(&x, way, b.T, b, b)  # of A only its columns count here, which are the rows of B
        x.threads = usable_threads(threads)
        packed.shape, packed.dtype, packed.kc = (b.shape[0], b.shape[1]), b.dtype, x.kc
        packed.nbytes = way.row.pack_whole(&x, NULL)
        packed.buffer = new_buffer(max(1, packed.nbytes))
        if packed.buffer == NULL:
            raise MemoryError(f"no memory for {packed.nbytes} bytes of panels")
        if packed.nbytes:
            with nogil:
                way.row.pack_whole(&x, packed.buffer.memory)
        return packed

    def run(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, *, int threads=1, Py_ssize_t mc=0, Py_ssize_t kc=0,
            Py_ssize_t nc=0, PackedOperand packed=None, bint clocked=False):
        """Fill `out` with a @ b: matrices, or stacks of one leading shape, in any strides. `a` and `b` are of one
        dtype, and `out` is too, or is of one that `widens`. If `clocked`, return the seconds that all threads together
        spent packing.

        No extent of m, n, k and the stack is 0, and `out` shares no memory with `a` and `b`: nothing is checked here.
        """
        cdef const Way *way = self.way(a, out)
        cdef cnp.npy_intp shape[MOST_AXES]
        cdef Product x
        cdef Stack stack
        if way == NULL:
            raise TypeError(f"no kernel multiplies {a.dtype} into {out.dtype}")
        self.describe(&x, way, a, b, out)
        x.mc, x.nc = mc or x.mc, nc or x.nc
        if kc and not (x.n == 1 and way.row.dots):
            x.kc = even(x.k, kc, way.row.group)
        if packed is not None:
            x.packed, x.kc = packed.buffer.memory, packed.kc
        x.threads = usable_threads(threads)
        broadcast(a, b, cnp.PyArray_NDIM(out) - 2, shape, &stack)
        if clocked:
            clock_packing(&x)
        self.multiply(way.row, &x, &stack, out)
        return packing_seconds() if clocked else None

    cdef int multiply(self, const Row *row, Product *x, Stack *stack, cnp.ndarray out) except -1:
        """The product that is described, over the stack, whose steps in A and B are known."""
        cdef Buffer *buffer = NULL
        cdef Py_ssize_t bytes
        cdef int axis
        for axis in range(stack.axes):
            stack.c[axis] = cnp.PyArray_STRIDE(out, axis)
        while stack.axes and stack.b[stack.axes - 1] == 0:  # one B for all: their rows may be the rows of one A
            axis = stack.axes - 1
            if x.m == 1:
                x.ai, x.ci = stack.a[axis], stack.c[axis]
            if stack.a[axis] != x.m * x.ai or stack.c[axis] != x.m * x.ci:
                break
            x.m *= stack.shape[axis]
            stack.axes -= 1
        bytes = workspace_of_stack(x, stack, row.workspace)
        if bytes:
            buffer = take_buffer(bytes)
            if buffer == NULL:
                raise MemoryError(f"no memory for {bytes} bytes of panels")
            x.buffer = buffer.memory
        with nogil:
            multiply_stack(x, stack, row.multiply, row.workspace)
        if buffer != NULL:
            give_buffer(buffer)
        return 0


cdef bint broadcast(cnp.ndarray a, cnp.ndarray b, int axes, cnp.npy_intp *shape, Stack *stack) noexcept:
    """The leading shape of a product and the steps of A and B in it; False where they do not agree, or are empty."""
    cdef int axis, to_a = axes + 2 - cnp.PyArray_NDIM(a), to_b = axes + 2 - cnp.PyArray_NDIM(b)
    cdef Py_ssize_t of_a, of_b
    stack.axes = axes
    for axis in range(axes):
        of_a = cnp.PyArray_DIM(a, axis - to_a) if axis >= to_a else 1
        of_b = cnp.PyArray_DIM(b, axis - to_b) if axis >= to_b else 1
        if (of_a != of_b and of_a != 1 and of_b != 1) or of_a == 0 or of_b == 0:
            return False
        shape[axis] = stack.shape[axis] = max(of_a, of_b)
        stack.a[axis] = cnp.PyArray_STRIDE(a, axis - to_a) if of_a > 1 else 0
        stack.b[axis] = cnp.PyArray_STRIDE(b, axis - to_b) if of_b > 1 else 0
    return True
