/* A CPU rung's loops without their numbers, given as data: which lines they touch, in their order, on the caches of
   cache.h.

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

/* Three of them, the bytes of a number, and where the copies of a block of A and of one of B begin. */
typedef struct Operands {
    Count m, n, k, size;
    Matrix a, b, c;
    Count copy_of_a, copy_of_b;
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

/* What an index has in hand: its place, and the extent of the block that begins there. */
typedef struct Block {
    Count start, extent;
} Block;

/* A loop, or an access in one: of a number, or of a piece of a row. Indices are numbers: 0, 1 and 2 are m, n and k. */
typedef struct Step {
    Count end;                         /* the step after its body */
    Count index, over, by;             /* of a loop: through the block of `over`, in blocks of `by` */
    Count matrix, row, column;         /* of an access: A, B or C (0, 1, 2), or none (-1) in a loop */
    Count piece, moved, writes, first; /* the block of `column`; moved back into the row; only where `first` is at 0 */
    Count beside, beside_row;          /* a matrix of which the same piece is read line by line, or none (-1) */
    Count panel, rows, columns;        /* of a copy: numbers of a panel's row, and the blocks that were copied; or 0 */
} Step;                                /* in a loop, `moved` is a tile's rows, and it goes back as far as that needs */

#define MOST_IN_LOOP 8

static inline Count address_of(const Operands *o, Count matrix, Count row, Count column) {
    return at(matrix == 0 ? o->a : matrix == 1 ? o->b : o->c, row, column * o->size);
}

/* Where an access goes now: a number (no bytes), a piece, or one with another beside it. */
typedef struct Target {
    Count address, bytes, beside;
    uint32_t state;
} Target;

/* A row of a panel: the panels of a block follow one another, each as deep as the block. */
static inline Count address_in_copy(const Operands *o, const Step *s, const Block *block) {
    const Block rows = block[s->rows];
    const Count before = (block[s->column].start - block[s->columns].start) * rows.extent;
    const Count start = s->matrix == 0 ? o->copy_of_a : o->copy_of_b;
    return start + (before + (block[s->row].start - rows.start) * s->panel) * o->size;
}

static inline Target target_of(const Operands *o, const Step *s, const Block *block) {
    if (s->panel) return (Target){address_in_copy(o, s, block), s->panel * o->size, -1, s->writes ? DIRTY : 0};
    const Block columns = block[s->column];
    const Count start = s->moved ? max(0, min(columns.start, o->n - s->moved)) : columns.start;
    const Count extent = s->moved ? min(s->moved, o->n) : columns.extent;
    return (Target){
        address_of(o, s->matrix, block[s->row].start, start), s->piece ? extent * o->size : 0,
        s->beside < 0 ? -1 : address_of(o, s->beside, block[s->beside_row].start, start), s->writes ? DIRTY : 0};
}

static inline void go_to(const Core *x, Target t) {
    if (!t.bytes)
        one(x, t.address, t.state);
    else if (t.beside < 0)
        piece(x, t.address, t.bytes, t.state);
    else
        through(x, t.beside, t.address, t.bytes);
}

static inline int is_left_out(const Step *s, const Block *block) { return s->first >= 0 && block[s->first].start != 0; }

/* A loop over single places with nothing but accesses in it: where these go moves on evenly. */
static void replay_innermost(const Core *x, const Operands *o, const Step *steps, Count from, Count to, Block *place,
                             Count extent, Block *block) {
    Target now[MOST_IN_LOOP];
    Count step[MOST_IN_LOOP], beside[MOST_IN_LOOP], count = 0;
    for (Count i = from; i < to; i++) {
        if (is_left_out(steps + i, block)) continue;
        const Target first = target_of(o, steps + i, block);
        place->start++;
        const Target second = target_of(o, steps + i, block);
        place->start--;
        now[count] = first;
        step[count] = second.address - first.address;
        beside[count++] = second.beside - first.beside;
    }
    for (Count done = 0; done < extent; done++)
        for (Count i = 0; i < count; i++) {
            go_to(x, now[i]);
            now[i].address += step[i];
            now[i].beside += beside[i];
        }
}

/* Steps `from` to `to`, with the blocks of the loops around them. */
static void replay(const Core *x, const Operands *o, const Step *steps, Count from, Count to, Block *block) {
    for (Count i = from; i < to; i = steps[i].end) {
        const Step *s = steps + i;
        if (s->matrix >= 0) {
            if (!is_left_out(s, block)) go_to(x, target_of(o, s, block));
            continue;
        }
        Block over = block[s->over];
        if (s->moved) over = (Block){max(0, min(over.start, o->m - s->moved)), min(s->moved, o->m)};
        int innermost = s->by == 1 && s->end - i - 1 <= MOST_IN_LOOP;
        for (Count j = i + 1; j < s->end; j++)
            innermost = innermost && steps[j].matrix >= 0 && !(steps[j].piece && steps[j].column == s->index);
        block[s->index] = (Block){over.start, 1};
        if (innermost && over.extent) {
            replay_innermost(x, o, steps, i + 1, s->end, block + s->index, over.extent, block);
            continue;
        }
        for (Count done = 0; done < over.extent; done += s->by) {
            block[s->index] = (Block){over.start + done, min(s->by, over.extent - done)};
            replay(x, o, steps, i + 1, s->end, block);
        }
    }
}
#endif
