/* AMX's tiles in plain C++, for a processor without them: included before all else, it makes microkernel_amx.hpp compile
   for AVX-512. As on the processor, each thread has eight registers, which nothing may touch before they are configured
   or after they are released; what a thread leaves configured where its part of a product ends is a fault, too.

       tdpbf16ps     for each number of a row of C: two chains of multiply-adds, of the even and of the odd numbers of k,
                     whose sum is added; what is below 2^-126 counts as 0
       tdpbssd, tdpbuud      four products of 8 bits are added to each sum of 32 bits

   Formulas: Intel, Architecture Instruction Set Extensions Programming Reference, chapter on AMX. */
#pragma once

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __AMX_TILE__ 1

namespace tile_unit {

constexpr int TILES = 8, ROWS = 16, BYTES = 64;
struct Tiles {
    uint8_t registers[TILES][ROWS][BYTES];
    bool configured = false;
    ~Tiles() { demand(!configured, "a thread ends with configured tiles"); }
    static void demand(bool holds, const char *fault) {
        if (!holds) fprintf(stderr, "tiles: %s\n", fault), abort();
    }
};
inline thread_local Tiles here;

struct Configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
inline void configure(const void *given) {
    const Configuration &x = *(const Configuration *)given;
    Tiles::demand(!here.configured, "configured twice");
    Tiles::demand(x.palette == 1 && x.start_row == 0, "palette 1 begins with row 0");
    for (int i = 0; i < TILES; i++) Tiles::demand(x.rows[i] == ROWS && x.row_bytes[i] == BYTES, "a tile is not whole");
    here.configured = true;
    memset(here.registers, 0, sizeof here.registers);
}
inline void release() {
    Tiles::demand(here.configured, "released, but not configured");
    here.configured = false;
    memset(here.registers, 0xff, sizeof here.registers);  // NaN
}
inline uint8_t (&tile(int i))[ROWS][BYTES] {
    Tiles::demand(here.configured, "used, but not configured");
    return here.registers[i];
}
inline void zero(int i) { memset(tile(i), 0, sizeof tile(i)); }
inline void load(int i, const void *from, ptrdiff_t stride) {
    for (int r = 0; r < ROWS; r++) memcpy(tile(i)[r], (const char *)from + r * stride, BYTES);
}
inline void store(int i, void *to, ptrdiff_t stride) {
    for (int r = 0; r < ROWS; r++) memcpy((char *)to + r * stride, tile(i)[r], BYTES);
}

inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
inline float from_bfloat16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float found;
    memcpy(&found, &bits, sizeof found);
    return flushed(found);
}
inline void multiply_bfloat16(int c, int a, int b) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) {
            float even = 0, odd = 0, &sum = ((float *)tile(c)[i])[j];
            for (int p = 0; p < ROWS; p++) {
                const uint16_t *const x = (uint16_t *)tile(a)[i] + 2 * p, *const y = (uint16_t *)tile(b)[p] + 2 * j;
                even = flushed(fmaf(from_bfloat16(x[0]), from_bfloat16(y[0]), even));
                odd = flushed(fmaf(from_bfloat16(x[1]), from_bfloat16(y[1]), odd));
            }
            sum = flushed(flushed(sum) + flushed(even + odd));
        }
}
template <class T> void multiply_bytes(int c, int a, int b) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++)
            for (int p = 0; p < BYTES; p++)
                ((uint32_t *)tile(c)[i])[j] +=
                    (uint32_t)(((T *)tile(a)[i])[p] * ((T *)tile(b)[p / 4])[4 * j + p % 4]);
}

}  // namespace tile_unit

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _tile_dpbuud
#define _tile_loadconfig tile_unit::configure
#define _tile_release tile_unit::release
#define _tile_zero tile_unit::zero
#define _tile_loadd tile_unit::load
#define _tile_stored tile_unit::store
#define _tile_dpbf16ps tile_unit::multiply_bfloat16
#define _tile_dpbssd tile_unit::multiply_bytes<int8_t>
#define _tile_dpbuud tile_unit::multiply_bytes<uint8_t>
