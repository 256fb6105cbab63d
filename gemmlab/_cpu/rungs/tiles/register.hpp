/* cpu-register: the blocked loops, with a tile of several rows of C in vector registers.

       parallel for i0 in 0..m by bs_r:                # block rows of C
           for p0 in 0..k by bs_k:
               for j0 in 0..n by bs_c:                 # B[p0:p0+bs_k, j0:j0+bs_c] stays in L1
                   for i in i0..i0+bs_r by TILE_ROWS:
                       for j in j0..j0+bs_c by TILE_COLUMNS:
                           C[i:, j:] += A[i:, p0:p0+bs_k] B[p0:p0+bs_k, j:]        # in registers, tile.hpp

   Source: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008. Compilers
   do not find the tile by themselves: it is written with the vectors of GCC and Clang.

   Traffic: as `cpu-blocked-local`, but a vector of B is loaded once for TILE_ROWS rows of C and not for each: the loads
   of a multiply-add fall from one number to 1 / TILE_ROWS + 1 / TILE_COLUMNS. What remains is where B lies: its rows are
   apart, each on another page, so a block has few of them (`blocks.pxd`), and where their distance is a power of two they
   share few sets of L1 and are read from L2 again. */
#pragma once

#include "tile.hpp"

namespace {

template <class real>
void register_tile(View<const real> A, View<const real> B, View<real> C, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
                   RungParams *params) {
    const ptrdiff_t bs_r = params->bs_r, bs_c = params->bs_c, bs_k = params->bs_k, columns = TILE_COLUMNS<real>;
    const auto multiply = m < TILE_ROWS || n < columns ? multiply_small<real> : multiply_tile<real>;
#pragma omp parallel for schedule(runtime) num_threads(params->threads)
    for (ptrdiff_t block = 0; block < blocks(m, bs_r); block++) {
        const ptrdiff_t i0 = block * bs_r, i1 = least(m, i0 + bs_r);
        for (ptrdiff_t p0 = 0; p0 < k; p0 += bs_k)
            for (ptrdiff_t j0 = before_line(B.at); j0 < n; j0 += bs_c)
                for (ptrdiff_t i = i0; i < i1; i += TILE_ROWS)
                    for (ptrdiff_t j = j0; j < least(n, j0 + bs_c); j += columns) {
                        const ptrdiff_t from = most(0, j), to = least(least(n, j0 + bs_c), j + columns);
                        const ptrdiff_t top = moved_back(i, m, TILE_ROWS), left = moved_back(from, n, columns);
                        const Part part = {i - top, least(i1, i + TILE_ROWS) - top, from - left, to - left};
                        multiply(A(top, p0), B(p0, left), C(top, left), part, least(bs_k, k - p0), params->accumulate || p0);
                    }
    }
}

}  // namespace
