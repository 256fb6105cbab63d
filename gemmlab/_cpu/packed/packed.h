/* cpu-packed, for one instruction set.

       product.h   what a product is
       vector.h    vectors of this build; half.h: float16 and bfloat16
       tile.h      the micro-kernel                                   } once for each type of sums, by kind.h
       loops.h     the five loops                                     }
       paths.h     other ways, and the rule that chooses              }
       panel.h     packing (panel_complex.h), narrow.h: storing       } once for each type of stored numbers

   This file says which numbers are multiplied how, and lists them in a table. */
#ifndef GEMMLAB_PACKED_H
#define GEMMLAB_PACKED_H

#include "openmp_or_serial.h"
#include "product.h"
#include "half.h"

/* float32, and what is multiplied as float32. */
#define INTEGER 0
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
#undef INTEGER
#undef COMPLEX
#define INTEGER 1
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

/* By NumPy's names. */
static const Row packed_rows[] = {
    {"float32", 4, 1, pack_f32, pack_f32, NULL, multiply_many_f32, workspace_of_f32, pack_whole_f32},
    {"float64", 8, 1, pack_f64, pack_f64, NULL, multiply_many_f64, workspace_of_f64, pack_whole_f64},
    {"complex64", 8, 0, pack_a_c64, pack_b_c64, NULL, multiply_many_c64, workspace_of_c64, pack_whole_c64},
    {"complex128", 16, 0, pack_a_c128, pack_b_c128, NULL, multiply_many_c128, workspace_of_c128, pack_whole_c128},
    {"float16", 2, 1, pack_float16, pack_float16, narrow_float16, multiply_many_f32, workspace_of_f32, pack_whole_f32},
    {"bfloat16", 2, 1, pack_bfloat16, pack_bfloat16, narrow_bfloat16, multiply_many_f32,
     workspace_of_f32, pack_whole_f32},
    {"int8", 1, 0, pack_i8, pack_i8, narrow_i8, multiply_many_i16, workspace_of_i16, pack_whole_i16},
    {"int16", 2, 0, pack_i16, pack_i16, NULL, multiply_many_i16, workspace_of_i16, pack_whole_i16},
    {"int32", 4, 0, pack_i32, pack_i32, NULL, multiply_many_i32, workspace_of_i32, pack_whole_i32},
    {"int64", 8, 0, pack_i64, pack_i64, NULL, multiply_many_i64, workspace_of_i64, pack_whole_i64},
    {"bool", 1, 0, pack_bool, pack_bool, narrow_bool, multiply_many_b16, workspace_of_b16, pack_whole_b16},
    {.dtype = NULL},
};
#endif
