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

/* A product with one column, and the functions that pass its matrix, and which of them does. */
enum Pass { DOTS, COLUMNS, ROWS };
struct MatrixByVector {
    Product x;
    VectorKernels kernels;
    Pass pass;
    bool copies_a, copies_b;
};
/* Whether a cache line has numbers of several rows of A. */
INLINE bool has_near_rows(const Product &x) {
    const Count rows = x.rs_a < 0 ? -x.rs_a : x.rs_a, columns = x.cs_a < 0 ? -x.cs_a : x.cs_a;
    return rows < columns && x.m >= x.kernel->vector_rows;
}
MatrixByVector by_vector(const Product &given) {
    const Kernel &kernel = *given.kernel;
    MatrixByVector by = {given, kernel.column, DOTS, false, false};
    Product &x = by.x;
    if (given.n > 1) {
        by.kernels = kernel.row;
        x.m = given.n, x.n = 1;
        x.a = given.b, x.rs_a = given.cs_b, x.cs_a = given.rs_b;
        x.b = given.a, x.rs_b = given.cs_a, x.cs_b = given.rs_a;
        x.rs_c = given.cs_c, x.cs_c = given.rs_c;
    }
    const bool has_rows = x.cs_a == kernel.stored || (x.k == 1 && !by.kernels.rows);
    if (by.kernels.columns && x.rs_a == kernel.stored && x.m >= kernel.vector_rows) by.pass = COLUMNS;
    else if (has_rows) by.pass = by.kernels.rows ? ROWS : DOTS, by.copies_a = by.pass == DOTS && !kernel.as_stored;
    else by.pass = by.kernels.rows || has_near_rows(x) ? COLUMNS : DOTS, by.copies_a = true;
    by.copies_b = !x.packed && (x.rs_b != kernel.sum || !kernel.as_stored);
    return by;
}

/* Blocks of rows: at least one for each thread, if there is room for some vectors in it. */
INLINE Count most_rows(const MatrixByVector &by) {
    const Kernel &kernel = *by.x.kernel;
    if (by.pass == DOTS) return DOT_ROWS;
    if (!by.copies_a) return kernel.column_rows;
    const Count fit = by.x.extents->thin_b / (min(by.x.k, by.x.kc) * kernel.sum);
    return max(2 * kernel.vector_rows, min(COPIED_ROWS, fit));
}
INLINE Count row_blocks(const MatrixByVector &by) {
    const Count blocks = ceil_div(by.x.m, most_rows(by));
    return by.pass == DOTS ? blocks : max(blocks, min(by.x.threads, by.x.m / (2 * by.x.kernel->vector_rows)));
}
INLINE Count first_row(const MatrixByVector &by, Count i, Count blocks) {
    return by.pass == DOTS ? min(by.x.m, i * DOT_ROWS) : share(by.x.m, i, blocks);
}

INLINE Count copy_of_b_bytes(const MatrixByVector &by) {
    return by.copies_b ? whole_lines(min(by.x.k, by.x.kc) * by.x.kernel->sum) : 0;
}
INLINE Count copies_bytes(const MatrixByVector &by) {
    const Count rows = by.copies_a ? most_rows(by) : 0;
    return whole_lines(copy_of_b_bytes(by) + rows * min(by.x.k, by.x.kc) * by.x.kernel->sum);
}

/* A's rows, or its columns, one after the other. */
void copy_a(const MatrixByVector &by, Tile &tile, char *to) {
    const Product &x = by.x;
    const Kernel &kernel = *x.kernel;
    Panel copy = {.kernel = &kernel, .to = to, .from = tile.a, .across = x.cs_a, .along = x.rs_a, .width = tile.depth,
                  .padded = tile.depth, .depth = tile.rows};
    if (by.pass == COLUMNS) {
        copy.across = x.rs_a, copy.along = x.cs_a;
        copy.width = copy.padded = tile.rows, copy.depth = tile.depth;
    }
    by.pass == COLUMNS ? kernel.copy(copy) : kernel.pack_a(copy);
    by.pass == COLUMNS ? tile.cs_a = copy.width * kernel.stored : tile.rs_a = copy.width * kernel.sum;
    tile.a = to;
}

void multiply_rows(const MatrixByVector &by, Count ir, Count rows, char *copies) {
    const Product &x = by.x;
    const Kernel &kernel = *x.kernel;
    for (Count pc = 0; pc < x.k; pc += x.kc) {
        Tile tile = {.kernel = &kernel, .rows = rows, .columns = 1, .depth = min(x.kc, x.k - pc),
                     .a = x.a + ir * x.rs_a + pc * x.cs_a, .rs_a = x.rs_a, .cs_a = x.cs_a,
                     .b = x.packed ? x.packed + pc * kernel.sum : x.b + pc * x.rs_b, .c = x.c + ir * x.rs_c,
                     .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.accumulate || pc > 0};
        if (by.copies_b) {
            kernel.pack_a({.kernel = &kernel, .to = copies, .from = tile.b, .across = x.rs_b, .along = 0,
                           .width = tile.depth, .padded = tile.depth, .depth = 1});
            tile.b = copies;
        }
        if (by.copies_a) copy_a(by, tile, copies + copy_of_b_bytes(by));
        if (by.pass == COLUMNS) by.kernels.columns(tile);
        else if (by.pass == ROWS) by.kernels.rows(tile);
        else if (rows == DOT_ROWS) kernel.dots(tile);
        else {
            tile.rows = 1;
            for (Count i = 0; i < rows; i++, tile.a += tile.rs_a, tile.c += x.rs_c) kernel.dot(tile);
        }
    }
}

void multiply_vector(const Product &x) {
    const MatrixByVector by = by_vector(x);
    const Count blocks = row_blocks(by), own = copies_bytes(by);
    #pragma omp parallel for schedule(static) num_threads(x.threads) if (x.threads > 1)
    for (Count i = 0; i < blocks; i++) {
        const Count ir = first_row(by, i, blocks);
        multiply_rows(by, ir, first_row(by, i + 1, blocks) - ir, x.buffer + omp_get_thread_num() * own);
    }
}
Count vector_bytes(const Product &x) { return x.threads * copies_bytes(by_vector(x)); }

}  // namespace
