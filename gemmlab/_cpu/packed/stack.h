/* A stack of products of one shape: one after the other on all threads, or small ones shared out to the threads. */
#ifndef GEMMLAB_PACKED_STACK_H
#define GEMMLAB_PACKED_STACK_H

#include "openmp_or_serial.h"
#include "product.h"

#define MOST_AXES 64
#define LARGE_FLOP 3e7  /* what a product must have to be worth all threads, */
#define FAIR_FLOP 4e6   /* and if there are fewer products than threads */

typedef struct Stack {
    int axes;  /* leading ones, the last one fastest */
    Count shape[MOST_AXES], a[MOST_AXES], b[MOST_AXES], c[MOST_AXES];  /* steps in bytes */
} Stack;

static Count products_in(const Stack *stack) {
    Count products = 1;
    for (int axis = 0; axis < stack->axes; axis++) products *= stack->shape[axis];
    return products;
}

INLINE int in_turn(const Product *x, Count products) {
    const double flop = 2.0 * x->m * x->n * x->k;
    return x->threads == 1 || products == 1 || flop >= (products < x->threads ? FAIR_FLOP : LARGE_FLOP);
}

/* Products `first` to `end` of the stack. */
static void run_products(const Product *x, const Stack *stack, Multiply multiply, Count first, Count end) {
    Product one = *x;
    Count index[MOST_AXES], rest = first;
    for (int axis = stack->axes - 1; axis >= 0; axis--) {
        index[axis] = rest % stack->shape[axis];
        rest /= stack->shape[axis];
        one.a += index[axis] * stack->a[axis];
        one.b += index[axis] * stack->b[axis];
        one.c += index[axis] * stack->c[axis];
    }
    const int last = stack->axes - 1;
    if (last < 0) {
        multiply(&one, 1, 0, 0, 0);
        return;
    }
    while (first < end) {  /* an odometer that turns its last wheel in one go */
        const Count run = least(end - first, stack->shape[last] - index[last]);
        multiply(&one, run, stack->a[last], stack->b[last], stack->c[last]);
        first += run;
        Count turn = run;
        for (int axis = last; axis >= 0; axis--, turn = 1) {
            one.a += turn * stack->a[axis], one.b += turn * stack->b[axis], one.c += turn * stack->c[axis];
            index[axis] += turn;
            if (index[axis] < stack->shape[axis]) break;
            one.a -= stack->shape[axis] * stack->a[axis];
            one.b -= stack->shape[axis] * stack->b[axis];
            one.c -= stack->shape[axis] * stack->c[axis];
            index[axis] = 0;
        }
    }
}

static Product on_one_thread(const Product *x) {
    Product one = *x;
    one.threads = 1;
    return one;
}

static Count workspace_of_stack(const Product *x, const Stack *stack, Workspace workspace) {
    if (in_turn(x, products_in(stack))) return workspace(x);
    const Product one = on_one_thread(x);
    return x->threads * up(workspace(&one), 64);
}

static void multiply_stack(const Product *x, const Stack *stack, Multiply multiply, Workspace workspace) {
    const Count products = products_in(stack);
    if (in_turn(x, products)) {
        run_products(x, stack, multiply, 0, products);
        return;
    }
    const Product alone = on_one_thread(x);
    const Count own = up(workspace(&alone), 64);
    #pragma omp parallel num_threads(x->threads)
    {
        Product one = alone;
        const Count thread = omp_get_thread_num(), threads = omp_get_num_threads();
        one.buffer = x->buffer + thread * own;
        run_products(&one, stack, multiply, share(products, thread, threads), share(products, thread + 1, threads));
    }
}
#endif
