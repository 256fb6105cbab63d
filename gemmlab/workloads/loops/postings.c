/* The loops of posting lists: `collection.h` has the queries, `bits.h` the pairs' counts. */
#include "bits.h"
#include "collection.h"

static const postings_loops LOOPS = {
    .run_query = run_query,
    .out_of_order = out_of_order,
    .build_ends = build_ends,
    .build_bounds = build_bounds,
    .count_words = count_words,
    .build_bitmap = build_bitmap,
    .best_counting = best_counting,
    .panel_of = panel_of,
    .set_row = set_row,
    .tiles_again = tiles_again,
};

__attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &LOOPS; }
