/* Operands as they are stored: packing B would cost more than it gains, for few rows of A, a short k, or where all
   stays in L2. The order is by what is moved most.

       by rows of C    a short k: C is most of it, so its rows are written from start to end
       by rows of B    few rows of A: B is most of it, so some of its rows at a time are read from start to end
       by strips       else: a strip of B is in L1 for all rows of A; gathered first if its columns are not adjacent

   Each sum is the chain of the five loops: where an order leaves it, it is put into a buffer, and goes on from there. */
#pragma once

#include "macrokernel.hpp"

namespace {

constexpr Count FEW_ROWS = 128, FEW_ROWS_OF_PANELS = 12;
constexpr Count SHORT_K = 48;

/* Rows of B can be read as they are stored. */
INLINE bool has_rows_of_b(const Product &x) { return !x.packed && x.cs_b == x.kernel->sum; }
INLINE bool is_short(const Product &x) { return x.k <= SHORT_K && has_rows_of_b(x); }
/* B, and a thread's part of A and C, stay in L2. A vector as long as a cache line is two loads where it begins in the
   middle of one: B pays for its packing sooner then. */
INLINE bool stays_in_l2(const Product &x, Count b) {
    const Kernel &kernel = *x.kernel;
    const Count vector = kernel.lanes * kernel.sum, others = x.m * (x.k + x.n) * kernel.sum;
    const Count most = vector < 64 || x.rs_b % vector == 0 ? 3 * x.extents->l2 / 4 : x.extents->l2 / 4;
    return others < (most - b) * x.threads && x.rs_b % (x.extents->conflict / 2);
}
INLINE bool is_in_place(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const Count b = round_up_2(x.n, kernel.lanes) * x.k * kernel.sum;
    if (!kernel.unpacked || !kernel.as_stored) return false;
    if (!has_rows_of_b(x)) return x.m <= FEW_ROWS_OF_PANELS || b <= x.extents->in_place;
    return x.m <= FEW_ROWS || is_short(x) || b <= x.extents->in_place || stays_in_l2(x, b);
}
/* Columns of a strip of C: those of the widest tile for panels of such heights. B is gathered first where its columns are
   not adjacent. */
INLINE Panels unpacked_panels(const Product &x) { return even_panels(x.m, UNPACKED_ROWS); }
INLINE Count strip_columns(const Product &x) {
    const Kernel &kernel = *x.kernel;
    if (!kernel.unpacked) return kernel.nr;
    const int vectors = kernel.unpacked_vectors[unpacked_panels(x).rows(0) - 1];
    if (x.packed) return min(kernel.nr, (1 << (31 - __builtin_clz(vectors))) * kernel.lanes);  // a part of a panel
    return vectors * kernel.lanes;
}
INLINE bool gathers_b(const Product &x) { return !x.packed && x.cs_b != x.kernel->sum; }

INLINE Tile unpacked_tile_of(const Product &x, Count columns) {
    return {.kernel = x.kernel, .rows = 0, .columns = columns, .depth = x.k, .a = x.a, .rs_a = x.rs_a, .cs_a = x.cs_a,
            .b = x.b, .rs_b = x.rs_b, .c = x.c, .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.accumulate, .resume = false,
            .products = 1, .a_step = 0, .b_step = 0, .c_step = 0};
}
INLINE void run_unpacked(const Tile &tile, Count vectors, bool whole) {
    tile.kernel->unpacked[((tile.rows - 1) * MAX_UNPACKED_VECTORS + vectors - 1) * 2 + whole](tile);
}

/* A strip of C, its panels one below the other. */
INLINE void run_unpacked_rows(const Product &x, Tile tile, Count vectors, bool whole) {
    const Panels panels = unpacked_panels(x);
    for (Count panel = 0; panel < panels.count; panel++) {
        tile.rows = panels.rows(panel);
        run_unpacked(tile, vectors, whole);
        tile.a += tile.rows * x.rs_a, tile.c += tile.rows * x.rs_c;
    }
}

/* A block of C, its panels one below the other, each from its first strip to its last: rows of B and C are passed from
   start to end. */
void run_unpacked_columns(const Product &x, Tile tile, Count columns) {
    const Kernel &kernel = *x.kernel;
    const Panels panels = unpacked_panels(x);
    const Count strip = strip_columns(x), strips = columns / strip, rest = columns - strips * strip;
    const Count vectors = ceil_div_2(rest, kernel.lanes);
    tile.b_step = strip * kernel.sum, tile.c_step = strip * tile.cs_c;
    for (Count panel = 0; panel < panels.count; panel++) {
        tile.rows = panels.rows(panel);
        tile.products = strips, tile.columns = strip;
        if (strips) run_unpacked(tile, strip / kernel.lanes, true);
        if (rest) {
            Tile last = tile;
            last.products = 1, last.columns = rest, last.b += strips * tile.b_step, last.c += strips * tile.c_step;
            run_unpacked(last, vectors, rest == vectors * kernel.lanes);
        }
        tile.a += tile.rows * x.rs_a, tile.c += tile.rows * tile.rs_c;
    }
}

/* A short k: C is most of what is moved, so its rows are written from start to end, by as many columns as B has in L2. */
INLINE Count short_k_columns(const Product &x) {
    const Count strip = strip_columns(x);
    return max(strip, x.extents->short_k_b / (x.k * x.kernel->sum) / strip * strip);
}
void multiply_short_k(const Product &x) {
    const Count columns = short_k_columns(x);
    for (Count jc = 0; jc < x.n; jc += columns) {
        Tile tile = unpacked_tile_of(x, 0);
        tile.b += jc * x.cs_b, tile.c += jc * x.cs_c;
        run_unpacked_columns(x, tile, min(columns, x.n - jc));
    }
}

/* A few rows: B is most of what is moved, so it is read in the order of memory, some of its rows at a time: as many as
   the processor reads ahead of. The sums of some columns stay in L2, in C or in the buffer, until a block of k is whole. */
INLINE bool buffers_sums(const Product &x) { return x.accumulate || x.k > x.kc || x.cs_c != x.kernel->sum; }
INLINE Count few_rows_columns(const Product &x) {
    const Count strip = strip_columns(x);
    return min(x.n, max(1, x.extents->few_rows_sums / (x.m * x.kernel->sum * strip)) * strip);
}
void multiply_few_rows(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const Count columns = few_rows_columns(x);
    for (Count jc = 0; jc < x.n; jc += columns) {
        const Count here = min(columns, x.n - jc);
        char *const c = x.c + jc * x.cs_c;
        for (Count pc = 0; pc < x.k; pc += x.kc) {
            const Count depth = min(x.kc, x.k - pc);
            const bool buffered = x.accumulate || pc > 0 || x.cs_c != kernel.sum;
            Tile tile = unpacked_tile_of(x, 0);
            tile.add = false, tile.c = c;
            if (buffered) tile.c = x.buffer, tile.rs_c = here * kernel.sum, tile.cs_c = kernel.sum;
            for (Count p = 0; p < depth; p += ROWS_OF_B) {
                tile.depth = min(ROWS_OF_B, depth - p), tile.resume = p > 0;
                tile.a = x.a + (pc + p) * x.cs_a, tile.b = x.b + (pc + p) * x.rs_b + jc * x.cs_b;
                run_unpacked_columns(x, tile, here);
            }
            if (buffered)
                kernel.accumulate({.kernel = &kernel, .from = x.buffer, .rs_from = here * kernel.sum, .c = c,
                                   .rs_c = x.rs_c, .cs_c = x.cs_c, .rows = x.m, .columns = here,
                                   .add = x.accumulate || pc > 0});
        }
    }
}

/* Else strips of C, one after the other: a strip of B is in L1 for all rows of A. */
void multiply_strips(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const Count strip = strip_columns(x), row_bytes = kernel.lanes * kernel.sum;
    const bool gathers = gathers_b(x);
    for (Count jr = 0; jr < x.n; jr += strip) {
        const Count columns = min(strip, x.n - jr), vectors = ceil_div_2(columns, kernel.lanes);
        const bool whole = x.packed || gathers || columns == vectors * kernel.lanes;
        Tile tile = unpacked_tile_of(x, columns);
        tile.c += jr * x.cs_c;
        if (x.packed || gathers) tile.rs_b = (x.packed ? kernel.nr / kernel.lanes : vectors) * row_bytes;
        for (Count pc = 0; pc < x.k; pc += x.kc) {
            tile.depth = min(x.kc, x.k - pc), tile.add = x.accumulate || pc > 0;
            tile.a = x.a + pc * x.cs_a, tile.b = x.b + pc * x.rs_b + jr * x.cs_b;
            if (gathers) {
                kernel.pack_b({.kernel = &kernel, .to = x.buffer, .from = tile.b, .across = x.cs_b, .along = x.rs_b,
                               .width = columns, .padded = vectors * kernel.lanes, .depth = tile.depth});
                tile.b = x.buffer;
            }
            if (x.packed)
                tile.b = packed_panels(x, pc, jr & -kernel.nr, tile.depth) + (jr & (kernel.nr - 1)) * kernel.sum;
            run_unpacked_rows(x, tile, vectors, whole);
        }
    }
}

/* The order: by what is moved most. */
INLINE bool has_few_rows(const Product &x) {
    return x.m <= FEW_ROWS && has_rows_of_b(x) && x.k > ROWS_OF_B && x.n > strip_columns(x);
}
enum OrderInPlace { BY_STRIPS, BY_ROWS_OF_C, BY_ROWS_OF_B };
INLINE OrderInPlace order_in_place(const Product &x) {
    if (is_short(x) && x.k <= x.kc) return BY_ROWS_OF_C;
    return has_few_rows(x) ? BY_ROWS_OF_B : BY_STRIPS;
}
void multiply_in_place(const Product &x) {
    switch (order_in_place(x)) {
        case BY_ROWS_OF_C: return multiply_short_k(x);
        case BY_ROWS_OF_B: return multiply_few_rows(x);
        default: return multiply_strips(x);
    }
}
INLINE Count in_place_bytes(const Product &x) {
    if (gathers_b(x)) return min(x.k, x.kc) * strip_columns(x) * x.kernel->sum;
    return order_in_place(x) == BY_ROWS_OF_B && buffers_sums(x) ? x.m * few_rows_columns(x) * x.kernel->sum : 0;
}

/* Products of a batch, each of one strip and one block of k: a tile goes through some of them before the next does. */
struct Steps {
    Count products, a, b, c;
};
INLINE bool is_small(const Product &x) {
    const Kernel &kernel = *x.kernel;
    return x.threads == 1 && kernel.unpacked && x.k <= x.kc && x.n > 1 && has_rows_of_b(x) && is_in_place(x)
        && x.n <= strip_columns(x);
}
void multiply_small(const Product &x, const Steps &steps) {
    const Kernel &kernel = *x.kernel;
    const Count vectors = ceil_div_2(x.n, kernel.lanes), one = (x.m * x.k + x.k * x.n + x.m * x.n) * kernel.sum;
    const Count at_once = x.m <= UNPACKED_ROWS ? steps.products : max(1, x.extents->at_once / one);
    Tile tile = unpacked_tile_of(x, x.n);
    tile.a_step = steps.a, tile.b_step = steps.b, tile.c_step = steps.c;
    for (Count i = 0; i < steps.products; i += at_once) {
        tile.products = min(at_once, steps.products - i);
        run_unpacked_rows(x, tile, vectors, x.n == vectors * kernel.lanes);
        tile.a += at_once * steps.a, tile.b += at_once * steps.b, tile.c += at_once * steps.c;
    }
}

}  // namespace
