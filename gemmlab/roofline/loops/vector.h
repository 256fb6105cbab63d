/* The widest vectors that this build may use, in the vector extensions of GCC and Clang.

   KEEP is the letter of an inline-assembly constraint: "hold this in a vector register". An empty
   assembly statement that claims to read, or to change, a value costs no instruction, and yet the
   compiler can neither drop nor merge the work that made the value. That is all a measuring loop needs. */
#ifndef GEMMLAB_VECTOR_H
#define GEMMLAB_VECTOR_H

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define KEEP "v"
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define KEEP "x"
#elif defined(__SSE2__)
#define VECTOR_BYTES 16
#define KEEP "x"
#elif defined(__ARM_NEON)
#define VECTOR_BYTES 16
#define KEEP "w"
#elif defined(__VSX__)
#define VECTOR_BYTES 16
#define KEEP "wa"
#else
#error "The measuring loops need GCC or Clang, and vector registers of x86, ARM or POWER"
#endif

#define VECTOR_OF(number) __attribute__((vector_size(VECTOR_BYTES))) number

#endif
