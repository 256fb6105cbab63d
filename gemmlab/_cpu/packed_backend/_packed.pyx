# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""cpu-packed: five loops around a register-tiled micro-kernel, on packed panels of A and B.

It is C++ in `_cpu/packed/`, where problem.hpp is the place to begin. The loops are compiled into this module, which
calls them on NumPy arrays of any strides and dtype; their kernels are in the library of one instruction set.
"""

cimport numpy as cnp

from gemmlab._cpu._driver cimport CompiledWay
from gemmlab._cpu.packed_backend.arrays cimport apart_in_memory, broadcast, dim, join_rows, shares_nothing, step
from gemmlab._cpu.packed_backend.dtypes cimport BFLOAT16, TYPES, Entry, place_of
from gemmlab._cpu.packed_backend.loops cimport (
    DOT_KC, MAX_AXES, Batch, Buffer, Call, ClockedKernel, Extents, Kernel, Machine, Plan, Product, Recorder,
    RecordingKernel, clocked_kernel, drop_buffer, drop_buffers, even, even_in, extents_of, fits_in_memory,
    give_buffer, has_any_order, is_dots, keeps_lock, new_buffer, pack_operand, plan_of, products_in,
    recording_kernel, run, run_for_python, take_buffer, vectors_of, with_modulus,
)
from gemmlab._cpu.packed_backend.threads cimport (
    LARGE, LONG_VECTORS, Listening, Task, begin_product, end_product, listen, share_among_team, signals_raise,
    stop_listening, team_threads, threads_allowed,
)
from gemmlab._cpu.packed_backend.words cimport append_call, in_words
from gemmlab._cpu.threads._threads cimport threads_for

import numpy

from gemmlab._cpu.packed_backend.dtypes import OF_BFLOAT16, type_numbers
from gemmlab._cpu.packed_backend.plan import STRATEGIES, Plan as PlanTuple

cnp.import_array()
assert OF_BFLOAT16 == BFLOAT16

cdef double SURELY_FITS_FLOP = 1 << 30  # no product of less overflows a count of bytes

# What one product of a batch costs at least, and what it costs to load a number of A or B, in floating-point operations
# that a large product does in that time.
cdef double LEAST_FLOP = 2000, LOAD_FLOP = 3


cpdef double work_of(double m, double n, double k) noexcept:
    """What a product costs, in floating-point operations of a large one."""
    return max(LEAST_FLOP, 2 * m * n * k + LOAD_FLOP * k * (m + n))


ctypedef int (*Access)(void *, const void *, Py_ssize_t, int) noexcept nogil
ctypedef void (*Called)(void *, Call, const Py_ssize_t *, const void *) noexcept nogil


def kernels_of(size_t table):
    """What a table multiplies: by its dtypes, bytes of a number in panels, mc, kc, and how often as fast as float32."""
    cdef const Kernel *kernel = <const Kernel *> table
    found = {}
    while kernel.dtype != NULL:
        sizes = kernel.step // kernel.group, kernel.mc, kernel.kc, 4 / (kernel.sum * kernel.cost)
        found[kernel.dtype.decode(), kernel.out.decode()] = sizes
        kernel += 1
    return found


def extents_from(readings):
    """What the loops take for caches and pages, by the formulas of extents.hpp, from a machine's readings."""
    cdef Machine machine = readings
    return extents_of(machine)


def share(size_t task, size_t work, Py_ssize_t pieces, int threads):
    """Call a function of C, `void task(const void *work, ptrdiff_t piece)`, for each piece, on the team's threads."""
    share_among_team(<Task> task, <const void *> work, pieces, threads)


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


def allowed_threads(int threads):
    """`threads`, or fewer where a team cannot have as many."""
    return threads_allowed(threads)


cdef int check_size(const Product &x) except -1:
    """MemoryError where panels of A or B are more than a memory holds."""
    if not fits_in_memory(x):
        raise MemoryError(f"no memory for panels of {x.m} x {x.k} and {x.k} x {x.n} numbers")
    return 0


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
    cdef readonly object placeholder  # an array of its shape and dtype, whose numbers are not read
    cdef Buffer *buffer
    cdef Py_ssize_t kc

    def __dealloc__(self):
        drop_buffer(self.buffer)

    cdef void use(self, Product *x, const Entry *entry) noexcept:
        """Let a product read these panels."""
        x.packed, x.kc = self.buffer.memory, self.kc
        if x.n > 1:  # the kernel that packed it
            x.kernel, x.narrows = entry.kernel, entry.kernel.narrows

    def __array__(self, dtype=None, copy=None):
        what = "this is the panels of a matrix, not an array"
        raise TypeError(f"{what}: pass it as the right operand of gemmlab.matmul, or the matrix itself elsewhere")

    def __copy__(self):
        return self  # it never changes

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        what = "a packed operand cannot be pickled, since its layout is this processor's"
        raise TypeError(f"{what}: pickle the matrix, and pack it again where it is needed")

    def __repr__(self):
        return f"<gemmlab.pack of a {self.dtype} matrix of shape {self.shape}>"


cdef class PackedKernel(CompiledWay):
    """The tables of the instruction sets in force, with block sizes for each of their kernels.

    Parameters
    ----------
    tables : sequence of int
        Their addresses; a later one goes before an earlier one.
    blocks : mapping of (str, str) to (mc, kc, nc, team_flop)
        For each pair of dtypes, as in `kernels_of`.
    readings : mapping of str to int
        What the machine says of itself, as in `machine.Readings`.
    """

    cdef Entry entries[TYPES][TYPES]  # by the dtypes of A and B, and of C
    cdef Extents extents

    def __init__(self, tables, blocks, readings):
        cdef const Kernel *kernel
        cdef Entry *entry
        cdef int of_a, of_c
        self.extents = extents_of(readings)
        for table in tables:
            kernel = <const Kernel *> <size_t> table
            while kernel.dtype != NULL:
                names = kernel.dtype.decode(), kernel.out.decode()
                for of_a, of_c in type_numbers(*names):
                    entry = &self.entries[of_a][of_c]
                    if has_any_order(kernel[0]):
                        entry.of_vectors = kernel
                    entry.kernel = kernel
                    entry.mc, entry.kc, entry.nc, entry.team_flop = blocks[names]
                kernel += 1

    cdef inline Entry *entry(self, int type_a, int type_c) noexcept:
        """How numbers of one type are multiplied into sums of another; NULL where they are not."""
        cdef int of_a = place_of(type_a), of_c = place_of(type_c)
        cdef bint has_kernel = of_a >= 0 and of_c >= 0 and self.entries[of_a][of_c].kernel != NULL
        return &self.entries[of_a][of_c] if has_kernel else NULL

    def widens(self, cnp.ndarray a, cnp.ndarray c):
        """Whether numbers of the dtype of `a` are multiplied as they are, into sums of the wider dtype of `c`."""
        return self.entry(cnp.PyArray_TYPE(a), cnp.PyArray_TYPE(c)) != NULL

    cdef void describe(self, Product *x, const Entry *entry, cnp.ndarray a, cnp.ndarray b, cnp.ndarray c) noexcept:
        """All of a product but its threads and its buffer, from the last two axes; with one, A is a row, B a column."""
        cdef bint a_row = cnp.PyArray_NDIM(a) == 1, b_column = cnp.PyArray_NDIM(b) == 1
        x.m, x.k, x.n = 1 if a_row else dim(a, 2), dim(a, 1), 1 if b_column else dim(b, 1)
        x.a, x.b, x.c = <char *> cnp.PyArray_DATA(a), <char *> cnp.PyArray_DATA(b), <char *> cnp.PyArray_DATA(c)
        x.rs_a, x.cs_a = 0 if a_row else step(a, 2), step(a, 1)
        x.rs_b, x.cs_b = step(b, 1 if b_column else 2), 0 if b_column else step(b, 1)
        x.rs_c, x.cs_c = 0 if a_row else step(c, 1 if b_column else 2), 0 if b_column else step(c, 1)
        # of a single row or column NumPy's stride may be anything
        if a_row:
            x.rs_a, x.rs_c = x.k * x.cs_a, x.n * x.cs_c
        if x.k == 1:
            x.cs_a, x.rs_b = cnp.PyArray_ITEMSIZE(a), x.n * cnp.PyArray_ITEMSIZE(b)
        if x.n == 1:
            x.cs_b, x.cs_c = cnp.PyArray_ITEMSIZE(b), cnp.PyArray_ITEMSIZE(c)
        x.extents, x.kernel = &self.extents, entry.kernel
        if entry.of_vectors != NULL and (x.m == 1 or x.n == 1):
            x.kernel = entry.of_vectors
        x.narrows = x.kernel.narrows
        x.team_flop, x.mc, x.nc = entry.team_flop, entry.mc, entry.nc
        x.kc = even(x.k, DOT_KC if is_dots(x[0]) else entry.kc, x.kernel.group)
        x.packed, x.packed_n, x.packed_j, x.max_b = <const char *> NULL, x.n, 0, 0
        x.accumulate, x.of_transposes = False, x.a == x.b and x.rs_a == x.cs_b and x.cs_a == x.rs_b

    cdef cnp.ndarray plain(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, int of_c,
                           bint accumulate, packed):
        """Vectors, matrices, or batches that broadcast, of one dtype and agreeing shapes, in any strides; None for all
        else (see `CompiledWay`)."""
        cdef int type_num = cnp.PyArray_TYPE(a)
        cdef const Entry *entry = self.entry(type_num, of_c)
        cdef int na = cnp.PyArray_NDIM(a), nb = cnp.PyArray_NDIM(b), axes = max(max(na, nb) - 2, 0), ndim = axes
        cdef cnp.npy_intp shape[MAX_AXES]
        cdef Product x
        cdef Batch batch
        if (entry == NULL or cnp.PyArray_TYPE(b) != type_num or na < 1 or nb < 1
                or not cnp.PyArray_ISBEHAVED_RO(a) or not cnp.PyArray_ISBEHAVED_RO(b)
                or dim(a, 1) != dim(b, 1 + (nb > 1)) or dim(a, 1) < 1 or not broadcast(a, b, axes, shape, &batch)):
            return None
        if na > 1:
            shape[ndim], ndim = dim(a, 2), ndim + 1
        if nb > 1:
            shape[ndim], ndim = dim(b, 1), ndim + 1
        if na > 1 and dim(a, 2) < 1 or nb > 1 and dim(b, 1) < 1:
            return None
        if out is None:
            out = cnp.PyArray_EMPTY(ndim, shape, of_c, 0)
        elif not (cnp.PyArray_NDIM(out) == ndim and cnp.PyArray_TYPE(out) == of_c
                  and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(out), shape, ndim) and cnp.PyArray_ISBEHAVED(out)
                  and (cnp.PyArray_IS_C_CONTIGUOUS(out) or shares_nothing(out))
                  and apart_in_memory(out, a) and apart_in_memory(out, b)):
            return None
        self.describe(&x, entry, a, b, out)
        if packed is not None:
            (<PackedOperand> packed).use(&x, entry)
        if accumulate and x.narrows:
            return None  # what `out` holds is widened first
        x.accumulate = accumulate
        cdef double flop = products_in(batch) * work_of(x.m, x.n, x.k)
        if flop > SURELY_FITS_FLOP:
            check_size(x)
        x.threads = team_threads(threads or threads_for(flop, entry.team_flop))
        self.multiply(&x, &batch, out)
        return out

    def plan(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, *, int threads=1, Py_ssize_t mc=0, Py_ssize_t kc=0,
             Py_ssize_t nc=0, PackedOperand packed=None):
        """The `Plan` of a product, as `run` would follow it; of a batch, that of each of its products."""
        cdef Product x
        cdef Plan plan
        self.prepare(&x, a, b, out, threads, mc, kc, nc, packed)
        plan_of(x, 1, plan)
        found = in_words(x, plan)
        return PlanTuple(**{**found, "strategy": STRATEGIES[found["strategy"]]})

    def pack(self, cnp.ndarray b, int threads):
        """The panels of a matrix of a dtype of the table."""
        cdef PackedOperand packed = PackedOperand.__new__(PackedOperand)
        cdef const Entry *entry = self.entry(cnp.PyArray_TYPE(b), cnp.PyArray_TYPE(b))
        cdef Product x
        self.describe(&x, entry, b.T, b, b)  # of A only its columns count here, which are the rows of B
        check_size(x)
        x.threads = team_threads(threads)
        packed.shape, packed.dtype, packed.kc = (b.shape[0], b.shape[1]), b.dtype, x.kc
        packed.placeholder = numpy.broadcast_to(numpy.zeros((), b.dtype), packed.shape)
        packed.nbytes = pack_operand(x, NULL)
        packed.buffer = new_buffer(max(1, packed.nbytes), self.extents.huge_page)
        if packed.buffer == NULL:
            raise MemoryError(f"no memory for {packed.nbytes} bytes of panels")
        if packed.nbytes:
            threads = x.threads
            x.threads = begin_product(threads, LARGE)
            with nogil:
                pack_operand(x, packed.buffer.memory)
            end_product(threads)
        return packed

    def run(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, *, int threads=1, Py_ssize_t mc=0, Py_ssize_t kc=0,
            Py_ssize_t nc=0, PackedOperand packed=None, bint accumulate=False, bint clocked=False,
            Py_ssize_t whole_k=0, bint as_bfloat16=False, int modulus=0):
        """Fill `out` with a @ b: matrices, or batches of one leading shape, in any strides. `a` and `b` are of one
        dtype, and `out` is too, or is of one that `widens`. If `accumulate`, add to what `out` holds. If `clocked`,
        return the seconds that all threads together spent packing. `whole_k`: see `Problem`. If `as_bfloat16`, 16 bits
        of `a` and `b` are numbers of that dtype, and `out` is of float32. With a `modulus` of at most 256, int8 is
        multiplied into what it leaves of the sums, which is added to nothing.

        No extent of m, n, k and the batch is 0, and `out` shares no memory with `a` and `b`: nothing is checked here.
        """
        cdef cnp.npy_intp shape[MAX_AXES]
        cdef Product x
        cdef Batch batch
        cdef ClockedKernel clock
        cdef Kernel of_residues
        self.prepare(&x, a, b, out, threads, mc, kc, nc, packed, whole_k, as_bfloat16, modulus)
        if modulus:
            of_residues = with_modulus(x.kernel[0], modulus)
            x.kernel, x.narrows = &of_residues, True
        x.accumulate = accumulate
        broadcast(a, b, cnp.PyArray_NDIM(out) - 2, shape, &batch)
        if clocked:
            clock = clocked_kernel(x.kernel[0])
            x.kernel = <const Kernel *> &clock
        self.multiply(&x, &batch, out)
        return clock.ns * 1e-9 if clocked else None

    def record(self, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, *, Py_ssize_t mc=0, Py_ssize_t kc=0,
               Py_ssize_t nc=0, size_t access=0, size_t context=0, size_t buffer=0):
        """What `run` would do with these matrices on one thread; no number is read or written.

        Parameters
        ----------
        a, b, out : ndarray
            Matrices: their extents, strides and addresses count.
        access, context : int, optional
            Addresses of a function that takes each access of memory, `int access(void *context, const void *address,
            Py_ssize_t bytes, int write)`, and of what it is called with; it returns 0 to go on.
        buffer : int, optional
            The address of the plan's `workspace`; by default memory that does not exist.

        Returns
        -------
        list of (str, (int, int, int), int)
            Without `access`, each call of a function of the kernel: its name, rows, columns and depth, and the address
            of what it packs or of the part of C that it writes.
        """
        cdef Product x
        cdef Plan plan
        cdef Batch batch
        cdef Recorder recorder
        cdef RecordingKernel recording
        calls = []
        self.prepare(&x, a, b, out, 1, mc, kc, nc, None)
        recorder.context, recorder.call, recorder.access = <void *> calls, append_call, <Access> access
        if access:
            recorder.context, recorder.call = <void *> context, <Called> NULL
        recording = recording_kernel(x.kernel[0], recorder)
        x.kernel, x.buffer, batch.axes = <const Kernel *> &recording, <char *> buffer, 0
        plan_of(x, 1, plan)
        with nogil:
            run(x, plan, batch)
        return calls

    cdef int prepare(self, Product *x, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out, int threads, Py_ssize_t mc,
                     Py_ssize_t kc, Py_ssize_t nc, PackedOperand packed, Py_ssize_t whole_k=0,
                     bint as_bfloat16=False, int modulus=0) except -1:
        """All of a product but its buffer, with block sizes where they are given."""
        cdef const Entry *entry = self.entry(cnp.PyArray_TYPE(a), cnp.NPY_INT32 if modulus else cnp.PyArray_TYPE(out))
        if as_bfloat16:
            entry = &self.entries[BFLOAT16][<int> cnp.NPY_FLOAT]
        if entry == NULL:
            raise TypeError(f"no kernel multiplies {a.dtype} into {out.dtype}")
        self.describe(x, entry, a, b, out)
        check_size(x[0])
        x.mc, x.nc = mc or x.mc, nc or x.nc
        x.kc = even_in(x.k, whole_k, DOT_KC if is_dots(x[0]) else kc or entry.kc, x.kernel.group)
        if packed is not None:
            packed.use(x, entry)
        x.threads = team_threads(threads)
        return 0

    cdef int multiply(self, Product *x, Batch *batch, cnp.ndarray out) except -1:
        """The product that is described, over the batch, whose steps in A and B are known."""
        cdef Buffer *buffer = NULL
        cdef Plan plan
        cdef Listening here
        cdef double vectors
        cdef bint keeps
        cdef int axis, threads = x.threads
        for axis in range(batch.axes):
            batch.c[axis] = cnp.PyArray_STRIDE(out, axis)
            x.of_transposes &= batch.a[axis] == batch.b[axis]
        join_rows(x, batch)
        vectors = vectors_of(x[0], products_in(batch[0]))
        keeps = keeps_lock(vectors)
        x.threads = begin_product(threads, vectors, keeps)
        plan_of(x[0], products_in(batch[0]), plan)
        if plan.bytes:
            buffer = take_buffer(plan.bytes, self.extents.huge_page)
            x.buffer = buffer.memory if buffer != NULL else NULL
        if buffer != NULL or not plan.bytes:
            if vectors > LONG_VECTORS:
                listen(&here, signals_raise)
            run_for_python(x[0], plan, batch[0], vectors, keeps)
        end_product(threads)
        if buffer != NULL:
            give_buffer(buffer)
        elif plan.bytes:
            raise MemoryError(f"no memory for {plan.bytes} bytes of panels")
        return -1 if vectors > LONG_VECTORS and stop_listening() else 0  # the handler's exception
