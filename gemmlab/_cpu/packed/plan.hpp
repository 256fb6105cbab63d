/* How a product is computed. Every decision is taken here, once, and with it the bytes of memory that it takes; run.hpp
   carries it out, and `explain`, the traffic model, the recorder and the workspace read it.

       a batch        its products one after the other on all threads, or shared out to the threads, each whole
       a product      whole, in pieces of C, or in slices of k and pieces
       a part         a whole product, or a piece of a slice: by the five loops, in place, or a matrix by a vector

   The last slice and the last pieces may be smaller than the others, and take another order or another tile, so there is
   a plan for each kind of part.

   All but one column of real numbers sum as the five loops do, so rows of A and threads change no bit. Such a column is
   summed in lanes of k, whatever A is. */
#pragma once

#include "sharing.hpp"

namespace {

constexpr Count ROUND_SLICES = 64;           // most partial results in a round
constexpr Count MAX_PADDING = 1024;          // rows or columns that panels have beyond those of A or B
constexpr double MAX_PANEL_BYTES = 1LL << 50;
constexpr double LARGE_FLOP = 3e7;  // of a product of a batch that is worth all threads
constexpr double FAIR = 18;         // or if there are fewer products than threads, so often what a team costs

/* Whether panels of all of A and of all of B are less than a memory holds. Then no count of bytes here overflows: a
   workspace is no more than that for each thread. (Operands with strides of zero may have any extent.) */
INLINE bool fits_in_memory(const Product &x) {
    const double depth = (double)x.k / x.kernel->group + 1, lines = (double)max(x.m, x.n) + MAX_PADDING;
    return !x.n || !x.k || lines * depth * x.kernel->step < MAX_PANEL_BYTES;
}

/* How a part is multiplied: one of the last three members says it. */
enum Strategy { FIVE_LOOPS, IN_PLACE, BY_VECTOR };
struct Part {
    Strategy strategy;
    Count peeled;                // in place: the first columns of B, multiplied alone
    Blocks blocks;
    InPlace in_place, of_peeled;
    ByVector by_vector;
    Count bytes;
};

enum Sharing { WHOLE, PIECES, SLICES };
struct Plan {
    int threads;
    bool by_product;       // the threads take products of a batch; else all of them each product
    bool is_small;         // a run of a batch's products goes through one tile, or one loop
    bool sums_apart;       // C as it is summed is in the buffer first
    Sharing sharing;
    Count slices, slices_in_round, slice_bytes;  // of k: partial results, how many are added at a time, and their bytes
    Count rows, columns;   // of a piece
    Count down, across;    // pieces
    Count below;           // pieces one below the other that come one after the other
    bool is_mirrored;      // pieces or tiles on the diagonal of C and below it alone, which are mirrored to the other side
    Count of_thread;       // bytes of a thread, if there are parts
    Count bytes;           // of the buffer
    Part parts[2][2][2];   // by whether the slice is the last one and smaller, and the rows, and the columns
};

/* A product of one thread. */
INLINE Product alone(const Product &x) {
    Product whole = x;
    whole.threads = 1;
    return whole;
}

/* A piece of C, by its place in the grid. */
struct Place { Count row, column; };
INLINE Product piece_in(const Product &x, const Plan &plan, const Place &at) {
    const Count ic = at.row * plan.rows, jc = at.column * plan.columns;
    Product piece = alone(x);
    piece.m = min(plan.rows, x.m - ic), piece.n = min(plan.columns, x.n - jc);
    piece.a += ic * x.rs_a, piece.b += jc * x.cs_b, piece.c += ic * x.rs_c + jc * x.cs_c;
    piece.packed_j += jc;
    return piece;
}
/* How many there are, and where each is. */
INLINE Count pieces_in(const Plan &plan) {
    return plan.is_mirrored ? plan.down * (plan.down + 1) / 2 : plan.down * plan.across;
}
INLINE Place place_of(const Plan &plan, Count i) {
    if (plan.is_mirrored) {
        Count row = 0;
        while (i > row) i -= ++row;
        return {row, i};
    }
    const Count first = i / (plan.below * plan.across) * plan.below, below = min(plan.below, plan.down - first);
    const Count rest = i - first * plan.across;
    return {first + rest % below, rest / below};
}

/* A slice of k, of all pieces, into a partial result `c`. */
INLINE Product slice_of(const Product &x, Count slice, char *c, char *buffer) {
    const Count pc = slice * x.kc;
    Product part = x;
    part.k = min(x.kc, x.k - pc), part.buffer = buffer;
    part.narrows = part.accumulate = false;
    part.a += pc * x.cs_a, part.b += pc * x.rs_b;
    if (x.packed)
        part.packed += (is_dots(x) ? 1 : round_up_2(x.packed_n, x.kernel->nr)) * bytes_of(*x.kernel, pc);
    part.c = c, part.rs_c = x.n * x.kernel->sum, part.cs_c = x.kernel->sum;
    return part;
}

/* C as it is summed, at the start of the buffer: slices and products with a vector cannot narrow their sums. */
INLINE Count sums_bytes(const Product &x) { return whole_lines(x.m * x.n * x.kernel->sum); }
INLINE Product with_sums(const Product &x) {
    Product wide = x;
    wide.narrows = false;
    wide.c = x.buffer, wide.rs_c = x.n * x.kernel->sum, wide.cs_c = x.kernel->sum;
    wide.buffer = x.buffer + sums_bytes(x);
    return wide;
}

void plan_five_loops(const Product &x, bool lower, Part &part) {
    part.strategy = FIVE_LOOPS, part.blocks = blocks_of(x), part.bytes = part.blocks.bytes;
    part.blocks.lower = lower;
}

/* How a part of a product is multiplied. The loops of vectors do not multiply a single column of a wider product: its sums
   would be in lanes of k. */
void plan_part(const Product &whole, const Product &x, Part &part) {
    if (is_vector(whole) && (whole.n == 1 || x.n > 1) && is_vector(x)) {
        part.strategy = BY_VECTOR, part.by_vector = by_vector(x), part.bytes = part.by_vector.bytes;
    } else if (is_in_place(x)) {
        part.strategy = IN_PLACE, part.peeled = peeled_columns(x);
        part.in_place = in_place_of(without_columns(x, part.peeled)), part.bytes = part.in_place.bytes;
        if (part.peeled) {
            part.of_peeled = in_place_of(first_columns(x, part.peeled));
            part.bytes = max(part.bytes, part.of_peeled.bytes);
        }
    } else {
        plan_five_loops(x, false, part);
    }
}

/* The kind of a part, by its extents. */
INLINE const Part &part_of(const Plan &plan, const Product &piece, Count kc) {
    return plan.parts[plan.sharing == SLICES && piece.k < kc][piece.m < plan.rows][piece.n < plan.columns];
}

/* A plan for each kind of part: of the first slice, row and column of pieces, and of the last ones if they are smaller. */
void plan_parts(const Product &x, Plan &plan) {
    Count most = 0;
    for (Count s = 0; s < 1 + (plan.slices > 1 && x.k % x.kc); s++) {
        const Product slice = plan.slices > 1 ? slice_of(x, s * (plan.slices - 1), x.c, x.buffer) : x;
        for (Count i = 0; i < 1 + (x.m % plan.rows > 0); i++)
            for (Count j = 0; j < 1 + (x.n % plan.columns > 0); j++) {
                Part &part = plan.parts[s][i][j];
                plan_part(slice, piece_in(slice, plan, {i * (plan.down - 1), j * (plan.across - 1)}), part);
                most = max(most, part.bytes);
            }
    }
    plan.of_thread = whole_lines(most);
}

/* Partial results that are added at a time: as many as the caches hold, in equal numbers for the threads. */
INLINE Count slices_in_round(const Product &x, Count slices) {
    const Count fit = min(ROUND_SLICES, x.extents->round / sums_bytes(x));
    return min(slices, max(x.threads, fit / x.threads * x.threads));
}

/* The plan of a product by these shares, where its threads take it together. */
void plan_shares(const Product &given, const Shares &shares, Plan &plan) {
    plan.slices = shares.slices;
    plan.sums_apart = given.narrows && (plan.slices > 1 || is_vector(given));
    const Product x = plan.sums_apart ? with_sums(given) : given;
    const bool is_cut = shares.rows && (plan.slices > 1 || !is_vector(x));
    plan.sharing = plan.slices > 1 ? SLICES : is_cut ? PIECES : WHOLE;
    plan.rows = is_cut ? shares.rows : x.m, plan.columns = is_cut ? shares.columns : x.n;
    plan.down = ceil_div(x.m, plan.rows), plan.across = ceil_div(x.n, plan.columns), plan.below = shares.below;
    plan.is_mirrored = shares.is_mirrored;
    switch (plan.sharing) {
        case WHOLE:
            shares.is_mirrored ? plan_five_loops(x, true, plan.parts[0][0][0]) : plan_part(x, x, plan.parts[0][0][0]);
            plan.bytes = plan.parts[0][0][0].bytes;
            break;
        case PIECES:
            plan_parts(x, plan);
            plan.bytes = min(x.threads, pieces_in(plan)) * plan.of_thread;
            break;
        case SLICES:
            plan_parts(x, plan);
            plan.slices_in_round = slices_in_round(x, plan.slices), plan.slice_bytes = sums_bytes(x);
            plan.bytes = whole_lines(plan.slices_in_round * plan.slice_bytes) + x.threads * plan.of_thread;
    }
    if (plan.sums_apart) plan.bytes += sums_bytes(given);
}

/* Whether the threads take a batch's products one after the other, all of them each. */
INLINE bool one_at_a_time(const Product &x, Count products) {
    const double flop = 2.0 * x.m * x.n * x.k;
    return x.threads == 1 || products == 1 || flop >= (products < x.threads ? FAIR * x.team_flop : LARGE_FLOP);
}

/* The plan of so many products of one shape. Nothing of it is set before, since to clear it would cost a small product
   more than its arithmetic. */
void plan_with(const Product &x, const Shares &shares, Count products, Plan &plan) {
    plan.threads = x.threads, plan.by_product = !one_at_a_time(x, products);
    if (plan.by_product) {
        plan_shares(alone(x), shares_of(alone(x)), plan);
        plan.of_thread = whole_lines(plan.bytes), plan.bytes = x.threads * plan.of_thread;
    } else
        plan_shares(x, shares, plan);
    const Part &part = plan.parts[0][0][0];
    const Product each = plan.by_product ? alone(x) : x;
    plan.is_small = plan.sharing == WHOLE && !plan.sums_apart && each.threads == 1
                 && (part.strategy == IN_PLACE ? !part.peeled && is_small(each, part.in_place)
                                               : part.strategy == BY_VECTOR && is_small(each, part.by_vector));
}
INLINE void plan_of(const Product &x, Count products, Plan &plan) { plan_with(x, shares_of(x), products, plan); }

}  // namespace
