/* Intersections of two sorted lists of distinct numbers, without any structure beside them.

       merge      both lists are read in blocks of a vector, each block of one against each of the other
       gallop     for each number of the shorter list, a search in the longer one that begins where the last one ended

   Both write the common numbers to `out`, in order, and return their count. `out` has room for na + PAD numbers and
   shares no memory with the lists. `adp` takes several lists at once, number by number.

   Sources: Schlegel, Willhalm and Lehner (2011) and Lemire, Boytsov and Kurz (2016) for the vectors; Bentley and Yao
   (1976) for galloping; Demaine, Lopez-Ortiz and Munro (2000) for the adaptive algorithm. */
#ifndef GEMMLAB_LISTS_H
#define GEMMLAB_LISTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tables.h"
#ifdef __SSE4_1__
#include <immintrin.h>
#endif

#define PAD 8     /* numbers that a whole vector may write past the last common one */
#define GALLOP_RATIO 16  /* from lists so many times as long on, galloping is faster than merging: measured, 8 to 20 */

typedef uint32_t number;

/* A block of WIDTH numbers is a vector.
   equal_to_any   a bit for each number of `a` that is one of `b`'s
   keep           the numbers of `a` whose bit is set, moved to `out`, where a whole block may be written
   has            whether x is one of BLOCK numbers */
#if defined(__AVX2__)
#define WIDTH 8
typedef __m256i block;

static inline unsigned equal_to_any(block a, block b) {
    const block swapped = _mm256_permute2x128_si256(b, b, 1);
    block found = _mm256_cmpeq_epi32(a, b);
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(b, 0x39)));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(b, 0x4e)));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(b, 0x93)));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, swapped));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(swapped, 0x39)));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(swapped, 0x4e)));
    found = _mm256_or_si256(found, _mm256_cmpeq_epi32(a, _mm256_shuffle_epi32(swapped, 0x93)));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(found));
}

static inline block load(const number *a) { return _mm256_loadu_si256((const block *)a); }

#if defined(__AVX512VL__)
static inline void keep(number *out, block a, unsigned bits) {
    _mm256_storeu_si256((block *)out, _mm256_maskz_compress_epi32((__mmask8)bits, a));
}
#else
static inline void keep(number *out, block a, unsigned bits) {
    /* A byte of `places` for each number: where it comes from. */
    const uint64_t spread = _pdep_u64(bits, 0x0101010101010101u) * 0xff;
    const uint64_t places = _pext_u64(0x0706050403020100u, spread);
    const block from = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)places));
    _mm256_storeu_si256((block *)out, _mm256_permutevar8x32_epi32(a, from));
}
#endif

static inline int has(const number *b, number x) {
    const block wanted = _mm256_set1_epi32((int)x);
    block found = _mm256_cmpeq_epi32(load(b), wanted);
    for (int i = 1; i < BLOCK / WIDTH; i++)
        found = _mm256_or_si256(found, _mm256_cmpeq_epi32(load(b + i * WIDTH), wanted));
    return !_mm256_testz_si256(found, found);
}
#elif defined(__SSE4_1__)
#define WIDTH 4
typedef __m128i block;

static inline block load(const number *a) { return _mm_loadu_si128((const block *)a); }

static inline unsigned equal_to_any(block a, block b) {
    block found = _mm_cmpeq_epi32(a, b);
    found = _mm_or_si128(found, _mm_cmpeq_epi32(a, _mm_shuffle_epi32(b, 0x39)));
    found = _mm_or_si128(found, _mm_cmpeq_epi32(a, _mm_shuffle_epi32(b, 0x4e)));
    found = _mm_or_si128(found, _mm_cmpeq_epi32(a, _mm_shuffle_epi32(b, 0x93)));
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(found));
}

static inline void keep(number *out, block a, unsigned bits) {
    number values[WIDTH];
    _mm_storeu_si128((block *)values, a);
    for (; bits; bits &= bits - 1)
        *out++ = values[__builtin_ctz(bits)];
}

static inline int has(const number *b, number x) {
    const block wanted = _mm_set1_epi32((int)x);
    block found = _mm_cmpeq_epi32(load(b), wanted);
    for (int i = 1; i < BLOCK / WIDTH; i++)
        found = _mm_or_si128(found, _mm_cmpeq_epi32(load(b + i * WIDTH), wanted));
    return !_mm_testz_si128(found, found);
}
#else
static inline int has(const number *b, number x) {
    unsigned found = 0;
    for (int i = 0; i < BLOCK; i++)
        found |= b[i] == x;
    return (int)found;
}
#endif

static inline size_t merge(const number *a, size_t na, const number *b, size_t nb, number *out) {
    size_t i = 0, j = 0, n = 0;
#ifdef WIDTH
    while (i + WIDTH <= na && j + WIDTH <= nb) {
        const block of_a = load(a + i);
        const unsigned bits = equal_to_any(of_a, load(b + j));
        const number last_a = a[i + WIDTH - 1], last_b = b[j + WIDTH - 1];
        if (bits) {
            keep(out + n, of_a, bits);
            n += (size_t)__builtin_popcount(bits);
        }
        i += (size_t)(last_a <= last_b) * WIDTH;  /* no branch: which list is behind cannot be predicted */
        j += (size_t)(last_b <= last_a) * WIDTH;
    }
#endif
    while (i < na && j < nb) {
        const number x = a[i], y = b[j];
        out[n] = x;
        n += x == y;
        i += x <= y;
        j += y <= x;
    }
    return n;
}

/* Where the first block of `width` numbers begins, from `j` on, whose last number is x or more; past the last block
   that n numbers have, if there is none. */
static inline size_t first_block(const number *b, size_t j, size_t n, size_t width, number x) {
    size_t low = j, reach = width;
    while (low + reach <= n && b[low + reach - 1] < x) {  /* what is before `low` is less than x */
        low += reach;
        reach *= 2;
    }
    for (reach /= 2; reach >= width; reach /= 2)
        if (low + reach <= n && b[low + reach - 1] < x)
            low += reach;
    return low;
}

static inline size_t lower_bound(const number *b, size_t j, size_t n, number x) { return first_block(b, j, n, 1, x); }

static inline size_t gallop(const number *a, size_t na, const number *b, size_t nb, number *out) {
    size_t i = 0, j = 0, n = 0;
    for (; i < na; i++) {
        j = first_block(b, j, nb, BLOCK, a[i]);
        if (j + BLOCK > nb)
            break;
        out[n] = a[i];
        n += (size_t)has(b + j, a[i]);
    }
    return n + merge(a + i, na - i, b + j, nb - j, out + n);
}

/* All lists at once. The number in question begins as the first list's next one; each list looks for it, and one that
   lacks it makes its next number the one in question. `at` has room for a position in each list. */
static inline size_t adp(const number *const *lists, const size_t *lengths, size_t count, size_t *at, number *out) {
    size_t n = 0, agreeing = 0, t = 0;
    memset(at, 0, count * sizeof *at);
    if (lengths[0] == 0)
        return 0;
    for (number x = lists[0][0];;) {
        at[t] = lower_bound(lists[t], at[t], lengths[t], x);
        if (at[t] == lengths[t])
            return n;
        if (lists[t][at[t]] != x) {
            x = lists[t][at[t]];
            agreeing = 1;
        } else if (++agreeing >= count) {
            out[n++] = x;
            if (++at[t] == lengths[t])
                return n;
            x = lists[t][at[t]];
            agreeing = 1;
        }
        t = t + 1 == count ? 0 : t + 1;
    }
}

#endif
