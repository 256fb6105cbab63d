/* What emulated products by residues do besides multiplying, for one instruction set: see residues.py.

       spread     rows of numbers into integers, and these into residues
       reduce     sums of products into residues
       rebuild    numbers from the residues of integers, each rounded once

   All is exact: integers that are kept in double stay below 2^53 times a power of two that divides them. So neither the
   order of sums nor a fused multiply-add changes a bit. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NORM_BITS 15     /* of an element, in the norm of a row */
#define STEPS 192        /* powers of two of a row of such elements, from HIGHEST_STEP down: see residues.py */
#define HIGHEST_STEP 127
#define AT_ONCE 8        /* rows that are fetched together: a line of doubles, where they lie beside each other */
#define COARSE 26        /* bits that are left of an integer after a first, rough quotient */
#define LIMB 40          /* bits of a limb */
#define MOST_LIMBS 5
#define BLOCK 64         /* numbers of C that are put together at a time */
#define REDUCED 16384    /* sums in a piece */
#define SPECIAL INT64_MIN
#define NO_NUMBER 0x7ff0000000000000u /* the bits of infinity; those of NaN are above */

static inline double power(int64_t n) { /* 2^n, for n from -1022 to 1023 */
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

/* x 2^n as two factors, neither of which overflows or is lost where the product does not and is not. */
typedef struct {
    double first, second;
} factors;
static inline factors of_power(int64_t n) {
    n = n > 2000 ? 2000 : n < -2000 ? -2000 : n;
    return (factors){power(n / 2), power(n - n / 2)};
}

/* The nearest integer, ties to even, of a number below 2^51. */
static inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* What is left of an integer below 2^78, from -p/2 to p/2: after a rough quotient, a multiple of 2^26, and an exact one. */
static inline double rest_of(double x, double p, double inverse) {
    const double rough = x - nearest(x * (inverse * power(-COARSE))) * (p * power(COARSE));
    return rough - nearest(rough * inverse) * p;
}

static inline int8_t residue(double x) { return (int8_t)(int32_t)x; } /* 128 modulo 256 is -128 */

/* The binary exponent e of a row: its largest number is at least 2^(e-1) and below 2^e. */
static inline int exponent_of(double largest) {
    int e;
    frexp(largest, &e);
    return e;
}

/* The power of two that makes integers of a row, whose norm is then at most the limit that `squares` is made of. */
static int64_t scale_of(const double *row, ptrdiff_t count, const int64_t *squares) {
    uint64_t most = 0; /* as bits, sizes have the same order, and what is no number comes last */
    for (ptrdiff_t p = 0; p < count; p++) {
        uint64_t size;
        memcpy(&size, row + p, 8);
        size &= INT64_MAX;
        most = size > most ? size : most;
    }
    if (most >= NO_NUMBER) return SPECIAL;
    if (most == 0) return 0;
    double largest;
    memcpy(&largest, &most, 8);
    const int64_t bits = NORM_BITS - exponent_of(largest);
    const factors by = of_power(bits);
    int64_t found = 0;
    for (ptrdiff_t p = 0; p < count; p++) { /* rounded up to 15 bits of the largest */
        const double element = fabs(row[p]) * by.first * by.second;
        const int32_t whole = (int32_t)element;
        const int64_t up = whole + (whole < element || (element == 0 && row[p] != 0));
        found += up * up;
    }
    int low = 0, high = STEPS; /* the first that is at least as much */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (squares[middle] < found) low = middle + 1;
        else high = middle;
    }
    return HIGHEST_STEP - low + bits;
}

/* Rows of numbers, and what becomes of them: planes of residues for each modulus. A complex number has two reals in
   `parts`, and three planes. Steps are in reals. */
typedef struct {
    const void *x;
    ptrdiff_t rows, numbers, along, across;
    int parts, is_double, count;
    const int64_t *squares;
    const int32_t *moduli;
    int64_t *scales;
    int8_t *out;
    int failed;
} spreading;

static inline double real_at(const void *x, int is_double, ptrdiff_t at) {
    return is_double ? ((const double *)x)[at] : ((const float *)x)[at];
}

/* Some rows into a buffer: of each all reals, then all imaginary parts. */
static void fetch(const spreading *of, ptrdiff_t first, int some, double *buffer) {
    const ptrdiff_t count = of->numbers * of->parts;
    for (int part = 0; part < of->parts; part++)
        if (of->across == of->parts)
            for (int i = 0; i < some; i++)
                for (ptrdiff_t p = 0; p < of->numbers; p++)
                    buffer[i * count + part * of->numbers + p] =
                        real_at(of->x, of->is_double, (first + i) * of->along + p * of->across + part);
        else
            for (ptrdiff_t p = 0; p < of->numbers; p++)
                for (int i = 0; i < some; i++)
                    buffer[i * count + part * of->numbers + p] =
                        real_at(of->x, of->is_double, (first + i) * of->along + p * of->across + part);
}

/* The residues of a row modulo each modulus; of complex numbers those of real and imaginary parts, and of their sums. */
static void spread_row(double *row, const spreading *of, int64_t scale, ptrdiff_t i) {
    const ptrdiff_t n = of->numbers, plane = of->rows * n, count = of->count;
    int8_t *const out = of->out;
    const factors by = of_power(scale);
    for (ptrdiff_t p = 0; p < n * of->parts; p++) row[p] = rint(row[p] * by.first * by.second);
    for (int l = 0; l < count; l++) {
        const double modulus = of->moduli[l], inverse = 1 / modulus;
        for (int part = 0; part < of->parts; part++) {
            int8_t *to = out + (part * count + l) * plane + i * n;
            for (ptrdiff_t p = 0; p < n; p++) to[p] = residue(rest_of(row[part * n + p], modulus, inverse));
        }
        if (of->parts == 2) {
            const int8_t *real = out + l * plane + i * n, *imaginary = real + count * plane;
            int8_t *both = out + (2 * count + l) * plane + i * n;
            for (ptrdiff_t p = 0; p < n; p++) both[p] = residue(rest_of(real[p] + imaginary[p], modulus, inverse));
        }
    }
}

/* AT_ONCE rows: the power of two of each, SPECIAL where a number is infinite or NaN, and then it counts as zeros; and the
   residues of its integers. */
static void spread(const void *work, ptrdiff_t block) {
    const spreading *of = work;
    const ptrdiff_t reals = of->numbers * of->parts, first = block * AT_ONCE;
    const int some = (int)(of->rows - first < AT_ONCE ? of->rows - first : AT_ONCE);
    double *buffer = malloc((reals * AT_ONCE + 1) * sizeof *buffer);
    if (!buffer) {
        ((spreading *)of)->failed = 1;
        return;
    }
    fetch(of, first, some, buffer);
    for (int i = 0; i < some; i++) {
        double *row = buffer + i * reals;
        const int64_t scale = of->scales[first + i] = scale_of(row, reals, of->squares);
        if (scale == SPECIAL) memset(row, 0, reals * sizeof *row);
        spread_row(row, of, scale == SPECIAL ? 0 : scale, first + i);
    }
    free(buffer);
}

/* Sums, and their residues. */
typedef struct {
    const int32_t *sums;
    ptrdiff_t count;
    int modulus;
    int8_t *out;
} reducing;

/* REDUCED of them. */
static void reduce(const void *work, ptrdiff_t block) {
    const reducing *of = work;
    const double p = of->modulus, inverse = 1 / p;
    const ptrdiff_t first = block * REDUCED, left = of->count - first, some = left < REDUCED ? left : REDUCED;
    const int32_t *sums = of->sums + first;
    int8_t *out = of->out + first;
    for (ptrdiff_t i = 0; i < some; i++) out[i] = residue(sums[i] - nearest(sums[i] * inverse) * p);
}

/* Residues, planes of m x n for each of `count` moduli, and the numbers that they are put together to, over the scales of
   rows and columns: with limbs of each modulus' weight, and of the product of all moduli; and what a limb is of that. */
typedef struct {
    int count, limbs;
    const double *weights, *whole, *fractions;
    const int8_t *rests;
    ptrdiff_t m, n;
    const int64_t *of_rows, *of_columns;
    void *out;
    ptrdiff_t along, across;
    int is_double;
} rebuilding;

/* Limbs from 0 on and below 2^40; what is left above them. */
static void carried(double limbs[MOST_LIMBS][BLOCK], int count, double above[BLOCK]) {
    for (int e = 0; e < BLOCK; e++) above[e] = 0;
    for (int w = 0; w < count; w++)
        for (int e = 0; e < BLOCK; e++) {
            const double limb = limbs[w][e] + above[e], down = nearest(limb * power(-LIMB));
            const double floor_of = down - (down * power(LIMB) > limb);
            limbs[w][e] = limb - floor_of * power(LIMB);
            above[e] = floor_of;
        }
}

/* The magnitude of each integer in limbs, and whether it is negative. */
static void put_together(const rebuilding *s, const int8_t *rests, int some, double limbs[MOST_LIMBS][BLOCK],
                         double sign[BLOCK]) {
    const ptrdiff_t plane = s->m * s->n;
    double times[BLOCK] = {0}, rest[BLOCK] = {0};
    for (int w = 0; w < s->limbs; w++)
        for (int e = 0; e < BLOCK; e++) limbs[w][e] = 0;
    for (int l = 0; l < s->count; l++) {
        for (int e = 0; e < some; e++) rest[e] = rests[l * plane + e];
        for (int w = 0; w < s->limbs; w++) {
            const double weight = s->weights[l * s->limbs + w];
            for (int e = 0; e < BLOCK; e++) limbs[w][e] += rest[e] * weight;
        }
    }
    for (int w = 0; w < s->limbs; w++)
        for (int e = 0; e < BLOCK; e++) times[e] += limbs[w][e] * s->fractions[w];
    for (int e = 0; e < BLOCK; e++) times[e] = nearest(times[e]); /* never near a half: see `root_of_half` */
    for (int w = 0; w < s->limbs; w++)
        for (int e = 0; e < BLOCK; e++) limbs[w][e] -= s->whole[w] * times[e];
    double tried[MOST_LIMBS][BLOCK], above[BLOCK];
    memcpy(tried, limbs, sizeof tried);
    carried(tried, s->limbs, sign);
    for (int w = 0; w < s->limbs; w++)
        for (int e = 0; e < BLOCK; e++) limbs[w][e] = sign[e] < 0 ? -limbs[w][e] : limbs[w][e];
    carried(limbs, s->limbs, above);
}

/* Of each integer: its highest limb that is not 0, the two below it, the bits of all others, and how many bits of it are
   below the highest limb. Of 0, all are 0. */
typedef struct {
    uint64_t first[BLOCK], second[BLOCK], third[BLOCK], more[BLOCK];
    int64_t below[BLOCK];
} leading;

static void highest_limbs(double limbs[MOST_LIMBS][BLOCK], int count, leading *of) {
    memset(of, 0, sizeof *of);
    for (int w = count - 1; w >= 0; w--)
        for (int e = 0; e < BLOCK; e++) {
            const uint64_t limb = (uint64_t)(int64_t)limbs[w][e];
            const int64_t passed = of->below[e] - (int64_t)LIMB * w; /* since the first; 0 before it */
            const int is_first = of->first[e] == 0, is_second = !is_first && passed == LIMB;
            const int is_third = !is_first && passed == 2 * LIMB;
            of->below[e] = is_first && limb ? (int64_t)LIMB * w : of->below[e];
            of->more[e] |= is_first || is_second || is_third ? 0 : limb;
            of->third[e] = is_third ? limb : of->third[e];
            of->second[e] = is_second ? limb : of->second[e];
            of->first[e] = is_first ? limb : of->first[e];
        }
}

/* Integers times 2^scale, rounded to nearest, ties to even, to `digits` bits, fewer from 2^lowest on. Each step is a loop,
   without branches, so that a compiler can do it in vectors. */
static void rounded(double limbs[MOST_LIMBS][BLOCK], int count, const int64_t scales[BLOCK], int digits, int lowest,
                    double out[BLOCK]) {
    leading of;
    highest_limbs(limbs, count, &of);
    uint64_t window[BLOCK], more[BLOCK], found[BLOCK];
    int64_t end[BLOCK], kept[BLOCK];
    for (int e = 0; e < BLOCK; e++) {
        const uint64_t first = of.first[e], second = of.second[e], third = of.third[e];
        const int64_t missing = __builtin_clzll(first | 1); /* 24 to 63 bits after the first limb's */
        const int64_t of_third = missing > LIMB ? missing - LIMB : 0, of_second = missing - of_third;
        const uint64_t left = second << 24 << of_second; /* all of it has gone, if it has 40 bits */
        more[e] = left | (third & ((1ull << (LIMB - of_third)) - 1)) | of.more[e];
        window[e] = first << missing | second >> (LIMB - of_second) << of_third | third >> (LIMB - of_third);
        end[e] = of.below[e] + 64 - missing + scales[e]; /* the number is below 2^end */
    }
    for (int e = 0; e < BLOCK; e++) {
        const int64_t least = end[e] - lowest;
        kept[e] = digits < least ? digits : least;
    }
    for (int e = 0; e < BLOCK; e++) { /* with no bit kept, more than half of the smallest number becomes that */
        const uint64_t half = 1ull << 63, low = kept[e] > 0 ? window[e] << (kept[e] & 63) : window[e];
        const uint64_t whole = kept[e] > 0 ? window[e] >> ((64 - kept[e]) & 63) : 0, tie = more[e] ? 1 : whole & 1;
        const uint64_t up = low == half ? tie : low > half ? 1 : 0, number = of.first[e] ? whole + up : 0;
        found[e] = kept[e] < 0 ? 0 : number;
    }
    for (int e = 0; e < BLOCK; e++) {
        const factors by = of_power(end[e] - kept[e]);
        out[e] = (double)(int64_t)found[e] * by.first * by.second;
    }
}

/* A row of numbers. */
static void rebuild(const void *work, ptrdiff_t i) {
    const rebuilding *of = work;
    const int digits = of->is_double ? 53 : 24, lowest = of->is_double ? -1074 : -149;
    const int64_t row = of->of_rows[i];
    for (ptrdiff_t j = 0; j < of->n; j += BLOCK) {
        const int some = (int)(of->n - j < BLOCK ? of->n - j : BLOCK);
        double limbs[MOST_LIMBS][BLOCK], sign[BLOCK], sizes[BLOCK];
        int64_t scales[BLOCK] = {0};
        put_together(of, of->rests + i * of->n + j, some, limbs, sign);
        for (int e = 0; e < some; e++) {
            const int64_t column = of->of_columns[j + e];
            scales[e] = row == SPECIAL || column == SPECIAL ? 0 : -(row + column);
        }
        rounded(limbs, of->limbs, scales, digits, lowest, sizes);
        for (int e = 0; e < some; e++) {
            const double x = sign[e] < 0 ? -sizes[e] : sizes[e];
            const ptrdiff_t at = i * of->along + (j + e) * of->across;
            if (of->is_double) ((double *)of->out)[at] = x;
            else ((float *)of->out)[at] = (float)x;
        }
    }
}

/* As compiled.py reads it: functions of a piece of some work. */
typedef void (*task)(const void *work, ptrdiff_t piece);
static const struct {
    task spread, reduce, rebuild;
} TABLE = {spread, reduce, rebuild};

const void *gemmlab_kernels(void) { return &TABLE; }
