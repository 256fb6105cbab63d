/* What five loops do badly, and the rule that chooses.

   in place        A is not packed, nor B if its columns are adjacent: see in_place.hpp.
   vectors         B is one column, or A one row: see vector_products.hpp.
   pieces          on several threads, a grid of pieces of C, each multiplied by one thread alone: those that it
                   multiplies in place, and a product that is thin in one direction. Only what is large both ways is
                   worth panels that all threads share.
   slices of k     a small C and a long k: each thread sums blocks of kc in partial results, added in order afterwards.

   All but one column of real numbers sum as the five loops do, so rows of A and threads change no bit. Such a column is
   summed in lanes of k, whatever A is. */
#pragma once

#include "in_place.hpp"
#include "vector_products.hpp"

namespace {

constexpr Count THIN = 256, LONG_EDGE = 384;  // a thin product, and how long it is for each thread
constexpr Count MOST_TURNS = 4;              // pieces for each thread
constexpr Count STREAMING_ROWS = 12;         // of A at most: memory is slower than arithmetic, and likes long rows of B
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

/* What a piece costs, in vectors that are multiplied and added, beside its arithmetic: to bring a number of A or B to
   the core, for each step of k; a row of C, whose ends share a cache line with the next pieces; and to take it. Threads
   take pieces as they come, so the last turn ends unevenly, and more so for more threads. Found on 2, 4 and 16 cores. */
constexpr double OF_NUMBER = 2, OF_SHARED_ROW = 400, OF_PIECE = 5000;
INLINE double uneven_turns(int threads) { return threads > 8 ? 2 : (threads - 1) / 4.0; }

/* One piece of the grid that costs least: so many turns of pieces for each thread, rows by columns of them. Columns are
   in whole vectors, or panels if B is packed. */
Product piece_of_grid(const Product &x, bool in_place) {
    const Count lanes = x.kernel->lanes, step = in_place && !x.packed ? lanes : x.kernel->nr;
    const Count turns = in_place && (gathers_b(x) || (x.m <= STREAMING_ROWS && x.k > ROWS_OF_B)) ? 1 : MOST_TURNS;
    Product best = x, piece = x;
    best.threads = piece.threads = 1;
    double least = 0;
    for (Count most = x.threads; most <= turns * x.threads; most *= 2)
        for (Count down = 1; down <= min(most, x.m); down += max(1, down / 2)) {
            piece.m = ceil_div(x.m, down), piece.n = min(x.n, round_up_2(ceil_div(x.n, max(1, most / down)), step));
            const Count across = ceil_div(x.n, piece.n), pieces = ceil_div(x.m, piece.m) * across;
            const double rows = piece.m, vectors = ceil_div_2(piece.n, lanes);
            const double one = x.k * (rows * vectors + OF_NUMBER * (rows + vectors * lanes)) + OF_PIECE
                             + (across > 1 ? OF_SHARED_ROW * rows : 0);
            const double cost = (ceil_div(pieces, x.threads) + uneven_turns(x.threads)) * one;
            if (!least || cost < least) least = cost, best.m = piece.m, best.n = piece.n;
        }
    return best;
}

INLINE bool has_pieces_in_l2(const Product &x) {
    return x.kernel->unpacked && x.kernel->as_stored && has_rows_of_b(x) && stays_in_l2(piece_of_grid(x, true));
}

/* The rule: a product is multiplied in pieces if it is in place, if its pieces stay in L2, or if it is thin. */
enum Pieces { NONE, IN_PLACE, PACKED };
INLINE Pieces pieces_of(const Product &x) {
    if (x.threads == 1) return NONE;
    if (is_in_place(x) || has_pieces_in_l2(x)) return IN_PLACE;
    return min(x.m, x.n) <= THIN && max(x.m, x.n) >= LONG_EDGE * x.threads ? PACKED : NONE;
}
INLINE bool is_in_pieces(const Product &x) { return pieces_of(x) != NONE; }
INLINE Product piece_of(const Product &x) { return piece_of_grid(x, pieces_of(x) == IN_PLACE); }
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
    return whole_pages(most);
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
    return whole_pages(max(unsliced_bytes(slice_of(x, 0, NULL, NULL)), unsliced_bytes(slice_of(x, last, NULL, NULL))));
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
