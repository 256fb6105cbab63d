// The source's coarse grain: a launch for a query, a work-item for each chunk of its shortest list, which scans the other
// lists from their beginning. EXACT: from where a search finds the chunk's first number.

__kernel GROUP void chunks(const int q, COLLECTION)
{
    const int chunk = get_global_id(0), term = TERM(LISTS(q));
    if (chunk >= CHUNKS(q + 1) - CHUNKS(q))
        return;
    const unsigned begin = (unsigned)chunk * WIDTH(q), end = min(begin + WIDTH(q), lengths[term]);
    __global const unsigned *shortest = buffer + starts[term];
    __global unsigned *own = found + PLACE(q) + begin;
    int count = 0;
    for (unsigned i = begin; i < end; i++)
        own[count++] = shortest[i];
    for (int t = LISTS(q) + 1; t < LISTS(q + 1) && count > 0; t++) {
        __global const unsigned *list = buffer + starts[TERM(t)];
        const unsigned length = lengths[TERM(t)];
#ifdef EXACT
        unsigned at = lower_bound(list, 0, length, own[0]);
#else
        unsigned at = 0;
#endif
        int left = 0;
        for (int i = 0; i < count; i++) {
            while (at < length && list[at] < own[i])
                at++;
            if (at < length && list[at] == own[i])
                own[left++] = own[i];
        }
        count = left;
    }
    counts[CHUNKS(q) + chunk] = count;
}
