// The instructions that tensor_async uses beside the copies of units.h, in PTX: those of GPUs of compute capability 9.0. Four
// warps, a warpgroup, multiply together, and go on while the unit does.
//
//     multiply_add_tiles    wgmma.mma_async: C += A @ B of a warpgroup, both in local memory
//     begin_products, commit_products, wait_for_products    what is before, between and after
//     init_barrier, arrive, wait_for_phase    mbarrier: a phase ends when so many have arrived
//     publish_writes        fence.proxy.async: what this work-item has written to local memory is there for the unit, and for
//                           copies of boxes
//     expect_bytes, copy_box    cp.async.bulk.tensor: one work-item copies a box of a matrix, in the unit's layout
//
// multiply_add_tiles adds the product of 64 rows of A and TILE_X columns of B, 32 bytes of k, to C. Of a tile it gets 64 bits
// that say where it is: see warpgroup_tiles.h. Warp w of the four has rows 16 w to 16 w + 15 of C, as multiply_add does.
//
// maps.h says what MARKED is.
//
// Source: PTX ISA 8.5, "Asynchronous warpgroup level matrix instructions".

void init_barrier(LOCAL_POINTER ulong *barrier, const int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(LOCAL_ADDRESS(barrier)), "r"(arrivals) : "memory");
}

void arrive(LOCAL_POINTER ulong *barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" :: "r"(LOCAL_ADDRESS(barrier)) : "memory");
}

// Wait until the phase of this parity has ended. A barrier begins in phase 0, so the one before it, of parity 1, has ended.
// In a trial, waits end after PATIENCE tries: where something does not come, the product is wrong, and no kernel hangs.
void wait_for_phase(LOCAL_POINTER ulong *barrier, const int parity)
{
    int has_ended;
#ifdef PATIENCE
    int tries = 0;
#endif
    do
        asm volatile("{ .reg .pred ended; mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2; "
                     "selp.s32 %0, 1, 0, ended; }"
                     : "=r"(has_ended) : "r"(LOCAL_ADDRESS(barrier)), "r"(parity) : "memory");
#ifdef PATIENCE
    while (!has_ended && ++tries < PATIENCE);
#else
    while (!has_ended);
#endif
}

void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// As arrive; and the phase does not end before so many bytes of boxes have come.
void expect_bytes(LOCAL_POINTER ulong *barrier, const int bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"
                 :: "r"(LOCAL_ADDRESS(barrier)), "r"(bytes) : "memory");
}

// Copy the box of matrix `product` that begins at number x of row y. Beyond the matrix are zeros.
void copy_box(LOCAL_POINTER uint4 *to, const __global ulong *map, const int x, const int y, const int product,
              LOCAL_POINTER ulong *barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(LOCAL_ADDRESS(to)), "l"((ulong)map), "r"(x), "r"(y), "r"(product), "r"(LOCAL_ADDRESS(barrier))
                 : "memory");
}

// The sums of a work-item as operands: four of each eight columns. First their constraints, then their names.
#define SUMS_4(x) SUM(c[x][0]), SUM(c[x][1]), SUM(c[x][2]), SUM(c[x][3])
#define SUMS_16(x) SUMS_4(x), SUMS_4(x + 1), SUMS_4(x + 2), SUMS_4(x + 3)
#define SUMS_32(x) SUMS_16(x), SUMS_16(x + 4)
#define NAMES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
    NAMES_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128 \
    NAMES_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#if TILE_X == 64
#define ALL_SUMS SUMS_32(0)
#define NAMES NAMES_32
#define AFTER_SUMS(first, second) "%32" first "%33" second
#elif TILE_X == 128
#define ALL_SUMS SUMS_32(0), SUMS_32(8)
#define NAMES NAMES_64
#define AFTER_SUMS(first, second) "%64" first "%65" second
#else
#define ALL_SUMS SUMS_32(0), SUMS_32(8), SUMS_32(16), SUMS_32(24)
#define NAMES NAMES_128
#define AFTER_SUMS(first, second) "%128" first "%129" second
#endif

#if UNIT == INT8
#define DTYPES "k32.s32.s8.s8"
#define OPTIONS ""
#elif UNIT == TF32
#define DTYPES "k8.f32.tf32.tf32"
#define OPTIONS ", 1, 1"
#else
#if UNIT == F16
#define DTYPES "k16.f32.f16.f16"
#else
#define DTYPES "k16.f32.bf16.bf16"
#endif
#if A_ALONG_K && B_ALONG_K // the last two: whether an operand lies across k
#define OPTIONS ", 1, 1, 0, 0"
#elif A_ALONG_K
#define OPTIONS ", 1, 1, 0, 1"
#elif B_ALONG_K
#define OPTIONS ", 1, 1, 1, 0"
#else
#define OPTIONS ", 1, 1, 1, 1"
#endif
#endif
#define QUOTED(x) #x
#define IN_QUOTES(x) QUOTED(x)

INLINED void begin_products(real c[TILES_X][4]) { asm volatile(MARKED("wgmma.fence.sync.aligned;") : ALL_SUMS :: "memory"); }

INLINED void multiply_add_tiles(real c[TILES_X][4], const ulong a, const ulong b)
{
    asm volatile(MARKED("{ .reg .pred adds; setp.eq.u32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n") IN_QUOTES(TILE_X) DTYPES
                 " {" NAMES "}, " AFTER_SUMS(", ", ", adds") OPTIONS "; }"
                 : ALL_SUMS : "l"(a), "l"(b));
}

void commit_products() { asm volatile(MARKED("wgmma.commit_group.sync.aligned;") ::: "memory"); }

// Wait until at most one group of products is under way.
INLINED void wait_for_products_before(real c[TILES_X][4])
{
    asm volatile(MARKED("wgmma.wait_group.sync.aligned 1;") : ALL_SUMS :: "memory");
}

// Wait until none is: c is complete.
INLINED void wait_for_products(real c[TILES_X][4]) { asm volatile(MARKED("wgmma.wait_group.sync.aligned 0;") : ALL_SUMS :: "memory"); }
