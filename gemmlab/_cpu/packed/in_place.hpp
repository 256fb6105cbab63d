/* Operands as they are stored: packing B would cost more than it gains, for few rows of A, a short k, or where all
   stays in L2. The order is by what is moved most.

       by rows of C    a short k: C is most of it, so its rows are written from start to end
       by rows of B    few rows of A: B is most of it, so some of its rows at a time are read from start to end; as
                       many columns of them as L1 holds go through all rows of A
       by strips       else: a strip of B is in L1 for all rows of A; gathered first if its columns are not adjacent

   Each sum is the chain of the five loops: where an order leaves it, it is put into a buffer, and goes on from there.

   The first half of this file decides, for `in_place_of`; the second half multiplies as that says. */
#pragma once

#include "macrokernel.hpp"

namespace {

constexpr Count FEW_ROWS = 128, FEW_ROWS_APART = 48, FEW_ROWS_OF_PANELS = 12;
constexpr Count SHORT_K = 48;
constexpr Count FEW_COLUMNS = 16;  // of B, for which it does not pay to pack A, if the five loops always do
constexpr Count COPIED_K = 16, COPIED_M = 128;  // a copy of B pays: its vectors are loaded often enough
constexpr Count ALIGNED_ROWS = 8;  // most rows for which B is read by whole vectors
constexpr Count FEW_STREAMS = 8, STREAMS = 16, MANY_STREAMS = 32;  // rows of B at a time: see `streams_of_b`
constexpr Count BUFFERED_K = 128;              // sums in a buffer pay: they are loaded and stored often enough

/* Rows of B can be read as they are stored. */
INLINE bool has_rows_of_b(const Product &x) { return !x.packed && x.cs_b == x.kernel->sum; }
/* So short a k that C is most of what is moved; a B without rows is copied, strip by strip. */
INLINE bool is_short(const Product &x) { return x.k <= SHORT_K && !x.packed; }
/* Vectors as long as a cache line: each is two loads where it begins in the middle of one, as a row of B may. */
INLINE bool has_long_vectors(const Product &x) { return x.kernel->stored_lanes * x.kernel->sum >= 64; }
/* So few columns that A is most of what is moved, and its packing would move it twice. */
INLINE bool is_narrow(const Product &x) { return x.n <= FEW_COLUMNS && !x.kernel->half_packed; }
/* Rows of A for which B is not packed, wherever it comes from: fewer where the rows of B that are read at the same time
   share sets of L1, where vectors of B are two loads each, or where a tile has fewer sums than on panels: complex numbers. */
INLINE Count few_rows(const Product &x) {
    const bool share_sets = x.rs_b % (x.extents->conflict / 4) == 0;
    return x.kernel->parts > 1 || share_sets || has_long_vectors(x) ? FEW_ROWS_APART : FEW_ROWS;
}
INLINE bool has_unpacked_tiles(const Kernel &x) { return x.unpacked && x.as_stored; }
/* Panels of B hold its numbers as they are stored. */
INLINE bool has_stored_panels(const Product &x) { return !x.packed || x.kernel->parts == 1; }
INLINE Count b_bytes(const Product &x) { return round_up_2(x.n, x.kernel->stored_lanes) * x.k * x.kernel->sum; }
/* B, and a thread's part of A and C, stay in L2. B pays for its packing sooner where its vectors are two loads each. */
INLINE bool stays_in_l2(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const bool splits = has_long_vectors(x) && x.rs_b % 64 && x.n > kernel.stored_lanes;
    const Count others = x.m * (x.k + x.n) * kernel.sum, most = splits ? x.extents->l2 / 4 : 3 * x.extents->l2 / 4;
    return others < (most - b_bytes(x)) * x.threads && x.rs_b % (x.extents->conflict / 2);
}
INLINE bool is_in_place(const Product &x) {
    const Kernel &kernel = *x.kernel;
    if (!has_unpacked_tiles(kernel) || !has_stored_panels(x)) return false;
    if (is_narrow(x) || is_short(x)) return true;
    if (!has_rows_of_b(x)) return x.m <= FEW_ROWS_OF_PANELS || b_bytes(x) <= x.extents->in_place;
    return x.m <= few_rows(x) || b_bytes(x) <= x.extents->in_place || stays_in_l2(x);
}
INLINE bool gathers_b(const Product &x) { return !x.packed && x.cs_b != x.kernel->sum; }

/* Panels of A. Few rows make one panel, if its tiles still are two vectors wide. Else panels are as high as tiles that are
   as wide as C, or half of it, or `wide_vectors`. B is gathered first where its columns are not adjacent. */
INLINE Panels unpacked_panels(const Product &x) {
    const Kernel &kernel = *x.kernel;
    if (x.m <= kernel.unpacked_rows[1]) return {1, x.m, 0};
    const Count all = ceil_div_2(x.n, kernel.stored_lanes), wide = kernel.wide_vectors;
    return even_panels(x.m, kernel.unpacked_rows[min(wide, all <= wide ? all : (all + 1) / 2) - 1]);
}
INLINE Count strip_columns(const Product &x, const Panels &panels) {
    const Kernel &kernel = *x.kernel;
    const int vectors = kernel.unpacked_vectors[panels.rows(0) - 1];
    if (x.packed) return min(kernel.nr, (1 << (31 - __builtin_clz(vectors))) * kernel.stored_lanes);  // a part of a panel
    return vectors * kernel.stored_lanes;
}

/* The order: by what is moved most. */
enum OrderInPlace { BY_STRIPS, BY_ROWS_OF_C, BY_ROWS_OF_B };
INLINE OrderInPlace order_in_place(const Product &x, Count strip) {
    const bool pays = has_rows_of_b(x) || b_bytes(x) > x.extents->in_place;  // of a small B, strips are copied anyway
    if ((is_short(x) && x.k <= x.kc && pays) || is_narrow(x)) return BY_ROWS_OF_C;
    const bool has_few_rows = x.m <= FEW_ROWS && has_rows_of_b(x) && x.k > ROWS_OF_B && x.n > strip
                            && x.k * x.n * x.kernel->sum > x.extents->in_place;
    return has_few_rows ? BY_ROWS_OF_B : BY_STRIPS;
}

/* How the loops in place go through a product. */
struct InPlace {
    OrderInPlace order;
    Panels panels;    // of A
    Count strip;      // columns of a tile
    Count columns;    // by rows: of a block of B or C
    Count in_l1;      // by rows of B: of these columns, how many go through all panels of A
    Count depth;      // by rows of B: how many of them are read at a time
    bool gathers;     // by strips: a strip of B is gathered first
    bool copies;      // by rows of C: B is copied first, strip by strip
    bool buffers;     // by rows of B: sums are in the buffer until a block of k is whole
    bool reads_ahead; // by rows of B: the rows that come next are prefetched
    Count bytes;      // of the buffer
};

/* By rows of C: as many columns as B has in L2. Vectors as long as a cache line are two loads each where they begin in the
   middle of one: B is copied then, where there is enough of it. */
INLINE void by_rows_of_c(const Product &x, InPlace &plan) {
    const Count row = min(x.k, x.kc) * x.kernel->sum;
    plan.columns = max(plan.strip, x.extents->short_k_b / row / plan.strip * plan.strip);
    plan.copies = gathers_b(x) || (has_long_vectors(x) && x.k >= COPIED_K && x.m >= COPIED_M && x.n > plan.strip);
    if (plan.copies) plan.bytes = min(round_up_2(x.n, x.kernel->stored_lanes), plan.columns) * row;
}

/* Rows of B that are read at a time. From beyond L2 they had better be few (16 in place of 32: up to three times as fast,
   Zen 4); the fewer they are, the more often sums are loaded and stored, but few rows of A have few. */
INLINE Count streams_of_b(const Product &x) {
    if (b_bytes(x) <= x.extents->l2 || x.m > 2 * STREAMS) return MANY_STREAMS;
    return x.m <= FEW_STREAMS ? FEW_STREAMS : STREAMS;
}
/* By rows of B: as many of them at a time as the processor reads ahead of, and as many columns as have their sums in L2.
   Those that stay in L1 from a panel of A to the next are all, if there is one panel, or if these rows would share sets,
   being a quarter of a way apart or a multiple. */
INLINE void by_rows_of_b(const Product &x, InPlace &plan) {
    const Kernel &kernel = *x.kernel;
    const Count depth = min(x.k, x.kc), streams = streams_of_b(x);
    const Count strip = plan.strip, strip_bytes = strip * kernel.sum;
    plan.depth = ceil_div(depth, ceil_div(depth, streams));
    plan.columns = min(round_up_2(x.n, kernel.stored_lanes), max(1, x.extents->few_rows_sums / (x.m * strip_bytes)) * strip);
    plan.in_l1 = x.m <= kernel.unpacked_rows[1] || x.rs_b % (x.extents->conflict / 4) == 0
                   ? x.n : max(1, x.extents->rows_in_l1 / plan.depth / strip_bytes) * strip;
    plan.reads_ahead = plan.panels.count > 1 && b_bytes(x) > x.extents->l2 && x.n * kernel.sum < PAGE;
    plan.buffers = x.accumulate || x.k > min(x.kc, BUFFERED_K) || x.cs_c != kernel.sum;
    if (plan.buffers) plan.bytes = x.m * plan.columns * kernel.sum;
}

INLINE InPlace in_place_of(const Product &x) {
    InPlace plan;
    plan.panels = unpacked_panels(x), plan.strip = strip_columns(x, plan.panels);
    plan.order = order_in_place(x, plan.strip);
    plan.columns = plan.in_l1 = plan.depth = plan.bytes = 0;
    plan.gathers = gathers_b(x), plan.copies = plan.buffers = plan.reads_ahead = false;
    if (plan.gathers) plan.bytes = min(x.k, x.kc) * plan.strip * x.kernel->sum;
    if (plan.order == BY_ROWS_OF_C) by_rows_of_c(x, plan);
    if (plan.order == BY_ROWS_OF_B) by_rows_of_b(x, plan);
    return plan;
}

/* Columns of B before the first whole vector of memory. They are multiplied separately where that pays: a vector that
   crosses two cache lines is two loads, with which L2 gives 0.6 of its rate (AVX-512; 0.7 with AVX2). It pays for few rows
   of A, B in L2, rows of B that are a multiple of a vector apart, and more columns than one tile has. */
INLINE Count peeled_columns(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const Count vector = kernel.stored_lanes * kernel.sum, before = -(intptr_t)x.b & (vector - 1);
    if (x.m > ALIGNED_ROWS || x.n <= MAX_UNPACKED_VECTORS * kernel.stored_lanes || !has_rows_of_b(x)) return 0;
    return before % kernel.sum || x.rs_b % vector || b_bytes(x) > x.extents->l2 ? 0 : before / kernel.sum;
}
INLINE Product without_columns(const Product &x, Count columns) {
    Product rest = x;
    rest.n -= columns, rest.b += columns * x.cs_b, rest.c += columns * x.cs_c;
    return rest;
}
INLINE Product first_columns(const Product &x, Count columns) {
    Product first = x;
    first.n = columns;
    return first;
}

/* A product of one strip and one block of k: in a batch, a tile goes through some products before the next does. */
INLINE bool is_small(const Product &x, const InPlace &plan) {
    return x.threads == 1 && x.k <= x.kc && x.n > 1 && has_rows_of_b(x) && x.n <= plan.strip;
}


INLINE Tile unpacked_tile_of(const Product &x, Count columns) {
    return {.kernel = x.kernel, .rows = 0, .columns = columns, .depth = x.k, .a = x.a, .rs_a = x.rs_a, .cs_a = x.cs_a,
            .b = x.b, .rs_b = x.rs_b, .c = x.c, .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.accumulate, .resume = false,
            .pauses = false, .sums = nullptr, .of_b = nullptr, .products = 1, .a_step = 0, .b_step = 0, .c_step = 0};
}
INLINE void run_unpacked(const Tile &tile, Count vectors, bool whole) {
    tile.kernel->unpacked[((tile.rows - 1) * MAX_UNPACKED_VECTORS + vectors - 1) * 2 + whole](tile);
}

/* A strip of C, its panels one below the other. */
INLINE void run_unpacked_rows(const Product &x, const Panels &panels, Tile tile, Count vectors, bool whole) {
    for (Count panel = 0; panel < panels.count; panel++) {
        tile.rows = panels.rows(panel);
        run_unpacked(tile, vectors, whole);
        tile.a += tile.rows * x.rs_a, tile.c += tile.rows * tile.rs_c;
    }
}

/* A block of C, its panels one below the other, each from its first strip to its last: rows of C are passed from start to
   end, and those of B too, unless it is copied strip by strip. */
void run_unpacked_columns(const Product &x, const InPlace &plan, Tile tile, Count columns) {
    const Kernel &kernel = *x.kernel;
    const Count strip = plan.strip, strips = columns / strip, rest = columns - strips * strip;
    const Count vectors = ceil_div_2(rest, kernel.stored_lanes);
    tile.b_step = strip * kernel.sum, tile.c_step = strip * tile.cs_c;
    if (plan.copies) tile.rs_b = tile.b_step, tile.b_step *= tile.depth;
    for (Count panel = 0; panel < plan.panels.count && !is_over(); panel++) {
        tile.rows = plan.panels.rows(panel);
        tile.products = strips, tile.columns = strip;
        if (strips) run_unpacked(tile, strip / kernel.stored_lanes, true);
        if (rest) {
            Tile last = tile;
            last.products = 1, last.columns = rest, last.b += strips * tile.b_step, last.c += strips * tile.c_step;
            if (plan.copies) last.rs_b = vectors * kernel.stored_lanes * kernel.sum;
            run_unpacked(last, vectors, plan.copies || rest == vectors * kernel.stored_lanes);
        }
        tile.a += tile.rows * x.rs_a, tile.c += tile.rows * tile.rs_c;
    }
}

/* A short k: C is most of what is moved, so its rows are written from start to end. Few columns: A is, so each of its panels
   goes through all of B. */
void copy_strips(const Product &x, Tile &tile, Count columns, Count strip) {
    const Kernel &kernel = *x.kernel;
    for (Count jr = 0; jr < columns; jr += strip) {
        const Count width = min(strip, columns - jr);
        kernel.gather({.kernel = &kernel, .to = x.buffer + jr * tile.depth * kernel.sum, .from = tile.b + jr * x.cs_b,
                     .across = x.cs_b, .along = x.rs_b, .width = width, .padded = round_up_2(width, kernel.stored_lanes),
                     .depth = tile.depth});
    }
    tile.b = x.buffer;
}
void multiply_rows_of_c(const Product &x, const InPlace &plan) {
    for (Count jc = 0; jc < x.n; jc += plan.columns)
        for (Count pc = 0; pc < x.k; pc += x.kc) {
            const Count here = min(plan.columns, x.n - jc);
            Tile tile = unpacked_tile_of(x, 0);
            tile.depth = min(x.kc, x.k - pc), tile.add = x.accumulate || pc > 0;
            tile.a += pc * x.cs_a, tile.b += pc * x.rs_b + jc * x.cs_b, tile.c += jc * x.cs_c;
            if (plan.copies) copy_strips(x, tile, here, plan.strip);
            run_unpacked_columns(x, plan, tile, here);
        }
}

/* Rows that come next. A processor reads ahead in a page: not in rows that end soon. */
void read_ahead(const char *from, Count rows, Count distance, Count bytes) {
    for (Count i = 0; i < rows; i++)
        for (Count byte = 0; byte < bytes; byte += LINE / 2) __builtin_prefetch(from + i * distance + byte, 0, 2);
}

/* A few rows: B is most of what is moved, so it is read in the order of memory, some of its rows at a time. */
void multiply_few_rows(const Product &x, const InPlace &plan) {
    const Kernel &kernel = *x.kernel;
    for (Count jc = 0; jc < x.n; jc += plan.columns) {
        const Count here = min(plan.columns, x.n - jc);
        char *const c = x.c + jc * x.cs_c;
        for (Count pc = 0; pc < x.k; pc += x.kc) {
            const Count depth = min(x.kc, x.k - pc);
            Tile tile = unpacked_tile_of(x, 0);
            tile.add = false, tile.c = c;
            if (plan.buffers) tile.c = x.buffer, tile.rs_c = plan.columns * kernel.sum, tile.cs_c = kernel.sum;
            for (Count p = 0; p < depth; p += plan.depth) {
                tile.depth = min(plan.depth, depth - p), tile.resume = p > 0;
                tile.a = x.a + (pc + p) * x.cs_a, tile.b = x.b + (pc + p) * x.rs_b + jc * x.cs_b;
                if (plan.reads_ahead && p + plan.depth < depth) {
                    read_ahead(tile.b + plan.depth * x.rs_b, plan.depth, x.rs_b, here * kernel.sum);
                    if (x.cs_a == kernel.sum) read_ahead(tile.a + plan.depth * x.cs_a, x.m, x.rs_a, plan.depth * x.cs_a);
                }
                for (Count jr = 0; jr < here; jr += plan.in_l1) {
                    Tile part = tile;
                    part.b += jr * kernel.sum, part.c += jr * tile.cs_c;
                    run_unpacked_columns(x, plan, part, min(plan.in_l1, here - jr));
                }
            }
            if (plan.buffers)
                kernel.accumulate({.kernel = &kernel, .from = x.buffer, .rs_from = plan.columns * kernel.sum, .c = c,
                                   .rs_c = x.rs_c, .cs_c = x.cs_c, .rows = x.m, .columns = here,
                                   .add = x.accumulate || pc > 0});
        }
    }
}

/* Else strips of C, one after the other: a strip of B is in L1 for all rows of A. */
void multiply_strips(const Product &x, const InPlace &plan) {
    const Kernel &kernel = *x.kernel;
    const Count row_bytes = kernel.stored_lanes * kernel.sum;
    for (Count jr = 0; jr < x.n; jr += plan.strip) {
        const Count columns = min(plan.strip, x.n - jr), vectors = ceil_div_2(columns, kernel.stored_lanes);
        const bool whole = x.packed || plan.gathers || columns == vectors * kernel.stored_lanes;
        Tile tile = unpacked_tile_of(x, columns);
        tile.c += jr * x.cs_c;
        if (x.packed || plan.gathers) tile.rs_b = (x.packed ? kernel.nr / kernel.stored_lanes : vectors) * row_bytes;
        for (Count pc = 0; pc < x.k && !is_over(); pc += x.kc) {
            tile.depth = min(x.kc, x.k - pc), tile.add = x.accumulate || pc > 0;
            tile.a = x.a + pc * x.cs_a, tile.b = x.b + pc * x.rs_b + jr * x.cs_b;
            if (plan.gathers) {
                kernel.gather({.kernel = &kernel, .to = x.buffer, .from = tile.b, .across = x.cs_b, .along = x.rs_b,
                               .width = columns, .padded = vectors * kernel.stored_lanes, .depth = tile.depth});
                tile.b = x.buffer;
            }
            if (x.packed)
                tile.b = packed_panels(x, pc, jr & -kernel.nr, tile.depth) + (jr & (kernel.nr - 1)) * kernel.sum;
            run_unpacked_rows(x, plan.panels, tile, vectors, whole);
        }
    }
}

void multiply_in_place(const Product &x, const InPlace &plan) {
    switch (plan.order) {
        case BY_ROWS_OF_C: return multiply_rows_of_c(x, plan);
        case BY_ROWS_OF_B: return multiply_few_rows(x, plan);
        default: return multiply_strips(x, plan);
    }
}

/* A run of a batch's products. */
void multiply_small(const Product &x, const InPlace &plan, const Steps &steps) {
    const Kernel &kernel = *x.kernel;
    const Count vectors = ceil_div_2(x.n, kernel.stored_lanes), one = (x.m * x.k + x.k * x.n + x.m * x.n) * kernel.sum;
    const Count at_once = plan.panels.count == 1 ? steps.products : max(1, x.extents->at_once / one);
    Tile tile = unpacked_tile_of(x, x.n);
    tile.a_step = steps.a, tile.b_step = steps.b, tile.c_step = steps.c;
    for (Count i = 0; i < steps.products; i += at_once) {
        tile.products = min(at_once, steps.products - i);
        run_unpacked_rows(x, plan.panels, tile, vectors, x.n == vectors * kernel.stored_lanes);
        tile.a += at_once * steps.a, tile.b += at_once * steps.b, tile.c += at_once * steps.c;
    }
}

}  // namespace
