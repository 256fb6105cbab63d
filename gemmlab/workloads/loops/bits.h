/* Counts of shared bits of many rows: counts[i][j] += popcount(rows[i] & rows[j]), the product of a bit matrix and its
   transpose, in tiles of TILE x TILE rows.

       VPOPCNT    AVX-512's population count; a tile's sums are in registers
       ADDERS     carry-save adders on vectors: of 16 vectors one is counted, the others are added bit by bit
       WORDS      one word at a time

   Source: Mula, Kurz and Lemire, "Faster population counts using AVX2 instructions", 2018. */
#ifndef GEMMLAB_BITS_H
#define GEMMLAB_BITS_H

#include <string.h>

#include "tables.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

static inline int64_t shared_words(const uint64_t *a, const uint64_t *b, size_t words) {
    int64_t sums[4] = {0};
    for (size_t w = 0; w < words; w += 4)
        for (int i = 0; i < 4; i++)
            sums[i] += __builtin_popcountll(a[w + i] & b[w + i]);
    return sums[0] + sums[1] + sums[2] + sums[3];
}

#ifdef __AVX2__
#ifdef __AVX512BW__
typedef __m512i bits;
#define ADDED(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define CARRIED(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xe8)
#define AND(a, b) _mm512_and_si512(a, b)
#define SHIFTED(a) _mm512_srli_epi16(a, 4)
#define LOOKED_UP(table, a) _mm512_shuffle_epi8(table, a)
#define BYTES_ADDED(a, b) _mm512_add_epi8(a, b)
#define IN_WORDS(a) _mm512_sad_epu8(a, _mm512_setzero_si512())
#define ALL_BYTES(x) _mm512_set1_epi8(x)
#define TABLE _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4))
#else
typedef __m256i bits;
#define ADDED(a, b, c) ((a) ^ (b) ^ (c))
#define CARRIED(a, b, c) (((a) & (b)) | (((a) ^ (b)) & (c)))
#define AND(a, b) _mm256_and_si256(a, b)
#define SHIFTED(a) _mm256_srli_epi16(a, 4)
#define LOOKED_UP(table, a) _mm256_shuffle_epi8(table, a)
#define BYTES_ADDED(a, b) _mm256_add_epi8(a, b)
#define IN_WORDS(a) _mm256_sad_epu8(a, _mm256_setzero_si256())
#define ALL_BYTES(x) _mm256_set1_epi8(x)
#define TABLE _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4))
#endif
#define LANES (sizeof(bits) / 8)

typedef uint64_t lanes __attribute__((vector_size(sizeof(bits))));

/* The set bits of each word of a vector, by a table of nibbles. */
static inline lanes set_bits(bits a) {
    const bits low = AND(a, ALL_BYTES(15)), high = AND(SHIFTED(a), ALL_BYTES(15));
    return (lanes)IN_WORDS(BYTES_ADDED(LOOKED_UP(TABLE, low), LOOKED_UP(TABLE, high)));
}

/* Adds two vectors to `sum`, bit by bit; what is carried goes to the next place. */
static inline bits carry(bits *sum, bits a, bits b) {
    const bits s = *sum;
    *sum = ADDED(s, a, b);
    return CARRIED(s, a, b);
}

static inline int64_t shared_adders(const uint64_t *a, const uint64_t *b, size_t words) {
    bits ones = ALL_BYTES(0), twos = ones, fours = ones, eights = ones;
    lanes sums = {0};
    for (size_t w = 0; w < words; w += 16 * LANES) {
        const bits *x = (const bits *)(a + w), *y = (const bits *)(b + w);
        bits of_four[2], of_eight[2];
        for (int half = 0; half < 2; half++) {
            for (int quarter = 0; quarter < 2; quarter++, x += 4, y += 4) {
                const bits two = carry(&ones, AND(x[0], y[0]), AND(x[1], y[1]));
                of_four[quarter] = carry(&twos, two, carry(&ones, AND(x[2], y[2]), AND(x[3], y[3])));
            }
            of_eight[half] = carry(&fours, of_four[0], of_four[1]);
        }
        sums += set_bits(carry(&eights, of_eight[0], of_eight[1]));
    }
    sums = 16 * sums + 8 * set_bits(eights) + 4 * set_bits(fours) + 2 * set_bits(twos) + set_bits(ones);
    int64_t all = 0;
    for (size_t i = 0; i < LANES; i++)
        all += (int64_t)sums[i];
    return all;
}
#else
#define shared_adders shared_words
#endif

#ifdef __AVX512BW__
__attribute__((target("avx512vpopcntdq")))
static void tile_vpopcnt(const uint64_t *a, const uint64_t *b, size_t stride, size_t words, int64_t *tile) {
    __m512i sums[TILE][TILE];
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++)
            sums[i][j] = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w += 8) {
        __m512i of_b[TILE];
        for (int j = 0; j < TILE; j++)
            of_b[j] = _mm512_load_si512(b + (size_t)j * stride + w);
        for (int i = 0; i < TILE; i++) {
            const __m512i of_a = _mm512_load_si512(a + (size_t)i * stride + w);
            for (int j = 0; j < TILE; j++)
                sums[i][j] = _mm512_add_epi64(sums[i][j], _mm512_popcnt_epi64(_mm512_and_si512(of_a, of_b[j])));
        }
    }
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++)
            tile[i * TILE + j] = _mm512_reduce_add_epi64(sums[i][j]);
}
#endif

static inline int best_counting(void) {
#ifdef __AVX512BW__
    if (__builtin_cpu_supports("avx512vpopcntdq"))
        return VPOPCNT;
#endif
#ifdef __AVX2__
    return ADDERS;
#else
    return WORDS;
#endif
}

/* tile[i][j] = the bits that row i of `a` and row j of `b` share. Rows begin `stride` words apart, at cache lines. */
static inline void tile_of(int counting, const uint64_t *a, const uint64_t *b, size_t stride, size_t words, int64_t *tile) {
#ifdef __AVX512BW__
    if (counting == VPOPCNT) {
        tile_vpopcnt(a, b, stride, words, tile);
        return;
    }
#endif
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++)
            tile[i * TILE + j] = counting == WORDS ? shared_words(a + i * stride, b + j * stride, words)
                                                   : shared_adders(a + i * stride, b + j * stride, words);
}

/* All tiles of a panel of rows [first, last) with the rows up to its own: the panel stays in the cache. */
static inline void panel_of(int counting, const uint64_t *rows, size_t words, size_t first, size_t last, size_t lists,
                            int64_t *counts) {
    int64_t tile[TILE * TILE];
    for (size_t i = 0; i < last; i += TILE)
        for (size_t j = first; j < last; j += TILE) {
            if (j < i)
                continue;
            tile_of(counting, rows + i * words, rows + j * words, words, words, tile);
            for (size_t y = i; y < i + TILE && y < lists; y++)
                for (size_t x = j; x < j + TILE && x < lists; x++)
                    counts[y * lists + x] += tile[(y - i) * TILE + x - j];
        }
}

/* Sets the bits of a list's numbers below `end` in a row that begins at number `begin`; returns where the list goes on. */
static inline size_t set_row(const uint32_t *list, size_t length, size_t at, uint64_t begin, uint64_t end, uint64_t *row) {
    memset(row, 0, (end - begin) / 8);
    for (; at < length && list[at] < end; at++)
        row[(list[at] - begin) >> 6] |= (uint64_t)1 << ((list[at] - begin) & 63);
    return at;
}

/* The instructions alone: one tile of rows that are in L1, again and again. Returns a sum, so that nothing is left out. */
static inline int64_t tiles_again(int counting, const uint64_t *rows, size_t words, size_t times) {
    int64_t tile[TILE * TILE], sum = 0;
    for (size_t i = 0; i < times; i++) {
        tile_of(counting, rows, rows + TILE * words, words, words, tile);
        __asm__ volatile("" : : "r"(rows) : "memory");
        sum += tile[i % (TILE * TILE)];
    }
    return sum;
}

#endif
