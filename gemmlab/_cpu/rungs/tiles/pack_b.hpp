/* cpu-pack-b: the same, with the block of B copied into panels before it is used.

       parallel for i0 in 0..m by bs_r:
           for p0 in 0..k by bs_k:
               for j0 in 0..n by bs_c:
                   panels = B[p0:p0+bs_k, j0:j0+bs_c]                        # stay in L1
                   for j in j0..j0+bs_c by TILE_COLUMNS:
                       for i in i0..i0+bs_r by TILE_ROWS:
                           C[i:, j:] += A[i:, p0:p0+bs_k] panel of j

   Source: Goto and van de Geijn (2008).

   Traffic: the tile reads B line after line, from a few pages, wherever the rows of B lie. So a block may be as deep as
   half of L1 allows: it is a panel, and C is loaded and stored once for each block of k, five to eight times as seldom as
   in `cpu-register`. Each thread copies each block of B again for each of its block rows: a number for bs_r
   multiply-adds. */
#pragma once

#include "panels.hpp"

namespace {

template <class real>
void packed_b(View<const real> A, View<const real> B, View<real> C, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
              RungParams *params) {
    const ptrdiff_t bs_r = params->bs_r, bs_k = least(params->bs_k, k), bs_c = least(params->bs_c, n);
    const ptrdiff_t columns = TILE_COLUMNS<real>;
    const auto multiply = m < TILE_ROWS ? multiply_small<real> : multiply_tile<real>;
    const Buffer<real> buffer = take_buffer<real>(params->threads * in_panels(bs_c, bs_k, columns));
    if ((params->failed = !buffer.taken)) return;
#pragma omp parallel for schedule(runtime) num_threads(params->threads)
    for (ptrdiff_t block = 0; block < blocks(m, bs_r); block++) {
        const ptrdiff_t i0 = block * bs_r, i1 = least(m, i0 + bs_r);
        real *const panels = buffer.numbers + thread() * in_panels(bs_c, bs_k, columns);
        for (ptrdiff_t p0 = 0; p0 < k; p0 += bs_k)
            for (ptrdiff_t block_of_b = before_line(B.at); block_of_b < n; block_of_b += bs_c) {
                const ptrdiff_t j0 = most(0, block_of_b), width = least(n, block_of_b + bs_c) - j0;
                const ptrdiff_t depth = least(bs_k, k - p0);
                pack_b(B(p0, j0), depth, width, panels);
                for (ptrdiff_t j = 0; j < width; j += columns)
                    for (ptrdiff_t i = i0; i < i1; i += TILE_ROWS) {
                        const ptrdiff_t top = moved_back(i, m, TILE_ROWS);
                        const Part part = {i - top, least(i1, i + TILE_ROWS) - top, 0, least(columns, width - j)};
                        const View<const real> panel = {panels + j * depth, columns, 1};
                        multiply(A(top, p0), panel, C(top, j0 + j), part, depth, params->accumulate || p0);
                    }
            }
    }
    free(buffer.taken);
}

}  // namespace
