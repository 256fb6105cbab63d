// unit: products of small matrices by a matrix unit, in chains that do not wait for each other.
//
//     multiply_adds      each warp, from registers:         for step, chain:   c[chain] += a @ b[chain]
//     multiply_tiles     each warpgroup, from local memory:  for step, slice:   c += a[slice] @ b[slice]
//
// Numbers are from 1/2 to 1 or their opposites, int8 any: a GPU that multiplies zeros has a higher clock.

#if UNIT == F16
#define KEPT 0x83ff83ff
#define SET 0x38003800
#elif UNIT == BF16
#define KEPT 0x807f807f
#define SET 0x3f003f00
#elif UNIT == INT8
#define KEPT 0xffffffff
#define SET 0
#endif

// Some numbers, different for each `i`.
part some_numbers(const int i)
{
    const uint bits = (uint)(i + 1) * 2654435769u;
#if UNIT == F64
    return (bits & 1 ? 0.5 : -0.5) * (1 + (bits >> 8) * 0x1p-24);
#else
    return (bits & KEPT) | SET;
#endif
}

#ifndef COPIERS
__kernel GROUP void multiply_adds(const int steps, __global real *out)
{
    part a[4], b[CHAINS][2];
    real c[CHAINS][4], sum = 0;
    const int first = (int)get_local_id(0) * 64;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = some_numbers(first + i);
    #pragma unroll
    for (int chain = 0; chain < CHAINS; chain++) {
        b[chain][0] = some_numbers(first + 4 + 2 * chain);
        b[chain][1] = some_numbers(first + 5 + 2 * chain);
        c[chain][0] = c[chain][1] = c[chain][2] = c[chain][3] = 0;
    }
    for (int step = 0; step < steps; step++)
        #pragma unroll
        for (int chain = 0; chain < CHAINS; chain++)
            multiply_add(c[chain], a, b[chain]);
    #pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        sum += c[chain][0] + c[chain][1] + c[chain][2] + c[chain][3];
    out[get_global_id(0)] = sum;
}
#else
__kernel GROUP void multiply_tiles(const int steps, __global real *out)
{
    LOCAL_ARRAY(uint4, local_memory, 8 * LINE + VECTORS_A + VECTORS_B);
    LOCAL_POINTER uint4 *tiles = FIRST_TILE(local_memory);
    const int id = (int)get_local_id(0);
    real c[TILES_Y][TILES_X][4], sum = 0;
    clear(c);
    for (int i = id; i < (VECTORS_A + VECTORS_B) * 4; i += GROUP_X)
        ((LOCAL_POINTER uint *)tiles)[i] = some_numbers(i);
    publish_writes();
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong a = place_of(tiles + id / WARPGROUP * 64 * LINE, BLOCK_Y), b = place_of(tiles + VECTORS_A, BLOCK_X);
    for (int step = 0; step < steps; step++) {
        begin_products(c[0]);
        #pragma unroll
        for (int slice = 0; slice < STEP_BYTES / SLICE_BYTES; slice++)
            multiply_add_tiles(c[0], a + slice * SLICE(1), b + slice * SLICE(1));
        commit_products();
        wait_for_products_before(c[0]);
    }
    wait_for_products(c[0]);
    #pragma unroll
    for (int x = 0; x < TILES_X; x++)
        sum += c[0][x][0] + c[0][x][1] + c[0][x][2] + c[0][x][3];
    out[get_global_id(0)] = sum;
}
#endif
