/* What five loops do badly, and the rule that chooses.

   in place    A is not packed, nor B if its columns are adjacent: few rows of A, or a product that fits near caches.
   deep        a small C and a long k: each thread sums blocks of kc of its own, which are then added in order.
   dots        B is one column: dot products, in lanes of k.

   All but `dots` sum as the five loops do, so rows of A and threads change no bit; `dots` is taken for every product
   with one column, whatever A is. */

#define PLACED_COLUMNS (IN_PLACE_VECTORS * LANES)

/* Columns of a strip of C. */
INLINE Count NAME(strip_columns)(const Product *x) { return x->packed || !IN_PLACE ? NR : PLACED_COLUMNS; }

#if IN_PLACE
INLINE Place NAME(place_of)(const Product *x, Count columns) {
    return (Place){x->k, x->ai, x->ap, x->bp, x->ci, x->cj, columns, 0, 1, 0, 0, 0};
}

/* A strip of C, from where A lies, and B too if its columns are adjacent; else B is packed first. */
INLINE void NAME(strip)(const Product *x, Count jr, char *buffer) {
    const Count columns = least(NAME(strip_columns)(x), x->n - jr), vectors = parts(columns, LANES);
    const Count panels = parts(x->m, IN_PLACE_ROWS), height = x->m / panels, taller = x->m % panels;
    const int gather = !x->packed && x->bj != sizeof(T), whole = x->packed || gather || columns == vectors * LANES;
    Place place = NAME(place_of)(x, columns);
    if (x->packed || gather) place.bp = (x->packed ? VECTORS : vectors) * VECTOR_BYTES;
    for (Count pc = 0; pc < x->k; pc += x->kc) {
        const Count depth = least(x->kc, x->k - pc);
        const char *a = x->a + pc * x->ap, *b = x->b + pc * x->bp + jr * x->bj;
        char *c = x->c + jr * x->cj;
        if (x->packed) b = NAME(panels_at)(x, pc, jr, depth);
        if (gather) {
            x->pack_b(buffer, b, x->bj, x->bp, columns, vectors * LANES, depth);
            b = buffer;
        }
        place.depth = depth, place.add = pc > 0;
        for (Count panel = 0; panel < panels; panel++) {
            const Count rows = height + (panel < taller);
            NAME(placed)[rows - 1][vectors - 1][whole](&place, a, b, c);
            a += rows * x->ai, c += rows * x->ci;
        }
    }
}

INLINE Count NAME(strip_bytes)(const Product *x) {
    return x->packed || x->bj == sizeof(T) ? 0 : least(x->k, x->kc) * PLACED_COLUMNS * (Count)sizeof(T);
}

static void NAME(in_place)(const Product *x) {
    const Count columns = NAME(strip_columns)(x);
    for (Count jr = 0; jr < x->n; jr += columns) NAME(strip)(x, jr, x->buffer);
}

/* Small products, each of one strip and one block of k: a tile goes through some of them before the next tile does. */
#define AT_ONCE_BYTES (12 << 10)

static void NAME(small)(const Product *x, Count products, Count a_step, Count b_step, Count c_step) {
    const Count vectors = parts(x->n, LANES), panels = parts(x->m, IN_PLACE_ROWS);
    const Count height = x->m / panels, taller = x->m % panels;
    const int whole = x->n == vectors * LANES;
    Place place = NAME(place_of)(x, x->n);
    place.a_step = a_step, place.b_step = b_step, place.c_step = c_step;
    const Count one = (x->m * x->k + x->k * x->n + x->m * x->n) * (Count)sizeof(T);
    const Count at_once = panels == 1 ? products : most(1, AT_ONCE_BYTES / one);
    for (Count i = 0; i < products; i += at_once) {
        const char *a = x->a + i * a_step, *b = x->b + i * b_step;
        char *c = x->c + i * c_step;
        place.products = least(at_once, products - i);
        for (Count panel = 0; panel < panels; panel++) {
            const Count rows = height + (panel < taller);
            NAME(placed)[rows - 1][vectors - 1][whole](&place, a, b, c);
            a += rows * x->ai, c += rows * x->ci;
        }
    }
}
#endif

/* Dots: for each row of A, DOT_VECTORS vectors of sums over every DOT_VECTORS * LANES-th number of a block of k. */
#define DOT_VECTORS 4
#define DOT_ROWS 4
#if IN_PLACE
INLINE void NAME(dot)(const int rows, Count depth, const char *a, Count ai, const T *b, char *c, Count ci, int add) {
    V sum[DOT_ROWS][DOT_VECTORS];
    const Count step = DOT_VECTORS * LANES;
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) sum[i][v] = (V){0};
    Count p = 0;
    for (; p + step <= depth; p += step)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) {
            const V x = LOOSE(b + p + v * LANES);
            UNROLL for (int i = 0; i < rows; i++)
                sum[i][v] = sum[i][v] + LOOSE(a + i * ai + (p + v * LANES) * sizeof(T)) * x;
        }
    UNROLL for (int v = 0; v < DOT_VECTORS; v++)
        if (p + v * LANES < depth) {
            const Part part = part_of((depth - p - v * LANES) * (Count)sizeof(T));
            const V x = (V)load_part(b + p + v * LANES, part);
            UNROLL for (int i = 0; i < rows; i++)
                sum[i][v] = sum[i][v] + (V)load_part(a + i * ai + (p + v * LANES) * sizeof(T), part) * x;
        }
    UNROLL for (int i = 0; i < rows; i++) {
        V lanes = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
        for (int half = LANES / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
        T *number = (T *)(c + i * ci);
        *number = add ? *number + lanes[0] : lanes[0];
    }
}

/* DOT_ROWS rows of A, or what is left of them. What is not adjacent is copied to the buffer first. */
static void NAME(dot_rows)(const Product *x, Count ir, char *buffer) {
    const int gather_a = x->ap != sizeof(T) || !x->as_stored;
    const int gather_b = !x->packed && (x->bp != sizeof(T) || !x->as_stored);
    const Count rows = least(DOT_ROWS, x->m - ir);
    for (Count pc = 0; pc < x->k; pc += x->kc) {
        const Count depth = least(x->kc, x->k - pc);
        const char *a = x->a + ir * x->ai + pc * x->ap, *b = x->packed ? x->packed + pc * sizeof(T) : x->b + pc * x->bp;
        Count ai = x->ai;
        if (gather_b) x->pack_a(buffer, b, x->bp, 0, depth, depth, 1);
        if (gather_a) x->pack_a(buffer + DOT_KC * sizeof(T), a, x->ap, x->ai, depth, depth, rows);
        if (gather_b) b = buffer;
        if (gather_a) a = buffer + DOT_KC * sizeof(T), ai = depth * sizeof(T);
        if (rows == DOT_ROWS)
            NAME(dot)(DOT_ROWS, depth, a, ai, (const T *)b, x->c + ir * x->ci, x->ci, pc > 0);
        else
            for (Count i = 0; i < rows; i++)
                NAME(dot)(1, depth, a + i * ai, ai, (const T *)b, x->c + (ir + i) * x->ci, x->ci, pc > 0);
    }
}

static void NAME(dots)(const Product *x) {
    const Count own = up((DOT_ROWS + 1) * DOT_KC * sizeof(T), 64);
    if (x->threads == 1) {
        for (Count ir = 0; ir < x->m; ir += DOT_ROWS) NAME(dot_rows)(x, ir, x->buffer);
        return;
    }
    #pragma omp parallel for schedule(static) num_threads(x->threads)
    for (Count ir = 0; ir < x->m; ir += DOT_ROWS) NAME(dot_rows)(x, ir, x->buffer + omp_get_thread_num() * own);
}
#endif

/* The rule, for one thread and for a team. A product that is thin in one direction falls into pieces along the other,
   each multiplied by one thread alone; only what is large both ways is worth panels that all threads share. */
#define FEW_ROWS 12
#define IN_PLACE_BYTES (128 << 10)  /* of B, as packed */
#define THIN 256
#define PIECES_A_THREAD 4
#define LEAST_PIECE_ROWS 20
#define LEAST_EDGE 96               /* of a piece: the thin operand is packed for each anew */
#define THIN_B (512 << 10)          /* few rows use a panel of B seldom: a block of as many as L2 holds, in bytes */

INLINE int NAME(is_dots)(const Product *x) { return IN_PLACE && x->n == 1; }

INLINE int NAME(stays_in_place)(const Product *x) {
    return IN_PLACE && x->as_stored
        && (x->m <= FEW_ROWS || up(x->n, LANES) * x->k * (Count)sizeof(T) <= IN_PLACE_BYTES);
}

/* Extent of a piece, where pieces are of at least so many: as many for each thread as there is room for. */
INLINE Count NAME(piece_extent)(Count extent, Count least_extent, int threads, Count most_a_thread) {
    const Count fit = most(1, extent / least_extent);
    return parts(extent, fit < threads ? fit : threads * least(most_a_thread, fit / threads));
}

/* The pieces of a product for its threads: rows and columns of each. */
INLINE Product NAME(piece)(const Product *x) {
    Product piece = *x;
    const int in_place = NAME(stays_in_place)(x), gathered = in_place && !x->packed && x->bj != sizeof(T);
    const Count strip = gathered ? LANES : NAME(strip_columns)(x);
    const int of_rows = in_place ? x->m >= 2 * LEAST_PIECE_ROWS && (!gathered || x->n < 2 * strip * x->threads)
                                 : x->m >= x->n;
    piece.threads = 1;
    if (of_rows)  /* pieces of rows gather all of B each */
        piece.m = NAME(piece_extent)(x->m, LEAST_PIECE_ROWS, x->threads, gathered ? 1 : PIECES_A_THREAD);
    else
        piece.n = up(NAME(piece_extent)(x->n, strip, x->threads, gathered ? 1 : PIECES_A_THREAD), strip);
    if (!in_place && x->m <= THIN) {
        piece.most_of_b = THIN_B;
        piece.nc = least(x->nc, most(NR, up(THIN_B / NAME(bytes_of)(least(x->k, x->kc)), NR)));
    }
    piece.m = least(piece.m, x->m), piece.n = least(piece.n, x->n);
    return piece;
}

static void NAME(alone)(const Product *x) {
#if IN_PLACE
    if (NAME(stays_in_place)(x)) {
        NAME(in_place)(x);
        return;
    }
#endif
    NAME(five_loops)(x);
}

static Count NAME(workspace_alone)(const Product *x) {
#if IN_PLACE
    if (NAME(stays_in_place)(x)) return NAME(strip_bytes)(x);
#endif
    return NAME(workspace)(x);
}

/* A thread's first piece is known without asking the others: where there is one for each, nobody waits. */
static void NAME(pieces)(const Product *x) {
    const Product shape = NAME(piece)(x);
    const Count m = x->m, n = x->n, across = parts(n, shape.n), count = parts(m, shape.m) * across;
    const Count own = up(NAME(workspace_alone)(&shape), 64);
    Count taken = 0;
    #pragma omp parallel num_threads(x->threads)
    for (Count i = omp_get_thread_num(); i < count;
         i = omp_get_num_threads() + __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED)) {
        const Count ic = i / across * shape.m, jc = i % across * shape.n;
        Product piece = shape;
        piece.m = least(shape.m, m - ic), piece.n = least(shape.n, n - jc);
        piece.a += ic * piece.ai, piece.b += jc * piece.bj, piece.c += ic * piece.ci + jc * piece.cj;
        piece.packed_j += jc, piece.buffer += omp_get_thread_num() * own;
        NAME(alone)(&piece);
    }
}

INLINE int NAME(is_in_pieces)(const Product *x) {
    const Count thin = least(x->m, x->n), edge = most(x->m, x->n);
    return x->threads > 1
        && (NAME(stays_in_place)(x) || (thin <= THIN && edge >= LEAST_EDGE * PIECES_A_THREAD * x->threads));
}

static void NAME(on_one_team)(const Product *x) {
#if IN_PLACE
    if (NAME(is_dots)(x)) {
        NAME(dots)(x);
        return;
    }
#endif
    if (NAME(is_in_pieces)(x))
        NAME(pieces)(x);
    else
        NAME(alone)(x);
}

static Count NAME(workspace_of_team)(const Product *x) {
    if (NAME(is_dots)(x)) return x->threads * up((DOT_ROWS + 1) * DOT_KC * sizeof(T), 64);
    if (!NAME(is_in_pieces)(x)) return NAME(workspace_alone)(x);
    const Product shape = NAME(piece)(x);
    return x->threads * up(NAME(workspace_alone)(&shape), 64);
}

/* Deep: rounds of as many blocks of k as there are partial results of C, which are then added in order. */
#define DEEP_C 32768            /* most numbers of C */
#define ROUND_BLOCKS 64         /* most partial results in a round, */
#define ROUND_BYTES (4 << 20)   /* and their bytes, if there are more than threads */

INLINE Count NAME(partial_bytes)(const Product *x) { return up(x->m * x->n * CELL, 64); }

INLINE Count NAME(blocks_in_round)(const Product *x) {
    const Count fit = least(ROUND_BLOCKS, ROUND_BYTES / NAME(partial_bytes)(x));
    return least(parts(x->k, x->kc), most(x->threads, fit));
}

INLINE int NAME(is_deep)(const Product *x) {
    return x->threads > 1 && x->m * x->n <= DEEP_C && x->k >= 4 * x->kc;
}

/* A block of the k of a deep product, on one thread, into a result of its own. */
INLINE Product NAME(slice)(const Product *x, Count pc, char *c, char *buffer) {
    Product slice = *x;
    slice.threads = 1, slice.k = least(x->kc, x->k - pc), slice.buffer = buffer;
    slice.a += pc * x->ap, slice.b += pc * x->bp;
    if (x->packed) slice.packed += (NAME(is_dots)(x) ? 1 : up(x->packed_n, NR)) * NAME(bytes_of)(pc);
    slice.c = c, slice.ci = x->n * CELL, slice.cj = CELL;
    return slice;
}

static void NAME(deep)(const Product *x) {
    const Count size = NAME(partial_bytes)(x), blocks = parts(x->k, x->kc), most_blocks = NAME(blocks_in_round)(x);
    const Product whole = NAME(slice)(x, 0, NULL, NULL);
    const Count own = NAME(workspace_of_team)(&whole);
    char *const partial = x->buffer;
    #pragma omp parallel num_threads(x->threads)
    for (Count first = 0; first < blocks; first += most_blocks) {
        const Count round = least(most_blocks, blocks - first);
        #pragma omp for schedule(dynamic)
        for (Count block = 0; block < round; block++) {
            const Product slice = NAME(slice)(x, (first + block) * x->kc, partial + block * size,
                                              partial + most_blocks * size + omp_get_thread_num() * own);
            NAME(on_one_team)(&slice);
        }
        #pragma omp for schedule(static)
        for (Count i = 0; i < x->m; i++)
            for (Count block = 0; block < round; block++) {
                const T *from = (const T *)(partial + block * size) + i * x->n * PARTS;
                char *to = x->c + i * x->ci;
                for (Count j = 0; j < x->n; j++)
                    for (int part = 0; part < PARTS; part++) {
                        T *number = (T *)(to + j * x->cj) + part;
                        *number = first + block ? (T)ADD(*number, from[j * PARTS + part]) : from[j * PARTS + part];
                    }
            }
    }
}

/* Deep, of numbers stored in less than their sums: C as it is summed, then narrowed. */
static Count NAME(sums_bytes)(const Product *x) { return up(x->m * x->n * CELL, 64); }

INLINE Product NAME(wide)(const Product *x) {
    Product wide = *x;
    wide.narrow = NULL;
    wide.c = x->buffer, wide.ci = x->n * CELL, wide.cj = CELL;
    wide.buffer = x->buffer + NAME(sums_bytes)(x);
    return wide;
}

/* Fill C. */
static void NAME(multiply)(const Product *x) {
    if (NAME(is_deep)(x) || NAME(is_dots)(x)) {
        const Product wide = x->narrow ? NAME(wide)(x) : *x;
        if (NAME(is_deep)(x))
            NAME(deep)(&wide);
        else
            NAME(on_one_team)(&wide);
        if (x->narrow) x->narrow(x->c, x->ci, x->cj, wide.c, x->m, x->n, x->n);
    } else
        NAME(on_one_team)(x);
}

static const char *NAME(path)(const Product *x) {
    if (NAME(is_deep)(x)) return "a small C and a long k: blocks of k shared out to the threads, added in order";
    if (NAME(is_dots)(x)) return "one column: dot products";
    const int in_place = NAME(stays_in_place)(x), pieces = NAME(is_in_pieces)(x);
    if (in_place) return pieces ? "few rows or little work: in place, in pieces for the threads" : "small: in place";
    return pieces ? "thin: a piece for each thread, packed by itself" : "five loops on packed panels";
}

/* As many products as there are of one shape, with equal steps from each to the next. */
static void NAME(multiply_many)(const Product *x, Count products, Count a_step, Count b_step, Count c_step) {
#if IN_PLACE
    if (x->threads == 1 && x->k <= x->kc && x->n > 1 && x->n <= PLACED_COLUMNS && x->bj == sizeof(T)
        && !x->narrow && !x->packed && NAME(stays_in_place)(x)) {
        NAME(small)(x, products, a_step, b_step, c_step);
        return;
    }
#endif
    Product one = *x;
    for (Count i = 0; i < products; i++) {
        NAME(multiply)(&one);
        one.a += a_step, one.b += b_step, one.c += c_step;
    }
}

/* All panels of B, block of k by block of k; one column in dot products stays one. Returns their bytes; `to` may be
   NULL. */
static Count NAME(pack_whole)(const Product *x, char *to) {
    const int one = NAME(is_dots)(x);
    const Count padded = one ? 1 : up(x->n, NR);
    const Count bytes = padded * NAME(bytes_of)(x->k);
    if (!to) return bytes;
    if (one) {
        x->pack_a(to, x->b, x->bp, 0, x->k, x->k, 1);
        return bytes;
    }
    #pragma omp parallel num_threads(x->threads) if (x->threads > 1)
    NAME(pack_panels)(x, to, 0, x->k, 0, x->n, omp_get_thread_num(), omp_get_num_threads());
    return bytes;
}

/* Bytes of the buffer that this takes. */
static Count NAME(workspace_of)(const Product *x) {
    Count bytes = 0;
    Product wide = *x;
    if (NAME(is_deep)(x) || NAME(is_dots)(x)) {
        if (x->narrow) bytes = NAME(sums_bytes)(x);
        wide.narrow = NULL;
    }
    if (!NAME(is_deep)(x)) return bytes + NAME(workspace_of_team)(&wide);
    const Product slice = NAME(slice)(&wide, 0, NULL, NULL);
    return bytes + NAME(blocks_in_round)(x) * NAME(partial_bytes)(x) + x->threads * NAME(workspace_of_team)(&slice);
}
