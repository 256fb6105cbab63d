/* What five loops do badly, and the rule that chooses.

   in place        A is not packed, nor B if its columns are adjacent: see in_place.hpp.
   dot products    B is one column: sums in lanes of k.
   pieces          a product that is thin in one direction falls into pieces along the other, each multiplied by one
                   thread alone; only what is large both ways is worth panels that all threads share.
   slices of k     a small C and a long k: each thread sums blocks of kc in partial results, added in order afterwards.

   All but dot products sum as the five loops do, so rows of A and threads change no bit; dot products are taken for
   every product with one column, whatever A is. */
#pragma once

#include "in_place.hpp"

namespace {

constexpr Count THIN = 256;
constexpr Count PIECES_A_THREAD = 4;
constexpr Count MIN_PIECE_ROWS = 20;
constexpr Count STREAMING_ROWS = 12;         // of A at most: memory is slower than arithmetic, and likes long rows of B
constexpr Count MIN_EDGE = 96;               // of a piece: the thin operand is packed for each anew
constexpr Count SLICED_C = 32768;            // numbers of C at most
constexpr Count ROUND_SLICES = 64;           // most partial results in a round
constexpr Count MAX_PADDING = 1024;          // rows or columns that panels have beyond those of A or B
constexpr double MAX_PANEL_BYTES = 1LL << 50;

/* Whether panels of all of A and of all of B are less than a memory holds. Then no count of bytes here overflows: a
   workspace is no more than that for each thread. (Operands with strides of zero may have any extent.) */
INLINE bool fits_in_memory(const Product &x) {
    const double depth = (double)x.k / x.kernel->group + 1, lines = (double)max(x.m, x.n) + MAX_PADDING;
    return !x.n || !x.k || lines * depth * x.kernel->step < MAX_PANEL_BYTES;
}

/* The rule. */
INLINE bool is_dots(const Product &x) { return x.kernel->unpacked && x.n == 1; }
INLINE bool is_in_pieces(const Product &x) {
    const Count thin = min(x.m, x.n), edge = max(x.m, x.n);
    return x.threads > 1 && (is_in_place(x) || (thin <= THIN && edge >= MIN_EDGE * PIECES_A_THREAD * x.threads));
}
INLINE bool is_sliced(const Product &x) { return x.threads > 1 && x.m * x.n <= SLICED_C && x.k >= 4 * x.kc; }

/* DOT_ROWS rows of A, or those that are left. What is not adjacent is copied to the buffer first. */
INLINE Count dots_bytes(const Product &x) { return whole_lines((DOT_ROWS + 1) * DOT_KC * x.kernel->sum); }
void multiply_dot_rows(const Product &x, Count ir, char *buffer) {
    const Kernel &kernel = *x.kernel;
    const bool gathers_a = x.cs_a != kernel.sum || !kernel.as_stored;
    const bool gathers_b = !x.packed && (x.rs_b != kernel.sum || !kernel.as_stored);
    const Count rows = min(DOT_ROWS, x.m - ir);
    char *const copy_of_a = buffer + DOT_KC * kernel.sum;
    Tile tile = {.kernel = &kernel, .rows = rows, .columns = 1, .rs_c = x.rs_c, .cs_c = x.cs_c};
    for (Count pc = 0; pc < x.k; pc += x.kc) {
        const Count depth = min(x.kc, x.k - pc);
        const char *const a = x.a + ir * x.rs_a + pc * x.cs_a;
        tile.depth = depth, tile.add = x.accumulate || pc > 0;
        tile.a = a, tile.rs_a = x.rs_a, tile.c = x.c + ir * x.rs_c;
        tile.b = x.packed ? x.packed + pc * kernel.sum : x.b + pc * x.rs_b;
        if (gathers_b) {
            kernel.pack_a({.kernel = &kernel, .to = buffer, .from = tile.b, .across = x.rs_b, .along = 0,
                           .width = depth, .padded = depth, .depth = 1});
            tile.b = buffer;
        }
        if (gathers_a) {
            kernel.pack_a({.kernel = &kernel, .to = copy_of_a, .from = a, .across = x.cs_a, .along = x.rs_a,
                           .width = depth, .padded = depth, .depth = rows});
            tile.a = copy_of_a, tile.rs_a = depth * kernel.sum;
        }
        if (rows == DOT_ROWS) {
            kernel.dots(tile);
            continue;
        }
        tile.rows = 1;
        for (Count i = 0; i < rows; i++, tile.a += tile.rs_a, tile.c += x.rs_c) kernel.dot(tile);
    }
}
void multiply_dots(const Product &x) {
    if (x.threads == 1) {
        for (Count ir = 0; ir < x.m; ir += DOT_ROWS) multiply_dot_rows(x, ir, x.buffer);
        return;
    }
    #pragma omp parallel for schedule(static) num_threads(x.threads)
    for (Count ir = 0; ir < x.m; ir += DOT_ROWS)
        multiply_dot_rows(x, ir, x.buffer + omp_get_thread_num() * dots_bytes(x));
}

/* On one thread, or in five loops that a team shares. */
void multiply_whole(const Product &x) {
    if (is_in_place(x)) multiply_in_place(x);
    else five_loops(x);
}
Count whole_bytes(const Product &x) { return is_in_place(x) ? in_place_bytes(x) : five_loops_bytes(x); }

/* Extent of a piece, where pieces are of at least `min_extent`: as many for each thread as there is room for. */
Count piece_extent(Count extent, Count min_extent, int threads, Count max_a_thread) {
    const Count fit = max(1, extent / min_extent);
    return ceil_div(extent, fit < threads ? fit : threads * min(max_a_thread, fit / threads));
}

/* One piece of a product for its threads: rows and columns of each. */
Product piece_of(const Product &x) {
    Product piece = x;
    const Kernel &kernel = *x.kernel;
    const bool in_place = is_in_place(x), gathered = in_place && gathers_b(x);
    const bool streams_b = in_place && x.m <= STREAMING_ROWS && order_in_place(x) == BY_ROWS_OF_B;
    const Count strip = gathered ? kernel.lanes : x.packed ? kernel.nr : strip_columns(x);
    const Count max_a_thread = gathered || streams_b ? 1 : PIECES_A_THREAD;
    const bool of_rows = in_place ? x.m >= 2 * MIN_PIECE_ROWS && (!gathered || x.n < 2 * strip * x.threads)
                                  : x.m >= x.n;
    piece.threads = 1;
    if (of_rows)  // pieces of rows gather all of B each
        piece.m = piece_extent(x.m, MIN_PIECE_ROWS, x.threads, max_a_thread);
    else
        piece.n = round_up(piece_extent(x.n, strip, x.threads, max_a_thread), strip);
    if (!in_place && x.m <= THIN) {
        const Count fit = round_up_2(x.extents->thin_b / bytes_of(kernel, min(x.k, x.kc)), kernel.nr);
        piece.max_b = x.extents->thin_b;
        piece.nc = min(x.nc, max(kernel.nr, fit));
    }
    piece.m = min(piece.m, x.m), piece.n = min(piece.n, x.n);
    return piece;
}

/* A thread's first piece is known without asking the others: where there is one for each, nobody waits. */
void multiply_pieces(const Product &x) {
    const Product shape = piece_of(x);
    const Count across = ceil_div(x.n, shape.n), count = ceil_div(x.m, shape.m) * across;
    const Count own = whole_lines(whole_bytes(shape));
    Count taken = 0;
    #pragma omp parallel num_threads(x.threads)
    for (Count i = omp_get_thread_num(); i < count;
         i = omp_get_num_threads() + __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED)) {
        const Count ic = i / across * shape.m, jc = i % across * shape.n;
        Product piece = shape;
        piece.m = min(shape.m, x.m - ic), piece.n = min(shape.n, x.n - jc);
        piece.a += ic * x.rs_a, piece.b += jc * x.cs_b, piece.c += ic * x.rs_c + jc * x.cs_c;
        piece.packed_j += jc, piece.buffer += omp_get_thread_num() * own;
        multiply_whole(piece);
    }
}

/* All but slices. */
void multiply_unsliced(const Product &x) {
    if (is_dots(x)) multiply_dots(x);
    else if (is_in_pieces(x)) multiply_pieces(x);
    else multiply_whole(x);
}
Count unsliced_bytes(const Product &x) {
    if (is_dots(x)) return x.threads * dots_bytes(x);
    return is_in_pieces(x) ? x.threads * whole_lines(whole_bytes(piece_of(x))) : whole_bytes(x);
}

INLINE Count sums_bytes(const Product &x) { return whole_lines(x.m * x.n * x.kernel->sum); }
INLINE Count slices_in_round(const Product &x) {
    const Count fit = min(ROUND_SLICES, x.extents->round / sums_bytes(x));
    return min(ceil_div(x.k, x.kc), max(x.threads, fit));
}

/* A slice of k from `pc` on, on one thread, into a partial result `c`. */
Product slice_of(const Product &x, Count pc, char *c, char *buffer) {
    Product slice = x;
    slice.threads = 1, slice.k = min(x.kc, x.k - pc), slice.buffer = buffer;
    slice.narrows = slice.accumulate = false;
    slice.a += pc * x.cs_a, slice.b += pc * x.rs_b;
    if (x.packed)
        slice.packed += (is_dots(x) ? 1 : round_up_2(x.packed_n, x.kernel->nr)) * bytes_of(*x.kernel, pc);
    slice.c = c, slice.rs_c = x.n * x.kernel->sum, slice.cs_c = x.kernel->sum;
    return slice;
}

void multiply_slices(const Product &x) {
    const Count size = sums_bytes(x), slices = ceil_div(x.k, x.kc), max_round = slices_in_round(x);
    const Count own = unsliced_bytes(slice_of(x, 0, NULL, NULL));
    #pragma omp parallel num_threads(x.threads)
    for (Count first = 0; first < slices; first += max_round) {
        const Count round = min(max_round, slices - first);
        #pragma omp for schedule(dynamic)
        for (Count i = 0; i < round; i++)
            multiply_unsliced(slice_of(x, (first + i) * x.kc, x.buffer + i * size,
                                       x.buffer + max_round * size + omp_get_thread_num() * own));
        #pragma omp for schedule(static)
        for (Count row = 0; row < x.m; row++)
            for (Count i = 0; i < round; i++) {
                const Count bytes = x.n * x.kernel->sum;
                x.kernel->accumulate({.kernel = x.kernel, .from = x.buffer + i * size + row * bytes, .rs_from = bytes,
                                      .c = x.c + row * x.rs_c, .rs_c = x.rs_c, .cs_c = x.cs_c, .rows = 1,
                                      .columns = x.n, .add = x.accumulate || first + i > 0});
            }
    }
}

/* Where slices and dot products cannot narrow their sums: C as it is summed, at the start of the buffer. */
INLINE bool needs_sums(const Product &x) { return x.narrows && (is_sliced(x) || is_dots(x)); }
Product with_sums(const Product &x) {
    Product wide = x;
    wide.narrows = false;
    wide.c = x.buffer, wide.rs_c = x.n * x.kernel->sum, wide.cs_c = x.kernel->sum;
    wide.buffer = x.buffer + sums_bytes(x);
    return wide;
}

/* Fill C. */
void multiply(const Product &x) {
    if (needs_sums(x)) {
        const Product wide = with_sums(x);
        const Sums whole = {.kernel = x.kernel, .from = wide.c, .rs_from = wide.rs_c, .c = x.c, .rs_c = x.rs_c,
                            .cs_c = x.cs_c, .rows = x.m, .columns = x.n, .add = false};
        if (x.accumulate) widen(whole);
        multiply(wide);
        x.kernel->unpack(whole);
    } else if (is_sliced(x))
        multiply_slices(x);
    else
        multiply_unsliced(x);
}

/* Bytes of the buffer that this takes. */
Count workspace_of(const Product &x) {
    if (needs_sums(x)) return sums_bytes(x) + workspace_of(with_sums(x));
    if (!is_sliced(x)) return unsliced_bytes(x);
    return slices_in_round(x) * sums_bytes(x) + x.threads * unsliced_bytes(slice_of(x, 0, NULL, NULL));
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
    const PartOfB all = {.pr = 0, .k = x.k, .jc = 0, .columns = x.n};
    #pragma omp parallel num_threads(x.threads) if (x.threads > 1)
    pack_panels_of_b(x, to, all, omp_get_thread_num(), omp_get_num_threads());
    return bytes;
}

}  // namespace
