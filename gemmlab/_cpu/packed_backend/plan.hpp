/* The plan of a product, by the functions that multiply it: what `plan.py` says in Python. */
#pragma once

#include "strategies.hpp"

namespace {

/* What is done for a product: its strategy, on one of its slices and pieces, and the blocks of that. */
enum Strategy { FIVE_LOOPS, STRIPS, ROWS_OF_C, FEW_ROWS_OF_A, DOT_PRODUCTS, BY_COLUMNS, BY_ROWS };
struct Plan {
    Strategy strategy;
    Count threads, slices, pieces;
    Count m, n, k;         // of a slice or piece
    Count mr, nr;          // the largest register tile
    Count mc, kc, nc, kr, ns, kept;
    Count peeled;          // columns of B, multiplied on their own
    Count rows_of_b;       // that are read at a time
    bool packs_a, packs_b, separate;  // see `Blocks`; B also strip by strip
    Count panel_bytes;     // of a number in panels
    Count workspace;       // bytes
};

Plan plan_of(const Product &x) {
    const Kernel &kernel = *x.kernel;
    Product one = needs_sums(x) ? with_sums(x) : x;
    Plan plan = {.strategy = FIVE_LOOPS, .threads = x.threads, .slices = 1, .pieces = 1, .mr = kernel.mr,
                 .nr = kernel.nr, .kc = min(x.kc, x.k), .panel_bytes = kernel.step / kernel.group,
                 .workspace = workspace_of(x)};
    if (is_sliced(x)) {
        plan.slices = x.shares.slices;
        one = slice_of(one, 0, one.c, one.buffer);
    }
    if (x.shares.rows) {
        const Pieces pieces = pieces_of(one);
        plan.pieces = pieces.count;
        one = piece_at(one, pieces, 0);
    }
    plan.m = one.m, plan.n = one.n, plan.k = one.k;
    if (is_vector_part(x, one)) {
        const MatrixByVector by = by_vector(one);
        plan.strategy = by.pass == DOTS ? DOT_PRODUCTS : by.pass == COLUMNS ? BY_COLUMNS : BY_ROWS;
        plan.m = by.x.m, plan.n = by.x.n;
        plan.mr = by.pass == DOTS ? DOT_ROWS : ceil_div(by.x.m, row_blocks(by)), plan.nr = 1;
    } else if (is_in_place(one)) {
        plan.peeled = peeled_columns(one);
        one = without_columns(one, plan.peeled);
        plan.mr = unpacked_panels(one).rows(0), plan.nr = strip_columns(one), plan.packs_b = gathers_b(one);
        switch (order_in_place(one)) {
            case BY_ROWS_OF_C:
                plan.strategy = ROWS_OF_C, plan.nc = plan.ns = min(one.n, short_k_columns(one));
                plan.packs_b = copies_short_b(one);
                break;
            case BY_ROWS_OF_B:
                plan.strategy = FEW_ROWS_OF_A, plan.nc = min(one.n, few_rows_columns(one));
                plan.ns = min(plan.nc, columns_in_l1(one));
                plan.rows_of_b = few_rows_depth(one);
                break;
            default: plan.strategy = STRIPS;
        }
    } else {
        const Blocks blocks = blocks_of(with_thin_b(one));
        plan.mc = blocks.mc, plan.nc = blocks.nc, plan.kr = blocks.kr, plan.ns = blocks.ns;
        plan.kept = blocks.kept, plan.packs_a = blocks.packs_a, plan.packs_b = !one.packed;
        plan.separate = blocks.separate;
        plan.rows_of_b = rows_of_b_at_a_time(one);
    }
    return plan;
}

}  // namespace
