/* All ways to go through a product: five loops, in place, a matrix by a vector; whole, or in parts for the threads.

   All but one column of real numbers sum as the five loops do, so rows of A and threads change no bit. Such a column is
   summed in lanes of k, whatever A is. */
#pragma once

#include "sharing.hpp"

namespace {

constexpr Count ROUND_SLICES = 64;           // most partial results in a round
constexpr Count ADDED_COLUMNS = 512;         // of a row of C, whose partial results are added at a time
constexpr Count MAX_PADDING = 1024;          // rows or columns that panels have beyond those of A or B
constexpr double MAX_PANEL_BYTES = 1LL << 50;

/* Whether panels of all of A and of all of B are less than a memory holds. Then no count of bytes here overflows: a
   workspace is no more than that for each thread. (Operands with strides of zero may have any extent.) */
INLINE bool fits_in_memory(const Product &x) {
    const double depth = (double)x.k / x.kernel->group + 1, lines = (double)max(x.m, x.n) + MAX_PADDING;
    return !x.n || !x.k || lines * depth * x.kernel->step < MAX_PANEL_BYTES;
}

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

/* A product of one thread. */
Product alone(const Product &x) {
    Product one = x;
    one.threads = 1, one.shares = {};
    return one;
}

/* Whether the loops of vectors multiply a part of a matrix by a vector. They do not multiply a single column of a wider
   product: its sums would be in lanes of k. */
INLINE bool is_vector_part(const Product &whole, const Product &part) {
    return is_vector(whole) && (whole.n == 1 || part.n > 1) && is_vector(part);
}

/* The pieces of C, row by row of them. */
struct Pieces {
    Count rows, columns, across, count;
};
INLINE Pieces pieces_of(const Product &x) {
    const Count rows = x.shares.rows ? x.shares.rows : x.m, columns = x.shares.rows ? x.shares.columns : x.n;
    const Count across = ceil_div(x.n, columns);
    return {rows, columns, across, ceil_div(x.m, rows) * across};
}
INLINE Product piece_at(const Product &x, const Pieces &pieces, Count i) {
    const Count ic = i / pieces.across * pieces.rows, jc = i % pieces.across * pieces.columns;
    Product piece = alone(x);
    piece.m = min(pieces.rows, x.m - ic), piece.n = min(pieces.columns, x.n - jc);
    piece.a += ic * x.rs_a, piece.b += jc * x.cs_b, piece.c += ic * x.rs_c + jc * x.cs_c;
    piece.packed_j += jc;
    return piece;
}

void multiply_part(const Product &whole, const Product &part) {
    if (is_vector_part(whole, part)) multiply_vector(part);
    else multiply_whole(part);
}
/* Bytes that are enough for each piece: the last ones may have fewer rows or columns, and take another order or another
   tile, which may want more. */
Count bytes_of_parts(const Product &x) {
    const Pieces pieces = pieces_of(x);
    const Count down = pieces.count / pieces.across;
    const Count rows[] = {min(pieces.rows, x.m), x.m - (down - 1) * pieces.rows};
    const Count columns[] = {min(pieces.columns, x.n), x.n - (pieces.across - 1) * pieces.columns};
    Product part = alone(x);
    Count most = 0;
    for (const Count m : rows)
        for (const Count n : columns) {
            part.m = m, part.n = n;
            most = max(most, is_vector_part(x, part) ? vector_bytes(part) : whole_bytes(part));
        }
    return whole_lines(most);
}

/* A thread's first piece is known without asking the others: where there is one for each, nobody waits. */
void multiply_pieces(const Product &x) {
    const Pieces pieces = pieces_of(x);
    const Count own = bytes_of_parts(x);
    Count taken = 0;
    #pragma omp parallel num_threads(x.threads)
    for (Count i = omp_get_thread_num(); i < pieces.count;
         i = omp_get_num_threads() + __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED)) {
        Product piece = piece_at(x, pieces, i);
        piece.buffer += omp_get_thread_num() * own;
        multiply_part(x, piece);
    }
}

INLINE Count sums_bytes(const Product &x) { return whole_lines(x.m * x.n * x.kernel->sum); }
INLINE Count slices_in_round(const Product &x) {
    const Count fit = min(ROUND_SLICES, x.extents->round / sums_bytes(x));
    return min(x.shares.slices, max(x.threads, fit / x.threads * x.threads));
}
INLINE Count round_bytes(const Product &x) { return whole_lines(slices_in_round(x) * sums_bytes(x)); }

/* A slice of k, of all pieces, into a partial result `c`. */
Product slice_of(const Product &x, Count slice, char *c, char *buffer) {
    const Count pc = slice * x.kc;
    Product part = x;
    part.k = min(x.kc, x.k - pc), part.buffer = buffer;
    part.narrows = part.accumulate = false;
    part.a += pc * x.cs_a, part.b += pc * x.rs_b;
    if (x.packed)
        part.packed += (is_dots(x) ? 1 : round_up_2(x.packed_n, x.kernel->nr)) * bytes_of(*x.kernel, pc);
    part.c = c, part.rs_c = x.n * x.kernel->sum, part.cs_c = x.kernel->sum;
    return part;
}

/* A thread's part of the buffer: the last slice may be less deep, and want more. */
Count own_bytes_of_slices(const Product &x) {
    return max(bytes_of_parts(slice_of(x, 0, NULL, NULL)), bytes_of_parts(slice_of(x, x.shares.slices - 1, NULL, NULL)));
}

/* Some partial results, added in order to some columns of a row of C. */
void add_slices(const Product &x, Count first, Count count, Count row, Count jc, Count columns) {
    const Count size = sums_bytes(x), bytes = x.n * x.kernel->sum;
    for (Count i = 0; i < count; i++)
        x.kernel->accumulate({.kernel = x.kernel, .from = x.buffer + i * size + row * bytes + jc * x.kernel->sum,
                              .rs_from = bytes, .c = x.c + row * x.rs_c + jc * x.cs_c, .rs_c = x.rs_c,
                              .cs_c = x.cs_c, .rows = 1, .columns = columns, .add = x.accumulate || first + i > 0});
}

void multiply_slices(const Product &x) {
    const Count size = sums_bytes(x), slices = x.shares.slices, max_round = slices_in_round(x);
    const Count own = own_bytes_of_slices(x), across = ceil_div(x.n, ADDED_COLUMNS);
    const Pieces pieces = pieces_of(x);
    #pragma omp parallel num_threads(x.threads)
    for (Count first = 0; first < slices; first += max_round) {
        const Count round = min(max_round, slices - first);
        #pragma omp for schedule(dynamic)
        for (Count i = 0; i < round * pieces.count; i++) {
            const Count at = i / pieces.count;
            char *const buffer = x.buffer + round_bytes(x) + omp_get_thread_num() * own;
            const Product slice = slice_of(x, first + at, x.buffer + at * size, buffer);
            multiply_part(x, piece_at(slice, pieces, i % pieces.count));
        }
        #pragma omp for schedule(static)
        for (Count i = 0; i < x.m * across; i++) {
            const Count jc = i % across * ADDED_COLUMNS;
            add_slices(x, first, round, i / across, jc, min(ADDED_COLUMNS, x.n - jc));
        }
    }
}

/* Where slices and products with a vector cannot narrow their sums: C as it is summed, at the start of the buffer. */
INLINE bool is_sliced(const Product &x) { return x.shares.slices > 1; }
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
    } else if (is_sliced(x)) multiply_slices(x);
    else if (is_vector(x)) multiply_vector(x);
    else if (x.shares.rows) multiply_pieces(x);
    else multiply_whole(x);
}

/* Bytes of the buffer that this takes. */
Count workspace_of(const Product &x) {
    if (needs_sums(x)) return sums_bytes(x) + workspace_of(with_sums(x));
    if (is_sliced(x)) return round_bytes(x) + x.threads * own_bytes_of_slices(x);
    if (is_vector(x)) return vector_bytes(x);
    return x.shares.rows ? min(x.threads, pieces_of(x).count) * bytes_of_parts(x) : whole_bytes(x);
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
