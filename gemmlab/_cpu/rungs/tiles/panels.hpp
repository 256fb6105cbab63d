/* Copies of A and B in panels: what a tile reads at one step of k is adjacent, and so are the steps.

       panel of B    TILE_COLUMNS columns: for each p, B[p, j:j+TILE_COLUMNS]
       panel of A    TILE_ROWS rows: for each p, A[i:i+TILE_ROWS, p]

   The last panel is filled up with zeros. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "tile.hpp"

namespace {

/* Of the threads of a parallel loop, which one this is. */
inline int thread() {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* Memory of so many numbers that begins with a cache line; `numbers` is NULL where there is none. */
template <class real> struct Buffer {
    void *taken;
    real *numbers;
};
template <class real> Buffer<real> take_buffer(ptrdiff_t count) {
    void *taken = malloc(count * sizeof(real) + LINE_BYTES);
    return {taken, taken ? (real *)(((uintptr_t)taken + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES) : NULL};
}

/* B[:depth, :columns], with at most TILE_COLUMNS columns. */
template <class real> void pack_panel_of_b(View<const real> B, ptrdiff_t depth, ptrdiff_t columns, real *panel) {
    constexpr ptrdiff_t ALL = TILE_COLUMNS<real>;
    for (ptrdiff_t p = 0; p < depth; p++, B.at += B.row, panel += ALL)
        if (columns == ALL)
            for (ptrdiff_t j = 0; j < ALL; j++) panel[j] = B.at[j];
        else
            for (ptrdiff_t j = 0; j < ALL; j++) panel[j] = j < columns ? B.at[j] : 0;
}

/* A[:rows, :depth], with at most TILE_ROWS rows. */
template <class real> void pack_panel_of_a(View<const real> A, ptrdiff_t rows, ptrdiff_t depth, real *panel) {
    for (ptrdiff_t p = 0; p < depth; p++, panel += TILE_ROWS)
        for (ptrdiff_t i = 0; i < TILE_ROWS; i++) panel[i] = i < rows ? A(i, p).at[0] : 0;
}

/* A whole block, a panel after the other. */
template <class real> void pack_b(View<const real> B, ptrdiff_t depth, ptrdiff_t columns, real *panels) {
    constexpr ptrdiff_t ALL = TILE_COLUMNS<real>;
    for (ptrdiff_t j = 0; j < columns; j += ALL) pack_panel_of_b(B(0, j), depth, least(ALL, columns - j), panels + j * depth);
}
template <class real> void pack_a(View<const real> A, ptrdiff_t rows, ptrdiff_t depth, real *panels) {
    for (ptrdiff_t i = 0; i < rows; i += TILE_ROWS)
        pack_panel_of_a(A(i, 0), least(TILE_ROWS, rows - i), depth, panels + i * depth);
}

/* Numbers of the panels of so many rows, or columns. */
constexpr ptrdiff_t in_panels(ptrdiff_t extent, ptrdiff_t depth, ptrdiff_t panel) {
    return blocks(extent, panel) * panel * depth;
}

/* C[:rows, :columns] (+)= panels of A times panels of B: a panel of B for all of A, then the next. */
template <class real>
void multiply_panels(const real *A, const real *B, View<real> C, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth,
                     bool add) {
    constexpr ptrdiff_t ALL = TILE_COLUMNS<real>;
    for (ptrdiff_t j = 0; j < columns; j += ALL)
        for (ptrdiff_t i = 0; i < rows; i += TILE_ROWS)
            multiply_tile<real>({A + i * depth, 1, TILE_ROWS}, {B + j * depth, ALL, 1}, C(i, j),
                                {0, least(TILE_ROWS, rows - i), 0, least(ALL, columns - j)}, depth, add);
}

}  // namespace
