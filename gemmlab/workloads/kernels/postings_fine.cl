// The source's fine grain: a launch for each number of a query's shortest list. The work-items compare it with all numbers
// of the other lists. A chunk is one number.

__kernel GROUP void fine(const int q, const int number, COLLECTION)
{
    __local int sums[2 * ITEMS];
    const unsigned x = buffer[starts[TERM(LISTS(q))] + number];
    int lists = 0, all;
    for (int t = LISTS(q) + 1; t < LISTS(q + 1); t++) {
        __global const unsigned *list = buffer + starts[TERM(t)];
        for (unsigned i = ITEM; i < lengths[TERM(t)]; i += ITEMS)
            lists += list[i] == x;
    }
    sum_before(sums, lists, &all);
    if (ITEM == 0) {
        found[PLACE(q) + number] = x;
        counts[CHUNKS(q) + number] = all == LISTS(q + 1) - LISTS(q) - 1;
    }
}
