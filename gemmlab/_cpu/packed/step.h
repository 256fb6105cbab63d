/* Packing A for amx_tile.h. Included once for each type S of stored numbers. */
static void PAIR(pack_steps)(void *panel, const char *x, Count across, Count along, Count width, Count padded,
                             Count depth) {
    const Count group = STEP / sizeof(S);
    char *to = panel;
    (void)padded;  /* panels of A are as wide as their rows */
    for (Count p = 0; p < depth; p += group, to += width * STEP) {
        const Count here = least(group, depth - p);
        const char *from = x + p * along;
        if (along == sizeof(S)) {
            const Part part = part_of(here * sizeof(S));
            for (Count i = 0; i < width; i++) *(Bytes *)(to + i * STEP) = load_part(from + i * across, part);
            continue;
        }
        for (Count q = 0; q < group; q++)
            for (Count i = 0; i < width; i++)
                ((S *)(to + i * STEP))[q] = q < here ? *(const S *)(from + i * across + q * along) : 0;
    }
}
