/* Packing with a clock beside it: a product's own way to pack a panel, wrapped, so that the loops are those of any
   other product. What all threads spend is summed; one product at a time is clocked. */
#ifndef GEMMLAB_PACKED_CLOCKED_H
#define GEMMLAB_PACKED_CLOCKED_H

#include <time.h>

#include "product.h"

static struct {
    Pack pack_a, pack_b;
    long long ns;
} clocked;

static long long clocked_now(void) {
    struct timespec now;
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    timespec_get(&now, TIME_UTC);
#endif
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define CLOCKED(name)                                                                                                 \
    static void clocked_##name(void *panel, const char *x, Count across, Count along, Count width, Count padded,      \
                               Count depth) {                                                                         \
        const long long start = clocked_now();                                                                        \
        clocked.name(panel, x, across, along, width, padded, depth);                                                  \
        __atomic_fetch_add(&clocked.ns, clocked_now() - start, __ATOMIC_RELAXED);                                     \
    }
CLOCKED(pack_a)
CLOCKED(pack_b)
#undef CLOCKED

/* Have the packing of a product clocked from here on. */
static void clock_packing(Product *x) {
    clocked.pack_a = x->pack_a, clocked.pack_b = x->pack_b, clocked.ns = 0;
    x->pack_a = clocked_pack_a, x->pack_b = clocked_pack_b;
}
static double packing_seconds(void) { return clocked.ns * 1e-9; }
#endif
