/* The register tile: TILE_ROWS x TILE_COLUMNS sums of C, which stay in vector registers for a whole block of k.

       for p in 0..depth:
           for i in 0..TILE_ROWS:
               for v in 0..TILE_VECTORS:        sum[i][v] += A[i,p] B[p, vector v]

   A row of B is loaded once for all rows of the tile, and a number of A once for all its columns: with AVX2, 16 + 6
   loads for 96 multiply-adds of float, where a strip of one row needs 64 + 1 for 64. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "rung.h"

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

namespace {

/* As many sums as registers hold beside a row of B and a number of A: there are 32 with AVX-512 and on AArch64, else 16. */
#if defined(__AVX512F__)
constexpr int TILE_ROWS = 14, TILE_VECTORS = 2;
#elif defined(__AVX__)
constexpr int TILE_ROWS = 6, TILE_VECTORS = 2;
#elif defined(__aarch64__)
constexpr int TILE_ROWS = 12, TILE_VECTORS = 2;
#else
constexpr int TILE_ROWS = 3, TILE_VECTORS = 4;
#endif

template <class real> constexpr ptrdiff_t LANES = VECTOR_BYTES / sizeof(real);
template <class real> constexpr ptrdiff_t TILE_COLUMNS = TILE_VECTORS * LANES<real>;

constexpr ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }
constexpr ptrdiff_t most(ptrdiff_t x, ptrdiff_t y) { return x > y ? x : y; }
constexpr ptrdiff_t blocks(ptrdiff_t extent, ptrdiff_t size) { return (extent + size - 1) / size; }

/* A matrix, or a copy in panels: from one row to the next, and from one column to the next, in numbers. */
template <class real> struct View {
    real *at;
    ptrdiff_t row, column;
    INLINE View operator()(ptrdiff_t i, ptrdiff_t j) const { return {at + i * row + j * column, row, column}; }
};

/* Where a grid of columns begins, so that all its blocks but the first begin with a cache line: at 0 or before. A vector
   that straddles two lines costs two loads. */
template <class real> ptrdiff_t before_line(const real *x) {
    return -(ptrdiff_t)((uintptr_t)x % LINE_BYTES / sizeof(real));
}

/* Where a tile begins that is to cover `i`: there, or as far back as it has to be to stay inside. */
constexpr ptrdiff_t moved_back(ptrdiff_t i, ptrdiff_t extent, ptrdiff_t tile) {
    return extent < tile ? 0 : least(i, extent - tile);
}

/* Of a tile, the rows and columns that are wanted. One that would stick out of a matrix is moved back into it, or its panel
   is filled up with zeros: so each tile has its full size, which is a constant. */
struct Part {
    ptrdiff_t top, bottom, left, right;
};

/* C[part] (+)= A[TILE_ROWS x depth] B[depth x TILE_COLUMNS]; B's columns are adjacent, and so are C's. Views are passed by
   reference: copies of what was just stored, in wider moves, would wait for those stores on Intel. */
template <class real>
void multiply_tile(const View<const real> &A, const View<const real> &B, const View<real> &C, const Part &part, ptrdiff_t depth,
                   bool add) {
    typedef real Vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef real Stored __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
    Vector sum[TILE_ROWS][TILE_VECTORS] = {};
    UNROLL for (int i = 0; i < TILE_ROWS; i++)  // these lines come while the loop runs
        for (int bytes = 0; bytes < TILE_VECTORS * VECTOR_BYTES; bytes += LINE_BYTES)
            __builtin_prefetch((const char *)(C.at + i * C.row) + bytes, 1);
    const real *a = A.at, *b = B.at;
    for (ptrdiff_t p = 0; p < depth; p++, a += A.column, b += B.row) {
        Vector row[TILE_VECTORS];
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) row[v] = *(const Stored *)(b + v * LANES<real>);
        UNROLL for (int i = 0; i < TILE_ROWS; i++)
            UNROLL for (int v = 0; v < TILE_VECTORS; v++) sum[i][v] += a[i * A.row] * row[v];
    }
    if (part.top == 0 && part.bottom == TILE_ROWS && part.left == 0 && part.right == TILE_COLUMNS<real>) {
        UNROLL for (int i = 0; i < TILE_ROWS; i++)
            UNROLL for (int v = 0; v < TILE_VECTORS; v++) {
                Stored *to = (Stored *)(C.at + i * C.row + v * LANES<real>);
                *to = add ? *to + sum[i][v] : sum[i][v];
            }
        return;
    }
    real all[TILE_ROWS][TILE_COLUMNS<real>];
    UNROLL for (int i = 0; i < TILE_ROWS; i++)
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) *(Stored *)(all[i] + v * LANES<real>) = sum[i][v];
    for (ptrdiff_t i = part.top; i < part.bottom; i++)
        for (ptrdiff_t j = part.left; j < part.right; j++) {
            real *to = C.at + i * C.row + j;
            *to = add ? *to + all[i][j] : all[i][j];
        }
}

/* The same for a C that is smaller than a tile, number by number. */
template <class real>
void multiply_small(const View<const real> &A, const View<const real> &B, const View<real> &C, const Part &part, ptrdiff_t depth,
                    bool add) {
    for (ptrdiff_t i = part.top; i < part.bottom; i++)
        for (ptrdiff_t j = part.left; j < part.right; j++) {
            real sum = 0, *to = C.at + i * C.row + j;
            for (ptrdiff_t p = 0; p < depth; p++) sum += A(i, p).at[0] * B(p, j).at[0];
            *to = add ? *to + sum : sum;
        }
}

}  // namespace
