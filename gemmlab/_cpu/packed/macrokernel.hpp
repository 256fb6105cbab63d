/* The loops around the micro-kernel, as Goto and van de Geijn order them and BLIS numbers them, but for the 4th:

       5th  for jc in 0..n by nc:
                for pr in 0..k by kr:                pack B[pr:pr+kr, jc:jc+nc]    all threads; stays in L3
                                                     (then, when all of it is packed)
       3rd          parallel for ic in 0..m by mc:
                        for js in 0..nc by ns:
       4th                  for pc in 0..kr by kc:   pack A[ic:ic+mc, pc:pc+kc]    if need be, each thread its own; stays in L2
       2nd                      for jr in 0..ns by NR:                             a panel of B stays in L1
       1st                          for ir in 0..mc by MR: micro-kernel

   A kernel that is about as fast as L3 (AMX) has long blocks of k, of whose panel L1 keeps only a part: so between the 2nd
   and the 1st loop is one over these parts, `tile_k` deep, and the sums of the tiles wait in between. Its strips and its
   packed B are longer, since it costs more to pack A and to add to C, beside the product.

   In BLIS the 4th loop is outside of the 3rd, and all of C passes through the caches once for each kc. Here it is
   inside, so that a strip of C, mc x ns, stays in L2 until its sums are whole; that wants kr of B packed at once: all of
   k where memory allows, else some kc. Packed A is kept for the next strip where it fits. Sums that C does not store,
   or whose rows would evict each other from the caches, are kept in a separate accumulator until they are whole.

   A is packed where its rows are not adjacent numbers, or where those of a tile share sets of L1 (see `packs_a`), and
   where panels hold other numbers than it. Else it is read as it is stored: packing would cost more than it gains.

   C takes the sum over each kc of k in order, after what it held if the product accumulates, so no bit depends on
   threads, on any other block, or on the rows that A has. For several threads each block of rows is cut into short parts
   by columns; a thread that takes a part of another block than before packs A. */
#pragma once

#include "extents.hpp"
#include "pieces.hpp"

namespace {

constexpr double MOST_VECTORS = 2e5;         // multiplied and added in a piece: some 50 us
constexpr double LEAST_VECTORS = 2e4;
constexpr Count PIECES_A_THREAD = 16;        // are enough for all threads to end at nearly the same time
constexpr double PIECE_BYTES = 512 << 10;    // or bytes that are copied, or read once
constexpr int FEW_THREADS = 4;
constexpr Count ROWS_OF_B = 16;              // that are read at the same time: more streams no processor reads ahead of
constexpr double AS_FAST_AS_L3 = 0.125;      // the cost of a number to a kernel that is called fast here (AMX)
constexpr Count MANY_BLOCKS = 6;             // a thread: as many are as good as equal shares
constexpr Count MIN_ROWS = 32;               // of a block of A, and two tiles at least
constexpr Count MIN_COLUMNS = 1024;          // of a block of B, where k is so long that its memory would hold fewer
constexpr Count MANY_COLUMNS = 1024;         // of B: what it costs to pack A is little beside its product
constexpr Count PASSES_OF_A = 4;             // by a fast kernel, which pay for packing it
constexpr Count STRIP_COLUMNS = 512;         // of a strip of C: each packed A is read once for so many
constexpr Count LONG_STRIP = 2048;           // the same for a fast kernel, whose packed A stays in L2 for all of it,
constexpr Count FAST_B = 8;                  // and whose least block of B is so many times as large: A is packed for each
constexpr Count THIN = 256;                  // rows or columns of a thin product at most

/* The blocks of the five loops: see above. `mc` and `nc` of a product are upper bounds of these. */
struct Blocks {
    Count mc, nc, kr, ns;
    bool packs_a;
    Count kept;     // blocks of packed A
    bool separate;  // a strip's sums are in a separate accumulator until they are whole
    bool lower;     // tiles above the diagonal of C are left out
    Count part;     // columns of a part of a block row of C at most
    Count rows_of_b;        // that are packed at a time
    Count tile_k;           // of a panel of B, what a tile takes at a time: all, or what L1 keeps while all of A passes by
    Count of_a, of_sums;    // bytes of a packed block of A, and of the sums of a panel
    Count of_thread;        // of all that a thread has
    Count bytes;            // of that and of packed B
};

/* Into how many pieces so many parts go: as many as they are long, and some for each thread. */
INLINE Count pieces_of(int threads, Count parts, double length) {
    return threads == 1 ? 1 : min(parts, max(4 * threads, (Count)min(length, 1e9)));
}

/* Whether a kernel multiplies about as fast as L3 gives B. */
INLINE bool is_fast(const Kernel &x) { return x.cost < AS_FAST_AS_L3; }

/* The time of a product's arithmetic, in vectors that are multiplied and added; and that of a piece of it, which is short
   for the product and for a thread. */
INLINE double vectors_in(const Product &x) {
    return x.kernel->cost * x.m * ceil_div_2(x.n, x.kernel->lanes) * x.k;
}
INLINE double piece_vectors(const Product &x) {
    const double few = vectors_in(x) / (PIECES_A_THREAD * x.threads);
    return few < LEAST_VECTORS ? LEAST_VECTORS : few > MOST_VECTORS ? MOST_VECTORS : few;
}

/* No thread is as fast as another, so each gets some blocks. */
INLINE Count blocks_a_thread(int threads) { return threads > FEW_THREADS ? 4 : 2; }

/* Bytes of a row of A or a column of B in panels of this depth. */
INLINE Count bytes_of(const Kernel &x, Count depth) { return ceil_div_2(depth, x.group) * x.step; }
INLINE Count bytes_of_a(const Kernel &x, Count depth) { return bytes_of(x, depth) + (x.pair_products ? x.sum : 0); }
/* Bytes of a packed block of A with so many rows. */
INLINE Count a_bytes(const Product &x, Count rows) {
    return round_up(rows, x.kernel->mr) * bytes_of_a(*x.kernel, min(x.k, x.kc));
}
/* Bytes of a packed block of B at most. What only few rows use is in L2 for them; but a fast kernel packs A for each block
   of B, and had better not where A is half as large (measured on drawn products). */
INLINE bool has_thin_b(const Product &x) {
    const bool is_small_a = x.m * bytes_of(*x.kernel, min(x.k, x.kc)) <= x.extents->thin_b / 2;
    return x.threads == 1 && x.m <= THIN && !x.max_b && (is_small_a || !is_fast(*x.kernel));
}
INLINE Count max_b_bytes(const Product &x) {
    if (has_thin_b(x)) return x.extents->thin_b;
    if (x.max_b) return x.max_b;
    return max(x.extents->min_b * (is_fast(*x.kernel) ? FAST_B : 1), x.threads * x.extents->b_of_a_thread);
}
INLINE Count max_columns(const Product &x) {
    if (!has_thin_b(x)) return x.nc;
    const Count fit = round_up_2(x.extents->thin_b / bytes_of(*x.kernel, min(x.k, x.kc)), x.kernel->nr);
    return min(x.nc, max(x.kernel->nr, fit));
}
/* Rows of B that are packed at a time: where columns are nearer to each other than rows, in the order of memory. */
INLINE Count rows_of_b_at_a_time(const Product &x) {
    const Count across = x.cs_b < 0 ? -x.cs_b : x.cs_b, along = x.rs_b < 0 ? -x.rs_b : x.rs_b;
    return across < along ? min(x.kc, ROWS_OF_B * x.kernel->group) : x.kc;
}

/* Into how many blocks of rows the threads share C, so that a thread's part of A and of B are together least. */
INLINE Count rows_of_threads(const Product &x) {
    Count best = 1;
    const auto read = [&](Count rows) { return (double)x.m / rows + (double)x.n * rows / x.threads; };
    for (Count rows = 2; rows <= x.threads; rows++)
        if (x.threads % rows == 0 && read(rows) < read(best)) best = rows;
    return best;
}

/* Rows of a block of A: few enough for kc of them to stay in L2, and the `k` that is packed at once near it; and where
   blocks are few, equal shares for the threads, some for each where there are rows enough. Where a kernel multiplies as
   fast as L3 gives B (AMX), the threads share its columns too. */
Count block_rows(const Product &x, Count k) {
    const Count mr = x.kernel->mr;
    const Count row = bytes_of(*x.kernel, min(k, x.kc)), block = block_of_a_bytes(*x.extents, x.kernel->nr * row);
    const Count fit = is_fast(*x.kernel) ? block / row : min(block / row, x.extents->deep_a / bytes_of(*x.kernel, k));
    const Count in_l2 = max(3 * mr, fit / mr * mr);
    Count blocks = ceil_div(x.m, min(x.mc, in_l2));
    if (x.threads > 1 && blocks < MANY_BLOCKS * x.threads) {
        const Count most = max(1, x.m / max(MIN_ROWS, 2 * mr)), some = blocks_a_thread(x.threads) * x.threads;
        const Count own = max(round_up(blocks, x.threads), some <= most ? some : 1);
        const Count shares = is_fast(*x.kernel) ? max(blocks, rows_of_threads(x)) : own;
        blocks = shares <= most ? shares : max(blocks, most);
    }
    const Count rows = ceil_div(x.m, blocks);
    return x.kernel->whole_panels ? round_up(rows, mr) : rows;
}

/* Whether A is packed: not where rows are adjacent numbers, unless those of a tile share sets of L1, and are half as many
   again as these hold or are read for many columns. On AMX from four panels of B on: of 180 drawn products, those with 128
   to 400 columns took 0.96 of the time so, wider ones 0.88, and narrower ones 1.0 to 1.1 (one and two threads). */
INLINE bool packs_a(const Product &x) {
    const Kernel &kernel = *x.kernel;
    if (!kernel.half_packed || x.cs_a != kernel.stored) return true;
    if (is_fast(kernel)) return x.n >= PASSES_OF_A * kernel.nr;
    return x.rs_a % (x.extents->conflict / 2) == 0 && (x.n > MANY_COLUMNS || 2 * kernel.mr > 3 * x.extents->ways);
}

/* Columns of a part of C: it is short. Where the part before does not leave all of its packed A, or a fast kernel not in L2,
   it pays to go further. */
INLINE Count columns_of_part(const Product &x, const Blocks &blocks) {
    const Count nr = x.kernel->nr, kept = is_fast(*x.kernel) ? 1 : blocks.kept;
    const bool many = ceil_div(x.m, blocks.mc) >= MANY_BLOCKS * x.threads;
    const Count strip = many ? blocks.ns : min(blocks.ns, round_up_2(STRIP_COLUMNS, nr));
    const Count least = blocks.packs_a && kept * x.kc < blocks.kr ? strip : nr;
    const double column = x.kernel->cost * blocks.mc * blocks.kr;
    return max(least, (Count)(piece_vectors(x) * x.kernel->lanes / column) & -nr);
}

Blocks blocks_of(const Product &x) {
    const Kernel &kernel = *x.kernel;
    const Count max_b = max_b_bytes(x), nr = kernel.nr;
    Blocks blocks = {.mc = 0, .nc = x.n, .kr = x.k, .ns = 0, .packs_a = packs_a(x), .kept = 0, .separate = false,
                     .lower = false, .part = x.n, .rows_of_b = rows_of_b_at_a_time(x), .tile_k = x.kc, .of_a = 0,
                     .of_sums = 0, .of_thread = 0, .bytes = 0};
    if (!x.packed) {
        const Count fit = max_b / bytes_of(kernel, x.k) & -nr;
        const Count columns = min(max_columns(x), max(fit, x.narrows ? nr : MIN_COLUMNS));
        blocks.nc = min(x.n, round_up_2(ceil_div(x.n, ceil_div(x.n, columns)), nr));
        const Count block = round_up_2(blocks.nc, nr) * bytes_of(kernel, x.kc);
        if (!x.narrows) blocks.kr = min(x.k, x.kc * max(1, max_b / block));
    }
    blocks.mc = block_rows(x, blocks.kr);
    blocks.kept = ceil_div(blocks.kr, x.kc), blocks.of_a = a_bytes(x, blocks.mc);
    if (blocks.kept * blocks.of_a > x.extents->a_of_a_thread) blocks.kept = 1;
    blocks.ns = round_up_2(blocks.nc, nr);
    if (blocks.kr > x.kc || x.narrows)
        blocks.ns = min(blocks.ns, round_up_2(is_fast(kernel) ? LONG_STRIP : STRIP_COLUMNS, nr));
    const Count in_l1 = max(1, x.extents->panel / (nr * kernel.step)) * kernel.group;
    if (is_fast(kernel) && blocks.mc > kernel.mr && x.kc > in_l1 + in_l1 / 2)
        blocks.tile_k = in_l1, blocks.of_sums = round_up(blocks.mc, kernel.mr) * nr * kernel.sum;
    const bool tiles_narrow = kernel.tiles_narrow && x.k <= x.kc && !x.accumulate;
    const bool is_slow_c = is_fast(kernel) || x.rs_c % x.extents->conflict == 0;  // to add to
    blocks.separate = (x.narrows && !tiles_narrow) || (blocks.kr == x.k && x.k > x.kc && is_slow_c);
    blocks.of_thread = whole_lines(blocks.packs_a * blocks.kept * blocks.of_a
                                   + blocks.separate * blocks.mc * blocks.ns * kernel.sum + blocks.of_sums);
    if (x.threads > 1) blocks.part = columns_of_part(x, blocks);
    const Count panels = x.packed ? 0 : round_up_2(blocks.nc, nr) * bytes_of(kernel, blocks.kr);
    blocks.bytes = whole_lines(panels) + x.threads * blocks.of_thread;
    return blocks;
}

/* Panels of some rows of A: all are of equal height up to one row, the taller ones first, so that none is a thin rest. */
struct Panels {
    Count count, height, taller;
    Count rows(Count panel) const { return height + (panel < taller); }
};
INLINE Panels even_panels(Count rows, Count most) {
    if (rows <= most) return {1, rows, 0};
    const Count count = ceil_div(rows, most);
    return {count, rows / count, rows % count};
}
INLINE Panels panels_of_a(const Kernel &x, Count rows) {
    return x.whole_panels ? Panels{ceil_div(rows, x.mr), min(rows, x.mr), 0} : even_panels(rows, x.mr);
}

/* A block of A, packed or as it is stored, and the part of packed B and of C that it meets. */
struct Block {
    Count rows, columns, depth;
    const char *a; Count rs_a, cs_a;  // where it is not packed
    const char *b;
    char *c; Count rs_c, cs_c;
    bool add, packed, narrows;
    Count diagonal;  // the column where the first row meets the diagonal: tiles above it are left out
    Count tile_k;    // what a tile takes at a time, before the next has its turn;
    char *sums;      // where the sums of a panel's tiles wait
};

/* 2nd and 1st loop: a block of C. */
void multiply_block(const Kernel &kernel, const Block &x) {
    const Panels panels = panels_of_a(kernel, x.rows);
    const Count steps = ceil_div_2(x.depth, kernel.group), row_bytes = steps * kernel.step;
    const Count some = min(steps, ceil_div_2(x.tile_k, kernel.group));
    const MicroKernel *const tiles = x.packed ? kernel.packed : kernel.half_packed;
    const Count row_of_a = x.packed ? bytes_of_a(kernel, x.depth) : x.rs_a;
    Tile tile = {.kernel = &kernel, .rs_a = x.rs_a, .cs_a = x.cs_a, .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.add,
                 .narrows = x.narrows};
    char of_b[MAX_VECTORS * MAX_VECTOR_BYTES];
    tile.of_b = of_b;
    for (Count jr = 0; jr < x.columns; jr += kernel.nr) {
        const char *const b = x.b + jr * row_bytes;
        tile.columns = min(kernel.nr, x.columns - jr);
        tile.ahead = b + kernel.nr * row_bytes;
        tile.of_ahead = some < steps && jr + kernel.nr < x.columns ? ceil_div(kernel.nr * kernel.step, panels.count) : 0;
        if (kernel.pair_products) kernel.pair_products(b, kernel.nr, steps, of_b);
        for (Count step = 0; step < steps; step += some) {
            tile.b = b + step * kernel.nr * kernel.step, tile.depth = min(some, steps - step);
            tile.numbers = x.depth - step * kernel.group;
            tile.resume = step > 0, tile.pauses = step + tile.depth < steps;
            Count ir = 0;
            for (Count panel = 0; panel < panels.count; panel++, ir += tile.rows) {
                tile.rows = min(panels.rows(panel), x.rows - ir);
                if (jr >= x.diagonal + ir + tile.rows) continue;
                tile.a = x.a + ir * row_of_a + step * (x.packed ? tile.rows : 1) * kernel.step;
                tile.c = x.c + ir * x.rs_c + jr * x.cs_c;
                tile.sums = some < steps ? x.sums + ir * kernel.nr * kernel.sum : nullptr;
                tiles[(tile.rows - 1) * kernel.vectors + ceil_div_2(tile.columns, kernel.lanes) - 1](tile);
                tile.ahead += tile.depth * tile.of_ahead;
            }
        }
    }
}

void pack_block_of_a(const Product &x, char *to, const char *a, Count rows, Count depth) {
    const Kernel &kernel = *x.kernel;
    const Panels panels = panels_of_a(kernel, rows);
    const Count bytes = bytes_of_a(kernel, depth);
    for (Count panel = 0, ir = 0, height; panel < panels.count; panel++, ir += height) {
        height = min(panels.rows(panel), rows - ir);
        char *const packed = to + ir * bytes;
        kernel.pack_a({.kernel = &kernel, .to = packed, .from = a + ir * x.rs_a, .across = x.rs_a,
                       .along = x.cs_a, .width = height, .padded = height, .depth = depth});
        if (kernel.pair_products)
            kernel.pair_products(packed, height, ceil_div_2(depth, kernel.group), packed + height * bytes_of(kernel, depth));
    }
}

/* A part of B: `k` rows from `pr` on, `columns` from `jc` on. */
struct PartOfB {
    Count pr, k, jc, columns;
};

/* Panels of a part of B, a block of k after the other: `first` to `end` of them, some rows of B at a time through all of
   these panels. */
void pack_panels_of_b(const Product &x, char *to, const PartOfB &part, Count some, Count first, Count end) {
    const Kernel &kernel = *x.kernel;
    const Count nr = kernel.nr, panels = ceil_div_2(part.columns, nr);
    for (Count i = first, next; i < end; i = next) {
        const Count pc = i / panels * x.kc, depth = min(x.kc, part.k - pc);
        next = min(end, i - i % panels + panels);
        char *const block = to + panels * nr * bytes_of(kernel, pc);
        for (Count p = 0; p < depth; p += some)
            for (Count panel = i; panel < next; panel++) {
                const Count j = panel % panels * nr, rows = min(some, depth - p);
                kernel.pack_b({.kernel = &kernel, .to = block + j * bytes_of(kernel, depth) + nr * bytes_of(kernel, p),
                               .from = x.b + (part.pr + pc + p) * x.rs_b + (part.jc + j) * x.cs_b, .across = x.cs_b,
                               .along = x.rs_b, .width = min(nr, part.columns - j), .padded = nr, .depth = rows});
            }
    }
}
void pack_part_of_b(const Product &x, char *to, const PartOfB &part, Count some) {
    const Count panels = ceil_div(part.k, x.kc) * ceil_div_2(part.columns, x.kernel->nr);
    const Count pieces = pieces_of(x.threads, panels, (double)part.columns * bytes_of(*x.kernel, part.k) / PIECE_BYTES);
    share_out(x.threads, pieces, [&](int, Pieces &mine) {
        for (Count i; (i = mine.take()) >= 0;)
            pack_panels_of_b(x, to, part, some, share(panels, i, pieces), share(panels, i + 1, pieces));
    });
}

/* Where the panels of a packed operand begin for a block of k and a panel of columns. */
INLINE const char *packed_panels(const Product &x, Count pc, Count j, Count depth) {
    return x.packed + round_up_2(x.packed_n, x.kernel->nr) * bytes_of(*x.kernel, pc)
         + (x.packed_j + j) * bytes_of(*x.kernel, depth);
}

/* What C holds, to the sums that it goes to. */
void widen(const Sums &x) {
    for (Count i = 0; i < x.rows; i++)
        x.kernel->widen({.kernel = x.kernel, .to = (void *)(x.from + i * x.rs_from), .from = x.c + i * x.rs_c,
                         .across = x.cs_c, .along = 0, .width = x.columns, .padded = x.columns, .depth = 1});
}

/* A strip of C: its place, and how much of k it takes. */
struct Strip {
    Count ic, rows, js, columns;
    bool pack;  // A, which is not packed yet
};

/* 4th loop: a strip of C from packed B; `memory` is the thread's. */
void multiply_strip(const Product &x, const Blocks &blocks, const PartOfB &part, const Strip &strip, char *memory) {
    const Kernel &kernel = *x.kernel;
    const Count wide = round_up_2(part.columns, kernel.nr);
    char *const sums = memory + blocks.packs_a * blocks.kept * blocks.of_a;
    const Sums whole = {.kernel = &kernel, .from = sums, .rs_from = blocks.ns * kernel.sum,
                        .c = x.c + strip.ic * x.rs_c + (part.jc + strip.js) * x.cs_c, .rs_c = x.rs_c, .cs_c = x.cs_c,
                        .rows = strip.rows, .columns = strip.columns, .add = false};
    if (blocks.separate && x.accumulate) widen(whole);
    for (Count pc = 0, slot = 0; pc < part.k; pc += x.kc, slot++) {
        const Count depth = min(x.kc, part.k - pc);
        if (slot == blocks.kept) slot = 0;
        char *const packed_a = memory + slot * blocks.of_a;
        const char *const a = x.a + strip.ic * x.rs_a + (part.pr + pc) * x.cs_a;
        if (blocks.packs_a && (strip.pack || blocks.kept * x.kc < part.k))
            pack_block_of_a(x, packed_a, a, strip.rows, depth);
        const char *const panels =
            x.packed ? packed_panels(x, part.pr + pc, part.jc + strip.js, depth)
                     : x.buffer + wide * bytes_of(kernel, pc) + strip.js * bytes_of(kernel, depth);
        Block block = {.rows = strip.rows, .columns = strip.columns, .depth = depth,
                       .a = blocks.packs_a ? packed_a : a, .rs_a = x.rs_a, .cs_a = x.cs_a, .b = panels,
                       .c = whole.c, .rs_c = x.rs_c, .cs_c = x.cs_c, .add = x.accumulate || part.pr + pc > 0,
                       .packed = blocks.packs_a, .narrows = x.narrows && !blocks.separate,
                       .diagonal = blocks.lower ? strip.ic - part.jc - strip.js : x.n, .tile_k = blocks.tile_k,
                       .sums = memory + blocks.of_thread - blocks.of_sums};
        if (blocks.separate) block.c = sums, block.rs_c = whole.rs_from, block.cs_c = kernel.sum;
        multiply_block(kernel, block);
    }
    if (blocks.separate) kernel.unpack(whole);
}

/* 3rd loop: blocks of rows of C, each in parts; whoever takes a part of another block than before packs A. */
void multiply_part(const Product &x, const Blocks &blocks, const PartOfB &part, char *of_threads) {
    const Count nr = x.kernel->nr, panels = ceil_div_2(part.columns, nr), across = min(panels, ceil_div(part.columns, blocks.part));
    share_out(x.threads, ceil_div(x.m, blocks.mc) * across, [&](int member, Pieces &pieces) {
        if (x.kernel->begin) x.kernel->begin();
        for (Count piece, packed = -1; (piece = pieces.take()) >= 0;) {
            const Count i = piece / across, at = piece % across, ic = i * blocks.mc;
            const Count rows = min(blocks.mc, x.m - ic), last = blocks.lower ? round_up_2(ic + rows - part.jc, nr) : part.columns;
            const Count end = min(min(part.columns, last), share(panels, at + 1, across) * nr);
            for (Count js = share(panels, at, across) * nr; js < end; js += blocks.ns, packed = i)
                multiply_strip(x, blocks, part, {.ic = ic, .rows = rows, .js = js,
                                                 .columns = min(blocks.ns, end - js), .pack = i != packed},
                               of_threads + member * blocks.of_thread);
        }
        if (x.kernel->end) x.kernel->end();
    });
}

/* 5th loop. */
void five_loops(const Product &x, const Blocks &blocks) {
    for (Count jc = 0; jc < x.n; jc += blocks.nc)
        for (Count pr = 0; pr < x.k; pr += blocks.kr) {
            if (is_over()) return;
            const PartOfB part = {.pr = pr, .k = min(blocks.kr, x.k - pr), .jc = jc, .columns = min(blocks.nc, x.n - jc)};
            if (!x.packed) pack_part_of_b(x, x.buffer, part, blocks.rows_of_b);
            multiply_part(x, blocks, part, x.buffer + blocks.bytes - x.threads * blocks.of_thread);
        }
}

}  // namespace
