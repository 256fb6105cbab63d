/* A matrix by a vector: B is one column, or A is one row, which is the same with C' = B' A'. The matrix is passed in the
   order in which it is stored, by the functions of vectors.hpp: by columns, where their numbers are adjacent, else by
   rows. Where neither are, it is copied first, some rows at a time.

   One row of numbers that need no conversion, by rows of B, is multiplied in place instead. */
#pragma once

#include "macrokernel.hpp"

namespace {

constexpr Count COPIED_ROWS = 128;  // at most, whose columns are copied: they stay in L2

/* Whether its sums are the same in any order: integers. */
INLINE bool has_any_order(const Kernel &x) { return x.row.columns && !x.row.rows; }

/* Its sums are in lanes of k. */
INLINE bool is_dots(const Product &x) { return x.kernel->dot && x.n == 1; }
INLINE bool is_column(const Product &x) {
    const Kernel &kernel = *x.kernel;
    return x.n == 1 && kernel.column.columns && (kernel.dot || (!x.packed && min(x.m, x.kc) >= kernel.vector_rows));
}
INLINE bool is_row(const Product &x) {
    const Kernel &kernel = *x.kernel;
    if (x.m > 1 || x.n == 1 || x.packed || !kernel.vector_rows) return false;
    if (has_any_order(kernel)) return true;
    return min(x.n, x.kc) >= kernel.vector_rows && (x.rs_b == kernel.stored || kernel.row.columns);
}
INLINE bool is_vector(const Product &x) { return is_column(x) || is_row(x); }

/* The product with one column that a product with one row is: C' = B' A'. */
INLINE Product as_column(const Product &given) {
    Product x = given;
    if (given.n == 1) return x;
    x.m = given.n, x.n = 1;
    x.a = given.b, x.rs_a = given.cs_b, x.cs_a = given.rs_b;
    x.b = given.a, x.rs_b = given.cs_a, x.cs_b = given.rs_a;
    x.rs_c = given.cs_c, x.cs_c = given.rs_c;
    return x;
}

/* Which functions of the kernel pass the matrix of `as_column`, and what is copied first. */
enum Pass { DOTS, COLUMNS, ROWS };
struct ByVector {
    Pass pass;
    MicroKernel columns_or_rows;  // unless dot products
    bool copies_a, copies_b;
    Count rows, blocks;           // of the matrix: blocks that a thread takes, each of so many rows at most
    Count of_b, of_thread;        // bytes of a copy of B, and of all copies of a thread
    Count bytes;
};

/* Whether a cache line has numbers of several rows of A. */
INLINE bool has_near_rows(const Product &x) {
    const Count rows = x.rs_a < 0 ? -x.rs_a : x.rs_a, columns = x.cs_a < 0 ? -x.cs_a : x.cs_a;
    return rows < columns && x.m >= x.kernel->vector_rows;
}
/* Rows of a block at most. */
INLINE Count most_rows(const Product &x, const ByVector &plan) {
    const Kernel &kernel = *x.kernel;
    if (plan.pass == DOTS) return kernel.dot_rows;
    if (!plan.copies_a) return kernel.column_rows;
    const Count fit = x.extents->thin_b / (min(x.k, x.kc) * kernel.sum);
    return max(2 * kernel.vector_rows, min(COPIED_ROWS, fit));
}

/* Blocks of rows: at least one for each thread, if there is room for some vectors in it. */
ByVector by_vector(const Product &given) {
    const Product x = as_column(given);
    const Kernel &kernel = *x.kernel;
    const VectorKernels &kernels = given.n > 1 ? kernel.row : kernel.column;
    const Count depth_bytes = min(x.k, x.kc) * kernel.sum;
    const bool has_rows = x.cs_a == kernel.stored || (x.k == 1 && !kernels.rows);
    ByVector plan;
    plan.pass = DOTS, plan.copies_a = false;
    if (kernels.columns && x.rs_a == kernel.stored && x.m >= kernel.vector_rows) plan.pass = COLUMNS;
    else if (has_rows) plan.pass = kernels.rows ? ROWS : DOTS, plan.copies_a = plan.pass == DOTS && !kernel.as_stored;
    else plan.pass = kernels.rows || has_near_rows(x) ? COLUMNS : DOTS, plan.copies_a = true;
    plan.columns_or_rows = plan.pass == COLUMNS ? kernels.columns : kernels.rows;
    plan.copies_b = !x.packed && (x.rs_b != kernel.sum || !kernel.as_stored);
    plan.rows = most_rows(x, plan), plan.blocks = ceil_div(x.m, plan.rows);
    if (plan.pass != DOTS) plan.blocks = max(plan.blocks, min(x.threads, x.m / (2 * kernel.vector_rows)));
    plan.of_b = plan.copies_b ? whole_lines(depth_bytes) : 0;
    plan.of_thread = whole_lines(plan.of_b + plan.copies_a * plan.rows * depth_bytes);
    plan.bytes = x.threads * plan.of_thread;
    return plan;
}
INLINE Count first_row(const Product &x, const ByVector &plan, Count block) {
    return plan.pass == DOTS ? min(x.m, block * x.kernel->dot_rows) : share(x.m, block, plan.blocks);
}

/* A's rows, or its columns, one after the other. */
void copy_a(const Product &x, Pass pass, Tile &tile, char *to) {
    const Kernel &kernel = *x.kernel;
    Panel copy = {.kernel = &kernel, .to = to, .from = tile.a, .across = x.cs_a, .along = x.rs_a, .width = tile.depth,
                  .padded = tile.depth, .depth = tile.rows};
    if (pass == COLUMNS) {
        copy.across = x.rs_a, copy.along = x.cs_a;
        copy.width = copy.padded = tile.rows, copy.depth = tile.depth;
    }
    pass == COLUMNS ? kernel.copy(copy) : kernel.pack_a(copy);
    pass == COLUMNS ? tile.cs_a = copy.width * kernel.stored : tile.rs_a = copy.width * kernel.sum;
    tile.a = to;
}

/* All rows of a tile by its column. */
INLINE void multiply_dots(Tile tile) {
    const Count rows = tile.rows, some = tile.kernel->dot_rows, times = rows / some, rest = rows % some;
    tile.b_step = 0;
    if (times) {
        tile.rows = some, tile.products = times, tile.a_step = some * tile.rs_a, tile.c_step = some * tile.rs_c;
        tile.kernel->dots(tile);
    }
    if (rest) {
        tile.a += (rows - rest) * tile.rs_a, tile.c += (rows - rest) * tile.rs_c;
        tile.rows = 1, tile.products = rest, tile.a_step = tile.rs_a, tile.c_step = tile.rs_c;
        tile.kernel->dot(tile);
    }
}
INLINE Tile tile_by_column(const Product &x, Count rows) {
    return {.kernel = x.kernel, .rows = rows, .columns = 1, .depth = x.k, .a = x.a, .rs_a = x.rs_a, .cs_a = x.cs_a,
            .b = x.packed ? x.packed : x.b, .c = x.c, .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.accumulate, .products = 1};
}

void multiply_rows(const Product &x, const ByVector &plan, Count ir, Count rows, char *copies) {
    const Kernel &kernel = *x.kernel;
    Tile tile = tile_by_column(x, rows);
    tile.c += ir * x.rs_c;
    for (Count pc = 0; pc < x.k; pc += x.kc, tile.add = true) {
        Tile block = tile;
        block.depth = min(x.kc, x.k - pc);
        block.a += ir * x.rs_a + pc * x.cs_a, block.b += pc * (x.packed ? kernel.sum : x.rs_b);
        if (plan.copies_b) {
            kernel.pack_a({.kernel = &kernel, .to = copies, .from = block.b, .across = x.rs_b, .along = 0,
                           .width = block.depth, .padded = block.depth, .depth = 1});
            block.b = copies;
        }
        if (plan.copies_a) copy_a(x, plan.pass, block, copies + plan.of_b);
        plan.pass == DOTS ? multiply_dots(block) : plan.columns_or_rows(block);
    }
}

/* A run of a batch's products, each without copies and of one block of k. */
INLINE bool is_small(const Product &x, const ByVector &plan) {
    return (plan.blocks == 1 || plan.pass == DOTS) && !plan.copies_a && !plan.copies_b && x.k <= x.kc;
}
void multiply_small(const Product &given, const ByVector &plan, const Steps &steps) {
    const bool turned = given.n > 1;
    const Product x = as_column(given);
    Tile tile = tile_by_column(x, x.m);
    tile.a_step = turned ? steps.b : steps.a, tile.b_step = turned ? steps.a : steps.b, tile.c_step = steps.c;
    if (plan.pass == DOTS && x.m <= x.kernel->dot_rows) {
        tile.products = steps.products;
        if (x.m == x.kernel->dot_rows) return x.kernel->dots(tile);
        tile.rows = 1;
        for (Count i = 0; i < x.m; i++, tile.a += x.rs_a, tile.c += x.rs_c) x.kernel->dot(tile);
        return;
    }
    for (Count i = 0; i < steps.products; i++, tile.a += tile.a_step, tile.b += tile.b_step, tile.c += tile.c_step)
        plan.pass == DOTS ? multiply_dots(tile) : plan.columns_or_rows(tile);
}

void multiply_vector(const Product &given, const ByVector &plan) {
    const Product x = as_column(given);
    const Count pieces = pieces_of(x.threads, plan.blocks, (double)x.m * x.k * x.kernel->stored / PIECE_BYTES);
    share_out(x.threads, pieces, [&](int member, Pieces &mine) {
        for (Count i; (i = mine.take()) >= 0;)
            for (Count block = share(plan.blocks, i, pieces), end = share(plan.blocks, i + 1, pieces), next; block < end;
                 block = next) {
                if (is_over()) return;
                next = plan.pass == DOTS && !plan.copies_a && x.k <= x.kc ? end : block + 1;
                const Count ir = first_row(x, plan, block);
                multiply_rows(x, plan, ir, first_row(x, plan, next) - ir, x.buffer + member * plan.of_thread);
            }
    });
}

}  // namespace
