/* cpu-pack-ab: the same, with the block of A copied into panels too.

       parallel for i0 in 0..m by bs_r:
           for p0 in 0..k by bs_k:
               panels of A = A[i0:i0+bs_r, p0:p0+bs_k]                       # stay in L2
               for j0 in 0..n by bs_c:
                   panels of B = B[p0:p0+bs_k, j0:j0+bs_c]                   # stay in L1
                   for j in j0..j0+bs_c by TILE_COLUMNS:
                       for i in i0..i0+bs_r by TILE_ROWS:
                           C[i:, j:] += panel of i  panel of j

   Source: Goto and van de Geijn (2008).

   Traffic: the rows of A are far apart, too, and a tile reads TILE_ROWS of them at once. In panels it reads one stream,
   which prefetchers follow, and the rows cannot push each other out of L1. A is read once more and written once: a
   number for n multiply-adds. B is still copied for each block row, and the blocks are those of L1. */
#pragma once

#include "panels.hpp"

namespace {

template <class real>
void packed_ab(View<const real> A, View<const real> B, View<real> C, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
               RungParams *params) {
    const ptrdiff_t bs_r = least(params->bs_r, m), bs_k = least(params->bs_k, k), bs_c = least(params->bs_c, n);
    const ptrdiff_t columns = TILE_COLUMNS<real>, of_b = in_panels(bs_c, bs_k, columns);
    const ptrdiff_t of_a = in_panels(bs_r, bs_k, TILE_ROWS);
    const Buffer<real> buffer = take_buffer<real>(params->threads * (of_a + of_b));
    if ((params->failed = !buffer.taken)) return;
#pragma omp parallel for schedule(runtime) num_threads(params->threads)
    for (ptrdiff_t block = 0; block < blocks(m, bs_r); block++) {
        const ptrdiff_t i0 = block * bs_r, height = least(bs_r, m - i0);
        real *const panels_b = buffer.numbers + thread() * (of_a + of_b), *const panels_a = panels_b + of_b;
        for (ptrdiff_t p0 = 0; p0 < k; p0 += bs_k) {
            const ptrdiff_t depth = least(bs_k, k - p0);
            pack_a(A(i0, p0), height, depth, panels_a);
            for (ptrdiff_t block_of_b = before_line(B.at); block_of_b < n; block_of_b += bs_c) {
                const ptrdiff_t j0 = most(0, block_of_b), width = least(n, block_of_b + bs_c) - j0;
                pack_b(B(p0, j0), depth, width, panels_b);
                multiply_panels(panels_a, panels_b, C(i0, j0), height, width, depth, params->accumulate || p0);
            }
        }
    }
    free(buffer.taken);
}

}  // namespace
