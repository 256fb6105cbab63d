/* The micro-kernels of a matrix by a vector, C = A b, where a register tile would have one column. Three ways to pass A:

       dot        by rows: for some of them, vectors of sums over every LEAVES-th number of k, added up at the end
       columns    by columns: the sums of many rows are vectors, to which columns of A are added, AT_ONCE at a time
       rows       by rows, to the same sums: squares of A are transposed

   A sum of floating-point numbers is the same by `dot` and `columns`: LEAVES chains of multiply-adds, chain l over p = l,
   l + LEAVES, ..., which are added in pairs. `columns` sums them one after the other, in the order in which they are added
   up, so that few partial sums exist at a time. TURNED, this is one row of C' = B' A': each sum is one chain, as in a
   register tile. Integers have any order.

   A complex sum is four of real numbers, of the products of each part of A with each part of B, put together at the end.
   TURNED, it is one chain for each part, as in a register tile. */
#pragma once

#include "microkernel.hpp"

namespace {

constexpr int DOT_VECTORS = 4;             // of sums of one row; by both parts of B, if they are complex
template <class Kind> constexpr int DOT_ROWS = Kind::PARTS == 2 && REGISTERS == 16 ? 3 : 4;  // each number of B in two registers
constexpr int COLUMN_SUMS_BYTES = 8192;    // of the sums of `columns`: two pages of a column of A, and less than L1
constexpr int READ_ROWS = 16;              // of A at a time, where a vector has fewer: a chain alone waits for itself
constexpr bool PREFETCHES = VECTOR_BYTES == LINE_BYTES;  // by shorter vectors, it takes more time than it saves (Zen 3)
constexpr int COLUMNS_AT_ONCE = 64, CHAIN_AT_ONCE = 4;  // so few columns of A, or of a chain, have their sums in registers

/* In the first lanes, the sum of all: halves are added until one number is left. */
template <class Kind, int... I>
INLINE Vector<typename Kind::Sum> fold(Vector<typename Kind::Sum> x, std::integer_sequence<int, I...>) {
    constexpr int N = sizeof...(I);
    if constexpr (N >= 32) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 16) % N...));
    if constexpr (N >= 16) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 8) % N...));
    if constexpr (N >= 8) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 4) % N...));
    if constexpr (N >= 4) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 2) % N...));
    if constexpr (Kind::PARTS == 1) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 1) % N...));
    return x;
}

/* Numbers of B, and for complex ones the same with their parts exchanged. */
template <class Kind> struct WithParts {
    using T = typename Kind::Sum;
    Vector<T> at[Kind::PARTS];

    INLINE WithParts(Vector<T> x) {
        at[0] = x;
        if constexpr (Kind::PARTS == 2) at[1] = exchanged<T>(x);
    }
    INLINE void add_products(Vector<T> *sum, Vector<T> a) const {
        if constexpr (Kind::PARTS == 2) a = in_register(a);
        UNROLL for (int part = 0; part < Kind::PARTS; part++) sum[part] = Kind::multiply_add(sum[part], a, at[part]);
    }
};

/* The first numbers of a vector, and 0 after them. */
template <class T> INLINE Vector<T> load_first(const char *x, Count numbers) {
    if (sizeof(T) >= 4 || VECTOR_BYTES == 64) return load_part<T>(x, part_of_lanes<T>(numbers));
    Vector<T> first = {};
    memcpy(&first, x, (size_t)min(numbers, LANES<T>) * sizeof(T));
    return first;
}

template <class Kind, int ROWS> INLINE void dot_once(const Tile &x, const char *a, const char *b, char *c) {
    using T = typename Kind::Sum;
    constexpr int PARTS = Kind::PARTS, N = LANES<T>, STEP = DOT_VECTORS * N / PARTS;
    constexpr auto LANE = std::make_integer_sequence<int, N>();
    const Count lanes = x.depth * PARTS;
    Registers<Kind, ROWS, DOT_VECTORS> sum;
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) sum[i][v] = Vector<T>{};
    Count p = 0;
    for (; p + STEP <= lanes; p += STEP)
        UNROLL for (int v = 0; v < DOT_VECTORS; v += PARTS) {
            const Count at = (p + v / PARTS * N) * sizeof(T);
            const WithParts<Kind> column(load<T>(b + at));
            UNROLL for (int i = 0; i < ROWS; i++) column.add_products(sum[i] + v, load<T>(a + i * x.rs_a + at));
        }
    UNROLL for (int v = 0; v < DOT_VECTORS; v += PARTS)
        if (p + v / PARTS * N < lanes) {
            const Count at = (p + v / PARTS * N) * sizeof(T), rest = lanes - p - v / PARTS * N;
            const WithParts<Kind> column(load_first<T>(b + at, rest));
            UNROLL for (int i = 0; i < ROWS; i++) column.add_products(sum[i] + v, load_first<T>(a + i * x.rs_a + at, rest));
        }
    UNROLL for (int i = 0; i < ROWS; i++) {
        T *number = (T *)(c + i * x.rs_c), whole[PARTS];
        if constexpr (PARTS == 2) {
            const Vector<T> same = fold<Kind>(Kind::add(sum[i][0], sum[i][2]), LANE);
            const Vector<T> exchanged = fold<Kind>(Kind::add(sum[i][1], sum[i][3]), LANE);
            whole[0] = same[0] - same[1], whole[1] = exchanged[1] + exchanged[0];
        } else
            whole[0] = fold<Kind>(Kind::add(Kind::add(sum[i][0], sum[i][1]), Kind::add(sum[i][2], sum[i][3])), LANE)[0];
        UNROLL for (int part = 0; part < PARTS; part++) number[part] = x.add ? Kind::add(number[part], whole[part]) : whole[part];
    }
}
template <class Kind, int ROWS> void dot(const Tile &given) {
    const Tile x = given;
    const char *a = x.a, *b = x.b;
    char *c = x.c;
    for (Count i = 0; i < x.products; i++, a += x.a_step, b += x.b_step, c += x.c_step) dot_once<Kind, ROWS>(x, a, b, c);
}

/* Numbers of A stored as S, and at least one vector of rows. */
template <class Kind, class S, bool TURNED> struct ByVector {
    using T = typename Kind::Sum;
    static constexpr int N = LANES<T>, PARTS = Kind::PARTS, ROWS = N / PARTS;  // in a vector
    static constexpr int SUMS = TURNED ? 1 : PARTS, MOST = COLUMN_SUMS_BYTES / VECTOR_BYTES;
    static constexpr int LEAVES = Kind::FUSED && !TURNED ? DOT_VECTORS * ROWS / PARTS : 1;
    static constexpr int LEVELS = __builtin_ctz(LEAVES) + 1;
    // Columns of A, for each load and store of sums: in one chain, both parts of their numbers of b had better be in registers.
    static constexpr int AT_ONCE = TURNED && PARTS == 2 && REGISTERS == 16 ? 4 : 8;

    /* Each part of a number of b, in all lanes. */
    struct Factor {
        Vector<T> part[PARTS];

        INLINE void set(const T *b) {
            UNROLL for (int i = 0; i < PARTS; i++) part[i] = b[i] - Vector<T>{};  // a sum would make 0 of -0
            if constexpr (PARTS == 2 && TURNED) part[1] = with_signs_of_i<T>(part[1]);
        }
    };

    /* Sums of some rows: in one chain, or of the products with each part of b. */
    struct Partial {
        Vector<T> of[SUMS];

        INLINE void add_products(Vector<T> x, const Factor &b) {
            of[0] = Kind::multiply_add(of[0], x, b.part[0]);
            if constexpr (PARTS == 2 && TURNED) of[0] = Kind::multiply_add(of[0], exchanged<T>(x), b.part[1]);
            if constexpr (SUMS == 2) of[1] = Kind::multiply_add(of[1], x, b.part[1]);
        }
        INLINE void add(const Partial &x) {
            UNROLL for (int i = 0; i < SUMS; i++) of[i] = Kind::add(of[i], x.of[i]);
        }
        INLINE Vector<T> whole() const {
            if constexpr (SUMS == 2) return of[0] + times_i<T>(of[1]);
            else return of[0];
        }
    };
    static INLINE Vector<T> read(const char *x) {
        if constexpr (SUMS == 2) return in_register(load<T>(x));
        else if constexpr (PARTS == 2) return load<T>(x);
        else return Read<T, S>::many(x);
    }

    /* The first row of a vector of sums: the last vector begins earlier, so that it is whole, and the first one later,
       where `before` of its rows would lie before A. */
    static INLINE Count first_row(const Tile &x, Count i, Count before = 0) {
        return max(0, min(i * ROWS - before, x.rows - ROWS));
    }

    /* Where vectors have to begin before A, to be whole vectors of memory: one that crosses two lines is two loads. */
    static INLINE Count before_first(const Tile &x) {
        const Count bytes = (intptr_t)x.a & (ROWS * (Count)sizeof(S) - 1);
        return bytes % sizeof(S) || x.rows < READ_ROWS * ROWS ? 0 : bytes / (Count)sizeof(S);
    }

    /* Some columns of A, from p on, added to the sums, which begin with 0 if `fresh`. */
    template <int COLUMNS> static INLINE void add_columns(Partial *sum, const Tile &x, Count p, bool fresh) {
        const Count before = before_first(x);
        Factor b[COLUMNS];
        const char *a[COLUMNS];
        UNROLL for (int q = 0; q < COLUMNS; q++) {
            b[q].set((const T *)x.b + (p + q * LEAVES) * PARTS);
            a[q] = x.a + (p + q * LEAVES) * x.cs_a;
        }
        for (Count i = 0; i * ROWS < x.rows + before; i++) {
            const Count at = first_row(x, i, before) * (Count)sizeof(S);
            Partial next = fresh ? Partial{} : sum[i];
            UNROLL for (int q = 0; q < COLUMNS; q++) next.add_products(read(a[q] + at), b[q]);
            sum[i] = next;
        }
    }

    /* From p on, as many columns at a time as there are: the last ones of a short chain are added together. */
    template <int COLUMNS> static INLINE Count add_most(Partial *sum, const Tile &x, Count p, Count l) {
        for (; p + (COLUMNS - 1) * LEAVES < x.depth; p += COLUMNS * LEAVES) add_columns<COLUMNS>(sum, x, p, p == l);
        if constexpr (COLUMNS > 1) return add_most<(LEAVES > 1 ? COLUMNS - 1 : COLUMNS / 2)>(sum, x, p, l);
        return p;
    }

    /* The chain of leaf l. */
    static INLINE void leaf(Partial *sum, const Tile &x, Count l) {
        const Count p = add_most<AT_ONCE>(sum, x, l, l);
        const bool none = p == l, is_padded = LEAVES > 1 && p / ROWS * ROWS < x.depth;  // `dot` adds 0 there: -0 becomes 0
        for (Count i = 0; (none || is_padded) && i * ROWS < x.rows + before_first(x); i++)
            UNROLL for (int s = 0; s < SUMS; s++) sum[i].of[s] = none ? Vector<T>{} : sum[i].of[s] + Vector<T>{};
    }

    /* Leaves in the order in which their sums are added: of the vectors of `dot` first, then halves of a vector. */
    static constexpr INLINE Count leaf_at(Count i) {
        if constexpr (LEAVES == 1) return 0;
        constexpr int VECTORS = DOT_VECTORS / PARTS;
        Count lane = 0;
        for (Count half = ROWS / 2, rest = i / VECTORS; half; half /= 2, rest /= 2) lane += rest % 2 * half;
        return i % VECTORS * ROWS + lane;
    }

    static constexpr Count first_leaf(Count i, Count number) {
        Count first = LEAVES;
        for (Count j = i; j < i + number; j++) first = leaf_at(j) < first ? leaf_at(j) : first;
        return first;
    }

    /* Sums of vector i, but for rows that the vector before it has too, unless those may be written again. */
    static INLINE void put(const Vector<T> &sum, const Tile &x, Count i, Count before = 0) {
        const Count first = first_row(x, i, before);
        if (!x.add && x.rs_c == PARTS * (Count)sizeof(T)) return store<T>(x.c + first * x.rs_c, sum);
        for (Count row = max(0, i * ROWS - before); row < min((i + 1) * ROWS - before, x.rows); row++)
            UNROLL for (int part = 0; part < PARTS; part++) {
                T *const number = (T *)(x.c + row * x.rs_c) + part;
                const T whole = ((const T *)&sum)[(row - first) * PARTS + part];
                *number = x.add ? Kind::add(*number, whole) : whole;
            }
    }

    /* A short k: some vectors of sums, from vector i on, in registers. Leaves FIRST to FIRST + NUMBER, added up in pairs. */
    template <int VECTORS> struct Short {
        Partial of[VECTORS];
    };
    template <int FIRST, int NUMBER, int VECTORS>
    static INLINE Short<VECTORS> add_leaves(const Tile &x, const Count (&at)[VECTORS]) {
        Short<VECTORS> sum = {};
        if constexpr (NUMBER > 1) {
            if (first_leaf(FIRST, NUMBER) >= x.depth) return sum;
            sum = add_leaves<FIRST, NUMBER / 2, VECTORS>(x, at);
            const Short<VECTORS> second = add_leaves<FIRST + NUMBER / 2, NUMBER / 2, VECTORS>(x, at);
            UNROLL for (int v = 0; v < VECTORS; v++) sum.of[v].add(second.of[v]);
        } else {
            Count p = leaf_at(FIRST);
            for (; p < x.depth; p += LEAVES) {
                Factor b;
                b.set((const T *)x.b + p * PARTS);
                UNROLL for (int v = 0; v < VECTORS; v++) sum.of[v].add_products(read(x.a + p * x.cs_a + at[v]), b);
            }
            if (LEAVES > 1 && p / ROWS * ROWS < x.depth) UNROLL for (int v = 0; v < VECTORS; v++) sum.of[v].add({});
        }
        return sum;
    }
    template <int VECTORS> static INLINE void add_short(const Tile &x, Count i, Count before) {
        Count at[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) at[v] = first_row(x, i + v, before) * (Count)sizeof(S);
        const Short<VECTORS> sum = add_leaves<0, LEAVES, VECTORS>(x, at);
        UNROLL for (int v = 0; v < VECTORS; v++) put(sum.of[v].whole(), x, i + v, before);
    }
    static INLINE void short_columns(const Tile &x, Count before) {
        constexpr int VECTORS = PARTS == 1 ? 2 : 1;  // one that begins after the end is the last one again
        for (Count i = 0; i * ROWS < x.rows + before; i += VECTORS) add_short<VECTORS>(x, i, before);
    }

    static void columns(const Tile &given) {
        const Tile x = given;
        const Count before = before_first(x), end = x.rows + before;
        if constexpr (LEAVES > 1 && sizeof(S) == PARTS * sizeof(T))  // narrow numbers take less code, which compiles sooner
            if (x.depth <= max(COLUMNS_AT_ONCE, CHAIN_AT_ONCE * LEAVES)) return short_columns(x, before);
        Partial sums[LEVELS][MOST + 1];
        for (Count i = 0; i < LEAVES; i++) {
            int level = __builtin_popcountll(i);
            leaf(sums[level], x, leaf_at(i));
            for (Count done = i; done & 1; done >>= 1, level--)
                for (Count v = 0; v * ROWS < end; v++) sums[level - 1][v].add(sums[level][v]);
        }
        for (Count i = 0; i * ROWS < end; i++) put(sums[0][i].whole(), x, i, before);
    }

    /* As many numbers of each row, from `a` on, become that many columns. `ahead` leads to rows that come next. */
    static INLINE void load_columns(Vector<T> (&x)[ROWS], const Tile &tile, const char *a, Count ahead) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            x[r] = read(a + r * tile.rs_a);
            if (PREFETCHES) __builtin_prefetch(a + r * tile.rs_a + ahead, 0, 2);  // into L2: L1 is too small for them
        }
        if constexpr (PARTS == 1) transpose<T>(x);
        else if constexpr (sizeof(S) == 8) transpose<double>((Vector<double>(&)[ROWS])x);
        else transpose_16<T>(x);
    }

    /* A square of numbers of A, from number `from` of its rows on, but for the first ones. */
    static INLINE void add_square(Partial &sum, const Tile &x, const char *a, Count from, Count done, Count ahead) {
        Vector<T> columns[ROWS];
        load_columns(columns, x, a + from * (Count)sizeof(S), ahead);
        UNROLL for (int q = 0; q < ROWS; q++) {
            Factor b;
            b.set((const T *)x.b + (from + q) * PARTS);
            if (q >= done) sum.add_products(columns[q], b);
        }
    }

    /* Some vectors of sums, from vector i on, to the end of their rows. The last square begins earlier, so it is whole. */
    template <int VECTORS> static INLINE void add_rows(const Tile &x, Count i) {
        const Count ahead = (i + 2 * VECTORS) * ROWS <= x.rows ? VECTORS * ROWS * x.rs_a : 0;
        const char *a[VECTORS];
        Partial sum[VECTORS] = {};
        UNROLL for (int v = 0; v < VECTORS; v++) a[v] = x.a + first_row(x, i + v) * x.rs_a;
        Count p = 0;
        for (; p + ROWS <= x.depth; p += ROWS)
            UNROLL for (int v = 0; v < VECTORS; v++) add_square(sum[v], x, a[v], p, 0, ahead);
        if (p < x.depth)
            UNROLL for (int v = 0; v < VECTORS; v++)
                add_square(sum[v], x, a[v], x.depth - ROWS, p - (x.depth - ROWS), ahead);
        UNROLL for (int v = 0; v < VECTORS; v++) put(sum[v].whole(), x, i + v);
    }

    static void rows(const Tile &given) {
        constexpr int CHAINS = READ_ROWS > ROWS ? READ_ROWS / ROWS : 1;
        const Tile x = given;
        for (Count i = 0; i * ROWS < x.rows; i += CHAINS) (i + 1) * ROWS < x.rows ? add_rows<CHAINS>(x, i) : add_rows<1>(x, i);
    }
};

}  // namespace
