/* What the rungs share: what the instruction set of this build means for them, and the parameters of a call. */
#ifndef GEMMLAB_RUNG_H
#define GEMMLAB_RUNG_H

#include <stddef.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define LINE_BYTES 64

/* Two multiply-adds start each cycle and each takes four: eight independent vectors keep the units busy. */
#define STRIP_BYTES (8 * VECTOR_BYTES)
#define MOST_IN_STRIP (STRIP_BYTES / 4)  /* in the smallest type, float */

/* One call's choices; the numbers are at least 1. A rung that finds no memory sets `failed`, and has computed nothing. */
typedef struct RungParams {
    int threads;
    ptrdiff_t bs_r, bs_c, bs_k;
    int accumulate, failed;
} RungParams;

typedef void (*Gemm32)(float *, ptrdiff_t, float *, ptrdiff_t, float *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                       RungParams *);
typedef void (*Gemm64)(double *, ptrdiff_t, double *, ptrdiff_t, double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                       RungParams *);

#endif
