// How tiles come to local memory in tensor_async, where work-items copy: each says of its copies that they have arrived, while
// those of the next stage are on their way.

#define MAPS
#define ARRIVALS COPIERS // at a barrier, of a filled stage

#define BEGIN_COPIES int before = -1 // the stage whose copies are on their way

#define COPY_STEPS                                                                                                     \
    copy_steps(FROM(p0, (const __global uchar *)block_of_a, lda, A_ALONG_K), lda, rows,                                \
               FROM(p0, (const __global uchar *)block_of_b, ldb, B_ALONG_K), ldb, columns, depth, tiles, filled,       \
               emptied, &at, &before)

#define END_COPIES                                                                                                     \
    wait_for_copies(0);                                                                                                \
    hand_over(filled, before)

// What this work-item has copied to a stage is there for the unit.
void hand_over(LOCAL_POINTER ulong *filled, const int stage)
{
    if (stage < 0)
        return;
    publish_writes();
    arrive(filled + stage);
}

// Copy the tiles of all steps of a block of C. `before` is the stage whose copies are still on their way, or -1.
INLINED void copy_steps(const __global uchar *A, const long lda, const int rows, const __global uchar *B, const long ldb,
                const int columns, const int depth, LOCAL_POINTER uint4 *tiles, LOCAL_POINTER ulong *filled,
                LOCAL_POINTER ulong *emptied, Ring *at, int *before)
{
    for (int p0 = 0; p0 < depth; p0 += STEP_K) {
        wait_for_phase(emptied + at->stage, at->round ^ 1);
        start_step(tiles, at->stage, FROM(p0, A, lda, A_ALONG_K), lda, rows, FROM(p0, B, ldb, B_ALONG_K), ldb, columns,
                   depth - p0);
        commit_copies();
        wait_for_copies(1);
        hand_over(filled, *before);
        *before = at->stage;
        next(at);
    }
}
