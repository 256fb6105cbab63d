// The operands of all rungs: one product, C = A @ B, of a batch.
//
// A is m x k, B is k x n, C is m x n, all row-major with leading dimension `ld`. A matrix begins `start` elements into
// its memory object; the matrix of the next product begins `step` elements further. Work-groups have three dimensions:
// columns of C, rows of C, products of the batch.

// `real` is what the kernel computes with. A number in memory has the same type, unless the host says another: of
// float16 the sums are float, and so are the parts of a sum that a kernel leaves in C for another kernel.

typedef REAL real;

#ifndef STORED
#define STORED REAL
#endif
#ifndef STORED_C
#define STORED_C STORED
#endif
typedef STORED stored;
typedef STORED_C stored_c;

// The size of the work-groups is known at compile time, which lets the compiler optimise for it.
#ifndef GROUP
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#endif

// For an array in local memory: so aligned, a compiler may read 16 bytes of it at once.
#define ALIGNED __attribute__((aligned(16)))

// The type of a pointer to local memory has no qualifier in CUDA.
#ifndef LOCAL_POINTER
#define LOCAL_POINTER __local
#endif

// An array in local memory. CUDA allows 48 KB of it where its size is in the text, and more where the launch says it.
#ifndef LOCAL_ARRAY
#define LOCAL_ARRAY(type, name, count) __local type name[count]
#endif

#define OPERANDS                                                                         \
    const int m, const int n, const int k,                                               \
    __global const stored *A, const long A_start, const long lda, const long A_step,       \
    __global const stored *B, const long B_start, const long ldb, const long B_step,       \
    __global stored_c *C, const long C_start, const long ldc, const long C_step

#define THIS_PRODUCT                                                                     \
    A += A_start + (long)get_group_id(2) * A_step;                                       \
    B += B_start + (long)get_group_id(2) * B_step;                                       \
    C += C_start + (long)get_group_id(2) * C_step
