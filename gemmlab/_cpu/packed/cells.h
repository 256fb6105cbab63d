/* Numbers of 2 bytes and of 1 in cells of 4: what dot.h and amx.h multiply. CELLS_IN_STEP says how many cells of a row
   or column are multiplied in one step. */
#define KIND cells
#define T uint32_t
#define LANES_NUMBER IN_A_VECTOR_4
#include "types.h"
#define PAIR(x) JOIN(x, cells)
#define S uint32_t
#define NUMBER(x) (*(const uint32_t *)(x))
#define NUMBERS(x) LOOSE(x)
#define SAME 1
#include "panel.h"
#include "end_of_pair.h"

/* bfloat16, int16 and uint16. */
#define PAIR(x) JOIN(x, halves)
#define S uint16_t
#define PER 2
#define BITS(x) (*(const uint16_t *)(x))
#define MANY_BITS(x) (V)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(x)))
#define PACK_WHOLE pack_cells
#include "cell.h"
#include "end_of_pair.h"

/* int8 and uint8. */
#define PAIR(x) JOIN(x, bytes)
#define S uint8_t
#define PER 4
#define BITS(x) (*(const uint8_t *)(x))
#define MANY_BITS(x) (V)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(x)))
#define PACK_WHOLE pack_cells
#include "cell.h"
#include "end_of_pair.h"

#if CELLS_IN_STEP == 1
/* int8 and uint8 as 16 bits: two in a cell. */
#define PAIR(x) JOIN(x, pairs_of_int8)
#define S uint16_t
#define NUMBER(x) ((uint16_t)*(const int8_t *)(x) | (uint32_t)(uint16_t)((const int8_t *)(x))[1] << 16)
#define NUMBERS(x) (V)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(x)))
#define SAME 0
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, int8_as_halves)
#define S int8_t
#define PER 2
#define BITS(x) (uint16_t)(*(const int8_t *)(x))
#define MANY_BITS(x) ((V)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(x))) & 0xffff)
#define PACK_WHOLE pack_pairs_of_int8
#include "cell.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, pairs_of_uint8)
#define S uint16_t
#define NUMBER(x) (*(const uint8_t *)(x) | (uint32_t)((const uint8_t *)(x))[1] << 16)
#define NUMBERS(x) (V)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(x)))
#define SAME 0
#include "panel.h"
#include "end_of_pair.h"
#define PAIR(x) JOIN(x, uint8_as_halves)
#define S uint8_t
#define PER 2
#define BITS(x) (*(const uint8_t *)(x))
#define MANY_BITS(x) (V)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(x)))
#define PACK_WHOLE pack_pairs_of_uint8
#include "cell.h"
#include "end_of_pair.h"
#endif
#include "end_of_kind.h"
