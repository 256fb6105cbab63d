// The instructions of NVIDIA's GPUs that tensor uses, by the names of what they do, in PTX: OpenCL C and CUDA take the
// same text. All 32 work-items of a warp call each of them together, but for copies.
//
//     copy_16, commit_copies, wait_for_copies    cp.async: from global to local memory, beside the work
//     load_matrices, load_transposed             ldmatrix: four 8 x 8 matrices of 16 bits, into registers
//     multiply_add                               mma.sync: C += A @ B of small matrices, by the matrix unit
//
// multiply_add adds the product of 16 rows of A and 8 columns of B to C. Of k it takes eight parts: 4 bytes each, which
// are one, two or four narrow numbers, or a double. With g = lane / 4 and t = lane % 4, a work-item has
//
//     A    part t of rows g and g + 8, then part t + 4 of these
//     B    parts t and t + 4 of column g
//     C    columns 2 t and 2 t + 1 of row g, then of row g + 8
//
// The host says UNIT, one of the numbers below, and CAPABILITY, the device's.
//
// Source: PTX ISA 8.5, "Warp level matrix instructions".

#define F16 1
#define BF16 2
#define INT8 3
#define TF32 4
#define F64 5

#if UNIT == F64
typedef double part;
#else
typedef uint part;
#endif

// The address of local memory as these instructions take it.
#ifndef LOCAL_ADDRESS
#define LOCAL_ADDRESS(pointer) ((uint)(ulong)(pointer))
#endif

// Copy 16 bytes, of which the first `bytes` are read, and the others are zeros.
void copy_16(LOCAL_POINTER uint4 *to, const __global uchar *from, const int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(LOCAL_ADDRESS(to)), "l"((ulong)from), "r"(bytes) : "memory");
}

// The copies since the last call are one group.
void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until this work-item has no more than so many groups of copies on their way, which is a literal.
#define wait_for_copies(groups) asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory")

#if UNIT == F64
void multiply_add(part c[4], const part a[4], const part b[2])
{
#if CAPABILITY >= 90
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    #pragma unroll
    for (int i = 0; i < 4; i++) // products of 8 x 4 by 4 x 8
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(c[i % 2 * 2]), "+d"(c[i % 2 * 2 + 1]) : "d"(a[i]), "d"(b[i / 2]));
#endif
}
#else
// Four matrices of eight rows of 16 bytes: work-item 8 i + j says where row j of matrix i is. Of each it gets the
// 4 bytes of row g from byte 4 t on.
void load_matrices(part to[4], const LOCAL_POINTER uint4 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(LOCAL_ADDRESS(row)) : "memory");
}

// The same of their transposes: numbers of 16 bits of rows 2 t and 2 t + 1, column g.
void load_transposed(part to[4], const LOCAL_POINTER uint4 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(LOCAL_ADDRESS(row)) : "memory");
}

#if UNIT == INT8
#define MULTIPLY "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define SUM "+r"
#else
#define SUM "+f"
#if UNIT == F16
#define MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif UNIT == BF16
#define MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MULTIPLY "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#endif
#endif
void multiply_add(real c[4], const part a[4], const part b[2])
{
    asm volatile(MULTIPLY " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : SUM(c[0]), SUM(c[1]), SUM(c[2]), SUM(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
