/* Bytes a second between the core and the memory level of its working set: load, copy and triad.

   A working set is one, two or three streams of equal length, read or written `repeats` times:

       load    read a             the value is dropped: no arithmetic can be the limit
       copy    b = a
       triad   a = b + s * c      (McCalpin's STREAM)

   Bytes are counted as the program reads and writes them. The read of a line before its first write
   (write-allocate), which the hardware adds to copy and triad, is not counted. */
#include <stddef.h>

#include "loops.h"
#include "vector.h"

typedef VECTOR_OF(double) vector;

/* Vectors in one iteration of the loop: enough that the loop's instructions do not matter. */
#define BLOCK 8
#define FOR_EACH_OF_BLOCK(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

/* Each value passes through a register: the compiler can neither drop the load nor call memcpy. */
#define LOAD(j)  { vector value = a[i + j]; __asm__ volatile("" : : KEEP(value)); }
#define COPY(j)  { vector value = a[i + j]; __asm__ volatile("" : "+" KEEP(value)); b[i + j] = value; }
#define TRIAD(j) { vector value = b[i + j] + 3.0 * c[i + j]; __asm__ volatile("" : "+" KEEP(value)); a[i + j] = value; }

/* Between two passes memory may have changed, as far as the compiler knows. */
#define FORGET_MEMORY __asm__ volatile("" : : : "memory")

#define DEFINE_PASSES(name, STEP)                                                           \
    static void name(vector *a, vector *b, vector *c, size_t vectors, long long repeats) {  \
        for (long long pass = 0; pass < repeats; pass++) {                                  \
            FORGET_MEMORY;                                                                  \
            for (size_t i = 0; i < vectors; i += BLOCK) { FOR_EACH_OF_BLOCK(STEP) }         \
        }                                                                                   \
    }

DEFINE_PASSES(load, LOAD)
DEFINE_PASSES(copy, COPY)
DEFINE_PASSES(triad, TRIAD)

/* Go `repeats` times through 1 (load), 2 (copy) or 3 (triad) streams of `stream_bytes` each, whose starts
   are `pitch` bytes apart. A stream is whole blocks of the widest vector: a multiple of 512 bytes. */
static void go_through(int streams, char *start, size_t stream_bytes, size_t pitch, long long repeats) {
    size_t vectors = stream_bytes / sizeof(vector);
    vector *first = (vector *)start;
    vector *second = (vector *)(start + pitch), *third = (vector *)(start + 2 * pitch);
    switch (streams) {
    case 1: load(first, second, third, vectors, repeats); break;
    case 2: copy(first, second, third, vectors, repeats); break;
    case 3: triad(first, second, third, vectors, repeats); break;
    }
}

static const stream_loops LOOPS = {go_through};

__attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &LOOPS; }
