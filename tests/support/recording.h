/* OpenCL C's keywords and functions for the host, with numbers that note where they are read and written: so a rung's
   text, compiled with this header before it, says what its work-items access.

   Accesses go to standard output, seven integers each: work-group, barriers passed, work-item, whether the memory is
   global, whether it is a store, bytes, and the address from the start of A or of the local memory. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define __kernel
#define __global
#define __local [[gnu::section("local_memory")]] static
#define LOCAL_POINTER
#define GROUP
#define CLK_LOCAL_MEM_FENCE 0
#define REAL number

extern char __start_local_memory[] __attribute__((weak)), __stop_local_memory[] __attribute__((weak));

#include "fibers.h"

static char *global_memory;
static size_t global_bytes;

static void note(const void *at, int bytes, bool write) {
    const char *x = (const char *)at;
    const bool global = x >= global_memory && x < global_memory + global_bytes;
    if (!global && !(x >= __start_local_memory && x < __stop_local_memory)) return;  // private
    const int64_t address = x - (global ? global_memory : __start_local_memory);
    const int64_t all[] = {group_y_now * groups_x + group_x_now, self->interval, self->number, global, write, bytes, address};
    fwrite(all, sizeof all, 1, stdout);
}

template <int COUNT> struct alignas(4 * COUNT) numbers {
    float raw[COUNT];
    numbers() = default;
    numbers(double) {}
    numbers(const numbers &x) { note(&x, sizeof x, false); }
    numbers &operator=(const numbers &x) {
        note(&x, sizeof x, false), note(this, sizeof x, true);
        return *this;
    }
    numbers &operator+=(const numbers &x) {
        note(&x, sizeof x, false), note(this, sizeof x, false), note(this, sizeof x, true);
        return *this;
    }
    friend numbers operator*(const numbers &x, const numbers &y) {
        note(&x, sizeof x, false), note(&y, sizeof y, false);
        return {};
    }
};
using number = numbers<1>;
using number2 = numbers<2>;
using number4 = numbers<4>;
struct int2 {
    int x, y;
};
template <class T, class U> static auto min(T x, U y) { return x < y ? x : y; }

/* main, of a product of n x n matrices with `pitch` numbers from row to row, of which each begins on a page. */
#define RECORD                                                                                                        \
    static long matrix_bytes;                                                                                         \
    static int extent, pitch;                                                                                         \
    static void run_kernel() {                                                                                        \
        number *a = (number *)global_memory, *b = (number *)(global_memory + matrix_bytes),                           \
               *c = (number *)(global_memory + 2 * matrix_bytes);                                                     \
        gemm(extent, extent, extent, a, 0, pitch, 0, b, 0, pitch, 0, c, 0, pitch, 0);                                 \
    }                                                                                                                 \
    int main(int, char **given) {                                                                                     \
        extent = atoi(given[1]), pitch = atoi(given[2]), groups_x = atoi(given[3]), groups_y = atoi(given[4]);        \
        matrix_bytes = (extent * pitch * 4L + 4095) / 4096 * 4096;                                                    \
        global_bytes = 3 * matrix_bytes;                                                                              \
        global_memory = (char *)aligned_alloc(4096, global_bytes);                                                    \
        run_grid(GROUP_X * GROUP_Y);                                                                                  \
    }
