/* Vectors of one instruction set, as wide as its registers. GCC's and Clang's vector extensions do the arithmetic; here
   is the rest: a part of a vector, loaded and stored, and the transpose of a square of vectors. */
#pragma once

#include <string.h>
#include <utility>
#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "problem.hpp"
#include "rung.h"

/* Before a loop whose bound the compiler knows. The number is the same everywhere: GCC 12 takes no template's here. */
#define UNROLL _Pragma("GCC unroll 32")

namespace {

#if defined(__aarch64__)
constexpr bool BY_ELEMENT = true;  // whether one factor of a multiply-add may be a number at some place in a vector
#else
constexpr bool BY_ELEMENT = false;
#endif
constexpr int REGISTERS = BY_ELEMENT || VECTOR_BYTES == 64 ? 32 : 16;  // for vectors

template <class T> struct Simd {
    static constexpr int LANES = VECTOR_BYTES / sizeof(T);
    typedef T Vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
    typedef T Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
};
template <class T> using Vector = typename Simd<T>::Vector;
template <class T> constexpr int LANES = Simd<T>::LANES;

template <class T> INLINE Vector<T> load(const void *x) { return *(const typename Simd<T>::Unaligned *)x; }
/* Not to be loaded again for each use: a vector that crosses two cache lines is two loads. */
template <class V> INLINE V in_register(V x) {
#if defined(__x86_64__)
    asm("" : "+v"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}
template <class T> INLINE void store(void *x, Vector<T> v) { *(typename Simd<T>::Unaligned *)x = v; }

/* A part of a vector: its first bytes, a multiple of 4 of them. What follows is neither read nor written. */
using Bytes = Vector<char>;
#if defined(__AVX512BW__)
using Part = __mmask64;
INLINE Part part_of(Count bytes) { return bytes >= 64 ? ~0ull : (1ull << bytes) - 1; }
INLINE Bytes load_bytes(const void *x, Part part) { return (Bytes)_mm512_maskz_loadu_epi8(part, x); }
INLINE void store_bytes(void *x, Part part, Bytes v) { _mm512_mask_storeu_epi8(x, part, (__m512i)v); }
#elif defined(__AVX2__)
using Part = __m256i;
INLINE Part part_of(Count bytes) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(bytes / 4)), lane);
}
INLINE Bytes load_bytes(const void *x, Part part) { return (Bytes)_mm256_maskload_epi32((const int *)x, part); }
INLINE void store_bytes(void *x, Part part, Bytes v) { _mm256_maskstore_epi32((int *)x, part, (__m256i)v); }
#elif VECTOR_BYTES == 16
using Part = Count;
INLINE Part part_of(Count bytes) { return min(bytes, VECTOR_BYTES); }
template <class T> INLINE T read_at(const char *x) {
    T number;
    memcpy(&number, x, sizeof(T));
    return number;
}
INLINE Bytes load_bytes(const void *x, Part part) {
    const char *from = (const char *)x;
    if (part == 16) return load<char>(x);
    uint64_t low = 0, high = 0;
    if (part >= 8) low = read_at<uint64_t>(from);
    if (part & 4) (part > 8 ? high : low) = read_at<uint32_t>(from + (part & 8));
    return (Bytes)Vector<uint64_t>{low, high};
}
INLINE void store_bytes(void *x, Part part, Bytes v) {
    char *to = (char *)x;
    if (part == 16) return store<char>(x, v);
    const Vector<uint64_t> halves = (Vector<uint64_t>)v;
    const uint64_t low = halves[0], last = part >= 8 ? halves[1] : low;
    if (part >= 8) memcpy(to, &low, 8);
    if (part & 4) memcpy(to + (part & 8), &last, 4);
}
#endif

template <class T> INLINE Part part_of_lanes(Count lanes) { return part_of(lanes * (Count)sizeof(T)); }
template <class T> INLINE Vector<T> load_part(const void *x, Part part) { return (Vector<T>)load_bytes(x, part); }
template <class T> INLINE void store_part(void *x, Part part, Vector<T> v) { store_bytes(x, part, (Bytes)v); }

#if defined(__SSE4_1__)
/* A vector of lanes of T from as many bytes, with their signs or without, or from as many numbers of 16 bits without.
   GCC 12 takes `__builtin_convertvector` of bytes apart. */
template <class S> INLINE Vector<uint32_t> widened_to_32(const char *x) {
    constexpr bool BYTES = sizeof(S) == 1, SIGNED = (S)-1 < 0;
#if defined(__AVX512BW__)
    if (!BYTES) return (Vector<uint32_t>)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    const __m128i bytes = _mm_loadu_si128((const __m128i *)x);
    return (Vector<uint32_t>)(SIGNED ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
#elif defined(__AVX2__)
    if (!BYTES) return (Vector<uint32_t>)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)x);
    return (Vector<uint32_t>)(SIGNED ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
    if (!BYTES) return (Vector<uint32_t>)_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)x));
    const __m128i bytes = _mm_loadu_si32(x);
    return (Vector<uint32_t>)(SIGNED ? _mm_cvtepi8_epi32(bytes) : _mm_cvtepu8_epi32(bytes));
#endif
}
template <class S> INLINE Vector<uint16_t> widened_to_16(const char *x) {
    constexpr bool SIGNED = (S)-1 < 0;
#if defined(__AVX512BW__)
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)x);
    return (Vector<uint16_t>)(SIGNED ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes));
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadu_si128((const __m128i *)x);
    return (Vector<uint16_t>)(SIGNED ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
#else
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)x);
    return (Vector<uint16_t>)(SIGNED ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes));
#endif
}

/* In each lane, the sum of the products of both halves, which have signs. */
INLINE Vector<uint32_t> sums_of_products(Vector<uint32_t> x, Vector<uint32_t> y) {
#if defined(__AVX512BW__)
    return (Vector<uint32_t>)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif defined(__AVX2__)
    return (Vector<uint32_t>)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#else
    return (Vector<uint32_t>)_mm_madd_epi16((__m128i)x, (__m128i)y);
#endif
}
#endif

/* Constant shuffles of n lanes, of which w make 16 bytes. Within 16 bytes, and of whole such pieces, a shuffle is one
   plain instruction: `lower` and `upper` interleave the halves of the pieces of two vectors, `even` and `odd` take
   every other piece of both. `first_half` and `second_half` interleave those of two vectors, and `alternating` takes
   even lanes of the first, and odd ones of the second. */
constexpr int lower(int i, int w, int n) { return i / w * w + i % w / 2 + i % 2 * n; }
constexpr int upper(int i, int w, int n) { return lower(i, w, n) + w / 2; }
constexpr int even(int i, int w, int n) { return i / w * 2 % (n / w) * w + i % w + i / w * 2 / (n / w) * n; }
constexpr int odd(int i, int w, int n) { return even(i, w, n) + w; }
constexpr int reversed(int i, int, int n) { return n - 1 - i; }
constexpr int neighbour(int i, int, int) { return i ^ 1; }
constexpr int first_half(int i, int, int n) { return i / 2 + i % 2 * n; }
constexpr int second_half(int i, int, int n) { return first_half(i, 0, n) + n / 2; }
constexpr int alternating(int i, int, int n) { return i + i % 2 * n; }

template <class T, int (*WHICH)(int, int, int), int... I>
INLINE Vector<T> shuffle(Vector<T> x, Vector<T> y, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(x, y, WHICH(I, 16 / (int)sizeof(T), sizeof...(I))...);
}
template <class T, int (*WHICH)(int, int, int)> INLINE Vector<T> shuffle(Vector<T> x, Vector<T> y) {
    return shuffle<T, WHICH>(x, y, std::make_integer_sequence<int, LANES<T>>());
}

/* Complex numbers, whose parts are side by side: parts exchanged; with the signs that i times such a number has then. */
template <class T> INLINE Vector<T> exchanged(Vector<T> x) { return shuffle<T, neighbour>(x, x); }
template <class T> INLINE Vector<T> with_signs_of_i(Vector<T> x) {
    return (Vector<T>)((Bytes)x ^ (Bytes)shuffle<T, alternating>(-Vector<T>{}, Vector<T>{}));
}
template <class T> INLINE Vector<T> times_i(Vector<T> x) { return with_signs_of_i<T>(exchanged<T>(x)); }

/* Pieces of 16 bytes in a square of vectors of them. */
template <class T> INLINE void transpose_16(Vector<T> (&x)[VECTOR_BYTES / 16]) {
    constexpr int N = VECTOR_BYTES / 16;
    Vector<T> next[N];
    if constexpr (N > 1)
        UNROLL for (int w = 1; w < N; w *= 2) {
            UNROLL for (int i = 0; i < N / 2; i++) {
                next[i] = shuffle<T, even>(x[2 * i], x[2 * i + 1]);
                next[i + N / 2] = shuffle<T, odd>(x[2 * i], x[2 * i + 1]);
            }
            UNROLL for (int i = 0; i < N; i++) x[i] = next[i];
        }
}

/* A square of vectors: its pieces of 16 bytes are transposed where they are, and then pieces change places. */
template <class T> INLINE void transpose(Vector<T> (&x)[LANES<T>]) {
    constexpr int N = LANES<T>, PIECE = 16 / sizeof(T), PIECES = N / PIECE;
    Vector<T> next[N];
    UNROLL for (int first = 0; first < N; first += PIECE)
        UNROLL for (int w = 1; w < PIECE; w *= 2) {
            UNROLL for (int i = 0; i < PIECE / 2; i++) {
                next[2 * i] = shuffle<T, lower>(x[first + i], x[first + i + PIECE / 2]);
                next[2 * i + 1] = shuffle<T, upper>(x[first + i], x[first + i + PIECE / 2]);
            }
            UNROLL for (int i = 0; i < PIECE; i++) x[first + i] = next[i];
        }
    if constexpr (PIECES > 1)
        UNROLL for (int w = 1; w < PIECES; w *= 2) {
            UNROLL for (int s = 0; s < PIECE; s++)
                UNROLL for (int i = 0; i < PIECES / 2; i++) {
                    const Vector<T> first = x[2 * i * PIECE + s], second = x[(2 * i + 1) * PIECE + s];
                    next[i * PIECE + s] = shuffle<T, even>(first, second);
                    next[(i + PIECES / 2) * PIECE + s] = shuffle<T, odd>(first, second);
                }
            UNROLL for (int i = 0; i < N; i++) x[i] = next[i];
        }
}

}  // namespace
