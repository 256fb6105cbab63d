/* What every path of cpu-packed is given: one product, C = A B.

   A is m x k, B is k x n, C is m x n, all in bytes and any strides: `ai` leads from a row of A to the next, `ap` from
   a column to the next, `bp` and `bj`, `ci` and `cj` likewise. Zero and negative ones are strides too. */
#ifndef GEMMLAB_PACKED_PRODUCT_H
#define GEMMLAB_PACKED_PRODUCT_H

#include "vector.h"

#define DOT_KC 4096  /* kc where B is one column of real numbers: see paths.h */

/* Numbers as they are stored, into a panel of numbers as they are multiplied: see panel.h. `depth` counts numbers. */
typedef void (*Pack)(void *panel, const char *x, Count across, Count along, Count width, Count padded, Count depth);
/* Rows of `width` sums, into numbers as they are stored. */
typedef void (*Narrow)(char *c, Count ci, Count cj, const char *sums, Count rows, Count columns,
                       Count width);

typedef struct Product {
    Count m, n, k;
    const char *a;
    Count ai, ap;
    const char *b;
    Count bp, bj;
    char *c;
    Count ci, cj;
    int threads;
    Count mc, kc, nc;  /* blocks: at most so many rows of A, depth, at most so many columns of B */
    Count most_of_b;   /* bytes of a packed block of B; 0 for the usual */
    Pack pack_a, pack_b;
    Narrow narrow;     /* NULL where C is stored as it is summed */
    int as_stored;     /* A and B are stored as they are multiplied */
    const char *packed;  /* all of B's panels, made before; NULL where there are none. B is not read then. */
    Count packed_n, packed_j;  /* the columns in them, and the one where this B begins */
    char *buffer;      /* of `workspace` bytes, at a multiple of 64 */
} Product;

typedef Count (*Workspace)(const Product *x);
typedef Count (*PackWhole)(const Product *x, char *to);
typedef const char *(*Path)(const Product *x);
typedef void (*Multiply)(const Product *x, Count products, Count a_step, Count b_step, Count c_step);

/* How numbers of one dtype are multiplied. */
typedef struct Row {
    const char *dtype, *out;  /* of A and B, and of C */
    int mc;                   /* the usual rows of a block of A: a multiple of the tile's */
    int kc;                   /* the usual depth of a block: a multiple of `group` */
    int group, bytes;         /* numbers of k that are multiplied in one step; bytes of each number in panels */
    int as_stored;
    int dots;                 /* where B is one column, C is made of dot products */
    Pack pack_a, pack_b;
    Narrow narrow;
    Multiply multiply;
    Workspace workspace;
    PackWhole pack_whole;
    Path path;  /* in words */
} Row;
#define OF(kind) multiply_many_##kind, workspace_of_##kind, pack_whole_##kind, path_##kind  /* a row's last four */

/* What tiles in place have in common: strides, the columns of C, whether C is added to, and products to go through,
   each a step further in A, B and C. */
typedef struct Place {
    Count depth, ai, ap, bp, ci, cj, columns;
    int add;
    Count products, a_step, b_step, c_step;
} Place;

INLINE Count least(Count x, Count y) { return x < y ? x : y; }
INLINE Count most(Count x, Count y) { return x > y ? x : y; }
INLINE Count parts(Count extent, Count size) { return (extent + size - 1) / size; }
INLINE Count up(Count extent, Count step) { return parts(extent, step) * step; }
/* Where part `i` of `count` equal parts begins. */
INLINE Count share(Count extent, Count i, Count count) { return extent / count * i + least(i, extent % count); }

/* Wait for the whole team. A team of one may stand inside another's region, and must not wait for that. */
INLINE void meet(int threads) {
    if (threads > 1) {
        #pragma omp barrier
    }
}
#endif
