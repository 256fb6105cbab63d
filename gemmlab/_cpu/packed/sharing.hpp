/* How a product is shared out to its threads: by a grid over rows, columns and k, each piece multiplied by one of them
   alone, or not, and then five loops share packed B. The rule is in `shares_of`, by what a part costs.

       pieces of C      if they are multiplied in place
       slices of k      a small C: each part sums a block of kc in a partial result, and these are added in order
       half of C        where B is A', and C symmetric: squares on its diagonal and below it, or the five loops' tiles
                        there, which are then mirrored

   No bit depends on it: sums of blocks of k are added in the order of the five loops. */
#pragma once

#include "in_place.hpp"
#include "vector_products.hpp"

namespace {

constexpr Count STREAMING_ROWS = 12;          // of A at most: memory is slower than arithmetic, and likes long rows of B
constexpr Count SLICED_C = 128 << 10;         // numbers of C at most

/* What a part costs beside its arithmetic, in vectors that are multiplied and added: to bring a number of A or B to the
   core, for each step of k; a row of C, whose ends share a cache line with other parts; and a vector of a partial result.
   Found by timing all grids of some products on 2, 4 and 16 cores. */
constexpr double OF_NUMBER = 2, OF_SHARED_ROW = 400, OF_PARTIAL = 8, OF_PART = 5000;
/* The same of squares, and what a number of C costs that is mirrored; and the vectors of a product for each thread that
   pay for the three times that the team waits for the lower half. Found by timing some hundred products (Zen 3 and 4). */
constexpr double OF_SQUARES_NUMBER = 1, OF_MIRRORED = 1, OF_SQUARE = 1000, OF_SHARED_SQUARE = 3000, OF_LOWER_HALF = 2e5;
constexpr Count SHORT_STRIDED_K = 8;

/* Threads take pieces of their part one after the other, and then of others' parts. Pieces are short, so that all end at
   the same time, but for rows that read B again, and for columns that read A again, or parts of rows of B in memory. */
constexpr Count ROWS_OF_PIECE = 24, VECTORS_OF_PIECE = 16;  // at least
constexpr Count STREAMED_BYTES = 8 << 10;                  // of a row of B that comes from memory, at least

/* Parts of k, and the pieces of C, each multiplied by one thread; without rows, there are no pieces. */
struct Shares {
    Count slices, rows, columns;
    Count below;              // pieces of a part, one below the other
    bool is_mirrored = false; // half of C: the pieces are squares; without rows, tiles of the five loops
    double cost = 0;
};
constexpr Shares UNSHARED = {.slices = 1, .rows = 0, .columns = 0, .below = 1};
INLINE Shares with_cost(const Shares &x, double cost) { return {x.slices, x.rows, x.columns, x.below, x.is_mirrored, cost}; }

struct Grid {
    Count rows, columns;  // of a part of C
    double cost;
};

/* The grid that costs least for so many slices. Columns of a part are whole vectors, or panels where B is packed. */
Grid best_grid(const Product &x, Count slices, bool packed) {
    const Count lanes = x.kernel->stored_lanes, step = packed || x.packed ? x.kernel->nr : lanes;
    const Count depth = slices > 1 ? x.kc : x.k, most = max(1, x.threads / slices), last = min(most, x.m);
    const double sums = slices > 1 ? slices * OF_PARTIAL * x.m * ceil_div_2(x.n, lanes) / x.threads : 0;
    Grid best = {x.m, x.n, 0};
    for (Count down = 0; down < last;) {
        down = min(last, down + max(1, down / 2));
        const Count rows = ceil_div(x.m, down), columns = round_up_2(ceil_div(x.n, most / down), step);
        const Count across = ceil_div(x.n, columns), parts = slices * ceil_div(x.m, rows) * across;
        const double vectors = x.kernel->cost * ceil_div_2(columns, lanes);
        const double part = depth * (rows * vectors + OF_NUMBER * (rows + columns)) + (x.threads > 1 ? OF_PART : OF_SQUARE)
                          + (across > 1 ? OF_SHARED_ROW * rows : 0);
        const double cost = ceil_div(parts, x.threads) * part + sums;
        if (!best.cost || cost < best.cost) best = {rows, min(columns, x.n), cost};
    }
    return best;
}

/* The pieces of such parts. B is read as it is stored by all rows; where it is packed or gathered, that is done once for
   each column. */
Shares pieces_of_grid(const Product &x, Count slices, const Grid &grid) {
    Product part = x;
    part.threads = 1, part.m = grid.rows, part.n = grid.columns, part.k = slices > 1 ? x.kc : x.k;
    const bool packs = !is_in_place(part), gathers = gathers_b(x);
    const Count lanes = x.kernel->stored_lanes, step = packs || x.packed ? x.kernel->nr : lanes;
    const Count pieces = max(1, (Count)(x.kernel->cost * part.k * part.m * ceil_div_2(part.n, lanes) / piece_vectors(x)));
    const Count below = packs || gathers ? 1 : min(pieces, part.m / ROWS_OF_PIECE);
    if (below > 1) return {slices, ceil_div(part.m, below), part.n, below};
    const bool streams = x.m <= STREAMING_ROWS && x.k > ROWS_OF_B && !gathers;
    const Count least = streams ? STREAMED_BYTES / x.kernel->sum : VECTORS_OF_PIECE * lanes;
    const Count beside = max(1, min(pieces, part.n / least));
    return {slices, part.m, min(x.n, round_up_2(ceil_div(part.n, beside), step)), 1};
}

INLINE bool stays_in_place(const Product &x, const Grid &grid) {
    Product piece = x;
    piece.threads = 1, piece.m = grid.rows, piece.n = grid.columns;
    return has_unpacked_tiles(*x.kernel) && has_rows_of_b(x) && stays_in_l2(piece);
}

INLINE bool can_be_sliced(const Product &x) { return x.threads > 1 && x.m * x.n <= SLICED_C && x.k > x.kc; }

/* A vector's loops share its rows, unless there are slices. */
Shares shares_of_grid(const Product &x) {
    const Grid unpacked = best_grid(x, 1, false);
    if (x.threads == 1) return with_cost(UNSHARED, unpacked.cost);
    const bool in_place = is_vector(x) || is_in_place(x) || stays_in_place(x, unpacked);
    const Grid grid = in_place ? unpacked : best_grid(x, 1, true);
    if (can_be_sliced(x)) {
        const Count slices = ceil_div(x.k, x.kc);
        const Grid sliced = best_grid(x, slices, !has_unpacked_tiles(*x.kernel));
        if (sliced.cost < grid.cost) return with_cost(pieces_of_grid(x, slices, sliced), sliced.cost);
    }
    return with_cost(is_vector(x) || !in_place ? UNSHARED : pieces_of_grid(x, 1, grid), grid.cost);
}

INLINE bool is_symmetric(const Product &x) {
    return x.of_transposes && x.m == x.n && x.kernel->mirror && !x.accumulate && !x.packed;
}

/* Squares of a symmetric C, whole panels but for the last: the smaller they are, the less of what is above the diagonal
   is multiplied, and the more parts there are. No squares if C is one panel wide. */
Shares best_squares(const Product &x, Count slices) {
    const Count step = x.kernel->nr, depth = slices > 1 ? x.kc : x.k;
    const double besides = x.threads > 1 ? OF_SHARED_SQUARE : OF_SQUARE;
    const double sums = slices > 1 ? slices * OF_PARTIAL * x.m * ceil_div_2(x.n, x.kernel->lanes) : 0;
    Shares best = UNSHARED;
    for (Count across = 2, edge = x.m; edge > step; across += max(1, across / 4)) {
        edge = round_up_2(ceil_div(x.m, across), step);
        if (edge >= x.m) break;
        Count vectors = 0, numbers = 0, parts = 0;  // of all squares in a slice
        for (Count jc = 0; jc < x.n; jc += edge) {
            const Count rows = x.m - jc, columns = min(edge, rows), squares = ceil_div(rows, edge);
            vectors += rows * ceil_div_2(columns, x.kernel->lanes), numbers += rows + columns * squares, parts += squares;
        }
        const double part = depth * (vectors * x.kernel->cost + OF_SQUARES_NUMBER * numbers) / parts + besides;
        const double cost = ceil_div(slices * parts, x.threads) * part + (sums + OF_MIRRORED * x.m * x.m) / 2 / x.threads;
        if (!best.cost || cost < best.cost) best = {slices, edge, edge, 1, true, cost};
    }
    return best;
}

/* Whether the five loops multiply the lower half of a symmetric C, tile by tile: where squares would not be multiplied in
   place, or would be gathered. */
INLINE bool takes_lower_half(const Product &x) {
    const bool pays = has_rows_of_b(x) ? x.n > FEW_ROWS && !is_short(x) : x.n > x.kernel->nr && x.k > SHORT_STRIDED_K;
    return pays && (x.threads == 1 || vectors_in(x) > OF_LOWER_HALF * x.threads);
}
INLINE Shares lower_half(const Product &x) {
    const double vectors = (double)x.m * (x.n + x.kernel->nr + x.kernel->mr) / 2 / x.kernel->lanes * x.kernel->cost;
    const double cost = (x.k * (vectors + OF_SQUARES_NUMBER * 2 * x.m) + OF_MIRRORED * x.m * x.m / 2) / x.threads;
    return {1, 0, 0, 1, true, cost};
}

/* The rule. */
Shares shares_of(const Product &x) {
    if (x.threads == 1 && !x.of_transposes) return UNSHARED;
    Shares best = shares_of_grid(x);
    if (!is_symmetric(x)) return best;
    const auto take_if_cheaper = [&](const Shares &squares) {
        if (squares.is_mirrored && squares.cost < best.cost) best = squares;
    };
    if (takes_lower_half(x)) best = lower_half(x);
    else take_if_cheaper(best_squares(x, 1));
    if (can_be_sliced(x)) take_if_cheaper(best_squares(x, ceil_div(x.k, x.kc)));
    return best;
}

}  // namespace
