/* How many multiply-adds a second: chains that never touch memory, a = a * x + y of vectors and of single numbers, and
   of whole numbers a = a + x * x, where x is a group of narrow numbers whose products are added to one of 32 bits.

   Each chain tends to y / (1 - x) = 1: never infinite, never denormal, so always at full speed. */
#include "chains.h"
#include "loops.h"

#define START_CHAIN(i)  vector a##i = x + i;
#define EXTEND_CHAIN(i) a##i = a##i * x + y;

#define DEFINE_MULTIPLY_ADDS(name, number, type)                              \
    static void name(long long iterations) {                                  \
        typedef type vector;                                                  \
        const vector zero = {0};                                              \
        vector x = zero + (number)0.999, y = zero + (number)1e-3;             \
        FOR_EACH_CHAIN(START_CHAIN)                                           \
        /* Unknown x and y: otherwise they are read from memory each time. */ \
        __asm__ volatile("" : "+" KEEP(x), "+" KEEP(y));                      \
        for (long long i = 0; i < iterations; i++) {                          \
            FOR_EACH_CHAIN(EXTEND_CHAIN)                                      \
            FOR_EACH_CHAIN(KEEP_CHAIN)                                        \
        }                                                                     \
    }

DEFINE_MULTIPLY_ADDS(multiply_adds_float32, float, VECTOR_OF(float))
DEFINE_MULTIPLY_ADDS(multiply_adds_float64, double, VECTOR_OF(double))
DEFINE_MULTIPLY_ADDS(scalar_multiply_adds_float32, float, float)
DEFINE_MULTIPLY_ADDS(scalar_multiply_adds_float64, double, double)

/* int8: numbers widened to 16 bits, by `pmaddwd` two products a lane. Faster ways are in narrow.c. */
#if defined(__SSE2__)
#include <immintrin.h>
typedef int whole __attribute__((vector_size(VECTOR_BYTES)));
#if VECTOR_BYTES == 64
#define ADD_PRODUCTS(a) (whole)_mm512_add_epi32((__m512i)a, _mm512_madd_epi16((__m512i)x, (__m512i)x))
#elif VECTOR_BYTES == 32
#define ADD_PRODUCTS(a) (whole)_mm256_add_epi32((__m256i)a, _mm256_madd_epi16((__m256i)x, (__m256i)x))
#else
#define ADD_PRODUCTS(a) (whole)_mm_add_epi32((__m128i)a, _mm_madd_epi16((__m128i)x, (__m128i)x))
#endif
/* x is not known to the compiler in each chain: else it would multiply once. */
#define START_WHOLE(i)  whole a##i = {i};
#define EXTEND_WHOLE(i) __asm__ volatile("" : "+" KEEP(x)); a##i = ADD_PRODUCTS(a##i);
static void multiply_adds_int8(long long iterations) {
    whole x = {3};
    FOR_EACH_CHAIN(START_WHOLE)
    for (long long i = 0; i < iterations; i++) {
        FOR_EACH_CHAIN(EXTEND_WHOLE)
        FOR_EACH_CHAIN(KEEP_CHAIN)
    }
}
#define OF_INT8 multiply_adds_int8
#else
#define OF_INT8 NULL
#endif

/* A multiply and an add for each lane of each chain. */
#define FLOPS_OF(lanes) (2 * CHAINS * (lanes))

/* Additions of which each waits for the one before: a core does one in a cycle, so that they tell its clock. The
   second number is not known to the compiler, and not an immediate one, which some cores add for nothing. */
#define ADDITIONS 16
static void additions(long long iterations) {
    unsigned long sum = 0, step = 3;
    __asm__ volatile("" : "+r"(sum), "+r"(step));
#define ADD sum += step; __asm__ volatile("" : "+r"(sum));
    for (long long i = 0; i < iterations; i++) {
        ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD
    }
#undef ADD
}

static const fma_loops LOOPS = {
    .vectors = {multiply_adds_float32, multiply_adds_float64, OF_INT8},
    .scalars = {scalar_multiply_adds_float32, scalar_multiply_adds_float64},
    .vector_flops = {FLOPS_OF(VECTOR_BYTES / 4), FLOPS_OF(VECTOR_BYTES / 8), FLOPS_OF(VECTOR_BYTES / 2)},
    .scalar_flops = FLOPS_OF(1),
    .additions = additions,
    .additions_an_iteration = ADDITIONS,
};

__attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &LOOPS; }
