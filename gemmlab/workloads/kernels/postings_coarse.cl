// All queries in one launch, a work-group for each chunk of ITEMS * EACH numbers of a query's shortest list.
//
//     for each other list of the query, the shorter ones first:
//         find where the chunk's first number and its last one belong in the list       all work-items together
//         look for each number that is left between the two                             EACH numbers a work-item
//     move the numbers that are left together

// Where x and y belong in a list: half of the work-items look for x, the other half for y, at evenly spaced places in each
// round. `ends` has room for low and high of both, twice: a round reads one half and writes the other.
FUNCTION void find_ends(LOCAL unsigned *ends, __global const unsigned *list, const unsigned length, const unsigned x,
                        const unsigned y, unsigned *of_x, unsigned *of_y)
{
    const int probes = ITEMS / 2, side = ITEM / probes, me = ITEM % probes;
    const unsigned wanted = side ? y : x;
    int now = 0;
    if (me == 0) {
        ends[2 * side] = 0;
        ends[2 * side + 1] = length;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (unsigned size = length; size > 0; size /= probes + 1) {  // at most so many places are left
        const unsigned low = ends[now + 2 * side], high = ends[now + 2 * side + 1];
        const unsigned step = (high - low) / (probes + 1) + 1, place = low + step * (me + 1) - 1;
        const int less = place < high && list[place] < wanted;
        const int next_less = place + step < high && list[place + step] < wanted;
        now = 4 - now;
        if (less && !next_less) {
            ends[now + 2 * side] = place + 1;
            ends[now + 2 * side + 1] = min(place + step, high);
        } else if (me == 0 && !less) {
            ends[now + 2 * side] = low;
            ends[now + 2 * side + 1] = min(place, high);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *of_x = ends[now];
    *of_y = ends[now + 2];
}

__kernel GROUP void coarse(COLLECTION)
{
    __local unsigned ends[8];
    __local int sums[2 * ITEMS];
    const int chunk = get_group_id(0), q = query_of(plan, queries, chunk), term = TERM(LISTS(q));
    const unsigned begin = (chunk - CHUNKS(q)) * ITEMS * EACH, end = min(begin + ITEMS * EACH, lengths[term]);
    __global const unsigned *shortest = buffer + starts[term];
    unsigned numbers[EACH];
    int left = 0;  // a bit for each of the work-item's numbers
    #pragma unroll
    for (int i = 0; i < EACH; i++) {
        const unsigned place = begin + ITEM * EACH + i;
        numbers[i] = place < end ? shortest[place] : 0;
        left |= (place < end) << i;
    }
    for (int t = LISTS(q) + 1; t < LISTS(q + 1); t++) {
        __global const unsigned *list = buffer + starts[TERM(t)];
        unsigned low, last;
        find_ends(ends, list, lengths[TERM(t)], shortest[begin], shortest[end - 1], &low, &last);
        last = min(last + 1, lengths[TERM(t)]);
        #pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (left >> i & 1) {
                low = lower_bound(list, low, last, numbers[i]);
                left &= ~((low >= last || list[low] != numbers[i]) << i);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    int own = 0, all;
    #pragma unroll
    for (int i = 0; i < EACH; i++)
        own += left >> i & 1;
    __global unsigned *to = found + PLACE(q) + begin + sum_before(sums, own, &all);
    #pragma unroll
    for (int i = 0; i < EACH; i++)
        if (left >> i & 1)
            *to++ = numbers[i];
    if (ITEM == 0)
        counts[chunk] = all;
}
