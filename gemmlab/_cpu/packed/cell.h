/* Packing for instructions that multiply some numbers of k at once: PER of them stand side by side in 4 bytes, a cell.

       for g in 0..depth / PER:
           for i in 0..width:      panel[g * padded + i] = x[i * across + (g PER + 0, 1, ...) * along]
           for i in width..padded: panel[g * padded + i] = 0

   What the last cell lacks is 0, and so is what lacks in cells to a step of the micro-kernel. Where the numbers of a
   cell are adjacent, cells are packed as numbers are; where those of a row are, vectors of them are shifted and joined.

   Included once for each type S of stored numbers: BITS(x) is one of them in the low bits of a cell, MANY_BITS(x) a
   vector of adjacent ones, and PACK_WHOLE packs cells whose numbers are adjacent. */
static void PAIR(pack)(void *panel, const char *x, Count across, Count along, Count width, Count padded, Count depth) {
    const int bits = 32 / PER;
    const Count cells = up(parts(depth, PER), CELLS_IN_STEP);
    uint32_t *to = panel;
    Count g = 0;
    if (along == sizeof(S)) {
        g = depth / PER;
        PACK_WHOLE(panel, x, across, PER * sizeof(S), width, padded, g);
        to += g * padded;
    }
    for (; g < cells; g++, to += padded) {
        const char *from = x + g * PER * along;
        const Count here = most(0, least(PER, depth - g * PER));
        Count i = 0;
        if (across == sizeof(S) && here == PER)
            for (; i + LANES <= width; i += LANES) {
                V joined = MANY_BITS(from + i * sizeof(S));
                UNROLL for (int q = 1; q < PER; q++)
                    joined |= MANY_BITS(from + q * along + i * sizeof(S)) << (q * bits);
                LOOSE(to + i) = joined;
            }
        for (; i < width; i++) {
            uint32_t cell = 0;
            for (Count q = 0; q < here; q++) cell |= BITS(from + i * across + q * along) << (q * bits);
            to[i] = cell;
        }
        for (; i < padded; i++) to[i] = 0;
    }
}
#undef BITS
#undef MANY_BITS
#undef PER
#undef PACK_WHOLE
