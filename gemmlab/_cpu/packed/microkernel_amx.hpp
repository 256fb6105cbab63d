/* The micro-kernel on AMX: C[rows x columns] (+)= A B, all sums in four of its eight registers, each a tile of 16 x 16.

       for p in 0..steps:                                    a step: 16 groups of k, 64 bytes of each row and column
           sum[0..1][0..1] += A[0..1] B[0..1]                a tile of A: 16 rows of 64 bytes
                                                             a tile of B: 16 groups of k for 16 columns

   Of the registers, 4 hold sums, 2 A, 2 B: four products on four tiles read. Rows and columns that C does not have
   are computed from whatever is in their place, and left out when C is written. A sum is one chain in the order of p,
   as in microkernel.hpp, and each product within it adds its pairs of bfloat16 as the processor does. Sums of integers,
   which are the same in any order, go on with those that C holds.

   Four reads are 64 bytes a cycle, more than L2 gives. On a Xeon of 4.1 GHz the loop alone does 3.3 TFLOP/s of bfloat16
   with all from L1; 2.3 where L1 holds one of the two panels; 1.4 to 1.8 where L2 holds both; and 0.8 where B comes from L3
   each time. But blocks of k are long, since C goes by for each: so a tile may stop after some steps, while L1 has this part
   of B, and go on when all of A has passed by. Its sums wait apart, one tile after the other, since rows of C may share
   sets of the caches. The next panel of B is fetched from L3 at the same time.

       tdpbf16ps     float32 += 2 products of bfloat16, for 16 groups of k      what is below 2^-126 counts as 0
       tdpbssd       int32   += 4 products of int8, for 16 groups of k
       tdpbuud       int32   += 4 products of uint8, likewise */
#pragma once

#include "microkernel.hpp"
#include "tile_registers.h"

namespace {

constexpr int TILE_ROWS = 16, TILE_BYTES = TILE_ROWS * 64, TILES_EDGE = 2 * TILE_ROWS;

/* The registers' numbers are constants in the instructions, hence macros: sums in 0 to 3, A in 4 and 5, B in 6 and 7. */
#define MULTIPLY_TILES(instruction)                                       \
    template <int SUM> static INLINE void multiply_tiles() {              \
        if constexpr (SUM == 0) instruction(0, 4, 6);                     \
        else if constexpr (SUM == 1) instruction(1, 4, 7);                \
        else if constexpr (SUM == 2) instruction(2, 5, 6);                \
        else instruction(3, 5, 7);                                        \
    }
/* 16 rows in 16 cycles, in which a vector's multiply-add is done 32 times. */
template <class T, int NUMBERS> struct Tiled : Real<T> {
    static constexpr int GROUP = NUMBERS, STEP = 64, SPEED = NUMBERS / 2;
    static constexpr bool UNPACKED = false;
};
struct TiledBfloat16 : Tiled<float, 32> { MULTIPLY_TILES(_tile_dpbf16ps) };
struct TiledInt8 : Tiled<uint32_t, 64> { MULTIPLY_TILES(_tile_dpbssd) };
struct TiledUint8 : Tiled<uint32_t, 64> { MULTIPLY_TILES(_tile_dpbuud) };
#undef MULTIPLY_TILES

void begin_tiles() { _tile_loadconfig(&TILES_OF_16_ROWS); }
void end_tiles() { _tile_release(); }

/* What a step takes of rows that are stored, where whole tiles would reach beyond them. */
template <class Kind> void copy_step(char *to, const Tile &x, const char *a, Count p) {
    const Part part = part_of(min(Kind::GROUP, x.numbers - p * Kind::GROUP) * (Kind::STEP / Kind::GROUP));
    for (Count i = 0; i < x.rows; i++) *(Bytes *)(to + i * Kind::STEP) = load_bytes(a + i * x.rs_a, part);
    asm volatile("" : : : "memory");  // the instruction that reads it does not say so to the compiler
}

/* Where the sums of a tile are: in C, apart, or nowhere yet. */
struct TileSums { char *at; Count rs; };

/* The panel of A has x.rows rows: its tiles of a step begin TILE_BYTES apart, its steps x.rows * STEP. If A is not packed,
   a step is STEP bytes of each row. */
template <class Kind, bool TALL, bool WIDE, bool PACKED>
INLINE void multiply_tiles(const Tile &x, const TileSums &from, const TileSums &to) {
    const char *a = x.a, *b = x.b;
    const Count steps = x.depth, step_of_a = PACKED ? x.rows * Kind::STEP : Kind::STEP, rs_a = PACKED ? Kind::STEP : x.rs_a;
    const Count whole_steps = x.rows % TILE_ROWS ? 0 : x.numbers / Kind::GROUP;
    alignas(64) char copied[PACKED ? 64 : 2 * TILE_BYTES];
    if (from.at) {
        _tile_loadd(0, from.at, from.rs);
        if (WIDE) _tile_loadd(1, from.at + 64, from.rs);
        if (TALL) _tile_loadd(2, from.at + TILE_ROWS * from.rs, from.rs);
        if (TALL && WIDE) _tile_loadd(3, from.at + TILE_ROWS * from.rs + 64, from.rs);
    } else {
        _tile_zero(0);
        if (WIDE) _tile_zero(1);
        if (TALL) _tile_zero(2);
        if (TALL && WIDE) _tile_zero(3);
    }
    for (Count p = 0; p < steps; p++, a += step_of_a, b += TILES_EDGE * Kind::STEP) {
        const char *rows = a;
        Count row_bytes = rs_a;
        if (!PACKED && p >= whole_steps) copy_step<Kind>(copied, x, a, p), rows = copied, row_bytes = Kind::STEP;
        for (const char *line = x.ahead + p * x.of_ahead, *end = line + x.of_ahead; line < end; line += LINE_BYTES)
            _mm_prefetch(line, _MM_HINT_T1);
        _tile_loadd(4, rows, row_bytes);
        _tile_loadd(6, b, TILES_EDGE * 4);
        Kind::template multiply_tiles<0>();
        if (WIDE) {
            _tile_loadd(7, b + 64, TILES_EDGE * 4);
            Kind::template multiply_tiles<1>();
        }
        if (TALL) {
            _tile_loadd(5, rows + TILE_ROWS * row_bytes, row_bytes);
            Kind::template multiply_tiles<2>();
            if (WIDE) Kind::template multiply_tiles<3>();
        }
    }
    _tile_stored(0, to.at, to.rs);
    if (WIDE) _tile_stored(1, to.at + 64, to.rs);
    if (TALL) _tile_stored(2, to.at + TILE_ROWS * to.rs, to.rs);
    if (TALL && WIDE) _tile_stored(3, to.at + TILE_ROWS * to.rs + 64, to.rs);
}

template <class Kind, bool TALL, bool WIDE, bool PACKED> void tiles(const Tile &given) {
    const Tile x = given;
    using T = typename Kind::Sum;
    constexpr bool ANY_ORDER = !__is_same(T, float);
    alignas(64) T here[TILES_EDGE * TILES_EDGE];
    T *const sums = x.sums ? (T *)x.sums : here;
    const TileSums none = {}, c = {x.c, x.rs_c}, apart = {(char *)sums, sizeof(T) * TILES_EDGE};
    const bool is_whole = x.rows == TILES_EDGE && x.columns == TILES_EDGE && x.cs_c == sizeof(T) && !x.narrows;
    const bool ends_in_c = is_whole && (!x.add || ANY_ORDER);
    multiply_tiles<Kind, TALL, WIDE, PACKED>(x, x.resume ? apart : ends_in_c && x.add ? c : none,
                                             ends_in_c && !x.pauses ? c : apart);
    if (ends_in_c || x.pauses) return;
    const Sums to_c = sums_of(x, sums, apart.rs);
    if (x.narrows) return x.kernel->unpack(to_c);
    if (x.cs_c != sizeof(T)) return accumulate<Kind>(to_c);
    for (Count j = 0; j < x.columns; j += LANES<T>) {
        const Part part = part_of_lanes<T>(x.columns - j);
        for (Count i = 0; i < x.rows; i++) {
            char *row = x.c + i * x.rs_c + j * sizeof(T);
            Vector<T> sum = load<T>(sums + i * TILES_EDGE + j);
            if (x.add) sum = Kind::add(load_part<T>(row, part), sum);
            store_part<T>(row, part, sum);
        }
    }
}

template <class Kind, bool PACKED, int... I>
constexpr MicroKernels<sizeof...(I)> amx_tiles(std::integer_sequence<int, I...>) {
    return {{tiles<Kind, (I / VECTORS<Kind> >= TILE_ROWS), I % VECTORS<Kind>, PACKED>...}};
}
template <class Kind, bool PACKED> constexpr auto AMX_TILES =
    amx_tiles<Kind, PACKED>(std::make_integer_sequence<int, TILES_EDGE * VECTORS<Kind>>());

}  // namespace
