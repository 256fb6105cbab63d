/* What the instruction set of this build means for a rung. */
#ifndef GEMMLAB_RUNG_H
#define GEMMLAB_RUNG_H

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define LINE_BYTES 64

/* Two multiply-adds start each cycle and each takes four: eight independent vectors keep the units busy. */
#define STRIP_BYTES (8 * VECTOR_BYTES)
#define MOST_IN_STRIP (STRIP_BYTES / 4)  /* in the smallest type, float */

#endif
