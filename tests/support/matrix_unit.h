/* NVIDIA's matrix unit on the host: what kernels/units/units.h asks of a GPU, by the PTX ISA's description, so that the
   text of tensor, and of what is launched beside it, runs and can be checked where no GPU is.

   A copy to local memory makes its place poison at once, and happens as late as the kernel's waits allow: so a kernel
   that reads too early, or copies to where others still read, gives wrong numbers. The four addresses of `ldmatrix` that
   meet in one bank end the program. */
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>

#define __kernel
#define __global
#define __local static
#define __constant static
#define LOCAL_POINTER
#define GROUP
#define INLINED
#define CLK_LOCAL_MEM_FENCE 0
#ifndef UNIT
#define UNIT 0
#endif
#define F16 1
#define BF16 2
#define INT8 3
#define TF32 4
#define F64 5

#include "fibers.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
struct alignas(16) uint4 {
    uint x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct int2 {
    int x, y;
};
template <class T> static T max(T x, T y) { return std::max(x, y); }
template <class T> static T min(T x, T y) { return std::min(x, y); }
static uint as_uint(float x) {
    uint bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static float as_float(uint bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static ulong as_ulong(double x) {
    ulong bits;
    memcpy(&bits, &x, 8);
    return bits;
}
static double as_double(ulong bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
static int clz(uint x) { return x ? __builtin_clz(x) : 32; }
static int clz(ulong x) { return x ? __builtin_clzl(x) : 64; }
static void vstore_half(float x, int, half *to) { *to = x; }
static float vload_half(int, const half *from) { return *from; }
using std::ldexp;

#if UNIT == F64
typedef double part;
#else
typedef uint part;
#endif
const int WARP_ITEMS = 32, POISON = 0xff;

/* What each work-item of a warp brings to an instruction of all of them. */
struct Brought {
    const uchar *row;
    part a[4], b[2];
};
static Brought brought[GROUP_X * GROUP_Y];
static Brought *of_warp() { return brought + self->number / WARP_ITEMS * WARP_ITEMS; }
static int lane() { return self->number % WARP_ITEMS; }

/* The rows that a warp brings, eight for each of four matrices. */
static const Brought *rows_of_warp(const uint4 *row) {
    of_warp()[lane()].row = (const uchar *)row;
    wait_for(FOR_WARP);
    const Brought *all = of_warp();
    for (int matrix = 0; matrix < 4; matrix++) {
        int banks = 0;
        for (int i = 0; i < 8; i++) banks |= 1 << (uintptr_t)all[matrix * 8 + i].row / 16 % 8;
        if (banks != 255) abort();
    }
    return all;
}
static void load_matrices(part to[4], const uint4 *row) {
    const Brought *all = rows_of_warp(row);
    for (int matrix = 0; matrix < 4; matrix++) memcpy(to + matrix, all[matrix * 8 + lane() / 4].row + lane() % 4 * 4, 4);
    wait_for(FOR_WARP);  // all have read
}
static void load_transposed(part to[4], const uint4 *row) {
    const Brought *all = rows_of_warp(row);
    for (int matrix = 0; matrix < 4; matrix++)
        for (int i = 0; i < 2; i++)
            memcpy((uchar *)(to + matrix) + 2 * i, all[matrix * 8 + lane() % 4 * 2 + i].row + lane() / 4 * 2, 2);
    wait_for(FOR_WARP);
}

/* The narrow numbers of a part. */
static const int IN_A_PART = UNIT == F64 || UNIT == TF32 ? 1 : UNIT == INT8 ? 4 : 2;
static double number_of(part x, int i) {
#if UNIT == F64
    return x;
#elif UNIT == TF32
    return as_float(x & ~(uint)0x1fff);
#elif UNIT == INT8
    return (int8_t)(x >> 8 * i);
#elif UNIT == BF16
    return as_float(x >> 16 * i << 16);
#else
    const ushort bits = x >> 16 * i;
    half number;
    memcpy(&number, &bits, 2);
    return number;
#endif
}

/* Sums in float32 are cut off: all terms where the largest of them has its last bit, and the sum where it has its own. */
static float added(float c, const double *terms, int count) {
    double largest = std::fabs(c), sum = 0;
    for (int i = 0; i < count; i++) largest = std::max(largest, std::fabs(terms[i]));
    if (largest == 0 || !std::isfinite(largest)) {
        for (int i = 0; i < count; i++) sum += terms[i];
        return c + sum;
    }
    const int last = 23 - std::ilogb(largest);
    for (int i = 0; i < count; i++) sum += std::trunc(std::ldexp(terms[i], last));
    sum += std::trunc(std::ldexp((double)c, last));
    const float nearest = sum;
    const float down = std::fabs(nearest) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
    return std::ldexp(down, -last);
}
static double added(double c, const double *terms, int count) {
    for (int i = 0; i < count; i++) c += terms[i];
    return c;
}
static int added(int c, const double *terms, int count) {
    for (int i = 0; i < count; i++) c += (int)terms[i];
    return c;
}

#if COPIERS  // of a kernel whose warpgroups multiply
#include "warpgroup_unit.h"
#else
#define COPY_POISONS(to)
#define ITEM_HAS_COPIED(copy)
#define LATE_WORK no_late_work
#endif

struct Copy {
    void *to;
    const void *from;
    int bytes;
};
static std::vector<Copy> begun[GROUP_X * GROUP_Y];
static std::deque<std::vector<Copy>> groups_of[GROUP_X * GROUP_Y];

static void copy_16(uint4 *to, const uchar *from, const int bytes) {
    if ((uintptr_t)to % 16 || (bytes && (uintptr_t)from % 16)) abort();
    memset(to, POISON, 16);
    COPY_POISONS(to);
    begun[self->number].push_back({to, from, bytes});
}
static void commit_copies() {
    groups_of[self->number].push_back(std::move(begun[self->number]));
    begun[self->number].clear();
}
static void wait_for_copies(size_t most) {
    auto &groups = groups_of[self->number];
    for (; groups.size() > most; groups.pop_front())
        for (const Copy &x : groups.front()) {
            memset(x.to, 0, 16);
            if (x.bytes) memcpy(x.to, x.from, x.bytes);
            ITEM_HAS_COPIED(x);
        }
}

template <class Real> static void multiply_add(Real c[4], const part a[4], const part b[2]) {
    Brought &mine = of_warp()[lane()];
    memcpy(mine.a, a, sizeof mine.a), memcpy(mine.b, b, sizeof mine.b);
    wait_for(FOR_WARP);
    const Brought *all = of_warp();
    for (int i = 0; i < 4; i++) {
        const int row = lane() / 4, lower = i / 2, column = lane() % 4 * 2 + i % 2;
        double terms[8 * IN_A_PART];
        for (int k = 0; k < 8; k++) {
            const part x = all[row * 4 + k % 4].a[lower + k / 4 * 2], y = all[column * 4 + k % 4].b[k / 4];
            for (int n = 0; n < IN_A_PART; n++) terms[k * IN_A_PART + n] = number_of(x, n) * number_of(y, n);
        }
        c[i] = added(c[i], terms, 8 * IN_A_PART);
    }
    wait_for(FOR_WARP);
}

/* The address of a map, which is the first of its words. */
static void set_address(long *map, const uchar *matrices) { *map = (long)matrices; }
static void publish_maps() {}
#define WORDS_OF_MAP 16

/* An argument that is memory becomes a pointer of the type that the kernel has there. */
struct Memory {
    char *begin;
    template <class T> operator T *() const { return (T *)begin; }
};

/* A function for ctypes: the kernel CALL, by a grid of `groups`, with `memory` and `numbers`. */
#define RUN                                                                                                           \
    static char *const *memory;                                                                                       \
    static const long *numbers;                                                                                       \
    static void run_kernel() {                                                                                        \
        CALL;                                                                                                         \
        groups_of[self->number].clear();                                                                              \
    }                                                                                                                 \
    extern "C" void run(const long *groups, int backwards, char *const *given, const long *others) {                  \
        memory = given, numbers = others;                                                                             \
        groups_x = groups[0], groups_y = groups[1], groups_z = groups[2];                                             \
        run_grid(WARP_ITEMS, LATE_WORK, backwards);                                                                            \
    }
