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

static inline Count min(Count x, Count y) { return x < y ? x : y; }
static inline Count max(Count x, Count y) { return x > y ? x : y; }
static inline Count round_up(Count extent, Count step) { return (extent + step - 1) / step * step; }
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

/* _cpu/rungs/naive.pyx: a row of C. */
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

/* _cpu/rungs/ikj.pyx and `multiply_block` of _cpu/rungs/blocked.pyx: rows of C, from `columns` of them and `depth` of k. */
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

/* _cpu/rungs/blocked.pyx: a block row of C and a block of k. B begins with a line, so the grid of blocks is not shifted. */
static void blocked_row(const Core *x, const Operands *o, Count i0, Count rows, Count p0, Count depth, Count bs_c) {
    for (Count j0 = 0; j0 < o->n; j0 += bs_c)
        block_of_rows(x, o, i0, rows, j0, min(bs_c, o->n - j0), p0, depth);
}

/* _cpu/rungs/blocked_local.pyx: the same, a strip of a row at a time, whose sums are in registers. */
static void blocked_local_row(const Core *x, const Operands *o, Count i0, Count rows, Count p0, Count depth,
                              Count bs_c, Count strip) {
    const Count s = o->size;
    for (Count j0 = 0; j0 < o->n; j0 += bs_c)
        for (Count i = i0; i < i0 + rows; i++)
            for (Count j = j0; j < min(j0 + bs_c, o->n); j += strip) {
                const Count start = max(0, min(j, o->n - strip));
                const Count end = min(min(j0 + bs_c, o->n), start + strip);
                for (Count p = p0; p < p0 + depth; p++) {
                    one(x, at(o->a, i, p * s), 0);
                    piece(x, at(o->b, p, start * s), min(strip, o->n) * s, 0);
                }
                piece(x, at(o->c, i, j * s), (end - j) * s, DIRTY);
            }
}
#endif
