/* How many multiply-adds a second by the instructions for narrow numbers that only some CPUs of x86-64-v4 have. As in fma.c
   nothing is read from memory, and each sum waits only for itself.

       dot    14 vectors of sums      vpdpbusd     int32   += 4 products of int8, for each lane
                                      vdpbf16ps    float32 += 2 products of bfloat16
       amx    4 tiles of sums, by     tdpbssd      int32   += 64 products of int8, for each of 16 x 16
              2 of A and 2 of B       tdpbf16ps    float32 += 32 products of bfloat16 */
#include <immintrin.h>
#include <stddef.h>

#include "loops.h"

#if defined(__AMX_TILE__)
#include "tile_registers.h"

#define TILE 16
#define SUMS 4
#define FLOPS_OF(products) (2 * SUMS * TILE * TILE * (products))

/* All numbers of A and B have these bits: an int8 of 63 or 1, a bfloat16 of 0.5. */
static void begin_tiles(void) {
    uint16_t numbers[TILE * 32];
    for (int i = 0; i < TILE * 32; i++) numbers[i] = 0x3f01;
    _tile_loadconfig(&TILES_OF_16_ROWS);
    __asm__ volatile("" : : "r"(numbers) : "memory");  /* the instructions that read it do not say so to the compiler */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, numbers, 64);
    _tile_loadd(5, numbers, 64);
    _tile_loadd(6, numbers, 64);
    _tile_loadd(7, numbers, 64);
}

/* Registers are numbers in the instructions, which are statements. */
#define DEFINE_TILES(name, multiply)                   \
    static void name(long long iterations) {           \
        begin_tiles();                                 \
        for (long long i = 0; i < iterations; i++) {   \
            multiply(0, 4, 6);                         \
            multiply(1, 4, 7);                         \
            multiply(2, 5, 6);                         \
            multiply(3, 5, 7);                         \
        }                                              \
        _tile_release();                               \
    }
DEFINE_TILES(multiply_adds_int8, _tile_dpbssd)
DEFINE_TILES(multiply_adds_bfloat16, _tile_dpbf16ps)

static const fma_loops LOOPS = {
    .vectors = {NULL, NULL, multiply_adds_int8, multiply_adds_bfloat16},
    .vector_flops = {0, 0, FLOPS_OF(64), FLOPS_OF(32)},
};

#else
#include "chains.h"

#define FLOPS_OF(products) (2 * CHAINS * 16 * (products))

#define DEFINE_CHAINS(name, start, extended)                                                \
    static void name(long long iterations) {                                                \
        __m512i x = _mm512_set1_epi16(0x3f01); /* int8 of 63 and 1, bfloat16 of 0.5 */      \
        __asm__ volatile("" : "+v"(x));                                                     \
        FOR_EACH_CHAIN(start)                                                               \
        for (long long i = 0; i < iterations; i++) {                                        \
            FOR_EACH_CHAIN(extended)                                                        \
            FOR_EACH_CHAIN(KEEP_CHAIN)                                                      \
        }                                                                                   \
    }
#define START_INT8(i) __m512i a##i = _mm512_setzero_si512(); KEEP_CHAIN(i)
#define EXTEND_INT8(i) a##i = _mm512_dpbusd_epi32(a##i, x, x);
#define START_BFLOAT16(i) __m512 a##i = _mm512_setzero_ps(); KEEP_CHAIN(i)
#define EXTEND_BFLOAT16(i) a##i = _mm512_dpbf16_ps(a##i, (__m512bh)x, (__m512bh)x);
DEFINE_CHAINS(multiply_adds_int8, START_INT8, EXTEND_INT8)
DEFINE_CHAINS(multiply_adds_bfloat16, START_BFLOAT16, EXTEND_BFLOAT16)

static const fma_loops LOOPS = {
    .vectors = {NULL, NULL, multiply_adds_int8, multiply_adds_bfloat16},
    .vector_flops = {0, 0, FLOPS_OF(4), FLOPS_OF(2)},
};
#endif

__attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &LOOPS; }
