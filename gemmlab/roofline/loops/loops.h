/* What a library of measuring loops hands out: `gemmlab_kernels` returns one of these tables. */
#ifndef GEMMLAB_LOOPS_H
#define GEMMLAB_LOOPS_H

#include <stddef.h>

typedef void (*repeated)(long long iterations);

/* fma.c, narrow.c: chains of multiply-adds, of vectors in float32, float64, int8 and bfloat16 (null where there are none),
   and, of fma.c, of single numbers in float32 and float64; and the clock. */
typedef struct {
    repeated vectors[4], scalars[2];
    int vector_flops[4], scalar_flops;  /* of one iteration */
    repeated additions;
    int additions_an_iteration;
} fma_loops;

/* stream.c */
typedef struct {
    void (*go_through)(int streams, char *start, size_t stream_bytes, size_t pitch, long long repeats);
} stream_loops;

#endif
