/* What emulated products by bfloat16 parts do besides multiplying, for one instruction set: see parts.py.

       split      rows of float32 numbers into three planes of bfloat16 numbers, whose sum they are

   A part is the nearest bfloat16 number to what the parts before it leave over, and what it leaves over is exact. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PARTS 3
#define AT_ONCE 8              /* rows of a piece */
#define BLOCK 256              /* numbers that are taken apart together */
#define MAGNITUDE 0x7fffffffu  /* bits of a float without its sign */
#define INFINITE 0x7f800000u   /* those of infinity; NaN's are above */
#define LARGEST 0x7f7fu        /* the largest bfloat16 number */

/* Rows of numbers, and the bits of their parts, plane by plane. Steps are in numbers. */
typedef struct {
    const float *x;
    ptrdiff_t rows, numbers, along, across;
    uint16_t *out;
    uint8_t *special; /* for each row, whether it has infinities or NaN */
} splitting;

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* The nearest bfloat16 number, ties to even, the largest for all above it. */
static inline uint32_t nearest(float x) {
    const uint32_t bits = bits_of(x), size = bits & MAGNITUDE, near = (size + 0x7fff + (size >> 16 & 1)) >> 16;
    return (near < LARGEST ? near : LARGEST) | (bits ^ size) >> 16;
}

/* AT_ONCE rows. */
static void split(const void *work, ptrdiff_t piece) {
    const splitting *of = work;
    const ptrdiff_t n = of->numbers, plane = of->rows * n, first = piece * AT_ONCE;
    const ptrdiff_t end = first + AT_ONCE < of->rows ? first + AT_ONCE : of->rows;
    for (ptrdiff_t i = first; i < end; i++) {
        uint32_t most = 0;
        for (ptrdiff_t begin = 0; begin < n; begin += BLOCK) {
            const int some = (int)(n - begin < BLOCK ? n - begin : BLOCK);
            float left[BLOCK];
            for (int e = 0; e < some; e++) {
                left[e] = of->x[i * of->along + (begin + e) * of->across];
                const uint32_t size = bits_of(left[e]) & MAGNITUDE;
                most = size > most ? size : most;
            }
            for (int part = 0; part < PARTS; part++) {
                uint16_t *to = of->out + part * plane + i * n + begin;
                for (int e = 0; e < some; e++) {
                    const uint32_t found = nearest(left[e]);
                    to[e] = (uint16_t)found;
                    left[e] -= float_of(found << 16);
                }
            }
        }
        of->special[i] = most >= INFINITE;
    }
}

/* As compiled.py reads it: functions of a piece of some work. */
typedef void (*task)(const void *work, ptrdiff_t piece);
static const struct {
    task split;
} TABLE = {split};

const void *gemmlab_kernels(void) { return &TABLE; }
