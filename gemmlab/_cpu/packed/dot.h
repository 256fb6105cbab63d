/* cpu-packed with AVX512-BF16 and AVX512-VNNI: the micro-kernel of tile.h, whose multiply-add takes two or four numbers
   of k from each lane.

       vdpbf16ps     float32 += 2 products of bfloat16      what is below 2^-126 counts as 0, as a factor and as a sum
       vpdpwssd      int32   += 2 products of int16         also for int8 and uint8 into sums of int32
       vpdpbusd      int32   += 4 products of int8          modulo 2^8, where signs change nothing

   AVX512-FP16 is left out: it sums in float16, and we promise sums in float32. */
#ifndef GEMMLAB_PACKED_DOT_H
#define GEMMLAB_PACKED_DOT_H

#include "openmp_or_serial.h"
#include "product.h"
#include "half.h"

#define CELLS_IN_STEP 1
#include "cells.h"

#define UNFUSED 0
#define COMPLEX 0
#define IN_PLACE 0
#define STEP 4
#define ADD(x, y) ((x) + (y))

#define GROUP 2
#define MULTIPLY_ADD(sum, x, y) (V)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(x), (__m512bh)_mm512_set1_ps(y))
#define KIND bf16
#define T float
#include "kind.h"
#define PAIR(x) JOIN(x, bfloat16)
#define S uint16_t
#define STORED(x) to_bfloat16(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

#undef MULTIPLY_ADD
#define MULTIPLY_ADD(sum, x, y) (V)_mm512_dpwssd_epi32((__m512i)(sum), (__m512i)(x), _mm512_set1_epi32((int)(y)))
#define KIND i16
#define T uint32_t
#include "kind.h"
#define PAIR(x) JOIN(x, int16)
#define S uint16_t
#define STORED(x) (uint16_t)(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

#undef GROUP
#undef MULTIPLY_ADD
#define GROUP 4
#define MULTIPLY_ADD(sum, x, y) (V)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), _mm512_set1_epi32((int)(y)))
#define KIND i8
#define T uint32_t
#include "kind.h"
#define PAIR(x) JOIN(x, int8)
#define S uint8_t
#define STORED(x) (uint8_t)(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

static const Row dot_rows[] = {
    {"bfloat16", "bfloat16", 84, 1024, 2, 2, 0, 0, pack_halves, pack_halves, narrow_bfloat16, OF(bf16)},
    {"bfloat16", "float32", 84, 1024, 2, 2, 0, 0, pack_halves, pack_halves, NULL, OF(bf16)},
    {"int16", "int16", 84, 1024, 2, 2, 0, 0, pack_halves, pack_halves, narrow_int16, OF(i16)},
    {"int16", "int32", 84, 1024, 2, 2, 0, 0, pack_halves, pack_halves, NULL, OF(i16)},
    {"int8", "int32", 84, 1024, 2, 2, 0, 0, pack_int8_as_halves, pack_int8_as_halves, NULL, OF(i16)},
    {"uint8", "int32", 84, 1024, 2, 2, 0, 0, pack_uint8_as_halves, pack_uint8_as_halves, NULL, OF(i16)},
    {"int8", "int8", 84, 2048, 4, 1, 0, 0, pack_bytes, pack_bytes, narrow_int8, OF(i8)},
    {.dtype = NULL},
};
#endif
