/* The five loops around the micro-kernel, as Goto and van de Geijn order them and BLIS numbers them:

       5th  for jc in 0..n by nc:
       4th      for pc in 0..k by kc:              pack B[pc:pc+kc, jc:jc+nc]      all threads; stays in L3
                                                   (barrier)
       3rd          parallel for ic in 0..m by mc: pack A[ic:ic+mc, pc:pc+kc]      each thread its own; stays in L2
       2nd              for jr in 0..nc by NR:                                     a panel of B stays in L1
       1st                  for ir in 0..mc by MR: micro-kernel
                                                   (barrier)

   C takes the sum over each kc of k in order, so no bit depends on threads, on mc and nc, or on the rows that A has.
   Where there are fewer blocks of rows than the threads want, each is shared by columns too, and packed by each
   thread that takes a part. Panels of A are of equal height up to one row, so that none is a thin rest. */

#define BLOCKS_A_THREAD 2  /* on a shared machine no thread is as fast as the other */

/* Rows of a block of A: equal shares, some for each thread where there are rows enough. */
INLINE Count NAME(block_rows)(const Product *x) {
    Count blocks = parts(x->m, x->mc);
    if (x->threads > 1) blocks = least(up(blocks, BLOCKS_A_THREAD * x->threads), most(1, x->m / (4 * MR)));
    return WHOLE_PANELS ? up(parts(x->m, blocks), MR) : parts(x->m, blocks);
}

/* Where a panel of A begins: all are of equal height up to one row, so that none is a thin rest. */
INLINE Count NAME(panel_row)(Count rows, Count panel, Count panels) {
    return WHOLE_PANELS ? least(panel * MR, rows) : share(rows, panel, panels);
}

/* Bytes of a row of A or a column of B in panels of this depth. */
INLINE Count NAME(bytes_of)(Count depth) { return parts(depth, GROUP) * STEP; }

/* Bytes of the block of B that all threads share, and of the block of A that each has. */
INLINE Count NAME(shared_bytes)(const Product *x) {
    return x->packed ? 0 : up(least(up(x->n, NR), up(x->nc, NR)) * NAME(bytes_of)(least(x->k, x->kc)), 64);
}
INLINE Count NAME(own_bytes)(const Product *x) {
    return up(up(NAME(block_rows)(x), MR) * NAME(bytes_of)(least(x->k, x->kc)), 64);
}

static Count NAME(workspace)(const Product *x) {
    return NAME(shared_bytes)(x) + x->threads * NAME(own_bytes)(x);
}

/* 2nd and 1st loop: a block of C from a packed block of A and packed panels of B. */
static void NAME(block)(const Product *x, Count rows, Count columns, Count depth, const char *a, const char *b, char *c,
                        int add) {
    const Count panels = parts(rows, MR), steps = parts(depth, GROUP);
    NAME(begin)();
    for (Count jr = 0; jr < columns; jr += NR, b += NR * steps * STEP)
        for (Count panel = 0; panel < panels; panel++) {
            const Count ir = NAME(panel_row)(rows, panel, panels), height = NAME(panel_row)(rows, panel + 1, panels) - ir;
            NAME(run_tile)(height, least(NR, columns - jr), steps, a + ir * steps * STEP, b,
                           c + ir * x->ci + jr * x->cj, x->ci, x->cj, add);
        }
    NAME(end)();
}

static void NAME(pack_block)(const Product *x, char *to, const char *a, Count rows, Count depth) {
    const Count panels = parts(rows, MR);
    for (Count panel = 0; panel < panels; panel++) {
        const Count ir = NAME(panel_row)(rows, panel, panels), height = NAME(panel_row)(rows, panel + 1, panels) - ir;
        x->pack_a(to + ir * NAME(bytes_of)(depth), a + ir * x->ai, x->ai, x->ap, height, height, depth);
    }
}

/* Panels `first` to `end` of B[pc:pc+depth, jc:jc+columns]. */
static void NAME(pack_panels)(const Product *x, char *to, Count pc, Count jc, Count columns, Count depth, Count first,
                              Count end) {
    for (Count panel = first; panel < end; panel++) {
        const Count j = panel * NR;
        x->pack_b(to + j * NAME(bytes_of)(depth), x->b + pc * x->bp + (jc + j) * x->bj, x->bj, x->bp, least(NR, columns - j),
                  NR, depth);
    }
}

/* Where the panels of B begin for a block of k and a panel of columns; they were made by NAME(pack_whole). */
INLINE const char *NAME(panels_at)(const Product *x, Count pc, Count j, Count depth) {
    return x->packed + up(x->packed_n, NR) * NAME(bytes_of)(pc) + (x->packed_j + j) * NAME(bytes_of)(depth);
}

/* One thread's part in all loops. `next` is the team's: the next block of C that nobody has taken. */
static void NAME(loops)(const Product *x, int thread, int threads, char *own_a, Count *next) {
    const Count mc = NAME(block_rows)(x), blocks = parts(x->m, mc);
    const Count nc = up(x->nc, NR);
    for (Count jc = 0; jc < x->n; jc += nc) {
        const Count columns = least(nc, x->n - jc), panels = parts(columns, NR);
        const Count across = least(panels, parts(x->threads, blocks));  /* parts of a block row of C */
        for (Count pc = 0; pc < x->k; pc += x->kc) {
            const Count depth = least(x->kc, x->k - pc);
            const char *const b = x->packed ? NAME(panels_at)(x, pc, jc, depth) : x->buffer;
            if (thread == 0) *next = 0;
            if (!x->packed) {
                const Count first = share(panels, thread, threads), end = share(panels, thread + 1, threads);
                NAME(pack_panels)(x, x->buffer, pc, jc, columns, depth, first, end);
            }
            meet(threads);
            Count task, packed = -1;
            while ((task = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < blocks * across) {
                const Count i = task / across, part = task % across, ic = i * mc, rows = least(mc, x->m - ic);
                const Count from = share(panels, part, across) * NR;
                const Count to = least(columns, share(panels, part + 1, across) * NR);
                if (i != packed) NAME(pack_block)(x, own_a, x->a + ic * x->ai + pc * x->ap, rows, depth);
                packed = i;
                NAME(block)(x, rows, to - from, depth, own_a, b + from * NAME(bytes_of)(depth),
                            x->c + ic * x->ci + (jc + from) * x->cj, pc > 0);
            }
            meet(threads);
        }
    }
}

static void NAME(five_loops)(const Product *x) {
    const Count own = NAME(own_bytes)(x);
    char *const a = x->buffer + NAME(shared_bytes)(x);
    Count next;
    if (x->threads == 1) {
        NAME(loops)(x, 0, 1, a, &next);
        return;
    }
    #pragma omp parallel num_threads(x->threads)
    NAME(loops)(x, omp_get_thread_num(), omp_get_num_threads(), a + omp_get_thread_num() * own, &next);
}
