/* cpu-packed without Python: random products of every kernel of one instruction set, against three plain loops.

       kernels_test [SEED [PRODUCTS [CALLERS]]]

   PRODUCTS are those of each kernel, CALLERS the threads that make them at the same time. The seed is printed; with it the
   same products are made again. Python builds and runs it: test_kernels.py for the instruction sets of this processor, and
   under ThreadSanitizer; support/kernel_program.py for NEON by qemu.

   Operands are next to pages that cannot be read; what is between their numbers is NaN, and so is the workspace. Every
   byte around C and between its numbers has to stay. Each number of C has to have the promised bits: integers modulo
   2^bits, floats of one chain of multiply-adds for each block of k. Dot products, and instructions that multiply more
   than one number of k, add in other orders: there sums of whole numbers are exact, others within the error bound. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <vector>

#include "cpu_features.h"
#include "handover.hpp"
#include "run.hpp"

extern "C" const void *gemmlab_kernels(void);

namespace {

thread_local uint64_t state;
uint64_t random_bits() {  // splitmix64
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
Count from_to(Count least, Count most) { return least + (Count)(random_bits() % (uint64_t)(most - least + 1)); }
bool one_in(int n) { return from_to(1, n) == 1; }

// Numbers

/* A number of any dtype: an integer's bits, with its sign in all 64, or a float's parts. */
struct Number {
    uint64_t bits;
    double part[2];
};

struct Dtype {
    const char *name;
    char kind;  // float, complex, integer, unsigned, bool, half, brain float
    int bytes;
};
constexpr Dtype DTYPES[] = {
    {"float32", 'f', 4}, {"float64", 'f', 8}, {"complex64", 'c', 8}, {"complex128", 'c', 16}, {"float16", 'h', 2},
    {"bfloat16", 'b', 2}, {"bool", '?', 1}, {"int8", 'i', 1}, {"uint8", 'u', 1}, {"int16", 'i', 2}, {"uint16", 'u', 2},
    {"int32", 'i', 4}, {"uint32", 'u', 4}, {"int64", 'i', 8}};

const Dtype &dtype_named(const char *name) {
    for (const Dtype &x : DTYPES)
        if (!strcmp(x.name, name)) return x;
    printf("the program does not know %s: add it to DTYPES\n", name);
    exit(1);
}
bool is_integer(const Dtype &x) { return strchr("iu?", x.kind); }
/* Digits after the first one, and the least exponent, of a float of 16 bits. */
int digits_of(const Dtype &x) { return x.kind == 'h' ? 10 : 7; }
int least_exponent(const Dtype &x) { return x.kind == 'h' ? -14 : -126; }

Number read(const Dtype &x, const char *from) {
    Number number = {};
    memcpy(&number.bits, from, std::min(x.bytes, 8));
    if (x.kind == 'i') number.bits = (uint64_t)((int64_t)(number.bits << (64 - 8 * x.bytes)) >> (64 - 8 * x.bytes));
    if (x.kind == '?') number.bits = number.bits != 0;
    if (x.kind == 'f' || x.kind == 'c')
        for (int i = 0; i < 1 + (x.kind == 'c'); i++) {
            float single;
            const bool is_single = x.bytes == (x.kind == 'c' ? 8 : 4);
            if (is_single) memcpy(&single, from + 4 * i, 4), number.part[i] = single;
            else memcpy(&number.part[i], from + 8 * i, 8);
        }
    if (x.kind == 'h' || x.kind == 'b') {
        const int digits = digits_of(x), exponent = (int)(number.bits >> digits & (x.kind == 'h' ? 0x1f : 0xff));
        const double fraction = (double)(number.bits & ((1u << digits) - 1)) + (exponent ? 1 << digits : 0);
        const double size = ldexp(fraction, std::max(exponent, 1) - 1 + least_exponent(x) - digits);
        number.part[0] = number.bits >> 15 ? -size : size;
    }
    return number;
}
/* Rounded once, to nearest even. */
void write(const Dtype &x, char *to, const Number &number) {
    if (is_integer(x)) memcpy(to, &number.bits, x.bytes);
    if (x.kind == 'f' || x.kind == 'c')
        for (int i = 0; i < 1 + (x.kind == 'c'); i++) {
            const float single = (float)number.part[i];
            const bool is_single = x.bytes == (x.kind == 'c' ? 8 : 4);
            if (is_single) memcpy(to + 4 * i, &single, 4);
            else memcpy(to + 8 * i, &number.part[i], 8);
        }
    if (x.kind == 'h' || x.kind == 'b') {
        const double size = fabs(number.part[0]);
        const int digits = digits_of(x), least = least_exponent(x), most = 1 - least;
        int bits = (x.kind == 'h' ? 0x1f : 0xff) << digits;
        if (size < ldexp(2 - ldexp(1, -digits - 1), most)) {
            const int exponent = size > 0 ? std::max(ilogb(size), least) : least;
            bits = ((exponent - least) << digits) + (int)nearbyint(ldexp(size, digits - exponent));
        }
        bits |= signbit(number.part[0]) ? 0x8000 : 0;
        memcpy(to, &bits, 2);
    }
}
/* Any integer; a float that is a small whole number, or any of some size. */
Number random_number(const Dtype &x, bool whole, double scale) {
    Number number = {};
    number.bits = x.kind == '?' ? one_in(8) : random_bits();
    for (double &part : number.part) {  // the second one is left out where there is none
        const int most = x.kind == 'h' ? 1 : 4;
        part = whole ? (double)from_to(-most, most) : ((double)(random_bits() >> 11) * 0x1p-52 - 1) * scale;
    }
    return number;
}

// Arrays beside pages that cannot be read

constexpr size_t ARENA = 64 << 20, GUARD = 1 << 16;
struct Arena {
    char *start;
    Arena() {
        constexpr int KIND = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        start = (char *)mmap(NULL, ARENA + 2 * GUARD, PROT_NONE, KIND, -1, 0) + GUARD;
        if (mprotect(start, ARENA, PROT_READ | PROT_WRITE)) perror("mprotect"), exit(1);
    }
    /* Memory at one end or the other. */
    char *take(Count bytes, int alignment) {
        if ((size_t)bytes + alignment > ARENA) printf("an operand is too large\n"), exit(1);
        return one_in(2) ? start : start + (ARENA - bytes) / alignment * alignment;
    }
};

/* Two axes of a batch, rows and columns. */
struct Array {
    const Dtype *dtype;
    Count shape[4], strides[4], bytes;
    char *low, *data;  // the first byte, and the first number

    char *at(Count i, Count j, Count r, Count c) const {
        return data + i * strides[0] + j * strides[1] + r * strides[2] + c * strides[3];
    }
};

/* Axes in some order, with gaps, backwards, or repeated without memory; every byte of it is 255, which is NaN. */
Array new_array(Arena &arena, const Dtype &dtype, const Count (&shape)[4], bool repeats) {
    static constexpr int ROWS[] = {3, 2, 1, 0}, COLUMNS[] = {2, 3, 1, 0};
    static constexpr int BATCH_FIRST[] = {1, 3, 0, 2}, MIXED[] = {0, 2, 3, 1};
    static constexpr const int *ORDERS[] = {ROWS, ROWS, ROWS, COLUMNS, COLUMNS, BATCH_FIRST, MIXED};
    Array x = {.dtype = &dtype, .shape = {}, .strides = {}, .bytes = 0, .low = NULL, .data = NULL};
    const int *const order = ORDERS[from_to(0, 6)];
    const int part = dtype.kind == 'c' ? dtype.bytes / 2 : dtype.bytes, gaps = (int)from_to(1, 12);
    Count reach = dtype.bytes, first = 0;
    for (int i = 0; i < 4; i++) {
        const int axis = order[i];
        const Count extent = x.shape[axis] = shape[axis];
        Count stride = reach + (one_in(gaps) ? part * from_to(1, 9) : 0);
        if (i == 1 && order[2] == 1 && extent < 64 && one_in(12)) stride = round_up(stride, 4096);  // see CONFLICT
        if (repeats && one_in(24)) stride = 0;
        reach = std::max(reach, stride * (extent - 1) + reach);
        if (one_in(8)) first += (extent - 1) * stride, stride = -stride;
        x.strides[axis] = stride;
    }
    x.bytes = reach;
    x.low = arena.take(reach, part);
    x.data = x.low + first;
    memset(x.low, 255, (size_t)reach);
    return x;
}
Array transposed(const Array &x) {
    Array turned = x;
    std::swap(turned.shape[2], turned.shape[3]), std::swap(turned.strides[2], turned.strides[3]);
    return turned;
}
template <class Visit> void each(const Array &x, Visit visit) {
    for (Count i = 0; i < x.shape[0]; i++)
        for (Count j = 0; j < x.shape[1]; j++)
            for (Count r = 0; r < x.shape[2]; r++)
                for (Count c = 0; c < x.shape[3]; c++) visit(x.at(i, j, r, c));
}
void fill(const Array &x, bool whole, double scale) {
    each(x, [&](char *to) { write(*x.dtype, to, random_number(*x.dtype, whole, scale)); });
}

// Three plain loops

/* What one product is asked for, besides its operands. */
struct Asked {
    Product product;
    Batch batch;
    bool whole, exact;  // numbers; whether each bit of C is promised
    double scale;
};

bool fused;  // whether a multiply-add rounds once

template <class S> S multiply_add(S sum, S x, S y) {
    if (fused) return (S)(sizeof(S) == 4 ? fmaf((float)x, (float)y, (float)sum) : fma(x, y, sum));
    volatile S product = x * y;  // so that the compiler does not fuse it with the sum
    return sum + product;
}

/* One number of C: what it held, and then blocks of k, one by one. `size` is the sum of the sizes of all addends. */
template <class S>
Number float_sum(const Asked &x, const Number *a, const Number *b, const Number &before, double &size) {
    Number sums = before;
    const bool is_complex = x.product.kernel->parts == 2;
    size = fabs(before.part[0]) + fabs(before.part[1]);
    for (Count pc = 0; pc < x.product.k; pc += x.product.kc) {
        S re = 0, im = 0;
        for (Count p = pc; p < std::min(pc + x.product.kc, x.product.k); p++) {
            const S a_re = (S)a[p].part[0], a_im = (S)a[p].part[1], b_re = (S)b[p].part[0], b_im = (S)b[p].part[1];
            re = multiply_add(re, b_re, a_re);
            if (!x.exact) size += (fabs((double)a_re) + fabs((double)a_im)) * (fabs((double)b_re) + fabs((double)b_im));
            if (!is_complex) continue;
            im = multiply_add(im, b_im, a_re);
            re = multiply_add(re, -b_im, a_im), im = multiply_add(im, b_re, a_im);
        }
        const bool add = x.product.accumulate || pc > 0;
        sums.part[0] = add ? (S)sums.part[0] + re : re, sums.part[1] = add ? (S)sums.part[1] + im : im;
    }
    return sums;
}
Number integer_sum(const Asked &x, const Number *a, const Number *b, const Number &before, bool is_bool) {
    Number sum = before;
    for (Count p = 0; p < x.product.k; p++)
        sum.bits = is_bool ? sum.bits | (a[p].bits & b[p].bits) : sum.bits + a[p].bits * b[p].bits;
    return sum;
}

/* Whether `got` is near enough to `sum`, whose addends have this size in all. */
bool is_near(const Asked &x, const Dtype &of_c, const Number &got, const Number &sum, double size) {
    const bool is_double = x.product.kernel->sum / x.product.kernel->parts == 8;
    double bound = 2 * (double)(x.product.k + 8) * size * (is_double ? 0x1p-53 : 0x1p-24);
    if (of_c.bytes == 2) bound += (fabs(sum.part[0]) + bound) * ldexp(1, -digits_of(of_c)) + 0x1p-24;
    return fabs(got.part[0] - sum.part[0]) <= bound && fabs(got.part[1] - sum.part[1]) <= bound;
}

/* C as it has to be: in `memory`, which holds what C's memory held. Where bits are not promised, those that C has. */
bool expect(const Asked &x, const Array &a, const Array &b, const Array &c, std::vector<char> &memory) {
    const Product &p = x.product;
    std::vector<Number> row(p.k), columns(p.n * p.k);
    const bool is_double = p.kernel->sum / p.kernel->parts == 8;
    bool right = true;
    for (Count i = 0; i < c.shape[0]; i++)
        for (Count j = 0; j < c.shape[1]; j++) {
            for (Count q = 0; q < p.n; q++)
                for (Count k = 0; k < p.k; k++) columns[q * p.k + k] = read(*b.dtype, b.at(i, j, k, q));
            for (Count r = 0; r < p.m; r++) {
                for (Count k = 0; k < p.k; k++) row[k] = read(*a.dtype, a.at(i, j, r, k));
                for (Count q = 0; q < p.n; q++) {
                    char *const to = memory.data() + (c.at(i, j, r, q) - c.low);
                    const Number before = p.accumulate ? read(*c.dtype, to) : Number{};
                    const Number *const of_a = row.data(), *const of_b = &columns[q * p.k];
                    double size = 0;
                    const Number sum = is_integer(*c.dtype) ? integer_sum(x, of_a, of_b, before, c.dtype->kind == '?')
                                     : is_double            ? float_sum<double>(x, of_a, of_b, before, size)
                                                            : float_sum<float>(x, of_a, of_b, before, size);
                    if (x.exact) write(*c.dtype, to, sum);
                    else {
                        right = right && is_near(x, *c.dtype, read(*c.dtype, c.at(i, j, r, q)), sum, size);
                        memcpy(to, c.at(i, j, r, q), c.dtype->bytes);
                    }
                }
            }
        }
    return right;
}

// Kernels that count which of their tiles are taken

constexpr int MAX_PANEL_TILES = MAX_MR * MAX_VECTORS, MAX_UNPACKED_TILES = UNPACKED_ROWS * MAX_UNPACKED_VECTORS * 2;
constexpr int MAX_TILES = MAX_PANEL_TILES > MAX_UNPACKED_TILES ? MAX_PANEL_TILES : MAX_UNPACKED_TILES;
struct CountedKernel : Kernel {
    const Kernel *real;
    long packed_taken[MAX_TILES], half_packed_taken[MAX_TILES], unpacked_taken[MAX_TILES];
    long dot_taken, dots_taken, vectors_taken[4];
};
CountedKernel &counted(const Tile &x, long CountedKernel::*taken) {
    CountedKernel &kernel = *(CountedKernel *)x.kernel;
    if (taken) __atomic_fetch_add(&(kernel.*taken), 1, __ATOMIC_RELAXED);
    return kernel;
}
template <int I> void packed_tile(const Tile &x) {
    CountedKernel &kernel = counted(x, NULL);
    __atomic_fetch_add(&kernel.packed_taken[I], 1, __ATOMIC_RELAXED);
    kernel.real->packed[I](x);
}
template <int I> void half_packed_tile(const Tile &x) {
    CountedKernel &kernel = counted(x, NULL);
    __atomic_fetch_add(&kernel.half_packed_taken[I], 1, __ATOMIC_RELAXED);
    kernel.real->half_packed[I](x);
}
template <int I> void unpacked_tile(const Tile &x) {
    CountedKernel &kernel = counted(x, NULL);
    __atomic_fetch_add(&kernel.unpacked_taken[I], 1, __ATOMIC_RELAXED);
    kernel.real->unpacked[I](x);
}
void dot(const Tile &x) { counted(x, &CountedKernel::dot_taken).real->dot(x); }
void dots(const Tile &x) { counted(x, &CountedKernel::dots_taken).real->dots(x); }
constexpr VectorKernels Kernel::*VECTORS_BY[] = {&Kernel::column, &Kernel::row};
constexpr MicroKernel VectorKernels::*PASSES[] = {&VectorKernels::columns, &VectorKernels::rows};
template <int I> void vector_tile(const Tile &x) {
    CountedKernel &kernel = counted(x, NULL);
    __atomic_fetch_add(&kernel.vectors_taken[I], 1, __ATOMIC_RELAXED);
    (kernel.real->*VECTORS_BY[I / 2].*PASSES[I % 2])(x);
}

template <int... I> CountedKernel counted_kernel(const Kernel &kernel, std::integer_sequence<int, I...>) {
    static constexpr MicroKernel PACKED[] = {packed_tile<I>...}, HALF_PACKED[] = {half_packed_tile<I>...},
                                 UNPACKED[] = {unpacked_tile<I>...};
    CountedKernel x = {kernel, &kernel, {}, {}, {}, 0, 0, {}};
    x.packed = PACKED, x.half_packed = kernel.half_packed ? HALF_PACKED : NULL;
    x.unpacked = kernel.unpacked ? UNPACKED : NULL;
    if (kernel.dot) x.dot = dot, x.dots = dots;
    static constexpr MicroKernel VECTORS[] = {vector_tile<0>, vector_tile<1>, vector_tile<2>, vector_tile<3>};
    for (int i = 0; i < 4; i++) {
        MicroKernel &pass = x.*VECTORS_BY[i / 2].*PASSES[i % 2];
        if (pass) pass = VECTORS[i];
    }
    return x;
}

// Products

/* What was done, of one kernel. */
enum { FIRST_IN_PLACE = 1, FIRST_VECTOR = 4, OF_PIECES = 7, OF_SLICES, BATCHES, PACKED_B, ACCUMULATED, SQUARES, LOWER_HALF, WAYS };

/* How the first part of a product is multiplied. */
int way_of(const Part &part) {
    if (part.strategy == FIVE_LOOPS) return 0;
    return part.strategy == IN_PLACE ? FIRST_IN_PLACE + part.in_place.order : FIRST_VECTOR + part.by_vector.pass;
}
constexpr const char *NAMES[] = {"five loops", "strips", "rows of C", "rows of B", "dot products",
                                 "a vector by columns", "a vector by rows", "pieces", "slices of k", "batches", "packed B", "accumulated",
                                 "in squares, mirrored", "the lower half, mirrored"};
struct Done {
    long products, ways[WAYS];
};

thread_local Arena arenas[5];
void print(const Asked &x, const char *what) {
    const Product &p = x.product;
    printf("WRONG, %s: %s into %s, m %td, n %td, k %td, %d threads, mc %td, kc %td, nc %td%s%s, %s numbers\n", what,
           p.kernel->dtype, p.kernel->out, p.m, p.n, p.k, p.threads, p.mc, p.kc, p.nc, p.packed ? ", packed B" : "",
           p.accumulate ? ", accumulated" : "", x.whole ? "whole" : "random");
}
const Asked *running;  // of the last caller that began
void out_of_memory(int) {
    const Asked *const asked = __atomic_load_n(&running, __ATOMIC_RELAXED);
    if (asked) print(*asked, "memory beside an operand or the workspace");
    fflush(stdout);
    _exit(1);
}
bool failed(const Asked &x, const char *what, const Array &a, const Array &b, const Array &c) {
    print(x, what);
    for (const Array *y : {&a, &b, &c}) {
        const Count *const s = y->shape, *const d = y->strides;
        printf("    shape %td %td %td %td, strides %td %td %td %td\n", s[0], s[1], s[2], s[3], d[0], d[1], d[2], d[3]);
    }
    return false;
}

/* Memory for panels, exactly as many bytes as are asked for: those after them, up to the next 64, have to stay 255. */
char *workspace(Arena &arena, Count bytes) {
    char *const memory = arena.start + (ARENA - round_up(bytes, 64));
    memset(memory, 255, (size_t)round_up(bytes, 64));
    return memory;
}
bool is_kept(const char *end) {
    for (; (uintptr_t)end % 64; end++)
        if (*end != (char)255) return false;
    return true;
}

/* A grid for the threads, or half of a symmetric C, whatever it costs: sums of few numbers alone are in slices. Squares
   have whole panels. */
Shares random_shares(const Product &p) {
    const Count slices = p.threads > 1 && p.m * p.n < 5000 && one_in(2) ? ceil_div(p.k, p.kc) : 1;
    if (is_symmetric(p) && one_in(3)) return {1, 0, 0, 1, true};
    if (is_symmetric(p) && p.n > p.kernel->nr && !one_in(4)) {
        const Count edge = round_up(from_to(1, p.n - 1), p.kernel->nr);
        if (edge < p.n) return {slices, edge, edge, 1, true};
    }
    if (p.threads == 1 || (slices == 1 && (is_vector(p) || one_in(4)))) return UNSHARED;
    const Count step = has_unpacked_tiles(*p.kernel) && !p.packed ? p.kernel->stored_lanes : p.kernel->nr;
    return {slices, from_to(1, p.m), min(p.n, round_up(from_to(1, p.n), step)), from_to(1, 4)};
}

/* Multiply in memory of random layouts, and compare each byte. */
bool run(Asked &x, bool pack, Done &done) {
    Product &p = x.product;
    pack = pack && !p.of_transposes;
    const Count *const s = x.batch.shape, m = p.m, n = p.n, k = p.k;
    const Dtype &of_a = dtype_named(p.kernel->dtype), &of_c = dtype_named(p.kernel->out);
    const Array a = new_array(arenas[0], of_a, {s[0], s[1], m, k}, true);
    const Array b = p.of_transposes ? transposed(a)
                                    : new_array(arenas[1], of_a, {pack ? 1 : s[0], pack ? 1 : s[1], k, n}, true);
    const Array c = new_array(arenas[2], of_c, {s[0], s[1], m, n}, false);
    fill(a, x.whole, x.scale);
    if (!p.of_transposes) fill(b, x.whole, x.whole ? 1 : 1 / x.scale);
    if (p.accumulate) fill(c, x.whole, 1);
    p.a = a.data, p.rs_a = a.strides[2], p.cs_a = a.strides[3];
    p.b = b.data, p.rs_b = b.strides[2], p.cs_b = b.strides[3];
    p.c = c.data, p.rs_c = c.strides[2], p.cs_c = c.strides[3];
    p.packed_n = n;
    for (int axis = 0; axis < 2; axis++) {
        x.batch.a[axis] = a.strides[axis], x.batch.c[axis] = c.strides[axis];
        x.batch.b[axis] = pack ? 0 : b.strides[axis];
    }
    if (pack) {
        const Count bytes = pack_operand(p, NULL);
        char *const panels = workspace(arenas[4], bytes);
        pack_operand(p, panels);
        p.packed = panels;
        if (!is_kept(panels + bytes)) return failed(x, "bytes after packed B", a, b, c);
    }
    Plan plan;
    plan_with(p, one_in(2) ? shares_of(p) : random_shares(p), products_in(x.batch), plan);
    const Count bytes = plan.bytes;
    p.buffer = workspace(arenas[3], bytes);
    std::vector<char> memory(c.low, c.low + c.bytes);
    const Product given = p;
    __atomic_store_n(&running, &x, __ATOMIC_RELAXED);
    begin_product(p.threads, 1e9);  // so many vectors that blocked workers are called
    run(given, plan, x.batch);
    end_product(p.threads);
    __atomic_store_n(&running, NULL, __ATOMIC_RELAXED);

    const bool in_pieces = pieces_in(plan) > 1;
    x.exact = x.whole || is_integer(of_c) || (!is_dots(p) && p.kernel->group == 1);
    done.products += products_in(x.batch);
    for (int way : {way_of(plan.parts[0][0][0]), in_pieces ? (int)OF_PIECES : -1,
                    plan.sharing == SLICES ? (int)OF_SLICES : -1, x.batch.axes ? (int)BATCHES : -1,
                    pack ? (int)PACKED_B : -1, p.accumulate ? (int)ACCUMULATED : -1,
                    plan.is_mirrored ? (int)(plan.sharing == WHOLE ? LOWER_HALF : SQUARES) : -1})
        if (way >= 0) done.ways[way]++;

    Array whole_b = b;  // the packed one, for each product of a batch
    if (pack) whole_b.strides[0] = whole_b.strides[1] = 0;
    if (!expect(x, a, whole_b, c, memory)) return failed(x, "beyond the error bound", a, b, c);
    if (memcmp(memory.data(), c.low, memory.size())) return failed(x, "bits of C, or bytes between them", a, b, c);
    if (!is_kept(p.buffer + bytes)) return failed(x, "bytes after the workspace", a, b, c);
    return true;
}

/* Blocks of k as even as the Python module makes them. */
Count even(Count k, Count kc, Count group) { return round_up(ceil_div(k, ceil_div(k, kc)), group); }
Count near_multiple(Count of, Count most) { return std::max<Count>(1, of * from_to(1, most) + from_to(-1, 1)); }

/* Of caches so small that small products take every way. */
const Extents EXTENTS = extents_of({.l1 = 4 * KIB, .l1_way = 1 * KIB, .l2 = 16 * KIB, .l2_way = 2 * KIB, .l3 = 0,
                                    .huge_page = 0});

Asked random_asked(const Kernel &kernel) {
    Asked x = {};
    Product &p = x.product;
    p.extents = &EXTENTS, p.team_flop = 1e5;
    p.kernel = &kernel, p.narrows = kernel.narrows, p.accumulate = one_in(3);
    p.mc = one_in(2) ? kernel.mc : from_to(1, 3 * kernel.mr), p.nc = one_in(2) ? 4096 : from_to(1, 200);
    p.threads = one_in(2) ? 1 : (int)from_to(2, 3), p.max_b = one_in(4) ? from_to(1, 1 << 14) : 0;
    x.whole = one_in(2), x.scale = ldexp(1, (int)from_to(-6, 6));
    x.batch.shape[0] = x.batch.shape[1] = 1;
    return x;
}
void set_depth(Product &p, Count k, Count kc) {
    p.k = k;
    p.kc = even(k, is_dots(p) ? DOT_KC : kc, p.kernel->group);
}

/* So deep that it is not multiplied in place, if there is such a depth. */
void set_depth_of_five_loops(Product &p) {
    const Count least = from_to(9, 30);
    p.cs_b = p.kernel->sum;
    for (Count k = least; k < 1 << 16; k *= 2) {
        set_depth(p, k, p.kernel->kc);
        Plan plan;
        plan_of(p, 1, plan);
        if (plan.parts[0][0][0].strategy == FIVE_LOOPS) return;
    }
    set_depth(p, least, p.kernel->kc);
}

enum class Shape { SMALL, EDGES, FEW_ROWS, ONE_COLUMN, DEEP, THIN, PIECES, SYMMETRIC, MANY_ROWS, BATCH, COUNT };
Asked asked(const Kernel &kernel, Shape shape) {
    Asked x = random_asked(kernel);
    Product &p = x.product;
    Count k = from_to(1, 40), kc = kernel.kc;
    p.m = from_to(1, 40), p.n = from_to(1, 40);
    if (one_in(2)) kc = kernel.group * from_to(1, 12);
    if (shape == Shape::EDGES) {
        p.m = near_multiple(kernel.mr, 3), p.n = near_multiple(one_in(2) ? kernel.nr : kernel.lanes, 3);
        if (!one_in(8)) k = near_multiple(kc = kernel.group * from_to(1, 12), 3);
        else k = near_multiple(kc = kernel.kc, 2), p.m = from_to(1, kernel.mr + 1), p.n = from_to(2, kernel.lanes + 1);
    } else if (shape == Shape::FEW_ROWS) {
        p.m = from_to(1, 12), p.n = from_to(41, 600);
        if (one_in(2)) k = from_to(49, 140);
    } else if (shape == Shape::ONE_COLUMN) {
        p.n = 1, k = one_in(6) ? near_multiple(DOT_KC, 2) : from_to(1, 300), p.m = from_to(1, k > 300 ? 6 : 40);
        if (one_in(6)) p.m = from_to(500, 3000), k = from_to(1, 12);
        if (one_in(3)) std::swap(p.m, p.n);
    } else if (shape == Shape::DEEP) {
        p.threads = (int)from_to(1, 5), kc = kernel.group * from_to(1, 9), k = kc * from_to(4, 12) + from_to(-1, 1);
        p.m = from_to(1, 20), p.n = from_to(1, one_in(2) ? 20 : 200);
    } else if (shape == Shape::THIN) {
        p.threads = (int)from_to(2, 3), p.m = from_to(800, 1300), p.n = from_to(1, 12), k = from_to(1, 12);
        if (one_in(2)) std::swap(p.m, p.n);
    } else if (shape == Shape::PIECES) {
        p.threads = (int)from_to(2, 5), p.m = from_to(13, 250), p.n = from_to(2, 600), k = from_to(1, p.m * p.n > 20000 ? 40 : 250);
    } else if (shape == Shape::SYMMETRIC) {
        p.m = p.n = from_to(2, 150), k = from_to(1, 100), p.of_transposes = true;
        if (one_in(4)) x.batch.axes = 2, x.batch.shape[0] = from_to(1, 3), x.batch.shape[1] = from_to(1, 3);
    } else if (shape == Shape::BATCH) {
        x.batch.axes = 2, x.batch.shape[0] = from_to(1, 4), x.batch.shape[1] = from_to(1, 4);
        p.m = from_to(1, 20), p.n = from_to(1, 20), k = from_to(1, 20);
    }
    if (shape == Shape::MANY_ROWS) p.m = from_to(1, 200);
    set_depth(p, k, kc);
    if (shape == Shape::MANY_ROWS && one_in(5)) set_depth_of_five_loops(p);
    return x;
}

/* A product that takes a tile of so many rows and columns in place, or, if `is_packed`, in five loops with blocks of so
   many rows. */
Asked asked_of_tile(const Kernel &kernel, Count rows, Count columns, bool is_packed) {
    Asked x = random_asked(kernel);
    Product &p = x.product;
    const Count many = kernel.whole_panels ? round_up(FEW_ROWS, kernel.mr) + rows : rows * (FEW_ROWS / rows + 1);
    p.mc = rows, p.m = is_packed ? many : rows, p.n = columns, p.threads = 1;
    if (is_packed) set_depth_of_five_loops(p);
    else set_depth(p, from_to(1, 20), kernel.kc);
    return x;
}

void multiply(Product &p) {
    Plan plan;
    plan_of(p, 1, plan);
    p.buffer = workspace(arenas[3], plan.bytes);
    run(p, plan, Batch{});
}

/* Every number of 16 bits, multiplied by one: it stays what it is, and NaN stays NaN. */
bool keeps_every_half(const Kernel &kernel) {
    const Count count = 1 << 16;
    std::vector<uint16_t> a(count), b(2, kernel.dtype[0] == 'f' ? 0x3c00 : 0x3f80), c(2 * count);
    for (Count i = 0; i < count; i++) a[i] = (uint16_t)i;
    Product p = {};
    p.extents = &EXTENTS, p.kernel = &kernel, p.m = count, p.n = 2, p.k = 1, p.threads = 1;
    p.mc = kernel.mc, p.kc = kernel.group, p.nc = 4096;
    p.a = (char *)a.data(), p.rs_a = p.cs_a = 2, p.b = (char *)b.data(), p.rs_b = 4, p.cs_b = 2;
    p.c = (char *)c.data(), p.rs_c = 4, p.cs_c = 2, p.narrows = kernel.narrows, p.packed_n = 2;
    multiply(p);
    const int infinity = kernel.dtype[0] == 'f' ? 0x7c00 : 0x7f80, least = kernel.dtype[0] == 'f' ? 0x400 : 0x80;
    for (Count i = 0; i < 2 * count; i++) {
        const int given = a[i / 2], got = c[i];
        const bool is_nan = (given & 0x7fff) > infinity, flushed = kernel.group > 1 && (given & 0x7fff) < least;
        if (is_nan ? (got & 0x7fff) <= infinity : flushed ? got & 0x7fff : got != given && (given & 0x7fff)) {
            printf("WRONG: %s %04x times one is %04x\n", kernel.dtype, given, got);
            return false;
        }
    }
    return true;
}

/* (1 + e)^2 - 1 - 2e is e^2 where the multiply-add rounds once, and 0 where the product is rounded too. */
bool is_fused(const Kernel &kernel) {
    const double a[] = {-1 - 0x1p-29, 1 + 0x1p-30}, b[] = {1, 1, 1 + 0x1p-30, 1 + 0x1p-30};
    double c[2];
    Product p = {};
    p.extents = &EXTENTS, p.kernel = &kernel, p.m = 1, p.n = 2, p.k = p.kc = 2, p.mc = kernel.mc, p.nc = 4096, p.threads = 1;
    p.a = (const char *)a, p.rs_a = 16, p.cs_a = 8, p.b = (const char *)b, p.rs_b = 16, p.cs_b = 8;
    p.c = (char *)c, p.rs_c = 16, p.cs_c = 8;
    multiply(p);
    return c[0] != 0;
}

/* One kernel: every class of product, every tile; wrong if one is never taken, and it `covers`. */
bool check(const Kernel &real, long products, bool covers) {
    const CountedKernel kernel = counted_kernel(real, std::make_integer_sequence<int, MAX_TILES>());
    const int packed = kernel.mr * kernel.vectors;
    Done done = {};
    for (long i = 0; i < products; i++) {
        Asked x = asked(kernel, (Shape)(i % (long)Shape::COUNT));
        if (!run(x, one_in(4), done)) return false;
    }
    const bool in_place = kernel.unpacked && kernel.as_stored;
    const auto is_missing = [&](int i) { return kernel.*VECTORS_BY[i / 2].*PASSES[i % 2] && !kernel.vectors_taken[i]; };
    int tiles = 0, missing = 0;
    const auto take = [&](const long &times, Count rows, Count vectors, bool whole, bool is_packed) {
        for (int attempt = 0; attempt < 60 && !times; attempt++) {
            const Count wide = is_packed ? kernel.vectors : kernel.unpacked_vectors[rows - 1];
            const Count lanes = is_packed ? kernel.lanes : kernel.stored_lanes;
            Count columns = vectors * lanes - (whole ? 0 : from_to(!is_packed, lanes - 1));
            if (columns == 1) columns += wide * lanes;  // the last one: a single column is for dot products
            Asked x = asked_of_tile(kernel, rows, columns, is_packed);
            if (!run(x, is_packed && one_in(4), done)) return false;
        }
        tiles++, missing += !times;
        return true;
    };
    for (int tile = 0; tile < packed; tile++) {
        const Count rows = tile / kernel.vectors + 1, vectors = tile % kernel.vectors + 1;
        if (!take(kernel.packed_taken[tile], rows, vectors, false, true)) return false;
        if (kernel.half_packed && !take(kernel.half_packed_taken[tile], rows, vectors, false, true)) return false;
    }
    for (int tile = 0; in_place && tile < UNPACKED_ROWS * MAX_UNPACKED_VECTORS * 2; tile++) {
        const Count rows = tile / 2 / MAX_UNPACKED_VECTORS + 1, vectors = tile / 2 % MAX_UNPACKED_VECTORS + 1;
        if (vectors > kernel.unpacked_vectors[rows - 1]) continue;
        const bool whole = tile % 2, one_column = vectors == 1 && kernel.stored_lanes == (whole ? 1 : 2);
        if (kernel.stored_lanes == 1 && !whole) continue;  // a vector of one number is whole
        if (kernel.row.columns && rows == 1) continue;     // the loops of vectors take a row, but for some pieces
        if (one_column && rows > kernel.unpacked_rows[1]) continue;  // in high panels C is one vector: dot products
        if (!take(kernel.unpacked_taken[tile], rows, vectors, whole, false)) return false;
    }
    for (int attempt = 0; in_place && attempt < 500 && !done.ways[FIRST_IN_PLACE + BY_ROWS_OF_B]; attempt++) {
        Asked x = asked(kernel, Shape::FEW_ROWS);
        if (!run(x, false, done)) return false;
    }
    for (int attempt = 0; kernel.mirror && attempt < 500 && !(done.ways[SQUARES] && done.ways[LOWER_HALF]); attempt++) {
        Asked x = asked(kernel, Shape::SYMMETRIC);
        if (!run(x, false, done)) return false;
    }
    for (int i = 0; i < 4; i++)
        for (int attempt = 0; attempt < 500 && is_missing(i); attempt++) {
            Asked x = asked(kernel, Shape::ONE_COLUMN);
            if (!run(x, false, done)) return false;
        }
    const auto is_possible = [&](int way) {
        const bool is_stored = way >= FIRST_IN_PLACE && way < FIRST_VECTOR;
        return (!is_stored || in_place) && (way != FIRST_VECTOR + DOTS || kernel.dot) && (way < SQUARES || kernel.mirror)
               && (way != FIRST_VECTOR + COLUMNS || kernel.column.columns) && (way != FIRST_VECTOR + ROWS || kernel.row.rows);
    };
    const auto all_ways = [&] {
        for (int way = 0; way < WAYS; way++)
            if (is_possible(way) && !done.ways[way]) return false;
        return !kernel.dot || (kernel.dot_taken && kernel.dots_taken);
    };
    for (int attempt = 0; attempt < 2000 && !all_ways(); attempt++) {  // what no product has taken by chance
        Asked x = asked(kernel, (Shape)(attempt % (int)Shape::COUNT));
        if (!run(x, one_in(4), done)) return false;
    }
    if (real.stored == 2 && real.narrows && strstr(real.dtype, "float16") && !keeps_every_half(kernel)) return false;

    printf("%-10s into %-10s %6ld products:", kernel.dtype, kernel.out, done.products);
    for (int way = 0; way < WAYS; way++)
        if (is_possible(way)) printf(" %ld %s,", done.ways[way], NAMES[way]);
    bool all = !missing && all_ways();
    for (int i = 0; i < 4; i++) all = all && !is_missing(i);
    printf(" %d of %d tiles%s\n", tiles - missing, tiles, all ? "" : covers ? ": WRONG, some were never taken" : ", not all ways");
    return all || !covers;
}

/* One kernel, by several callers at the same time. */
struct Checker {
    pthread_t thread;
    uint64_t seed;
    const Kernel *kernel;
    long products;
    bool is_right;
};
void *checked(void *given) {
    Checker &x = *(Checker *)given;
    state = x.seed;
    x.is_right = check(*x.kernel, x.products, false);
    return NULL;
}
bool check_at_once(const Kernel &kernel, long products, int callers) {
    std::vector<Checker> all(callers);
    for (Checker &x : all) {
        x = {.thread = {}, .seed = random_bits(), .kernel = &kernel, .products = products, .is_right = false};
        if (pthread_create(&x.thread, NULL, checked, &x)) perror("pthread_create"), exit(1);
    }
    bool is_right = true;
    for (Checker &x : all) pthread_join(x.thread, NULL), is_right = is_right && x.is_right;
    return is_right;
}

// The interpreter's lock

/* The share of a second for which products keep the lock that take so long if they give it away, and if they keep it. */
double share_kept(Handover &lock, long long &now, int others, long long giving_ns, long long keeping_ns) {
    const double vectors = 2 * SHORT_VECTORS;
    long long kept_ns = 0;
    lock.away = others;
    for (const long long end = now + 1000000000; now < end;) {
        const bool keeps = lock.keeps(vectors);
        const long long ns = keeps ? keeping_ns : giving_ns;
        now += ns, kept_ns += keeps * ns;
        if (lock.counts(vectors)) lock.note(vectors, keeps ? 0 : others, now);
    }
    return (double)kept_ns * 1e-9;
}
bool check_lock() {
    Handover lock;
    long long now = 1000000000;
    const auto right = [&](bool is_right, const char *what) {
        if (!is_right) printf("the lock of the interpreter: %s\n", what);
        return is_right;
    };
    return right(lock.keeps(SHORT_VECTORS - 1) && !lock.keeps(SHORT_VECTORS), "short products keep it, others do not at first")
        && right(share_kept(lock, now, 0, 20000, 10000) == 0, "one thread has nobody to keep it from")
        && right(share_kept(lock, now, 3, 20000, 10000) > 0.9, "it is kept where that is faster")
        && right(!lock.keeps(MIDDLE_VECTORS), "long products never keep it")
        && right(share_kept(lock, now, 3, 10000, 11000) < 0.7, "it is given away soon after that is faster")
        && right(share_kept(lock, now, 3, 10000, 11000) < 0.1, "it is given away where that is faster")
        && right(share_kept(lock, now, 0, 10000, 9000) < 0.1 && !lock.counts(SHORT_VECTORS), "the others have gone");
}

}  // namespace

int main(int count, char **given) {
    state = count > 1 ? strtoull(given[1], NULL, 0) : (uint64_t)time(NULL);
    const long products = count > 2 ? strtol(given[2], NULL, 0) : 1000, callers = count > 3 ? strtol(given[3], NULL, 0) : 1;
    const Kernel *kernel = (const Kernel *)gemmlab_kernels();
    (void)cpu_has_amx();  // asks Linux for its registers
    signal(SIGSEGV, out_of_memory);
    if (!check_lock()) return 1;
    start_workers(4);
    printf("seed %llu, %ld products of each kernel by %ld callers\n", (unsigned long long)state, products, callers);
    for (const Kernel *x = kernel; x->dtype; x++)
        if (!strcmp(x->dtype, "float64")) fused = is_fused(*x);
    for (; kernel->dtype; kernel++, fflush(stdout))
        if (!(callers > 1 ? check_at_once(*kernel, products, (int)callers) : check(*kernel, products, true))) return 1;
    puts(fused ? "right; multiply-adds are fused" : "right; multiply-adds are not fused");
}
