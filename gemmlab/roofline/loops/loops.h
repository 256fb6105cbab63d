/* What a library of measuring loops hands out: `gemmlab_kernels` returns one of these tables. */
#ifndef GEMMLAB_LOOPS_H
#define GEMMLAB_LOOPS_H

#include <stddef.h>

typedef void (*repeated)(long long iterations);

/* fma.c: chains of multiply-adds, of vectors in float32, float64 and int8 (null where there are none), and of single
   numbers in float32 and float64; and the clock. */
typedef struct {
    repeated vectors[3], scalars[2];
    int vector_flops[3], scalar_flops;  /* of one iteration */
    repeated additions;
    int additions_an_iteration;
} fma_loops;

/* stream.c */
typedef struct {
    void (*go_through)(int streams, char *start, size_t stream_bytes, size_t pitch, long long repeats);
} stream_loops;

#endif
