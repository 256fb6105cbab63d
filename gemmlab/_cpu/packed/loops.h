/* The loops around the micro-kernel, as Goto and van de Geijn order them and BLIS numbers them, but for the 4th:

       5th  for jc in 0..n by nc:
                for pr in 0..k by kr:                pack B[pr:pr+kr, jc:jc+nc]    all threads; stays in L3
                                                     (barrier)
       3rd          parallel for ic in 0..m by mc:
                        for js in 0..nc by ns:
       4th                  for pc in 0..kr by kc:   pack A[ic:ic+mc, pc:pc+kc]    each thread its own; stays in L2
       2nd                      for jr in 0..ns by NR:                             a panel of B stays in L1
       1st                          for ir in 0..mc by MR: micro-kernel
                                                     (barrier)

   In BLIS the 4th loop stands outside of the 3rd, and all of C passes through the caches once for each kc. Here it
   stands inside, so that a strip of C, mc x ns, stays in L2 until its sums are whole; that wants kr of B packed at
   once: all of k where memory allows, else some kc. Packed A is kept for the next strip where it fits. Sums that C
   does not store, or whose rows would push each other out of the caches, stand in a strip of memory meanwhile.

   C takes the sum over each kc of k in order, so no bit depends on threads, on any other block, or on the rows that A
   has. Where there are fewer blocks of rows than the threads want, each is shared by columns too, and packed by each
   thread that takes a part. */

#define FEW_THREADS 4
#define BLOCKS_A_THREAD(threads) ((threads) > FEW_THREADS ? 4 : 2)  /* no thread is as fast as another */
#define MANY_BLOCKS 6             /* a thread: as many are as good as equal shares */
#define LEAST_ROWS most(32, 2 * MR)  /* of a block of A */
#define A_IN_L2 (512 << 10)       /* bytes of packed A */
#define LEAST_COLUMNS 1024        /* of a block of B, where k is so long that memory for all of it would hold fewer */
#define STRIP 512                 /* columns of a strip of C */
#define CONFLICT 4096             /* rows of C that lie such bytes apart push each other out of the caches */
#define LEAST_B (4 << 20)         /* bytes of a packed block of B: at least this, */
#define B_OF_A_THREAD (2 << 20)   /* and this for each thread of a team */
#define A_OF_A_THREAD (2 << 20)   /* bytes of packed A that a thread keeps */

typedef struct NAME(Plan) {
    Count mc, nc, kr, ns;
    Count kept;  /* blocks of packed A */
    int apart;   /* a strip's sums stand in memory of their own until they are whole */
} NAME(Plan);

/* Bytes of a row of A or a column of B in panels of this depth. */
INLINE Count NAME(bytes_of)(Count depth) { return parts(depth, GROUP) * STEP; }

/* Rows of a block of A: few enough for the `k` of them that is packed at once to stay in L2; and where blocks are few,
   equal shares for the threads, some for each where there are rows enough. */
INLINE Count NAME(block_rows)(const Product *x, Count k) {
    const Count in_l2 = most(3 * MR, A_IN_L2 / NAME(bytes_of)(k) / MR * MR);
    Count blocks = parts(x->m, least(x->mc, in_l2));
    if (x->threads > 1 && blocks < MANY_BLOCKS * x->threads) {
        const Count fit = most(1, x->m / LEAST_ROWS), some = BLOCKS_A_THREAD(x->threads) * x->threads;
        const Count shares = most(up(blocks, x->threads), some <= fit ? some : 1);
        blocks = shares <= fit ? shares : most(blocks, fit);
    }
    return WHOLE_PANELS ? up(parts(x->m, blocks), MR) : parts(x->m, blocks);
}

/* Where a panel of A begins: all are of equal height up to one row, so that none is a thin rest. */
INLINE Count NAME(panel_row)(Count rows, Count panel, Count panels) {
    return WHOLE_PANELS ? least(panel * MR, rows) : share(rows, panel, panels);
}

INLINE Count NAME(most_of_b)(const Product *x) {
    return x->most_of_b ? x->most_of_b : most(LEAST_B, x->threads * B_OF_A_THREAD);
}
/* Bytes of a packed block of A with so many rows. */
INLINE Count NAME(a_bytes)(const Product *x, Count rows) { return up(rows, MR) * NAME(bytes_of)(least(x->k, x->kc)); }

INLINE NAME(Plan) NAME(plan)(const Product *x) {
    const Count most_of_b = NAME(most_of_b)(x);
    NAME(Plan) plan = {.nc = x->n, .kr = x->k};
    if (!x->packed) {
        const Count fit = most_of_b / NAME(bytes_of)(x->k) / NR * NR;
        const Count columns = least(x->nc, most(fit, x->narrow ? NR : LEAST_COLUMNS));
        plan.nc = least(x->n, up(parts(x->n, parts(x->n, columns)), NR));
        if (!x->narrow) plan.kr = least(x->k, x->kc * most(1, most_of_b / (up(plan.nc, NR) * NAME(bytes_of)(x->kc))));
    }
    plan.mc = NAME(block_rows)(x, plan.kr);
    plan.kept = parts(plan.kr, x->kc);
    if (plan.kept * NAME(a_bytes)(x, plan.mc) > A_OF_A_THREAD) plan.kept = 1;
    plan.ns = up(plan.nc, NR);
    if (plan.kr > x->kc || x->narrow) plan.ns = least(plan.ns, up(STRIP, NR));
    plan.apart = x->narrow || (plan.kr == x->k && x->k > x->kc && x->ci % CONFLICT == 0);
    return plan;
}

/* Bytes of the block of B that all threads share, and of what each thread has: its A, and sums that stand apart. What
   is enough for a product is enough for a part of it, whatever the plan of that is. */
INLINE Count NAME(shared_bytes)(const Product *x) {
    const Count block = up(least(x->n, LEAST_COLUMNS), NR) * NAME(bytes_of)(least(x->k, x->kc));
    const Count most_of_b = most(most(NAME(most_of_b)(x), block), x->narrow ? NR * NAME(bytes_of)(x->k) : 0);
    return x->packed ? 0 : up(least(up(x->n, NR) * NAME(bytes_of)(x->k), up(most_of_b, NR * STEP)), 64);
}
INLINE Count NAME(own_bytes)(const Product *x) {
    const Count rows = least(x->m, x->mc), a = NAME(a_bytes)(x, rows + (WHOLE_PANELS ? MR : 0));
    const Count sums = x->narrow || x->k > x->kc ? (rows + MR) * up(least(x->n, STRIP), NR) * CELL : 0;
    return up(least(parts(x->k, x->kc) * a, most(A_OF_A_THREAD, a)) + sums, 64);
}

static Count NAME(workspace)(const Product *x) {
    return NAME(shared_bytes)(x) + x->threads * NAME(own_bytes)(x);
}

/* 2nd and 1st loop: a block of C from a packed block of A and packed panels of B. */
static void NAME(block)(Count rows, Count columns, Count depth, const char *a, const char *b, char *c, Count ci,
                        Count cj, int add) {
    const Count panels = parts(rows, MR), steps = parts(depth, GROUP);
    NAME(begin)();
    for (Count jr = 0; jr < columns; jr += NR, b += NR * steps * STEP)
        for (Count panel = 0; panel < panels; panel++) {
            const Count ir = NAME(panel_row)(rows, panel, panels), end = NAME(panel_row)(rows, panel + 1, panels);
            char *const tile = c + ir * ci + jr * cj;
            NAME(run_tile)(end - ir, least(NR, columns - jr), steps, a + ir * steps * STEP, b, tile, ci, cj, add);
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

/* Panels of B[pr:pr+k, jc:jc+columns], a block of k after the other: those that are this thread's to pack. */
static void NAME(pack_panels)(const Product *x, char *to, Count pr, Count k, Count jc, Count columns, Count thread,
                              Count threads) {
    const Count panels = parts(columns, NR), all = parts(k, x->kc) * panels;
    for (Count i = share(all, thread, threads); i < share(all, thread + 1, threads); i++) {
        const Count pc = i / panels * x->kc, j = i % panels * NR, depth = least(x->kc, k - pc);
        char *const panel = to + panels * NR * NAME(bytes_of)(pc) + j * NAME(bytes_of)(depth);
        const char *const from = x->b + (pr + pc) * x->bp + (jc + j) * x->bj;
        x->pack_b(panel, from, x->bj, x->bp, least(NR, columns - j), NR, depth);
    }
}

/* Where the panels of B begin for a block of k and a panel of columns; they were made by NAME(pack_whole). */
INLINE const char *NAME(panels_at)(const Product *x, Count pc, Count j, Count depth) {
    return x->packed + up(x->packed_n, NR) * NAME(bytes_of)(pc) + (x->packed_j + j) * NAME(bytes_of)(depth);
}

/* Sums that are whole, to C. */
static void NAME(copy)(char *c, Count ci, Count cj, const char *sums, Count rows, Count columns, Count width) {
    for (Count i = 0; i < rows; i++, c += ci, sums += width * CELL)
        if (cj == CELL)
            memcpy(c, sums, columns * CELL);
        else
            for (Count j = 0; j < columns; j++) memcpy(c + j * cj, sums + j * CELL, CELL);
}

/* 4th loop: a strip of C, from rows of A and columns `j` on of the panels of B, over `k` of k from `pr` on. */
static void NAME(strip_of_c)(const Product *x, const NAME(Plan) *plan, const char *b, Count jc, Count pr, Count k,
                             Count ic, Count rows, Count j, Count columns, char *own, int pack) {
    const Count wide = up(least(plan->nc, x->n - jc), NR);
    char *const sums = own + plan->kept * NAME(a_bytes)(x, plan->mc), *const c = x->c + ic * x->ci + (jc + j) * x->cj;
    for (Count pc = 0; pc < k; pc += x->kc) {
        const Count depth = least(x->kc, k - pc);
        char *const a = own + pc / x->kc % plan->kept * NAME(a_bytes)(x, plan->mc);
        if (pack || plan->kept < parts(k, x->kc))
            NAME(pack_block)(x, a, x->a + ic * x->ai + (pr + pc) * x->ap, rows, depth);
        const char *const panels = x->packed ? NAME(panels_at)(x, pr + pc, jc + j, depth)
                                             : b + wide * NAME(bytes_of)(pc) + j * NAME(bytes_of)(depth);
        if (plan->apart)
            NAME(block)(rows, columns, depth, a, panels, sums, plan->ns * CELL, CELL, pc > 0);
        else
            NAME(block)(rows, columns, depth, a, panels, c, x->ci, x->cj, pr + pc > 0);
    }
    if (x->narrow)
        x->narrow(c, x->ci, x->cj, sums, rows, columns, plan->ns);
    else if (plan->apart)
        NAME(copy)(c, x->ci, x->cj, sums, rows, columns, plan->ns);
}

/* One thread's part in all loops. `next` is the team's: the next block of C that nobody has taken. */
static void NAME(loops)(const Product *x, const NAME(Plan) *plan, int thread, int threads, char *own, Count *next) {
    const Count blocks = parts(x->m, plan->mc);
    for (Count jc = 0; jc < x->n; jc += plan->nc) {
        const Count columns = least(plan->nc, x->n - jc), panels = parts(columns, NR);
        const Count wanted = x->threads > 1 ? BLOCKS_A_THREAD(x->threads) * x->threads : 1;
        const Count across = least(panels, parts(wanted, blocks));  /* parts of a block row of C */
        for (Count pr = 0; pr < x->k; pr += plan->kr) {
            const Count k = least(plan->kr, x->k - pr);
            if (thread == 0) *next = 0;
            if (!x->packed) NAME(pack_panels)(x, x->buffer, pr, k, jc, columns, thread, threads);
            meet(threads);
            Count task, packed = -1;
            while ((task = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < blocks * across) {
                const Count i = task / across, part = task % across;
                const Count ic = i * plan->mc, rows = least(plan->mc, x->m - ic);
                const Count end = least(columns, share(panels, part + 1, across) * NR);
                for (Count js = share(panels, part, across) * NR; js < end; js += plan->ns) {
                    const Count width = least(plan->ns, end - js);
                    NAME(strip_of_c)(x, plan, x->buffer, jc, pr, k, ic, rows, js, width, own, i != packed);
                    packed = i;
                }
            }
            meet(threads);
        }
    }
}

static void NAME(five_loops)(const Product *x) {
    const NAME(Plan) plan = NAME(plan)(x);
    const Count own = NAME(own_bytes)(x);
    char *const owns = x->buffer + NAME(shared_bytes)(x);
    Count next;
    if (x->threads == 1) {
        NAME(loops)(x, &plan, 0, 1, owns, &next);
        return;
    }
    #pragma omp parallel num_threads(x->threads)
    NAME(loops)(x, &plan, omp_get_thread_num(), omp_get_num_threads(), owns + omp_get_thread_num() * own, &next);
}
