// Queries over posting lists, on a device. Each query's shortest list is cut into chunks; what is found in a chunk is
// written where the chunk begins in `found`, and its count to `counts`. Then the counts are summed (postings_offsets.cl)
// and the chunks moved together (postings_compact.cl).
//
// `plan` has, for all queries, one after the other:
//     the first of its lists in `terms`, its first chunk, where its first chunk begins in `found`   queries + 1 each
//     the width of its chunks                                                                       queries
//     terms: lists, the shortest of a query first

#define LISTS(q) plan[q]
#define CHUNKS(q) plan[queries + 1 + (q)]
#define PLACE(q) plan[2 * (queries + 1) + (q)]
#define WIDTH(q) plan[3 * (queries + 1) + (q)]
#define TERM(i) plan[4 * (queries + 1) - 1 + (i)]

#define COLLECTION                                                                                             \
    const int queries, __global const int *plan, __global const unsigned *buffer, __global const long *starts, \
    __global const unsigned *lengths, __global unsigned *found, __global int *counts

// The first place in [low, high) of a list whose number is x or more; `high` if none is.
FUNCTION unsigned lower_bound(__global const unsigned *list, unsigned low, unsigned high, const unsigned x)
{
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (list[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The query that a chunk belongs to.
FUNCTION int query_of(__global const int *plan, const int queries, const int chunk)
{
    int low = 0, high = queries - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (CHUNKS(middle) <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// The sum of the counts of the work-items before this, and of all. `sums` has room for 2 ITEMS: a step reads one half
// and writes the other.
FUNCTION int sum_before(LOCAL int *sums, const int own, int *all)
{
    int now = 0;
    sums[ITEM] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < ITEMS; step *= 2) {
        const int sum = sums[now + ITEM] + (ITEM >= step ? sums[now + ITEM - step] : 0);
        now = ITEMS - now;
        sums[now + ITEM] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *all = sums[now + ITEMS - 1];
    return sums[now + ITEM] - own;
}
