/* The CPU rungs' loops without their numbers: which lines each touches, in its order, on the caches of cache.h.

   One thread; matrices lie in rows. A loop over a piece of a row goes vector by vector, and vectors of one line follow
   one another: so each line of the piece is touched once a pass. Hints to fetch ahead are left out, since what they
   name is read anyway. */
#ifndef GEMMLAB_REPLAY_H
#define GEMMLAB_REPLAY_H

#include "cache.h"

typedef int64_t Count;

/* A core with the caches between it and memory. */
typedef struct Core {
    Level *first, *memory;
} Core;

/* Where a matrix or a buffer lies, and how far each row is from the next, in bytes. */
typedef struct Matrix {
    Count start, pitch;
} Matrix;

/* Three of them, and the bytes of a number. */
typedef struct Operands {
    Count m, n, k, size;
    Matrix a, b, c;
} Operands;

static inline Count least(Count x, Count y) { return x < y ? x : y; }
static inline Count most(Count x, Count y) { return x > y ? x : y; }
static inline Count parts(Count extent, Count size) { return (extent + size - 1) / size; }
static inline Count up(Count extent, Count step) { return parts(extent, step) * step; }
static inline Count share(Count extent, Count i, Count count) { return extent / count * i + least(i, extent % count); }
static inline Count at(Matrix x, Count row, Count bytes) { return x.start + row * x.pitch + bytes; }

static inline void one(const Core *x, Count address, uint32_t state) {
    touch(x->first, x->memory, (Line)(address / LINE_BYTES), state);
}

/* A piece of a row. */
static inline void piece(const Core *x, Count address, Count bytes, uint32_t state) {
    for (Count line = address / LINE_BYTES; line <= (address + bytes - 1) / LINE_BYTES; line++)
        touch(x->first, x->memory, (Line)line, state);
}

/* One pass that reads a piece of a row and writes another. */
static inline void through(const Core *x, Count source, Count target, Count bytes) {
    const Count from_end = (source + bytes - 1) / LINE_BYTES, to_end = (target + bytes - 1) / LINE_BYTES;
    for (Count from = source / LINE_BYTES, to = target / LINE_BYTES; from <= from_end || to <= to_end; from++, to++) {
        if (from <= from_end) touch(x->first, x->memory, (Line)from, 0);
        if (to <= to_end) touch(x->first, x->memory, (Line)to, DIRTY);
    }
}

/* _cpu/naive.pyx: a row of C. */
static void naive_row(const Core *x, const Operands *o, Count i) {
    const Count s = o->size;
    for (Count j = 0; j < o->n; j++) {
        const Count c = at(o->c, i, j * s);
        one(x, c, DIRTY);
        for (Count p = 0; p < o->k; p++) {
            one(x, at(o->a, i, p * s), 0);
            one(x, at(o->b, p, j * s), 0);
            one(x, c, DIRTY);
        }
    }
}

/* _cpu/ikj.pyx and `multiply_block` of _cpu/blocked.pyx: rows of C, from `columns` of them and `depth` of k. */
static void block_of_rows(const Core *x, const Operands *o, Count i0, Count rows, Count j0, Count columns, Count p0,
                          Count depth) {
    const Count s = o->size;
    for (Count i = i0; i < i0 + rows; i++) {
        if (p0 == 0) piece(x, at(o->c, i, j0 * s), columns * s, DIRTY);
        for (Count p = p0; p < p0 + depth; p++) {
            one(x, at(o->a, i, p * s), 0);
            through(x, at(o->b, p, j0 * s), at(o->c, i, j0 * s), columns * s);
        }
    }
}

/* _cpu/blocked.pyx: a block row of C and a block of k. B begins with a line, so the grid of blocks is not shifted. */
static void blocked_row(const Core *x, const Operands *o, Count i0, Count rows, Count p0, Count depth, Count bs_c) {
    for (Count j0 = 0; j0 < o->n; j0 += bs_c)
        block_of_rows(x, o, i0, rows, j0, least(bs_c, o->n - j0), p0, depth);
}

/* _cpu/blocked_local.pyx: the same, a strip of a row at a time, whose sums are in registers. */
static void blocked_local_row(const Core *x, const Operands *o, Count i0, Count rows, Count p0, Count depth,
                              Count bs_c, Count strip) {
    const Count s = o->size;
    for (Count j0 = 0; j0 < o->n; j0 += bs_c)
        for (Count i = i0; i < i0 + rows; i++)
            for (Count j = j0; j < least(j0 + bs_c, o->n); j += strip) {
                const Count start = most(0, least(j, o->n - strip));
                const Count end = least(least(j0 + bs_c, o->n), start + strip);
                for (Count p = p0; p < p0 + depth; p++) {
                    one(x, at(o->a, i, p * s), 0);
                    piece(x, at(o->b, p, start * s), least(strip, o->n) * s, 0);
                }
                piece(x, at(o->c, i, j * s), (end - j) * s, DIRTY);
            }
}

/* cpu-packed, as in _cpu/packed/loops.h: its plan, the tile's rows, the numbers of a vector, and what is packed. */
typedef struct Five {
    Count mc, kc, nc, kr, ns, kept, apart, mr, lanes;
    Count panels_of_a, panels_of_b;
    Matrix sums;
} Five;

/* `pack_panels`: for each panel, rows of B as wide as it is. */
static void pack_b(const Core *x, const Operands *o, const Five *y, Count jc, Count pr) {
    const Count s = o->size, nr = 2 * y->lanes, columns = least(y->nc, o->n - jc), k = least(y->kr, o->k - pr);
    for (Count pc = 0; pc < k; pc += y->kc)
        for (Count j = 0; j < columns; j += nr) {
            const Count depth = least(y->kc, k - pc), panel = y->panels_of_b + (up(columns, nr) * pc + j * depth) * s;
            for (Count p = 0; p < depth; p++) {
                piece(x, at(o->b, pr + pc + p, (jc + j) * s), least(nr, columns - j) * s, 0);
                piece(x, panel + p * nr * s, nr * s, DIRTY);
            }
        }
}

/* `pack`, where numbers are adjacent along the panel: squares of vectors, those of the last rows first. */
static void pack_a(const Core *x, const Operands *o, const Five *y, Count panel, Count row, Count height, Count column,
                   Count depth) {
    const Count s = o->size;
    for (Count p = 0; p < depth; p += y->lanes)
        for (Count i = (height - 1) / y->lanes * y->lanes; i >= 0; i -= y->lanes) {
            const Count steps = least(y->lanes, depth - p), rows = least(y->lanes, height - i);
            for (Count r = row + i; r < row + i + rows; r++) piece(x, at(o->a, r, (column + p) * s), steps * s, 0);
            for (Count q = p; q < p + steps; q++) piece(x, panel + (q * height + i) * s, rows * s, DIRTY);
        }
}

/* What a tile does with its rows of C: all are read, if they are added to, and then all are written. */
static void put(const Core *x, Matrix c, Count rows, Count bytes, int add) {
    for (Count i = 0; add && i < rows; i++) piece(x, at(c, i, 0), bytes, 0);
    for (Count i = 0; i < rows; i++) piece(x, at(c, i, 0), bytes, DIRTY);
}

/* `block`: tiles from a block of packed A and panels of B. A step of k reads vectors of B and a number of each row. */
static void tiles(const Core *x, const Five *y, Count rows, Count columns, Count depth, Count s, Count a, Count b,
                  Matrix c, int add) {
    const Count nr = 2 * y->lanes, panels = parts(rows, y->mr);
    for (Count jr = 0; jr < columns; jr += nr, b += nr * depth * s)
        for (Count panel = 0; panel < panels; panel++) {
            const Count ir = share(rows, panel, panels), height = share(rows, panel + 1, panels) - ir;
            const Count width = least(nr, columns - jr);
            for (Count p = 0; p < depth; p++) {
                piece(x, b + p * nr * s, up(width, y->lanes) * s, 0);
                piece(x, a + (ir * depth + p * height) * s, height * s, 0);
            }
            put(x, (Matrix){at(c, ir, jr * s), c.pitch}, height, width * s, add);
        }
}

/* `strip_of_c`, for each strip of a block of rows. */
static void packed_row(const Core *x, const Operands *o, const Five *y, Count jc, Count pr, Count ic) {
    const Count s = o->size, nr = 2 * y->lanes, k = least(y->kr, o->k - pr), rows = least(y->mc, o->m - ic);
    const Count all = least(y->nc, o->n - jc), a_bytes = up(y->mc, y->mr) * least(o->k, y->kc) * s;
    const Count panels = parts(rows, y->mr);
    for (Count js = 0; js < all; js += y->ns) {
        const Count columns = least(y->ns, all - js);
        const Matrix c = {at(o->c, ic, (jc + js) * s), o->c.pitch};
        for (Count pc = 0; pc < k; pc += y->kc) {
            const Count depth = least(y->kc, k - pc), a = y->panels_of_a + pc / y->kc % y->kept * a_bytes;
            if (js == 0 || y->kept < parts(k, y->kc))
                for (Count panel = 0; panel < panels; panel++) {
                    const Count ir = share(rows, panel, panels), height = share(rows, panel + 1, panels) - ir;
                    pack_a(x, o, y, a + ir * depth * s, ic + ir, height, pr + pc, depth);
                }
            const Count b = y->panels_of_b + (up(all, nr) * pc + js * depth) * s;
            tiles(x, y, rows, columns, depth, s, a, b, y->apart ? y->sums : c, y->apart ? pc > 0 : pr + pc > 0);
        }
        for (Count i = 0; y->apart && i < rows; i++) through(x, at(y->sums, i, 0), at(c, i, 0), columns * s);
    }
}

/* A strip of C where A and B stay in place, as in _cpu/packed/paths.h: tiles of at most `mr` rows. */
static void in_place_strip(const Core *x, const Operands *o, Count jr, Count columns, Count kc, Count mr) {
    const Count s = o->size, panels = parts(o->m, mr);
    for (Count pc = 0; pc < o->k; pc += kc)
        for (Count panel = 0; panel < panels; panel++) {
            const Count top = share(o->m, panel, panels), end = share(o->m, panel + 1, panels);
            for (Count p = pc; p < least(pc + kc, o->k); p++) {
                piece(x, at(o->b, p, jr * s), columns * s, 0);
                for (Count i = top; i < end; i++) one(x, at(o->a, i, p * s), 0);
            }
            put(x, (Matrix){at(o->c, top, jr * s), o->c.pitch}, end - top, columns * s, pc > 0);
        }
}
#endif
