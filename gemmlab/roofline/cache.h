/* Caches between a core and memory: set-associative, least recently used out first, write-back, write-allocate.

       core -- level[0] -- level[1] -- .. -- memory

   Each level is asked in turn. What it lacks comes from the level below it, and pushes out the oldest line of its set,
   which is written to the level below if it was written to. No level has to hold what the one above it holds.

   Lines of memory are numbered from 0. A set is a list of lines from the newest to the oldest, and a level has a place
   for every line of memory, in such a list or absent: an access costs the same for any number of ways, all lines in one
   set among them. */
#ifndef GEMMLAB_CACHE_H
#define GEMMLAB_CACHE_H

#include <stdint.h>

#define LINE_BYTES 64
#define NO_LINE UINT32_MAX

typedef uint32_t Line;
enum { ABSENT = 0, PRESENT = 1, DIRTY = 2 };

typedef struct Place {
    Line newer, older;  /* in its set */
    uint32_t state;
} Place;

typedef struct Set {
    Line newest, oldest;
    uint32_t lines;
} Set;

typedef struct Level {
    uint32_t sets, ways;
    Set *set;
    Place *place;
    int64_t brought_in, written_back;  /* lines that passed between this level and the next */
} Level;

/* Any number of sets, but a power of two needs no division. */
static inline Set *set_of(const Level *x, Line line) {
    const uint32_t mask = x->sets - 1;
    return &x->set[x->sets & mask ? line % x->sets : line & mask];
}

static inline void take_out(Level *x, Set *set, Line line) {
    const Place *place = &x->place[line];
    if (place->newer == NO_LINE) set->newest = place->older;
    else x->place[place->newer].older = place->older;
    if (place->older == NO_LINE) set->oldest = place->newer;
    else x->place[place->older].newer = place->newer;
}

static inline void put_first(Level *x, Set *set, Line line) {
    x->place[line].newer = NO_LINE;
    x->place[line].older = set->newest;
    if (set->newest == NO_LINE) set->oldest = line;
    else x->place[set->newest].newer = line;
    set->newest = line;
}

static void take_line(Level *x, const Level *memory, Line line);

static void clean(Level *x, const Level *memory, Line line) {
    if (!(x->place[line].state & DIRTY)) return;
    x->place[line].state = PRESENT;
    x->written_back++;
    if (x + 1 != memory) take_line(x + 1, memory, line);
}

/* A place for a line that is absent. */
static void make_room(Level *x, const Level *memory, Line line) {
    Set *set = set_of(x, line);
    if (set->lines == x->ways) {
        const Line oldest = set->oldest;
        clean(x, memory, oldest);
        take_out(x, set, oldest);
        x->place[oldest].state = ABSENT;
    } else
        set->lines++;
    put_first(x, set, line);
    x->place[line].state = PRESENT;
}

static inline void renew(Level *x, Line line) {
    if (x->place[line].newer == NO_LINE) return;
    Set *set = set_of(x, line);
    take_out(x, set, line);
    put_first(x, set, line);
}

/* A whole line from the level above: nothing has to be brought in for it. */
static void take_line(Level *x, const Level *memory, Line line) {
    if (x->place[line].state == ABSENT) make_room(x, memory, line);
    else renew(x, line);
    x->place[line].state |= DIRTY;
}

static void bring_in(Level *x, const Level *memory, Line line) {
    if (x->place[line].state != ABSENT) {
        renew(x, line);
        return;
    }
    x->brought_in++;
    if (x + 1 != memory) bring_in(x + 1, memory, line);
    make_room(x, memory, line);
}

/* One access of the core; `state` is DIRTY for a store. */
static inline void touch(Level *first, const Level *memory, Line line, uint32_t state) {
    if (first->place[line].state == ABSENT) bring_in(first, memory, line);
    else renew(first, line);
    first->place[line].state |= state;
}

/* Write everything back that is not in memory yet. */
static void write_back_all(Level *first, const Level *memory, Line lines) {
    for (Level *x = first; x != memory; x++)
        for (Line line = 0; line < lines; line++) clean(x, memory, line);
}
#endif
