/* The kinds of numbers that are multiplied, a struct each, and how numbers are stored.

   A kind has the type of its sums, the multiply-add, the numbers of k that one step takes (GROUP) and their bytes
   (STEP), the numbers that make one sum (PARTS), whether multiply-add is one instruction (FUSED), whether operands
   are multiplied without packing too (UNPACKED), and how many numbers of k an instruction multiplies in the time of a
   vector's multiply-add (SPEED).

   bfloat16 and float16 are float32 in panels, and rounded to nearest even when they are stored. Where the processor has
   instructions for more than one number of k, the last kinds here use them:

       vdpbf16ps    float32 += 2 products of bfloat16     what is below 2^-126 counts as 0, as a factor and as a sum
       vpdpwssd     int32   += 2 products of int16        also for int8 and uint8 into sums of int32; elsewhere vpmaddwd
       vpdpbusd     int32   += 4 products of int8         modulo 2^8, where signs change nothing

   AVX512-FP16 is left out: it sums in float16, and we promise sums in float32. */
#pragma once

#include "simd.hpp"

namespace {

template <class T> struct Real {
    using Sum = T;
    static constexpr int PARTS = 1, GROUP = 1, STEP = sizeof(T), SPEED = 1;
    static constexpr bool FUSED = true, UNPACKED = true;
    template <class Y> static INLINE Vector<T> multiply_add(Vector<T> sum, Vector<T> x, Y y) { return sum + x * y; }
    static INLINE Vector<T> add(Vector<T> x, Vector<T> y) { return x + y; }
    static INLINE T add(T x, T y) { return (T)(x + y); }
};

template <class T> struct Complex : Real<T> {
    static constexpr int PARTS = 2, STEP = 2 * sizeof(T);
};

/* Integers, signed or not: modulo 2^bits, the bits of both are the same. */
template <class T> struct Modular : Real<T> {
    static constexpr bool FUSED = false, UNPACKED = false;
};

#if defined(__SSE4_1__)
/* Wide integers two numbers of k at a time, by Winograd ("A New Algorithm for Inner Product", 1968):

       (a0 + b1) (a1 + b0) = a0 b0 + a1 b1 + a0 a1 + b0 b1

   One product in place of two, which cost more than additions here. The sum of a0 a1 over k belongs to a row of A and
   that of b0 b1 to a column of B; both are subtracted at the end (`paired_tile`). Modulo 2^bits all of this is exact. */
template <class T> struct Paired : Modular<T> {
    static constexpr int GROUP = 2, STEP = 2 * sizeof(T);
    static constexpr int REGISTERS = 1;  // vectors in which one vector of sums is kept
    static INLINE void multiply_add(Vector<T> *sum, Vector<T> x, Vector<T> y) { *sum += x * y; }
    static INLINE Vector<T> total(const Vector<T> *sum) { return *sum; }
};

#if !defined(__AVX512DQ__)
/* Of 64 bits, where the processor multiplies 32: sums of low halves' products, in 64 bits; and for each half of x that
   of its products with the other half of y, in 32 bits, since they count 2^32 times. */
template <> struct Paired<uint64_t> : Modular<uint64_t> {
    using Halves = Vector<uint32_t>;
    static constexpr int GROUP = 2, STEP = 16, REGISTERS = 2;
    static INLINE Vector<uint64_t> low_products(Vector<uint64_t> x, Vector<uint64_t> y) {
#if defined(__AVX2__)
        return (Vector<uint64_t>)_mm256_mul_epu32((__m256i)x, (__m256i)y);
#else
        return (Vector<uint64_t>)_mm_mul_epu32((__m128i)x, (__m128i)y);
#endif
    }
    static INLINE Halves exchanged(Vector<uint64_t> x) { return shuffle<uint32_t, neighbour>((Halves)x, (Halves)x); }
    static INLINE void multiply_add(Vector<uint64_t> *sum, Vector<uint64_t> x, Vector<uint64_t> y) {
        sum[0] += low_products(x, y);
        sum[1] = (Vector<uint64_t>)((Halves)sum[1] + (Halves)x * exchanged(y));
        asm("" : "+v"(sum[0]), "+v"(sum[1]));  // else the compiler adds later, and keeps some sums in memory
    }
    static INLINE Vector<uint64_t> total(const Vector<uint64_t> *sum) {
        return sum[0] + ((Vector<uint64_t>)((Halves)sum[1] + exchanged(sum[1])) << 32);
    }
};
#endif
#endif

/* bool: or of ands. */
struct Boolean : Modular<uint16_t> {
    template <class Y> static INLINE Vector<Sum> multiply_add(Vector<Sum> sum, Vector<Sum> x, Y y) { return sum | (x & y); }
    static INLINE Vector<Sum> add(Vector<Sum> x, Vector<Sum> y) { return x | y; }
    static INLINE Sum add(Sum x, Sum y) { return x | y; }
};

#if defined(__SSE4_1__)
template <class T, int NUMBERS> struct Grouped : Real<T> {
    static constexpr int GROUP = NUMBERS, STEP = 4;
#if defined(__AVX512VNNI__)
    static constexpr int SPEED = GROUP;
#endif
    static constexpr bool UNPACKED = false;
};
struct DotInt16 : Grouped<uint32_t, 2> {
    static INLINE Vector<Sum> multiply_add(Vector<Sum> sum, Vector<Sum> x, Sum y) {
#if defined(__AVX512VNNI__)
        return (Vector<Sum>)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)x, _mm512_set1_epi32((int)y));
#else
        Vector<Sum> products = sums_of_products(x, Vector<Sum>{} + y);
        asm("" : "+v"(products));  // else the compiler adds products of some steps first, and keeps sums in memory
        sum += products;
        asm("" : "+v"(sum));
        return sum;
#endif
    }
};
#endif
#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
struct DotBfloat16 : Grouped<float, 2> {
    static INLINE Vector<Sum> multiply_add(Vector<Sum> sum, Vector<Sum> x, Sum y) {
        return (Vector<Sum>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)_mm512_set1_ps(y));
    }
};
struct DotInt8 : Grouped<uint32_t, 4> {
    static INLINE Vector<Sum> multiply_add(Vector<Sum> sum, Vector<Sum> x, Sum y) {
        return (Vector<Sum>)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, _mm512_set1_epi32((int)y));
    }
};
#endif

/* Numbers as they are stored, where the compiler has no type for them. */
struct Float16 { uint16_t bits; };
struct Bfloat16 { uint16_t bits; };
struct Bool { uint8_t byte; };
template <class T> struct Pair { T number[2]; };  // one complex number, or two numbers of k

INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

INLINE float from_bfloat16(Bfloat16 x) { return float_of((uint32_t)x.bits << 16); }
INLINE Bfloat16 to_bfloat16(float x) {
    const uint32_t bits = bits_of(x);
    if (x != x) return {(uint16_t)(bits >> 16 | 0x40)};  // a quiet NaN stays one
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#if defined(__F16C__)
INLINE float from_float16(Float16 x) { return _cvtsh_ss(x.bits); }
INLINE Float16 to_float16(float x) { return {_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)}; }
#elif defined(__aarch64__)
INLINE float from_float16(Float16 x) { return (float)__builtin_bit_cast(__fp16, x); }
INLINE Float16 to_float16(float x) { return __builtin_bit_cast(Float16, (__fp16)x); }
#else
INLINE float from_float16(Float16 x) {
    const uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (uint32_t)(rest > 0x7c00) << 22);
    if (rest >= 0x400) return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
    const float small = (float)rest * 0x1p-24f;  // subnormal, or zero: exact
    return sign ? -small : small;
}
INLINE Float16 to_float16(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return {(uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff))};
    if (rest >= 0x47800000) return {(uint16_t)(sign | 0x7c00)};  // 65536 and more
    if (rest < 0x38800000)  // below 2^-14: the sum with 1/2 rounds to a multiple of 2^-24
        return {(uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000))};
    return {(uint16_t)(sign | ((rest - ((127 - 15) << 23) + 0xfff + (rest >> 13 & 1)) >> 13))};
}
#endif

/* Numbers stored as S, read as T: one, and a vector of adjacent ones. */
template <class T, class S> struct Read {
    typedef S Stored __attribute__((vector_size(LANES<T> * sizeof(S)), aligned(1), may_alias));
    static INLINE T one(const char *x) { return (T)*(const S *)x; }
    static INLINE Vector<T> many(const char *x) { return __builtin_convertvector(*(const Stored *)x, Vector<T>); }
};
template <class T> struct Read<T, T> {
    typedef T Stored __attribute__((aligned(1), may_alias));  // a complex number of 8 bytes may be at a multiple of 4
    static INLINE T one(const char *x) { return *(const Stored *)x; }
    static INLINE Vector<T> many(const char *x) { return load<T>(x); }
};
template <> struct Read<float, Bfloat16> {
    static INLINE float one(const char *x) { return from_bfloat16(*(const Bfloat16 *)x); }
    static INLINE Vector<float> many(const char *x) {
        return (Vector<float>)(Read<uint32_t, uint16_t>::many(x) << 16);
    }
};
template <> struct Read<float, Float16> {
    static INLINE float one(const char *x) { return from_float16(*(const Float16 *)x); }
    static INLINE Vector<float> many(const char *x) {
#if defined(__AVX512F__)
        return (Vector<float>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
#elif defined(__F16C__)
        return (Vector<float>)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
#elif defined(__aarch64__)
        return (Vector<float>)vcvt_f32_f16((float16x4_t)vld1_u8((const uint8_t *)x));
#else
        Vector<float> floats;
        for (int i = 0; i < LANES<float>; i++) floats[i] = from_float16(((const Float16 *)x)[i]);
        return floats;
#endif
    }
};
template <> struct Read<uint16_t, Bool> {
    static INLINE uint16_t one(const char *x) { return *(const uint8_t *)x != 0; }
    static INLINE Vector<uint16_t> many(const char *x) {
        return (Vector<uint16_t>)(Read<uint16_t, uint8_t>::many(x) != 0) & 1;
    }
};
/* Two bytes, as two numbers of 16 bits in one of 32. */
template <class S> struct Read<uint32_t, Pair<S>> {
    static INLINE uint32_t one(const char *x) {
        return (uint16_t)((const S *)x)[0] | (uint32_t)(uint16_t)((const S *)x)[1] << 16;
    }
#if defined(__SSE4_1__)
    static INLINE Vector<uint32_t> many(const char *x) { return (Vector<uint32_t>)widened_to_16<S>(x); }
#endif
};

/* A sum as it is stored. */
template <class S, class T> INLINE S stored(T x) {
    if constexpr (__is_same(S, Float16)) return to_float16(x);
    else if constexpr (__is_same(S, Bfloat16)) return to_bfloat16(x);
    else if constexpr (__is_same(S, Bool)) return {(uint8_t)x};
    else return (S)x;
}

}  // namespace
