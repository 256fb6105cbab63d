/* What the loops of one instruction set hand out, and what they are called with: `gemmlab_kernels` of a library returns
   its table. */
#ifndef GEMMLAB_TABLES_H
#define GEMMLAB_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* gpp.c: the facts' arrays, row-major. In planes the imaginary parts are `bands_im` and `rows_im` doubles further. */
typedef struct {
    ptrdiff_t nb, nvband, ncouls, ngpown, nend;
    const double *aqsm, *aqsn, *eps, *wt, *vcoul, *wx;
    ptrdiff_t wx_step;   /* from a band's frequencies to the next band's: nend, or 0 */
    const int *column;   /* P(p): the column of aqsm, and the element of vcoul, of a row of eps */
    ptrdiff_t bands_im, rows_im;
} gpp_problem;

typedef void (*gpp_loop)(const gpp_problem *x, ptrdiff_t outer, double _Complex *sums);

#define GPP_LOOPS 7
typedef struct {
    const char *names[GPP_LOOPS];
    gpp_loop loops[GPP_LOOPS];  /* each adds the terms of one band n, or of one row p */
    void (*row_of_product)(double *all, const double *occupied, const double *eps, const double *wt, ptrdiff_t columns,
                           const double *wx, ptrdiff_t nend, double v, double _Complex *sums);
} gpp_loops;

/* postings.c: a collection of sorted lists, and what may be built for it once. */
enum method { AUTOMATIC, MERGE, SVS, ADP, SKIP, BUCKET, BITMAP };

#define BLOCK 32      /* numbers that a search compares with one number at once */
#define IN_BUCKET 8   /* numbers of a bucket, about */

typedef struct {
    const uint32_t *buffer;
    const int64_t *starts, *lengths;
    const uint32_t *ends;         /* skip: the last number of each whole block; those of a list begin at first[t] */
    const uint32_t *bounds;       /* bucket: where in its list each begins; those of a list begin at first[t] */
    const int64_t *first;
    const uint8_t *shifts;        /* bucket: the bits of a number that do not count, for each list */
    const uint64_t *summaries;    /* bitmap: `summary_words` for each list */
    const uint32_t *ranks;        /* bitmap: words of the list before each word of its summary */
    const uint64_t *words;        /* bitmap: those of a list begin at first[t] */
    size_t summary_words;
} collection;

/* What a thread has found: the results of its queries, one after the other, and room for what is between. */
typedef struct {
    uint32_t *found, *between;
    size_t used, found_room, between_room;
    void *lists;
    size_t lists_room;
} worker;

/* Counts of shared bits, in tiles of TILE x TILE rows. */
enum counting { WORDS, ADDERS, VPOPCNT };

#define TILE 4
#define STEP 128  /* words of a row are a multiple: what the adders take at once with the widest vectors */

typedef struct {
    int64_t (*run_query)(const collection *x, enum method how, const int64_t *terms, size_t count, worker *w);
    size_t (*out_of_order)(const uint32_t *list, size_t length);
    void (*build_ends)(const uint32_t *list, size_t length, uint32_t *ends);
    void (*build_bounds)(const uint32_t *list, size_t length, int shift, size_t buckets, uint32_t *bounds);
    size_t (*count_words)(const uint32_t *list, size_t length);
    void (*build_bitmap)(const uint32_t *list, size_t length, size_t summary_words, uint64_t *summary, uint32_t *ranks,
                         uint64_t *words);
    int (*best_counting)(void);
    void (*panel_of)(int how, const uint64_t *rows, size_t words, size_t first, size_t last, size_t lists,
                     int64_t *counts);
    size_t (*set_row)(const uint32_t *list, size_t length, size_t at, uint64_t begin, uint64_t end, uint64_t *row);
    int64_t (*tiles_again)(int how, const uint64_t *rows, size_t words, size_t times);
} postings_loops;

#endif
