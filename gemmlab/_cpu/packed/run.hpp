/* What carries a plan out: it decides nothing. */
#pragma once

#include "plan.hpp"

namespace {

constexpr Count ADDED_COLUMNS = 512;  // of a row of C, whose partial results are added at a time
constexpr int MAX_AXES = 64;
constexpr double OF_PRODUCT = 200;  // vectors multiplied and added: what a product of a batch costs besides

struct Batch {
    int axes;  // leading ones, the last one fastest
    Count shape[MAX_AXES], a[MAX_AXES], b[MAX_AXES], c[MAX_AXES];  // steps in bytes
};

Count products_in(const Batch &batch) {
    Count products = 1;
    for (int axis = 0; axis < batch.axes; axis++) products *= batch.shape[axis];
    return products;
}

void run_part(const Product &x, const Part &part) {
    switch (part.strategy) {
        case FIVE_LOOPS: return five_loops(x, part.blocks);
        case BY_VECTOR: return multiply_vector(x, part.by_vector);
        case IN_PLACE:
            if (part.peeled) multiply_in_place(first_columns(x, part.peeled), part.of_peeled);
            multiply_in_place(without_columns(x, part.peeled), part.in_place);
    }
}

/* A piece below the diagonal, to the other side of it. */
void mirror_piece(const Product &x, const Plan &plan, const Place &at) {
    if (at.row == at.column) return;
    const Product below = piece_in(x, plan, at), above = piece_in(x, plan, {at.column, at.row});
    x.kernel->mirror({.kernel = x.kernel, .from = below.c, .rs_from = x.rs_c, .c = above.c, .rs_c = x.rs_c,
                      .cs_c = x.cs_c, .rows = below.m, .columns = below.n, .add = false});
}

void run_pieces(const Product &x, const Plan &plan) {
    share_out(x.threads, pieces_in(plan), [&](int member, Pieces &pieces) {
        for (Count i; (i = pieces.take()) >= 0;) {
            const Place at = place_of(plan, i);
            Product piece = piece_in(x, plan, at);
            piece.buffer += member * plan.of_thread;
            run_part(piece, part_of(plan, piece, x.kc));
            if (plan.is_mirrored) mirror_piece(x, plan, at);
        }
    });
}

/* Some partial results, added in order to some columns of a row of C. */
void add_slices(const Product &x, const Plan &plan, Count first, Count count, Count row, Count jc, Count columns) {
    const Count bytes = x.n * x.kernel->sum;
    for (Count i = 0; i < count; i++)
        x.kernel->accumulate({.kernel = x.kernel,
                              .from = x.buffer + i * plan.slice_bytes + row * bytes + jc * x.kernel->sum,
                              .rs_from = bytes, .c = x.c + row * x.rs_c + jc * x.cs_c, .rs_c = x.rs_c,
                              .cs_c = x.cs_c, .rows = 1, .columns = columns, .add = x.accumulate || first + i > 0});
}

/* Columns of a row that pieces have summed, in each slice. */
INLINE Count summed_columns(const Product &x, const Plan &plan, Count row) {
    return plan.is_mirrored ? min(x.n, (row / plan.rows + 1) * plan.columns) : x.n;
}

void run_slices(const Product &x, const Plan &plan) {
    const Count in_slice = pieces_in(plan), across = ceil_div(x.n, ADDED_COLUMNS), parts = x.m * across;
    char *const of_threads = x.buffer + whole_lines(plan.slices_in_round * plan.slice_bytes);
    for (Count first = 0; first < plan.slices; first += plan.slices_in_round) {
        const Count round = min(plan.slices_in_round, plan.slices - first);
        share_out(x.threads, round * in_slice, [&](int member, Pieces &pieces) {
            for (Count i; (i = pieces.take()) >= 0;) {
                const Count at = i / in_slice;
                const Product slice = slice_of(x, first + at, x.buffer + at * plan.slice_bytes,
                                               of_threads + member * plan.of_thread);
                const Product piece = piece_in(slice, plan, place_of(plan, i % in_slice));
                run_part(piece, part_of(plan, piece, x.kc));
            }
        });
        const Count sums = pieces_of(x.threads, parts, (double)round * plan.slice_bytes / PIECE_BYTES);
        share_out(x.threads, sums, [&](int, Pieces &pieces) {
            for (Count i; (i = pieces.take()) >= 0;)
                for (Count part = share(parts, i, sums); part < share(parts, i + 1, sums); part++) {
                    const Count row = part / across, jc = part % across * ADDED_COLUMNS, end = summed_columns(x, plan, row);
                    if (jc < end) add_slices(x, plan, first, round, row, jc, min(ADDED_COLUMNS, end - jc));
                }
        });
    }
}

/* What is below the diagonal, to the other side: the columns of a panel of B, below their square on the diagonal. */
void mirror_lower(const Product &x) {
    const Count nr = x.kernel->nr, panels = ceil_div_2(x.n, nr), bytes = x.kernel->result;
    const Count count = pieces_of(x.threads, panels, (double)x.m * x.n * bytes / PIECE_BYTES);
    share_out(x.threads, count, [&](int, Pieces &pieces) {
        for (Count i; (i = pieces.take()) >= 0;)
            for (Count j = share(panels, i, count) * nr, next; j < min(x.n, share(panels, i + 1, count) * nr); j = next) {
                next = min(x.n, j + nr);
                x.kernel->mirror({.kernel = x.kernel, .from = x.c + next * x.rs_c + j * x.cs_c, .rs_from = x.rs_c,
                                  .c = x.c + j * x.rs_c + next * x.cs_c, .rs_c = x.rs_c, .cs_c = x.cs_c,
                                  .rows = x.m - next, .columns = next - j, .add = false});
            }
    });
}

void run_shares(const Product &x, const Plan &plan) {
    switch (plan.sharing) {
        case WHOLE:
            run_part(x, plan.parts[0][0][0]);
            if (plan.is_mirrored) mirror_lower(x);
            return;
        case PIECES: return run_pieces(x, plan);
        case SLICES: return run_slices(x, plan);
    }
}

/* C from sums that are apart. */
void run_apart(const Product &x, const Plan &plan) {
    const Product wide = with_sums(x);
    const Sums whole = {.kernel = x.kernel, .from = wide.c, .rs_from = wide.rs_c, .c = x.c, .rs_c = x.rs_c,
                        .cs_c = x.cs_c, .rows = x.m, .columns = x.n, .add = false};
    if (x.accumulate) widen(whole);
    run_shares(wide, plan);
    x.kernel->unpack(whole);
}

/* Fill C. */
void run_product(const Product &x, const Plan &plan) {
    plan.sums_apart ? run_apart(x, plan) : run_shares(x, plan);
    if (plan.is_mirrored && plan.sharing == SLICES)
        for (Count i = 0; i < pieces_in(plan); i++) mirror_piece(x, plan, place_of(plan, i));
}

/* Products with equal steps from each to the next. */
INLINE void run_steps(const Product &x, const Plan &plan, const Steps &steps) {
    if (plan.is_small) {
        const Part &part = plan.parts[0][0][0];
        return part.strategy == IN_PLACE ? multiply_small(x, part.in_place, steps)
                                         : multiply_small(x, part.by_vector, steps);
    }
    Product each = x;
    for (Count i = 0; i < steps.products && !is_over(); i++) {
        run_product(each, plan);
        each.a += steps.a, each.b += steps.b, each.c += steps.c;
    }
}

/* Products `first` to `end` of the batch. */
void run_some(const Product &x, const Plan &plan, const Batch &batch, Count first, Count end) {
    Product each = x;
    Count index[MAX_AXES], rest = first;
    for (int axis = batch.axes - 1; axis >= 0; axis--) {
        index[axis] = rest % batch.shape[axis];
        rest /= batch.shape[axis];
        const Count at = index[axis];
        each.a += at * batch.a[axis], each.b += at * batch.b[axis], each.c += at * batch.c[axis];
    }
    const int last = batch.axes - 1;
    if (last < 0) return run_steps(each, plan, {.products = 1, .a = 0, .b = 0, .c = 0});
    while (first < end && !is_over()) {  // an odometer that turns its last wheel in one go
        const Count steps = min(end - first, batch.shape[last] - index[last]);
        run_steps(each, plan, {.products = steps, .a = batch.a[last], .b = batch.b[last], .c = batch.c[last]});
        first += steps;
        Count turn = steps;
        for (int axis = last; axis >= 0; axis--, turn = 1) {
            each.a += turn * batch.a[axis], each.b += turn * batch.b[axis], each.c += turn * batch.c[axis];
            index[axis] += turn;
            if (index[axis] < batch.shape[axis]) break;
            const Count all = batch.shape[axis];
            each.a -= all * batch.a[axis], each.b -= all * batch.b[axis], each.c -= all * batch.c[axis];
            index[axis] = 0;
        }
    }
}

/* What they cost, in vectors that are multiplied and added: of complex numbers, each part of A by each part of B. */
double vectors_of(const Product &x, Count products) {
    const int parts = x.kernel->parts;
    return (vectors_in(x) * parts * parts + OF_PRODUCT) * products;
}

/* All products of a batch, which this is the plan of. */
void run(const Product &x, const Plan &plan, const Batch &batch) {
    const Count products = products_in(batch);
    if (!plan.by_product) return run_some(x, plan, batch, 0, products);
    const Product one_thread = alone(x);
    const Count count = pieces_of(x.threads, products, vectors_of(x, products) / MOST_VECTORS);
    share_out(x.threads, count, [&](int member, Pieces &pieces) {
        Product each = one_thread;
        each.buffer = x.buffer + member * plan.of_thread;
        for (Count i; (i = pieces.take()) >= 0;)
            run_some(each, plan, batch, share(products, i, count), share(products, i + 1, count));
    });
}

/* All panels of B, block of k by block of k; one column for dot products stays one. Returns their bytes; nothing is
   packed if `to` is NULL. */
Count pack_operand(const Product &x, char *to) {
    const Kernel &kernel = *x.kernel;
    const Count bytes = (is_dots(x) ? 1 : round_up_2(x.n, kernel.nr)) * bytes_of(kernel, x.k);
    if (!to) return bytes;
    if (is_dots(x)) {
        kernel.pack_a({.kernel = &kernel, .to = to, .from = x.b, .across = x.rs_b, .along = 0, .width = x.k,
                       .padded = x.k, .depth = 1});
        return bytes;
    }
    pack_part_of_b(x, to, {.pr = 0, .k = x.k, .jc = 0, .columns = x.n}, rows_of_b_at_a_time(x));
    return bytes;
}

}  // namespace
