/* What five loops do badly, and the rule that chooses.

   in place        A is not packed, nor B if its columns are adjacent: see in_place.hpp.
   vectors         B is one column, or A one row: see vector_products.hpp.
   pieces          a product that is thin in one direction falls into pieces along the other, each multiplied by one
                   thread alone; only what is large both ways is worth panels that all threads share.
   slices of k     a small C and a long k: each thread sums blocks of kc in partial results, added in order afterwards.

   All but one column of real numbers sum as the five loops do, so rows of A and threads change no bit. Such a column is
   summed in lanes of k, whatever A is. */
#pragma once

#include "in_place.hpp"
#include "vector_products.hpp"

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
INLINE bool is_in_pieces(const Product &x) {
    const Count thin = min(x.m, x.n), edge = max(x.m, x.n);
    return x.threads > 1 && (is_in_place(x) || (thin <= THIN && edge >= MIN_EDGE * PIECES_A_THREAD * x.threads));
}
INLINE bool is_sliced(const Product &x) { return x.threads > 1 && x.m * x.n <= SLICED_C && x.k >= 4 * x.kc; }

/* Packed B that only few rows use is in L2 for them. */
INLINE Product with_thin_b(const Product &x) {
    Product thin = x;
    if (x.threads > 1 || x.m > THIN || x.max_b || is_in_place(x)) return thin;
    const Count fit = round_up_2(x.extents->thin_b / bytes_of(*x.kernel, min(x.k, x.kc)), x.kernel->nr);
    thin.max_b = x.extents->thin_b;
    thin.nc = min(x.nc, max(x.kernel->nr, fit));
    return thin;
}

/* On one thread, or in five loops that a team shares. */
void multiply_whole(const Product &x) {
    if (is_in_place(x)) multiply_in_place(x);
    else five_loops(with_thin_b(x));
}
Count whole_bytes(const Product &x) { return is_in_place(x) ? in_place_bytes(x) : five_loops_bytes(with_thin_b(x)); }

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
    piece.m = min(piece.m, x.m), piece.n = min(piece.n, x.n);
    return piece;
}

/* A thread's part of the buffer: enough for each piece. The last ones may have fewer rows or columns, and take another
   order or another tile, which may want more. */
Count own_bytes_of_pieces(const Product &x, const Product &shape) {
    const Count rows[] = {shape.m, x.m - (ceil_div(x.m, shape.m) - 1) * shape.m};
    const Count columns[] = {shape.n, x.n - (ceil_div(x.n, shape.n) - 1) * shape.n};
    Count most = 0;
    for (const Count m : rows)
        for (const Count n : columns) {
            Product piece = shape;
            piece.m = m, piece.n = n;
            most = max(most, whole_bytes(piece));
        }
    return whole_lines(most);
}

/* A thread's first piece is known without asking the others: where there is one for each, nobody waits. */
void multiply_pieces(const Product &x) {
    const Product shape = piece_of(x);
    const Count across = ceil_div(x.n, shape.n), count = ceil_div(x.m, shape.m) * across;
    const Count own = own_bytes_of_pieces(x, shape);
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
    if (is_vector(x)) multiply_vector(x);
    else if (is_in_pieces(x)) multiply_pieces(x);
    else multiply_whole(x);
}
Count unsliced_bytes(const Product &x) {
    if (is_vector(x)) return vector_bytes(x);
    return is_in_pieces(x) ? x.threads * own_bytes_of_pieces(x, piece_of(x)) : whole_bytes(x);
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

/* A thread's part of the buffer: the last slice may be less deep, and want more. */
Count own_bytes_of_slices(const Product &x) {
    const Count last = (ceil_div(x.k, x.kc) - 1) * x.kc;
    return whole_lines(max(unsliced_bytes(slice_of(x, 0, NULL, NULL)), unsliced_bytes(slice_of(x, last, NULL, NULL))));
}

void multiply_slices(const Product &x) {
    const Count size = sums_bytes(x), slices = ceil_div(x.k, x.kc), max_round = slices_in_round(x);
    const Count own = own_bytes_of_slices(x);
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

/* Where slices and products with a vector cannot narrow their sums: C as it is summed, at the start of the buffer. */
INLINE bool needs_sums(const Product &x) { return x.narrows && (is_sliced(x) || is_vector(x)); }
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
    return slices_in_round(x) * sums_bytes(x) + x.threads * own_bytes_of_slices(x);
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
