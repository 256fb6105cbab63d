/* cpu-packed with AMX: the micro-kernel of amx_tile.h, on 32 x 32 numbers of C.

       tdpbf16ps     float32 += 2 products of bfloat16, for 16 cells of k      what is below 2^-126 counts as 0
       tdpbssd       int32   += 4 products of int8, for 16 cells of k
       tdpbuud       int32   += 4 products of uint8, likewise */
#ifndef GEMMLAB_PACKED_AMX_H
#define GEMMLAB_PACKED_AMX_H

#include "openmp_or_serial.h"
#include "product.h"
#include "half.h"

#define CELLS_IN_STEP 16
#include "cells.h"

/* A step of k of each row is 64 bytes, one row after the other, then the next step. Bytes that a row lacks are 0. */
#define STEP 64
#define PAIR(x) JOIN(x, halves)
#define S uint16_t
#include "step.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, bytes)
#define S uint8_t
#include "step.h"
#include "end_of_pair.h"

#define COMPLEX 0
#define IN_PLACE 0
#define ADD(x, y) ((x) + (y))

#define GROUP 32
#define MULTIPLY_TILES(sum, a, b) _tile_dpbf16ps(sum, a, b)
#define KIND bf16
#define T float
#include "kind.h"
#define PAIR(x) JOIN(x, bfloat16)
#define S uint16_t
#define STORED(x) to_bfloat16(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

#undef GROUP
#undef MULTIPLY_TILES
#define GROUP 64
#define MULTIPLY_TILES(sum, a, b) _tile_dpbssd(sum, a, b)
#define KIND i8
#define T uint32_t
#include "kind.h"
#define PAIR(x) JOIN(x, int8)
#define S uint8_t
#define STORED(x) (uint8_t)(x)
#include "narrow.h"
#include "end_of_pair.h"
#include "end_of_kind.h"

#undef MULTIPLY_TILES
#define MULTIPLY_TILES(sum, a, b) _tile_dpbuud(sum, a, b)
#define KIND u8
#define T uint32_t
#include "kind.h"
#include "end_of_kind.h"

static const Row amx_rows[] = {
    {"bfloat16", "bfloat16", 256, 1024, 32, 2, 0, 0, pack_steps_halves, pack_halves, narrow_bfloat16, OF(bf16)},
    {"bfloat16", "float32", 256, 1024, 32, 2, 0, 0, pack_steps_halves, pack_halves, NULL, OF(bf16)},
    {"int8", "int8", 256, 2048, 64, 1, 0, 0, pack_steps_bytes, pack_bytes, narrow_int8, OF(i8)},
    {"int8", "int32", 256, 2048, 64, 1, 0, 0, pack_steps_bytes, pack_bytes, NULL, OF(i8)},
    {"uint8", "int32", 256, 2048, 64, 1, 0, 0, pack_steps_bytes, pack_bytes, NULL, OF(u8)},
    {.dtype = NULL},
};
#endif
