// offsets[i] = the sum of the counts before i, for chunks + 1 of them, by one work-group.

__kernel GROUP void offsets(const int chunks, __global const int *counts, __global int *offsets)
{
    __local int sums[2 * ITEMS];
    int before = 0, all;
    for (int first = 0; first < chunks; first += ITEMS) {
        const int chunk = first + ITEM, own = chunk < chunks ? counts[chunk] : 0;
        const int mine = sum_before(sums, own, &all);
        if (chunk < chunks)
            offsets[chunk] = before + mine;
        before += all;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (ITEM == 0)
        offsets[chunks] = before;
}
