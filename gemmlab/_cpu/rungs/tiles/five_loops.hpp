/* cpu-five-loops: three loops of blocks around two of tiles, a block for each cache; B is copied once, by all threads.

       for j0 in 0..n by bs_c:
           for p0 in 0..k by bs_k:
               panels of B = B[p0:p0+bs_k, j0:j0+bs_c]                       # stay in L3, one copy for all threads
               parallel for i0 in 0..m by bs_r:
                   panels of A = A[i0:i0+bs_r, p0:p0+bs_k]                   # stay in L2, a copy for each thread
                   for j in j0..j0+bs_c by TILE_COLUMNS:                     # a panel of B stays in L1
                       for i in i0..i0+bs_r by TILE_ROWS:
                           C[i:, j:] += panel of i  panel of j

   Source: Goto and van de Geijn (2008), in the order of F. Van Zee, R. van de Geijn, "BLIS: a framework for rapidly
   instantiating BLAS functionality", ACM TOMS 41(3), 2015.

   Traffic: B is read from memory once for all of C and not for each block row, and copied once. bs_k numbers of a panel
   of B fill half of L1, bs_r rows of A half of L2, and bs_c columns of B half of L3. From here to `cpu-packed` it is
   no new loop: other dtypes and layouts, shapes that want another order, a team of threads that never waits, and kernels
   for edges. */
#pragma once

#include "panels.hpp"

namespace {

template <class real>
void five_loops(View<const real> A, View<const real> B, View<real> C, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
                RungParams *params) {
    const ptrdiff_t bs_r = least(params->bs_r, m), bs_k = least(params->bs_k, k), bs_c = least(params->bs_c, n);
    const ptrdiff_t columns = TILE_COLUMNS<real>, of_a = in_panels(bs_r, bs_k, TILE_ROWS);
    const Buffer<real> buffer = take_buffer<real>(in_panels(bs_c, bs_k, columns) + params->threads * of_a);
    if ((params->failed = !buffer.taken)) return;
    real *const panels_b = buffer.numbers, *const panels_a = panels_b + in_panels(bs_c, bs_k, columns);
#pragma omp parallel num_threads(params->threads)
    for (ptrdiff_t j0 = 0; j0 < n; j0 += bs_c)
        for (ptrdiff_t p0 = 0; p0 < k; p0 += bs_k) {
            const ptrdiff_t depth = least(bs_k, k - p0), width = least(bs_c, n - j0);
            real *const mine = panels_a + thread() * of_a;
#pragma omp for schedule(static)
            for (ptrdiff_t panel = 0; panel < blocks(width, columns); panel++)
                pack_panel_of_b(B(p0, j0 + panel * columns), depth, least(columns, width - panel * columns),
                                panels_b + panel * columns * depth);
#pragma omp for schedule(runtime)
            for (ptrdiff_t block = 0; block < blocks(m, bs_r); block++) {
                const ptrdiff_t i0 = block * bs_r, height = least(bs_r, m - i0);
                pack_a(A(i0, p0), height, depth, mine);
                multiply_panels(mine, panels_b, C(i0, j0), height, width, depth, params->accumulate || p0);
            }
        }
    free(buffer.taken);
}

}  // namespace
