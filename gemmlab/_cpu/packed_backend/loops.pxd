"""The C++ of cpu-packed, as `_packed.pyx` calls it: see `_cpu/packed/problem.hpp`, where to begin."""

from libc.stddef cimport size_t

cdef extern from "extents.hpp" nogil:
    ctypedef struct Machine:
        Py_ssize_t l1, l1_way, l2, l2_way, l3, huge_page
    ctypedef struct Extents:
        Py_ssize_t at_once, conflict, ways, l2, l2_way, in_place, rows_in_l1, few_rows_sums, short_k_b, deep_a, thin_b
        Py_ssize_t a_of_a_thread, b_of_a_thread, min_b, round, huge_page
    Extents extents_of(const Machine &)

cdef extern from "problem.hpp" nogil:
    enum:
        DOT_KC
    ctypedef struct Kernel:
        const char *dtype
        const char *out
        int mc, kc, mr, nr, group, step, sum, dot_rows
        double cost
        bint narrows
    Kernel with_modulus(const Kernel &, int)
    ctypedef struct Product:
        const Kernel *kernel
        const Extents *extents
        Py_ssize_t m, n, k
        const char *a
        Py_ssize_t rs_a, cs_a
        const char *b
        Py_ssize_t rs_b, cs_b
        char *c
        Py_ssize_t rs_c, cs_c
        int threads
        double team_flop
        Py_ssize_t mc, kc, nc, max_b
        bint narrows, accumulate, of_transposes
        const char *packed
        Py_ssize_t packed_n, packed_j
        char *buffer

cdef extern from "vector_products.hpp" nogil:
    ctypedef enum Pass:
        DOTS
    ctypedef struct ByVector:
        Pass passes "pass"
        Py_ssize_t blocks
    bint is_dots(const Product &)
    bint has_any_order(const Kernel &)

cdef extern from "macrokernel.hpp" nogil:
    cppclass Panels:
        Py_ssize_t rows(Py_ssize_t)
    ctypedef struct Blocks:
        Py_ssize_t mc, nc, kr, ns, kept, rows_of_b, tile_k
        bint packs_a, separate

cdef extern from "in_place.hpp" nogil:
    ctypedef enum OrderInPlace:
        BY_ROWS_OF_C
        BY_ROWS_OF_B
    ctypedef struct InPlace:
        OrderInPlace order
        Panels panels
        Py_ssize_t strip, columns, in_l1, depth
        bint gathers, copies

cdef extern from "plan.hpp" nogil:
    ctypedef enum Strategy:
        FIVE_LOOPS
        IN_PLACE
        BY_VECTOR
    ctypedef enum Sharing:
        SLICES
    ctypedef struct Part:
        Strategy strategy
        Py_ssize_t peeled
        Blocks blocks
        InPlace in_place
        ByVector by_vector
    ctypedef struct Plan:
        int threads
        Sharing sharing
        bint is_mirrored
        Py_ssize_t slices, rows, columns, down, across, bytes
        Part parts[2][2][2]
    bint fits_in_memory(const Product &)
    void plan_of(const Product &, Py_ssize_t, Plan &)
    Py_ssize_t pieces_in(const Plan &)

cdef extern from "run.hpp" nogil:
    enum:
        MAX_AXES
    ctypedef struct Batch:
        int axes
        Py_ssize_t *shape
        Py_ssize_t *a
        Py_ssize_t *b
        Py_ssize_t *c
    Py_ssize_t products_in(const Batch &)
    double vectors_of(const Product &, Py_ssize_t)
    void run(const Product &, const Plan &, const Batch &)
    Py_ssize_t pack_operand(const Product &, char *)

cdef extern from "interpreter_lock.hpp":
    bint keeps_lock(double vectors)
    void run_for_python(const Product &, const Plan &, const Batch &, double vectors, bint keeps)

cdef extern from "workspace.hpp" nogil:
    ctypedef struct Buffer:
        char *memory
    Buffer *new_buffer(size_t, size_t)
    Buffer *take_buffer(size_t, size_t)
    void give_buffer(Buffer *)
    void drop_buffer(Buffer *)
    size_t drop_buffers()

cdef extern from "observe.hpp" nogil:
    ctypedef struct ClockedKernel:
        long long ns
    ClockedKernel clocked_kernel(const Kernel &)
    enum Call:
        pass
    ctypedef struct Recorder:
        void *context
        void (*call)(void *, Call, const Py_ssize_t *, const void *) noexcept nogil
        int (*access)(void *, const void *, Py_ssize_t, int) noexcept nogil
    ctypedef struct RecordingKernel:
        pass
    RecordingKernel recording_kernel(const Kernel &, const Recorder &)


cdef inline Py_ssize_t even(Py_ssize_t k, Py_ssize_t kc, Py_ssize_t group) noexcept nogil:
    """A block of k: as many as kc makes, all but equal, in whole groups. A function of k, so that A's rows change no
    bit."""
    cdef Py_ssize_t blocks = max(1, (k + kc - 1) // kc)
    return max(1, ((k + blocks - 1) // blocks + group - 1) // group) * group


cdef inline Py_ssize_t even_in(Py_ssize_t k, Py_ssize_t whole, Py_ssize_t kc, Py_ssize_t group) noexcept nogil:
    """A block of k where k is a part of a longer one, which begins at one of its blocks: as there."""
    return min(even(max(k, whole), kc, group), even(k, k, group))
