// tensor_async: as tensor, by the instructions of compute capability 9.0, with four ideas more:
//
//     warpgroup products    four warps multiply together, and the unit reads both operands from local memory itself
//     asynchronous          a step's products are started before those of the step before have ended
//     roles                 the last warps copy, the others multiply. They meet at two barriers a stage: it is filled, it is
//                           empty again
//     persistent            as many work-groups as the device holds: each takes one tile of C after the other, and the
//                           tiles of the next are copied while those of C are written
//
//     each work-group, for its tiles of C, or shares of them:
//         for p in 0..k by STEP_K, at the same time:
//             the last warps:       wait until a stage is empty; copy tile_a and tile_b of p; say that it is filled
//             the others:           wait until a stage is filled; c += tile_a @ tile_b; say that the one before is empty
//         the others:               C[i0:i0+BLOCK_Y, j0:j0+BLOCK_X] = c, rounded once
//
// Source: CUTLASS; PTX ISA.
//
// Traffic: as tensor's from global memory. From local memory the unit reads B once for 64 rows.
//
// units/ has the instructions (warpgroups.h), how tiles lie in local memory (warpgroup_tiles.h), and two ways of copies.

// The products of a stage's tiles have ended, in this warp.
void release(LOCAL_POINTER ulong *emptied, const int stage)
{
    if (stage >= 0 && LANE == 0)
        arrive(emptied + stage);
}

// c = this warpgroup's part of the product of so many steps.
INLINED void multiply_steps(real c[TILES_Y][TILES_X][4], const int steps, const LOCAL_POINTER uint4 *tiles,
                    LOCAL_POINTER ulong *filled, LOCAL_POINTER ulong *emptied, Ring *at)
{
    const LOCAL_POINTER uint4 *tiles_a = tiles + (int)get_local_id(0) / WARPGROUP * 64 * LINE; // 64 rows, or a panel
    int before = -1;
    clear(c);
    for (int step = 0; step < steps; step++) {
        wait_for_phase(filled + at->stage, at->round);
        const ulong a = place_of(tiles_a + at->stage * VECTORS_A, ROWS(BLOCK_Y, A_ALONG_K));
        const ulong b = place_of(tiles + STAGES * VECTORS_A + at->stage * VECTORS_B, ROWS(BLOCK_X, B_ALONG_K));
        begin_products(c[0]);
        #pragma unroll
        for (int slice = 0; slice < STEP_BYTES / SLICE_BYTES; slice++)
            multiply_add_tiles(c[0], a + slice * SLICE(A_ALONG_K), b + slice * SLICE(B_ALONG_K));
        commit_products();
        wait_for_products_before(c[0]);
        release(emptied, before);
        before = at->stage;
        next(at);
    }
    wait_for_products(c[0]);
    release(emptied, before);
}

__kernel GROUP void gemm(OPERANDS, SHARES MAPS)
{
    LOCAL_ARRAY(uint4, local_memory, 8 * LINE + STAGES * (VECTORS_A + VECTORS_B + 1));
    LOCAL_POINTER uint4 *tiles = FIRST_TILE(local_memory);
    LOCAL_POINTER ulong *filled = (LOCAL_POINTER ulong *)(tiles + STAGES * (VECTORS_A + VECTORS_B));
    LOCAL_POINTER ulong *emptied = filled + STAGES;
    const int steps = (k + STEP_K - 1) / STEP_K, id = (int)get_local_id(0);
    Ring at = {0, 0};

    if (id < STAGES) {
        init_barrier(filled + id, ARRIVALS);
        init_barrier(emptied + id, WORKERS / WARP);
        publish_writes();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    BEGIN_COPIES;
    for (int number = (int)get_group_id(0); number < whole + shares; number += (int)get_num_groups(0)) {
        const int share = number - whole, last = share < 0 ? steps : FIRST_PAIR(share + 1);
        int pair = share < 0 ? 0 : FIRST_PAIR(share);
        do {
            const int begin = share < 0 ? 0 : pair % steps, end = min(steps, begin + last - pair);
            const int p0 = begin * STEP_K, depth = min(k, end * STEP_K) - p0;
            FIND_BLOCK(share < 0 ? number : whole + pair / steps);
            if (id >= WORKERS) {
                COPY_STEPS;
            } else {
                real c[TILES_Y][TILES_X][4];
                multiply_steps(c, end - begin, tiles, filled, emptied, &at);
                if (begin == 0 && end == steps)
                    write_tile(block_of_c, ldc, c, rows, columns, product);
                else
                    keep_sum(sums + sums_start, share, begin == 0, c);
            }
            pair += end - begin;
        } while (pair < last);
    }
    if (id >= WORKERS) {
        END_COPIES;
    }
}
