// How tiles come to local memory in tensor_async, where the chip copies whole boxes: one work-item starts them, and the barrier
// of a stage counts their bytes. The host gives maps of A and B, which maps.cl wrote.

#define MAPS , const __global ulong *maps, const long maps_start
#define ARRIVALS 1 // at a barrier, of a filled stage

#define BEGIN_COPIES                                                                                                   \
    maps += maps_start;                                                                                                \
    use_map(maps);                                                                                                     \
    use_map(maps + WORDS_OF_MAP)

#define COPY_STEPS                                                                                                     \
    copy_steps(maps, first, A_step ? product : 0, B_step ? product : 0, p0, end - begin, tiles, filled, emptied, &at)

#define END_COPIES

// Copy the tile of an operand at its number `first` across k and `p0` along k: one box, or one for each panel.
INLINED void copy_tile(LOCAL_POINTER uint4 *tile, const __global ulong *map, const int along_k, const int block,
                       const int first, const int p0, const int product, LOCAL_POINTER ulong *filled)
{
    if (along_k)
        copy_box(tile, map, p0, first, product, filled);
    else
        #pragma unroll
        for (int x = 0; x < block; x += 128 / SIZE)
            copy_box(tile + x / (128 / SIZE) * STEP_K * LINE, map, first + x, p0, product, filled);
}

// Copy the tiles of so many steps of a block of C, from number `p0` of k on: one work-item does, by maps.
INLINED void copy_steps(const __global ulong *maps, const int2 first, const int product_of_a, const int product_of_b, int p0,
                        const int steps, LOCAL_POINTER uint4 *tiles, LOCAL_POINTER ulong *filled,
                        LOCAL_POINTER ulong *emptied, Ring *at)
{
    if (LANE > 0)
        return;
    for (int step = 0; step < steps; step++, p0 += STEP_K) {
        LOCAL_POINTER ulong *barrier = filled + at->stage;
        wait_for_phase(emptied + at->stage, at->round ^ 1);
        expect_bytes(barrier, (VECTORS_A + VECTORS_B) * 16);
        copy_tile(tiles + at->stage * VECTORS_A, maps, A_ALONG_K, BLOCK_Y, first.y, p0, product_of_a, barrier);
        copy_tile(tiles + STAGES * VECTORS_A + at->stage * VECTORS_B, maps + WORDS_OF_MAP, B_ALONG_K, BLOCK_X, first.x, p0,
                  product_of_b, barrier);
        next(at);
    }
}
