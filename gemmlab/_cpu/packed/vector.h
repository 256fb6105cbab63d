/* Vectors of this build's instruction set: as wide as its registers, one text for all of them.

   GCC's and Clang's vector extensions carry the arithmetic; what they lack is here: a part of a vector, in and
   out, and the transpose of a square of vectors. */
#ifndef GEMMLAB_PACKED_VECTOR_H
#define GEMMLAB_PACKED_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif
#include "rung.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

/* How many numbers of 2, 4 and 8 bytes a vector has, as tokens. */
#if VECTOR_BYTES == 64
#define IN_A_VECTOR_2 32
#define IN_A_VECTOR_4 16
#define IN_A_VECTOR_8 8
#elif VECTOR_BYTES == 32
#define IN_A_VECTOR_2 16
#define IN_A_VECTOR_4 8
#define IN_A_VECTOR_8 4
#else
#define IN_A_VECTOR_2 8
#define IN_A_VECTOR_4 4
#define IN_A_VECTOR_8 2
#endif

typedef ptrdiff_t Count;  /* extents, and distances in bytes */

typedef char Bytes __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef char LooseBytes __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));

/* A part of a vector: its first bytes, a multiple of 4 of them. What lies behind is neither read nor written. */
#if defined(__AVX512BW__)
typedef __mmask64 Part;
INLINE Part part_of(Count bytes) { return bytes >= 64 ? ~0ull : (1ull << bytes) - 1; }
INLINE Bytes load_part(const void *x, Part part) { return (Bytes)_mm512_maskz_loadu_epi8(part, x); }
INLINE void store_part(void *x, Part part, Bytes v) { _mm512_mask_storeu_epi8(x, part, (__m512i)v); }
#elif defined(__AVX2__)
typedef __m256i Part;
INLINE Part part_of(Count bytes) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(bytes / 4)), lane);
}
INLINE Bytes load_part(const void *x, Part part) { return (Bytes)_mm256_maskload_epi32(x, part); }
INLINE void store_part(void *x, Part part, Bytes v) { _mm256_maskstore_epi32(x, part, (__m256i)v); }
#else
typedef Count Part;
INLINE Part part_of(Count bytes) { return bytes < VECTOR_BYTES ? bytes : VECTOR_BYTES; }
INLINE Bytes load_part(const void *x, Part part) {
    Bytes v = {0};
    memcpy(&v, x, (size_t)part);
    return v;
}
INLINE void store_part(void *x, Part part, Bytes v) { memcpy(x, &v, (size_t)part); }
#endif

/* Constant shuffles of n lanes, of which w make 16 bytes. Within so many bytes, and of whole such pieces, a shuffle is
   one plain instruction: LOWER and UPPER interleave the halves of the pieces of two vectors, EVEN and ODD take every other
   piece of both. LIST_n lists the lanes. */
#define SHUFFLE(n, x, y, which) __builtin_shufflevector(x, y, JOIN(LIST, n)(which, 0, 16 / (int)sizeof(x[0]), n))
#define LOWER(i, w, n) ((i) / (w) * (w) + (i) % (w) / 2 + (i) % 2 * (n))
#define UPPER(i, w, n) (LOWER(i, w, n) + (w) / 2)
#define EVEN(i, w, n) ((i) / (w) * 2 % ((n) / (w)) * (w) + (i) % (w) + (i) / (w) * 2 / ((n) / (w)) * (n))
#define ODD(i, w, n) (EVEN(i, w, n) + (w))
#define REVERSED(i, w, n) ((n) - 1 - (i))
#define LIST_2(F, o, w, n) F(o, w, n), F(o + 1, w, n)
#define LIST_4(F, o, w, n) LIST_2(F, o, w, n), LIST_2(F, o + 2, w, n)
#define LIST_8(F, o, w, n) LIST_4(F, o, w, n), LIST_4(F, o + 4, w, n)
#define LIST_16(F, o, w, n) LIST_8(F, o, w, n), LIST_8(F, o + 8, w, n)
#define LIST_32(F, o, w, n) LIST_16(F, o, w, n), LIST_16(F, o + 16, w, n)

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#endif
