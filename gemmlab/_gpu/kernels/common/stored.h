// How a kernel reads and writes numbers in memory. float16 becomes float in registers, and is rounded when it is written.
//
//     READ, WRITE              one number
//     READ_WIDE, WRITE_WIDE    WIDE of them, at an address that is a multiple of their size
//     READ_ROW, WRITE_ROW      WIDE of them anywhere
//
// The host says HALF where operands are float16, and HALF_C where C is; see gemm.h.

#define JOIN_(type, width) type##width
#define JOIN(type, width) JOIN_(type, width)

#if HALF
#define READ(from) vload_half(0, from)
#else
#define READ(from) (*(from))
#endif

#if HALF_C
#define WRITE(to, x) vstore_half(x, 0, to)
#else
#define WRITE(to, x) (*(to) = (x))
#endif

#ifdef WIDE
typedef JOIN(REAL, WIDE) wide;
typedef wide row_vector __attribute__((aligned(sizeof(REAL))));

#if HALF
#define READ_WIDE(from) JOIN(vloada_half, WIDE)(0, from)
#else
#define READ_WIDE(from) (*(const __global wide *)(from))
#endif

#if HALF_C
#define WRITE_WIDE(to, all) JOIN(vstorea_half, WIDE)(all, 0, to)
#else
#define WRITE_WIDE(to, all) (*(__global wide *)(to) = (all))
#endif

#if WIDE == 16 // as two halves: LLVM 14 cannot compile a conversion of sixteen numbers
#define FROM_HALF(from) (float16)(vload_half8(0, from), vload_half8(1, from))
#define TO_HALF(to, all) (vstore_half8((all).lo, 0, to), vstore_half8((all).hi, 1, to))
#else
#define FROM_HALF(from) JOIN(vload_half, WIDE)(0, from)
#define TO_HALF(to, all) JOIN(vstore_half, WIDE)(all, 0, to)
#endif

#if HALF
#define READ_ROW(from) FROM_HALF(from)
#else
#define READ_ROW(from) (*(const __global row_vector *)(from))
#endif

#if HALF_C
#define WRITE_ROW(to, all) TO_HALF(to, all)
#else
#define WRITE_ROW(to, all) (*(__global row_vector *)(to) = (all))
#endif
#endif
