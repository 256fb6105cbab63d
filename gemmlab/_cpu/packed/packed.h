/* cpu-packed, for one instruction set.

       product.h   what a product is
       vector.h    vectors of this build; half.h: float16 and bfloat16
       tile.h      the micro-kernel                                   } once for each type of sums, by kind.h
       loops.h     the five loops                                     }
       paths.h     other ways, and the rule that chooses              }
       panel.h     packing (panel_complex.h), narrow.h: storing       } once for each type of stored numbers

   This file says which numbers are multiplied how, and lists them in a table. dot.h and amx.h do so for instructions
   that multiply several numbers of k at once, packed by cell.h; their tables go before this one. */
#ifndef GEMMLAB_PACKED_H
#define GEMMLAB_PACKED_H

#include "openmp_or_serial.h"
#include "product.h"
#include "half.h"

/* float32, and what is multiplied as float32. */
#define GROUP 1       /* numbers of k that one multiply-add takes, side by side in panels, */
#define STEP CELL     /* and their bytes */
#define UNFUSED 0     /* multiply-add is two instructions */
#define COMPLEX 0
#define IN_PLACE 1
#define ADD(x, y) ((x) + (y))
#define MULTIPLY_ADD(sum, x, y) ((sum) + (x) * (y))
#define KIND f32
#define T float
#define LANES_NUMBER IN_A_VECTOR_4
#include "kind.h"
#define PAIR(x) JOIN(x, f32)
#define S float
#define NUMBER(x) (*(const float *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, float16)
#define S uint16_t
#define NUMBER(x) from_float16(x)
#define NUMBERS(x) from_float16s(x)
#define SAME 0
#include "panel.h"
#define STORED(x) to_float16(x)
#include "narrow.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, bfloat16)
#define S uint16_t
#define NUMBER(x) from_bfloat16(x)
#define NUMBERS(x) from_bfloat16s(x)
#define SAME 0
#include "panel.h"
#define STORED(x) to_bfloat16(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

/* float64. */
#define KIND f64
#define T double
#define LANES_NUMBER IN_A_VECTOR_8
#include "kind.h"
#define PAIR(x) JOIN(x, f64)
#define S double
#define NUMBER(x) (*(const double *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

/* complex64 and complex128. */
#undef COMPLEX
#undef IN_PLACE
#define COMPLEX 1
#define IN_PLACE 0
#define KIND c64
#define T float
#define LANES_NUMBER IN_A_VECTOR_4
#include "kind.h"
#define PAIR(x) JOIN(x, c64)
#include "panel_complex.h"
#undef PAIR
#include "end_of_kind.h"
#define KIND c128
#define T double
#define LANES_NUMBER IN_A_VECTOR_8
#include "kind.h"
#define PAIR(x) JOIN(x, c128)
#include "panel_complex.h"
#undef PAIR
#include "end_of_kind.h"

/* Integers, signed or not: modulo 2^bits, the bits of both are the same. */
#undef UNFUSED
#undef COMPLEX
#define UNFUSED 1
#define COMPLEX 0
#define KIND i16
#define T uint16_t
#define LANES_NUMBER IN_A_VECTOR_2
#include "kind.h"
#define PAIR(x) JOIN(x, i16)
#define S uint16_t
#define NUMBER(x) (*(const uint16_t *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i8)
#define S uint8_t
#define NUMBER(x) (*(const uint8_t *)(x))
#define NUMBERS(x) __builtin_convertvector(*(const BytesOfI16 *)(x), V)
#define SAME 0
#include "panel.h"
#define STORED(x) (uint8_t)(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"
#define KIND i32
#define T uint32_t
#define LANES_NUMBER IN_A_VECTOR_4
#include "kind.h"
#define PAIR(x) JOIN(x, i32)
#define S uint32_t
#define NUMBER(x) (*(const uint32_t *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i32_of_int8)
#define S int8_t
#include "widened.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i32_of_uint8)
#define S uint8_t
#include "widened.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i32_of_int16)
#define S int16_t
#include "widened.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i32_of_uint16)
#define S uint16_t
#include "widened.h"
#include "end_of_pair.h"
#include "end_of_kind.h"
#define KIND i64
#define T uint64_t
#define LANES_NUMBER IN_A_VECTOR_8
#include "kind.h"
#define PAIR(x) JOIN(x, i64)
#define S uint64_t
#define NUMBER(x) (*(const uint64_t *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i64_of_int32)
#define S int32_t
#include "widened.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, i64_of_uint32)
#define S uint32_t
#include "widened.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

/* bool: or of ands. */
#undef ADD
#undef MULTIPLY_ADD
#define ADD(x, y) ((x) | (y))
#define MULTIPLY_ADD(sum, x, y) ((sum) | ((x) & (y)))
#define KIND b16
#define T uint16_t
#define LANES_NUMBER IN_A_VECTOR_2
#include "kind.h"
#define PAIR(x) JOIN(x, bool)
#define S uint8_t
#define NUMBER(x) (uint16_t)(*(const uint8_t *)(x) != 0)
#define NUMBERS(x) from_bools(x)
#define SAME 0
#include "panel.h"
#define STORED(x) (uint8_t)(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

/* By NumPy's names; an integer of the same size as C's may have a sign or none, and so may C's. */
static const Row packed_rows[] = {
    {"float32", "float32", 84, 512, 1, 4, 1, 1, pack_f32, pack_f32, NULL, OF(f32)},
    {"float64", "float64", 84, 384, 1, 8, 1, 1, pack_f64, pack_f64, NULL, OF(f64)},
    {"complex64", "complex64", 84, 384, 1, 8, 1, 0, pack_a_c64, pack_b_c64, NULL, OF(c64)},
    {"complex128", "complex128", 84, 192, 1, 16, 1, 0, pack_a_c128, pack_b_c128, NULL, OF(c128)},
    {"float16", "float16", 84, 512, 1, 4, 0, 1, pack_float16, pack_float16, narrow_float16, OF(f32)},
    {"float16", "float32", 84, 512, 1, 4, 0, 1, pack_float16, pack_float16, NULL, OF(f32)},
    {"bfloat16", "bfloat16", 84, 512, 1, 4, 0, 1, pack_bfloat16, pack_bfloat16, narrow_bfloat16, OF(f32)},
    {"bfloat16", "float32", 84, 512, 1, 4, 0, 1, pack_bfloat16, pack_bfloat16, NULL, OF(f32)},
    {"int8", "int8", 84, 512, 1, 2, 0, 0, pack_i8, pack_i8, narrow_i8, OF(i16)},
    {"int16", "int16", 84, 512, 1, 2, 1, 0, pack_i16, pack_i16, NULL, OF(i16)},
    {"int32", "int32", 84, 512, 1, 4, 1, 0, pack_i32, pack_i32, NULL, OF(i32)},
    {"int64", "int64", 84, 384, 1, 8, 1, 0, pack_i64, pack_i64, NULL, OF(i64)},
    {"int8", "int32", 84, 512, 1, 4, 0, 0, pack_i32_of_int8, pack_i32_of_int8, NULL, OF(i32)},
    {"uint8", "int32", 84, 512, 1, 4, 0, 0, pack_i32_of_uint8, pack_i32_of_uint8, NULL, OF(i32)},
    {"int16", "int32", 84, 512, 1, 4, 0, 0, pack_i32_of_int16, pack_i32_of_int16, NULL, OF(i32)},
    {"uint16", "int32", 84, 512, 1, 4, 0, 0, pack_i32_of_uint16, pack_i32_of_uint16, NULL, OF(i32)},
    {"int32", "int64", 84, 384, 1, 8, 0, 0, pack_i64_of_int32, pack_i64_of_int32, NULL, OF(i64)},
    {"uint32", "int64", 84, 384, 1, 8, 0, 0, pack_i64_of_uint32, pack_i64_of_uint32, NULL, OF(i64)},
    {"bool", "bool", 84, 512, 1, 2, 0, 0, pack_bool, pack_bool, narrow_bool, OF(b16)},
    {.dtype = NULL},
};
#endif
