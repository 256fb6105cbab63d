/* A batch of products of one shape: one after the other on all threads, or small ones shared out to the threads. */
#pragma once

#include "strategies.hpp"

namespace {

constexpr int MAX_AXES = 64;
constexpr double LARGE_FLOP = 3e7;  // of a product that is worth all threads
constexpr double FAIR = 18;         // or if there are fewer products than threads, so often what a team costs

struct Batch {
    int axes;  // leading ones, the last one fastest
    Count shape[MAX_AXES], a[MAX_AXES], b[MAX_AXES], c[MAX_AXES];  // steps in bytes
};

Count products_in(const Batch &batch) {
    Count products = 1;
    for (int axis = 0; axis < batch.axes; axis++) products *= batch.shape[axis];
    return products;
}

INLINE bool one_at_a_time(const Product &x, Count products) {
    const double flop = 2.0 * x.m * x.n * x.k;
    return x.threads == 1 || products == 1 || flop >= (products < x.threads ? FAIR * x.team_flop : LARGE_FLOP);
}

/* Products with equal steps from each to the next. */
INLINE void multiply_run(const Product &x, const Steps &steps) {
    if (is_small(x)) return multiply_small(x, steps);
    Product one = x;
    for (Count i = 0; i < steps.products; i++) {
        multiply(one);
        one.a += steps.a, one.b += steps.b, one.c += steps.c;
    }
}

/* Products `first` to `end` of the batch. */
void multiply_some(const Product &x, const Batch &batch, Count first, Count end) {
    Product one = x;
    Count index[MAX_AXES], rest = first;
    for (int axis = batch.axes - 1; axis >= 0; axis--) {
        index[axis] = rest % batch.shape[axis];
        rest /= batch.shape[axis];
        const Count at = index[axis];
        one.a += at * batch.a[axis], one.b += at * batch.b[axis], one.c += at * batch.c[axis];
    }
    const int last = batch.axes - 1;
    if (last < 0) return multiply_run(one, {.products = 1, .a = 0, .b = 0, .c = 0});
    while (first < end) {  // an odometer that turns its last wheel in one go
        const Count run = min(end - first, batch.shape[last] - index[last]);
        multiply_run(one, {.products = run, .a = batch.a[last], .b = batch.b[last], .c = batch.c[last]});
        first += run;
        Count turn = run;
        for (int axis = last; axis >= 0; axis--, turn = 1) {
            one.a += turn * batch.a[axis], one.b += turn * batch.b[axis], one.c += turn * batch.c[axis];
            index[axis] += turn;
            if (index[axis] < batch.shape[axis]) break;
            const Count all = batch.shape[axis];
            one.a -= all * batch.a[axis], one.b -= all * batch.b[axis], one.c -= all * batch.c[axis];
            index[axis] = 0;
        }
    }
}

Count workspace_of_batch(const Product &x, const Batch &batch) {
    if (one_at_a_time(x, products_in(batch))) return workspace_of(x);
    return x.threads * whole_lines(workspace_of(alone(x)));
}

void multiply_batch(const Product &x, const Batch &batch) {
    const Count products = products_in(batch);
    if (one_at_a_time(x, products)) return multiply_some(x, batch, 0, products);
    const Product one_thread = alone(x);
    const Count own = whole_lines(workspace_of(one_thread));
    #pragma omp parallel num_threads(x.threads)
    {
        Product one = one_thread;
        const Count thread = omp_get_thread_num(), threads = omp_get_num_threads();
        one.buffer = x.buffer + thread * own;
        multiply_some(one, batch, share(products, thread, threads), share(products, thread + 1, threads));
    }
}

}  // namespace
