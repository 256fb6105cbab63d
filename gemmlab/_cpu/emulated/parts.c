/* What emulated products by bfloat16 or float16 parts do besides multiplying, for one instruction set: see parts.py.

       split      rows of float32 numbers into three bfloat16 numbers each, whose sum they are
       pair       rows, scaled, into two float16 numbers each, whose sum they nearly are
       rescale    sums of products of scaled rows and columns, scaled back

   A part is the nearest narrow number to what the parts before it leave over, and what it leaves over is exact. The parts
   stand along k, those of a chunk one after the other, and those of B in reverse:

       A    a0 a1 a2 | a0 a1 a2 | ...        B'    b2 b1 b0 | b2 b1 b0 | ...

   So parts whose numbers have the same sum meet in one product: a0 b2 + a1 b1 + a2 b0 is that of three, a0 b1 + a1 b0 of
   the first two of A and the last two of B, and a0 b0 of the first and the last. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 3
#define PAIR_EXPONENT 15       /* the largest number of a scaled row is below 2^15 */
#define NORMAL_HALF 0x38800000u /* bits of 2^-14 as a float: from here on a float16 number has 11 bits */
#define AT_ONCE 8              /* rows of a piece */
#define BLOCK 256              /* numbers that are taken apart together */
#define MAGNITUDE 0x7fffffffu  /* bits of a float without its sign */
#define INFINITE 0x7f800000u   /* those of infinity; NaN's are above */
#define LARGEST 0x7f7fu        /* the largest bfloat16 number */

/* Rows of numbers, each along k or each at one k, and the bits of their parts. Steps are in numbers. */
typedef struct {
    const float *x;
    ptrdiff_t rows, numbers, along, across, chunk; /* numbers of k, whose parts stand together: a multiple of BLOCK */
    uint16_t *out;
    uint8_t *special; /* for each row, whether it has infinities or NaN */
    int64_t *scales;  /* of pair: the power of two for each row */
    int across_k, reverse, failed;
} splitting;

/* Where a part of number `p` of row `i` goes, of so many. */
static inline uint16_t *place_of(const splitting *of, int parts, int part, ptrdiff_t i, ptrdiff_t p) {
    const ptrdiff_t k = of->across_k ? of->rows : of->numbers, at = of->across_k ? i : p, chunk = at / of->chunk * of->chunk;
    const ptrdiff_t numbers = k - chunk < of->chunk ? k - chunk : of->chunk;
    const ptrdiff_t along = parts * chunk + (of->reverse ? parts - 1 - part : part) * numbers + at - chunk;
    return of->out + (of->across_k ? along * of->numbers + p : i * parts * k + along);
}

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
    const ptrdiff_t n = of->numbers, first = piece * AT_ONCE;
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
                uint16_t *to = place_of(of, PARTS, part, i, begin);
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

/* The nearest float16 number, ties to even, of a number below 2^15. */
static inline float through_half(float x) {
    const float size = fabsf(x), small = (size + 0.5f) - 0.5f; /* the last bit of 0.5 is that of the smallest ones */
    const uint32_t bits = bits_of(size);
    const float normal = float_of((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
    return copysignf(bits < NORMAL_HALF ? small : normal, x);
}

/* The bits of a float that is a float16 number. */
static inline uint32_t bits_of_half(float x) {
    const float size = fabsf(x);
    const uint32_t bits = bits_of(size), small = bits_of(size + 0.5f) - bits_of(0.5f), normal = (bits >> 13) - (112 << 10);
    return (bits < NORMAL_HALF ? small : normal) | (bits_of(x) & ~MAGNITUDE) >> 16;
}

static inline float power(int n) { return float_of((uint32_t)(n + 127) << 23); } /* 2^n, for n from -126 to 127 */

/* A row of numbers side by side. One with infinities or NaN counts as zeros. */
static void pair_row(float *row, const splitting *of, ptrdiff_t i) {
    const ptrdiff_t n = of->numbers;
    uint32_t most = 0;
    for (ptrdiff_t p = 0; p < n; p++) {
        const uint32_t size = bits_of(row[p]) & MAGNITUDE;
        most = size > most ? size : most;
    }
    of->special[i] = most >= INFINITE;
    if (most >= INFINITE) memset(row, 0, n * sizeof *row);
    int exponent;
    frexpf(most >= INFINITE ? 0 : float_of(most), &exponent);
    const int scale = PAIR_EXPONENT - exponent;
    const float first = power(scale / 2), second = power(scale - scale / 2);
    of->scales[i] = scale;
    for (ptrdiff_t begin = 0; begin < n; begin += BLOCK) {
        uint16_t *high = place_of(of, 2, 0, i, begin), *low = place_of(of, 2, 1, i, begin);
        const int some = (int)(n - begin < BLOCK ? n - begin : BLOCK);
        for (int e = 0; e < some; e++) {
            const float x = row[begin + e] * first * second, near = through_half(x);
            high[e] = (uint16_t)bits_of_half(near);
            low[e] = (uint16_t)bits_of_half(through_half(x - near));
        }
    }
}

/* AT_ONCE rows, which are fetched together: they may lie beside each other. */
static void pair(const void *work, ptrdiff_t piece) {
    const splitting *of = work;
    const ptrdiff_t n = of->numbers, first = piece * AT_ONCE;
    const int some = (int)(of->rows - first < AT_ONCE ? of->rows - first : AT_ONCE);
    float *buffer = malloc((n * AT_ONCE + 1) * sizeof *buffer);
    if (!buffer) {
        ((splitting *)of)->failed = 1;
        return;
    }
    for (ptrdiff_t begin = 0; begin < n; begin += BLOCK)
        for (int i = 0; i < some; i++)
            for (ptrdiff_t p = begin; p < n && p < begin + BLOCK; p++)
                buffer[i * n + p] = of->x[(first + i) * of->along + p * of->across];
    for (int i = 0; i < some; i++) pair_row(buffer + i * n, of, first + i);
    free(buffer);
}

/* Sums of products, and the powers of two that rows and columns were scaled by. Steps are in numbers. */
typedef struct {
    float *sums;
    ptrdiff_t columns, along, across;
    const int64_t *of_rows, *of_columns;
} rescaling;

/* A row, each number rounded once, into subnormals and infinities too. */
static void rescale(const void *work, ptrdiff_t i) {
    const rescaling *of = work;
    for (ptrdiff_t j = 0; j < of->columns; j++) {
        float *sum = of->sums + i * of->along + j * of->across;
        const uint64_t bits = (uint64_t)(1023 - of->of_rows[i] - of->of_columns[j]) << 52; /* from -326 to 226 */
        double by;
        memcpy(&by, &bits, 8);
        *sum = (float)(*sum * by);
    }
}

/* As compiled.py reads it: functions of a piece of some work. */
typedef void (*task)(const void *work, ptrdiff_t piece);
static const struct {
    task split, pair, rescale;
} TABLE = {split, pair, rescale};

const void *gemmlab_kernels(void) { return &TABLE; }
