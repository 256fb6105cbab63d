/* The micro-kernels of a matrix by a vector, C = A b, where a register tile would have one column. Three ways to pass A:

       dot        by rows: for some of them, vectors of sums over every LEAVES-th number of k, added up at the end
       columns    by columns: the sums of many rows are vectors, to which columns of A are added, AT_ONCE at a time
       rows       by rows, to the same sums: squares of A are transposed

   A sum of real numbers is the same by `dot` and `columns`: LEAVES chains of multiply-adds, chain l over p = l, l + LEAVES,
   ..., which are added in pairs. `columns` sums them one after the other, in the order in which they are added up, so
   that few partial sums exist at a time. TURNED, this is one row of C' = B' A': each sum is one chain, as in a register tile.
   So are complex numbers always; TURNED, their factors change places. Integers have any order. */
#pragma once

#include "microkernel.hpp"

namespace {

constexpr int DOT_VECTORS = 4;             // of sums of one row
constexpr int COLUMN_SUMS_BYTES = 4096;    // of the sums of `columns`: a page of a column of A, and much less than L1
constexpr int READ_ROWS = 8;               // of A at a time, where a vector has fewer: what the processor reads ahead of
constexpr int AT_ONCE = 4;                 // columns of A, for each load and store of sums

/* In the first lane, the sum of all: halves are added until one number is left. */
template <class Kind, int... I>
INLINE Vector<typename Kind::Sum> fold(Vector<typename Kind::Sum> x, std::integer_sequence<int, I...>) {
    constexpr int N = sizeof...(I);
    if constexpr (N >= 32) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 16) % N...));
    if constexpr (N >= 16) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 8) % N...));
    if constexpr (N >= 8) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 4) % N...));
    if constexpr (N >= 4) x = Kind::add(x, __builtin_shufflevector(x, x, (I + 2) % N...));
    return Kind::add(x, __builtin_shufflevector(x, x, (I + 1) % N...));
}

/* The first numbers of a vector, and 0 after them. */
template <class T> INLINE Vector<T> load_first(const char *x, Count numbers) {
    if (sizeof(T) >= 4 || VECTOR_BYTES == 64) return load_part<T>(x, part_of_lanes<T>(numbers));
    Vector<T> first = {};
    memcpy(&first, x, (size_t)min(numbers, LANES<T>) * sizeof(T));
    return first;
}

template <class Kind, int ROWS> INLINE void dot_once(const Tile &x, const char *a, const char *b, char *c) {
    using T = typename Kind::Sum;
    constexpr int N = LANES<T>;
    Registers<Kind, ROWS, DOT_VECTORS> sum;
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) sum[i][v] = Vector<T>{};
    Count p = 0;
    for (; p + DOT_VECTORS * N <= x.depth; p += DOT_VECTORS * N)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) {
            const Count at = (p + v * N) * sizeof(T);
            const Vector<T> column = load<T>(b + at);
            UNROLL for (int i = 0; i < ROWS; i++)
                sum[i][v] = Kind::multiply_add(sum[i][v], load<T>(a + i * x.rs_a + at), column);
        }
    UNROLL for (int v = 0; v < DOT_VECTORS; v++)
        if (p + v * N < x.depth) {
            const Count at = (p + v * N) * sizeof(T), rest = x.depth - p - v * N;
            const Vector<T> column = load_first<T>(b + at, rest);
            UNROLL for (int i = 0; i < ROWS; i++)
                sum[i][v] = Kind::multiply_add(sum[i][v], load_first<T>(a + i * x.rs_a + at, rest), column);
        }
    UNROLL for (int i = 0; i < ROWS; i++) {
        const Vector<T> lanes = Kind::add(Kind::add(sum[i][0], sum[i][1]), Kind::add(sum[i][2], sum[i][3]));
        const T whole = fold<Kind>(lanes, std::make_integer_sequence<int, N>())[0];
        T *number = (T *)(c + i * x.rs_c);
        *number = x.add ? Kind::add(*number, whole) : whole;
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
    static constexpr int N = LANES<T>, ROWS = N / Kind::PARTS;  // in a vector
    static constexpr int MOST = COLUMN_SUMS_BYTES / VECTOR_BYTES;
    static constexpr int LEAVES = Kind::FUSED && Kind::PARTS == 1 && !TURNED ? DOT_VECTORS * N : 1;
    static constexpr int LEVELS = __builtin_ctz(LEAVES) + 1;

    /* A number of b, as vectors: by which numbers of A are multiplied, and for complex ones, their other parts. */
    struct Factor {
        Vector<T> first, second;

        INLINE void set(const T *b) {
            first = b[0] - Vector<T>{};  // a sum would make 0 of -0
            if constexpr (Kind::PARTS == 2) {
                const Vector<T> re = first, im = b[1] - Vector<T>{};
                if (!TURNED) first = alternate(re, im, LANE);
                second = alternate(-im, TURNED ? im : re, LANE);
            }
        }
    };
    static constexpr auto LANE = std::make_integer_sequence<int, N>();
    template <int... I> static INLINE Vector<T> alternate(Vector<T> x, Vector<T> y, std::integer_sequence<int, I...>) {
        return __builtin_shufflevector(x, y, (I % 2 ? I + N : I)...);
    }
    template <int... I> static INLINE Vector<T> real_parts(Vector<T> x, std::integer_sequence<int, I...>) {
        return TURNED ? x : __builtin_shufflevector(x, x, (I & ~1)...);
    }
    template <int... I> static INLINE Vector<T> imaginary_parts(Vector<T> x, std::integer_sequence<int, I...>) {
        return __builtin_shufflevector(x, x, (TURNED ? I ^ 1 : I | 1)...);
    }
    static INLINE Vector<T> multiply_add(Vector<T> sum, Vector<T> x, const Factor &b) {
        if constexpr (Kind::PARTS == 2) {
            sum = sum + real_parts(x, LANE) * b.first;
            return sum + imaginary_parts(x, LANE) * b.second;
        } else
            return Kind::multiply_add(sum, x, b.first);
    }
    static INLINE Vector<T> read(const char *x) {
        if constexpr (Kind::PARTS == 2) return load<T>(x);
        else return Read<T, S>::many(x);
    }

    /* The first row of a vector of sums: the last vector begins earlier, so that it is whole. */
    static INLINE Count first_row(const Tile &x, Count i) { return min(i * ROWS, x.rows - ROWS); }

    /* Some columns of A, from p on, added to the sums, which begin with 0 if `fresh`. The next ones are on their way. */
    template <int COLUMNS> static INLINE void add_columns(Vector<T> *sum, const Tile &x, Count p, bool fresh) {
        Factor b[COLUMNS];
        const char *a[COLUMNS];
        const Count ahead = p + (COLUMNS + AT_ONCE - 1) * LEAVES < x.depth ? COLUMNS * LEAVES * x.cs_a : 0;
        UNROLL for (int q = 0; q < COLUMNS; q++) {
            b[q].set((const T *)x.b + (p + q * LEAVES) * Kind::PARTS);
            a[q] = x.a + (p + q * LEAVES) * x.cs_a;
        }
        for (Count i = 0; i * ROWS < x.rows; i++) {
            const Count at = first_row(x, i) * (Count)sizeof(S);
            Vector<T> next = fresh ? Vector<T>{} : sum[i];
            UNROLL for (int q = 0; q < COLUMNS; q++) {
                next = multiply_add(next, read(a[q] + at), b[q]);
                if (COLUMNS > 1) __builtin_prefetch(a[q] + at + ahead);
            }
            sum[i] = next;
        }
    }

    /* The chain of leaf l. */
    static INLINE void leaf(Vector<T> *sum, const Tile &x, Count l) {
        Count p = l;
        for (; p + (AT_ONCE - 1) * LEAVES < x.depth; p += AT_ONCE * LEAVES) add_columns<AT_ONCE>(sum, x, p, p == l);
        for (; p < x.depth; p += LEAVES) add_columns<1>(sum, x, p, p == l);
        const bool none = p == l, is_padded = LEAVES > 1 && p / N * N < x.depth;  // `dot` adds 0 there: -0 becomes 0
        if (none || is_padded)
            for (Count i = 0; i * ROWS < x.rows; i++) sum[i] = none ? Vector<T>{} : sum[i] + Vector<T>{};
    }

    /* Leaves in the order in which their sums are added: of the four vectors of `dot` first, then halves of a vector. */
    static INLINE Count leaf_at(Count i) {
        Count lane = 0;
        for (Count half = N / 2, rest = i / DOT_VECTORS; half; half /= 2, rest /= 2) lane += rest % 2 * half;
        return i % DOT_VECTORS * N + lane;
    }

    /* Sums of vector i, but for rows that the vector before it has too. */
    static INLINE void put(const Vector<T> &sum, const Tile &x, Count i) {
        const Count first = first_row(x, i);
        for (Count row = i * ROWS; row < min((i + 1) * ROWS, x.rows); row++)
            UNROLL for (int part = 0; part < Kind::PARTS; part++) {
                T *const number = (T *)(x.c + row * x.rs_c) + part;
                const T whole = ((const T *)&sum)[(row - first) * Kind::PARTS + part];
                *number = x.add ? Kind::add(*number, whole) : whole;
            }
    }

    static void columns(const Tile &given) {
        const Tile x = given;
        Vector<T> sums[LEVELS][MOST];
        for (Count i = 0; i < LEAVES; i++) {
            int level = __builtin_popcountll(i);
            leaf(sums[level], x, LEAVES == 1 ? 0 : leaf_at(i));
            for (Count done = i; done & 1; done >>= 1, level--)
                for (Count v = 0; v * ROWS < x.rows; v++)
                    sums[level - 1][v] = Kind::add(sums[level - 1][v], sums[level][v]);
        }
        for (Count i = 0; i * ROWS < x.rows; i++) put(sums[0][i], x, i);
    }

    /* As many numbers of each row, from `a` on, become that many columns. `ahead` leads to rows that come next. */
    static INLINE void load_columns(Vector<T> (&x)[ROWS], const Tile &tile, const char *a, Count ahead) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            x[r] = read(a + r * tile.rs_a);
            __builtin_prefetch(a + r * tile.rs_a + ahead);
        }
        if constexpr (Kind::PARTS == 1) transpose<T>(x);
        else if constexpr (sizeof(S) == 8) transpose<double>((Vector<double>(&)[ROWS])x);
        else transpose_16<T>(x);
    }

    /* Some vectors of sums, from vector i on, to the end of their rows. The last square begins earlier, so it is whole. */
    template <int VECTORS> static INLINE void add_rows(const Tile &x, Count i) {
        const Count ahead = (i + 2 * VECTORS) * ROWS <= x.rows ? VECTORS * ROWS * x.rs_a : 0;
        const char *a[VECTORS];
        Vector<T> sum[VECTORS] = {};
        UNROLL for (int v = 0; v < VECTORS; v++) a[v] = x.a + first_row(x, i + v) * x.rs_a;
        for (Count p = 0; p < x.depth; p += ROWS) {
            const Count from = min(p, x.depth - ROWS);
            Vector<T> columns[VECTORS][ROWS];
            UNROLL for (int v = 0; v < VECTORS; v++) load_columns(columns[v], x, a[v] + from * (Count)sizeof(S), ahead);
            UNROLL for (int q = 0; q < ROWS; q++) {
                if (from + q < p) continue;
                Factor b;
                b.set((const T *)x.b + (from + q) * Kind::PARTS);
                UNROLL for (int v = 0; v < VECTORS; v++) sum[v] = multiply_add(sum[v], columns[v][q], b);
            }
        }
        UNROLL for (int v = 0; v < VECTORS; v++) put(sum[v], x, i + v);
    }

    /* Some chains at a time, since one waits for itself: as many as READ_ROWS rows make. */
    static void rows(const Tile &given) {
        constexpr int CHAINS = ROWS > READ_ROWS ? 1 : READ_ROWS / ROWS;
        const Tile x = given;
        Count i = 0;
        for (; CHAINS > 1 && (i + CHAINS - 1) * ROWS < x.rows; i += CHAINS) add_rows<CHAINS>(x, i);
        for (; i * ROWS < x.rows; i++) add_rows<1>(x, i);
    }
};

}  // namespace
