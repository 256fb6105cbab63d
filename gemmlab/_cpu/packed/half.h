/* float16 and bfloat16: as float32 in panels, and rounded to nearest even when they are stored. */
#ifndef GEMMLAB_PACKED_HALF_H
#define GEMMLAB_PACKED_HALF_H

#include "vector.h"

typedef float Floats __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint32_t Words __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef uint16_t HalfWords __attribute__((vector_size(VECTOR_BYTES / 2), aligned(1), may_alias));

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

INLINE float from_bfloat16(const void *x) { return float_of((uint32_t)*(const uint16_t *)x << 16); }
INLINE Floats from_bfloat16s(const void *x) {
    return (Floats)(__builtin_convertvector(*(const HalfWords *)x, Words) << 16);
}
INLINE uint16_t to_bfloat16(float x) {
    const uint32_t bits = bits_of(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);  /* a quiet NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

typedef uint8_t BytesOfI16 __attribute__((vector_size(VECTOR_BYTES / 2), aligned(1), may_alias));
typedef uint16_t I16s __attribute__((vector_size(VECTOR_BYTES), may_alias));
INLINE I16s from_bools(const void *x) {
    return (I16s)(__builtin_convertvector(*(const BytesOfI16 *)x, I16s) != 0) & 1;
}

#if defined(__F16C__)
INLINE float from_float16(const void *x) { return _cvtsh_ss(*(const uint16_t *)x); }
INLINE uint16_t to_float16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
INLINE Floats from_float16s(const void *x) {
#if defined(__AVX512F__)
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(x));
#else
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(x));
#endif
}
#else
INLINE float from_float16(const void *x) {
    const uint32_t half = *(const uint16_t *)x, sign = (half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00) << 22);
    if (rest >= 0x400) return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
    const float small = (float)rest * 0x1p-24f;  /* subnormal, or zero: exact */
    return sign ? -small : small;
}
INLINE uint16_t to_float16(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) return (uint16_t)(sign | 0x7c00);  /* 65536 and more */
    if (rest < 0x38800000)  /* below 2^-14: the sum with 1/2 rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((rest - ((127 - 15) << 23) + 0xfff + (rest >> 13 & 1)) >> 13));
}
INLINE Floats from_float16s(const void *x) {
    Floats floats;
    for (int i = 0; i < (int)(VECTOR_BYTES / 4); i++) floats[i] = from_float16((const uint16_t *)x + i);
    return floats;
}
#endif
#endif
