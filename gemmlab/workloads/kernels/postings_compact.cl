// What was found in all chunks, moved together, a chunk by a work-group; `begins` has where each query's begins, and the end
// of the last.

__kernel GROUP void compact(COLLECTION, __global const int *offsets, __global unsigned *ids, __global int *begins)
{
    const int chunk = get_group_id(0);
    if (chunk < CHUNKS(queries)) {
        const int q = query_of(plan, queries, chunk);
        __global const unsigned *from = found + PLACE(q) + (chunk - CHUNKS(q)) * WIDTH(q);
        for (int i = ITEM; i < counts[chunk]; i += ITEMS)
            ids[offsets[chunk] + i] = from[i];
    }
    for (int q = get_global_id(0); q <= queries; q += get_global_size(0))
        begins[q] = offsets[CHUNKS(q)];
}
