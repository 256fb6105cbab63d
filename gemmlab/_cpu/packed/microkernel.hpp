/* The micro-kernel: C[rows x columns] (+)= A[rows x depth] B[depth x columns], all sums in registers.

       for p in 0..steps:
           for i in 0..rows:
               for v in 0..vectors:        sum[i][v] += A[i,p] * B[p, v's lanes]

   Each sum is one chain of multiply-adds in the order of p, in every instance: so a number of C has the same bits
   whichever tile computes it. The sums of a tile leave registers for a row of B and a number of A; complex numbers are
   split, a vector of real and one of imaginary parts in place of each vector of sums. */
#pragma once

#include "numeric.hpp"

namespace {

/* The register tiles: rows by vectors of sums. A dot product has DOT_VECTORS for each of DOT_ROWS rows everywhere. */
struct Tiles {
    int rows, vectors;     // float32 and float64
    int complex_rows;      // by one vector of real and one of imaginary parts
    int integer_rows;      // by as many vectors as float32
    int unpacked_vectors;  // by at most UNPACKED_ROWS, of operands as they are stored
};
//                    f32, f64  complex  integers  unpacked    registers     chosen by
constexpr Tiles V4    = {14, 2,   14,      12,       4};    // 32 x 64 bytes   measurement
constexpr Tiles V3    = {6, 2,     6,       4,       2};    // 16 x 32 bytes   measurement
constexpr Tiles V2    = {3, 4,     6,       3,       2};    // 16 x 16 bytes   measurement; loads B anew for each row
constexpr Tiles NEON  = {12, 2,   12,      12,       4};    // 32 x 16 bytes   the number of registers: not timed
constexpr Tiles PLAIN = {6, 2,     6,       4,       2};    // unknown         as for 16 registers: not timed

constexpr int DOT_VECTORS = 4;

#if defined(__AVX512F__)
constexpr Tiles TILES = V4;
#elif defined(__AVX__)
constexpr Tiles TILES = V3;
#elif defined(__SSE4_2__)
constexpr Tiles TILES = V2;
#elif defined(__aarch64__)
constexpr Tiles TILES = NEON;
#else
constexpr Tiles TILES = PLAIN;
#endif
constexpr int AHEAD = 1024;  // bytes of a panel of B that are prefetched: it is longer than L1

template <class Kind> constexpr bool IS_COMPLEX = Kind::PARTS == 2;
template <class Kind>
constexpr int MR = IS_COMPLEX<Kind> ? TILES.complex_rows : Kind::FUSED ? TILES.rows : TILES.integer_rows;
template <class Kind> constexpr int VECTORS = IS_COMPLEX<Kind> ? 1 : TILES.vectors;  // of sums in a row
template <class Kind> constexpr int NR = VECTORS<Kind> * LANES<typename Kind::Sum>;

template <class Kind, int ROWS, int NV> using Registers = Vector<typename Kind::Sum>[ROWS][NV];

/* Sums one by one, where C's columns are not adjacent or its numbers have parts, a vector each. */
template <class Kind> void scatter(const Sums &given) {
    using T = typename Kind::Sum;
    const Sums x = given;
    for (Count i = 0; i < x.rows; i++)
        for (Count j = 0; j < x.columns; j++)
            for (int part = 0; part < Kind::PARTS; part++) {
                T *number = (T *)(x.c + i * x.rs_c + j * x.cs_c) + part;
                const T sum = ((const T *)(x.from + i * x.rs_from))[part * LANES<T> + j];
                *number = x.add ? Kind::add(*number, sum) : sum;
            }
}
INLINE Sums sums_of(const Tile &x, const void *from, Count rs_from) {
    return {x.kernel, (const char *)from, rs_from, x.c, x.rs_c, x.cs_c, x.rows, x.columns, x.add};
}

template <class Kind, int ROWS, int NV, bool WHOLE> INLINE void put_rows(Registers<Kind, ROWS, NV> &sum, const Tile &x) {
    using T = typename Kind::Sum;
    constexpr int LAST = NV - 1;
    const Part part = part_of_lanes<T>(x.columns - LAST * LANES<T>);
    if (x.add) {
        UNROLL for (int i = 0; i < ROWS; i++) {
            const char *row = x.c + i * x.rs_c, *end = row + LAST * VECTOR_BYTES;
            UNROLL for (int v = 0; v < LAST; v++) sum[i][v] = Kind::add(load<T>(row + v * VECTOR_BYTES), sum[i][v]);
            sum[i][LAST] = Kind::add(WHOLE ? load<T>(end) : load_part<T>(end, part), sum[i][LAST]);
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
        char *row = x.c + i * x.rs_c, *end = row + LAST * VECTOR_BYTES;
        UNROLL for (int v = 0; v < LAST; v++) store<T>(row + v * VECTOR_BYTES, sum[i][v]);
        if (WHOLE) store<T>(end, sum[i][LAST]);
        else store_part<T>(end, part, sum[i][LAST]);
    }
}

/* A part of a vector costs as much as many whole ones where it is stored by AVX2. */
template <class Kind, int ROWS, int NV> INLINE void put(Registers<Kind, ROWS, NV> &sum, const Tile &x) {
    using T = typename Kind::Sum;
    const bool whole = x.columns == NV * LANES<T>;
    if (Kind::PARTS > 1 || x.cs_c != sizeof(T) || (sizeof(T) < 4 && !whole)) {
        T sums[ROWS * NV * LANES<T>];
        UNROLL for (int i = 0; i < ROWS; i++)
            UNROLL for (int v = 0; v < NV; v++) store<T>(sums + (i * NV + v) * LANES<T>, sum[i][v]);
        scatter<Kind>(sums_of(x, sums, NV * VECTOR_BYTES));
    } else if (whole)
        put_rows<Kind, ROWS, NV, true>(sum, x);
    else
        put_rows<Kind, ROWS, NV, false>(sum, x);
}

/* The numbers of A that one step multiplies. Where instructions take a number from its place in a vector, adjacent ones
   are loaded as vectors, if registers are left for these. */
template <class Kind, int ROWS, bool ADJACENT> struct Numbers {
    using T = typename Kind::Sum;
    static constexpr int COUNT = ROWS * Kind::PARTS, N = LANES<T>;
    static constexpr int LOADED = BY_ELEMENT && ADJACENT && COUNT <= 6 * N ? COUNT / N : 0;
    Vector<T> vectors[LOADED + 1];
    const char *const a;
    const Count rs_a;
    INLINE Numbers(const Tile &x) : a(x.a), rs_a(x.rs_a) {
        UNROLL for (int v = 0; v < LOADED; v++) vectors[v] = load<T>(a + v * VECTOR_BYTES);
    }
    INLINE T at(int i, int part) const {
        const int place = i * Kind::PARTS + part;
        return place < LOADED * N ? vectors[place / N][place % N] : ((const T *)(a + i * rs_a))[part];
    }
};

/* WHOLE: the last vector of B may be read to its end. PACKED: B is in a panel. */
template <class Kind, int ROWS, int NV, bool WHOLE, bool PACKED> INLINE void multiply(Tile x) {
    using T = typename Kind::Sum;
    constexpr int LAST = NV - 1;
    Registers<Kind, ROWS, NV> sum;
    const Part part = part_of_lanes<T>(x.columns - LAST * LANES<T>);
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < NV; v++) sum[i][v] = Vector<T>{};
    for (Count p = 0; p < x.depth; p++) {
        Vector<T> row[NV];
        if (PACKED)
            UNROLL for (int l = 0; l < NV * VECTOR_BYTES; l += LINE_BYTES) __builtin_prefetch(x.b + AHEAD + l);
        UNROLL for (int v = 0; v < LAST; v++) row[v] = load<T>(x.b + v * VECTOR_BYTES);
        row[LAST] = WHOLE ? load<T>(x.b + LAST * VECTOR_BYTES) : load_part<T>(x.b + LAST * VECTOR_BYTES, part);
        const Numbers<Kind, ROWS, PACKED> numbers(x);
        UNROLL for (int i = 0; i < ROWS; i++) {
            if constexpr (IS_COMPLEX<Kind>) {
                const T re = numbers.at(i, 0), im = numbers.at(i, 1);
                sum[i][0] = sum[i][0] + row[0] * re;
                sum[i][1] = sum[i][1] + row[1] * re;
                sum[i][0] = sum[i][0] - row[1] * im;
                sum[i][1] = sum[i][1] + row[0] * im;
            } else {
                const T y = numbers.at(i, 0);
                UNROLL for (int v = 0; v < NV; v++) sum[i][v] = Kind::multiply_add(sum[i][v], row[v], y);
            }
        }
        x.a += x.cs_a;
        x.b += x.rs_b;
    }
    put<Kind, ROWS, NV>(sum, x);
}

/* A and B in panels, both read from start to end; the lines of C are on their way while the loop over p runs. */
template <class Kind, int ROWS, int NV> void packed_tile(const Tile &x) {
    Tile y = x;
    y.rs_a = Kind::STEP, y.cs_a = ROWS * Kind::STEP, y.rs_b = Kind::PARTS * VECTORS<Kind> * VECTOR_BYTES;
    UNROLL for (int i = 0; i < ROWS; i++)
        for (int line = 0; line <= Kind::PARTS * VECTORS<Kind> * VECTOR_BYTES; line += LINE_BYTES)
            __builtin_prefetch(x.c + i * x.rs_c + line, 1);
    multiply<Kind, ROWS, NV, true, true>(y);
}

/* A with any strides, B with adjacent columns, through all products that are given. */
template <class Kind, int ROWS, int NV, bool WHOLE> void unpacked_tile(const Tile &x) {
    Tile y = x;
    for (Count i = 0; i < y.products; i++, y.a += y.a_step, y.b += y.b_step, y.c += y.c_step)
        multiply<Kind, ROWS, NV, WHOLE, false>(y);
}

/* Dot products: for each row of A, DOT_VECTORS vectors of sums over every DOT_VECTORS * LANES-th number of k. */
template <class Kind, int ROWS> void dot(const Tile &x) {
    using T = typename Kind::Sum;
    constexpr int N = LANES<T>;
    Registers<Kind, ROWS, DOT_VECTORS> sum;
    const Tile y = x;
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) sum[i][v] = Vector<T>{};
    Count p = 0;
    for (; p + DOT_VECTORS * N <= y.depth; p += DOT_VECTORS * N)
        UNROLL for (int v = 0; v < DOT_VECTORS; v++) {
            const Count at = (p + v * N) * sizeof(T);
            const Vector<T> column = load<T>(y.b + at);
            UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] = sum[i][v] + load<T>(y.a + i * y.rs_a + at) * column;
        }
    UNROLL for (int v = 0; v < DOT_VECTORS; v++)
        if (p + v * N < y.depth) {
            const Part part = part_of_lanes<T>(y.depth - p - v * N);
            const Count at = (p + v * N) * sizeof(T);
            const Vector<T> column = load_part<T>(y.b + at, part);
            UNROLL for (int i = 0; i < ROWS; i++)
                sum[i][v] = sum[i][v] + load_part<T>(y.a + i * y.rs_a + at, part) * column;
        }
    UNROLL for (int i = 0; i < ROWS; i++) {
        Vector<T> lanes = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
        for (int half = N / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
        T *number = (T *)(y.c + i * y.rs_c);
        *number = y.add ? *number + lanes[0] : lanes[0];
    }
}

/* The instances, in the order of `Kernel`. */
template <int N> struct MicroKernels { MicroKernel at[N]; };

template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> packed_tiles(std::integer_sequence<int, I...>) {
    return {{packed_tile<Kind, I / VECTORS<Kind> + 1, Kind::PARTS * (I % VECTORS<Kind> + 1)>...}};
}
template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> unpacked_tiles(std::integer_sequence<int, I...>) {
    return {{unpacked_tile<Kind, I / 2 / TILES.unpacked_vectors + 1, I / 2 % TILES.unpacked_vectors + 1, I % 2>...}};
}
template <class Kind> constexpr auto PACKED_TILES =
    packed_tiles<Kind>(std::make_integer_sequence<int, MR<Kind> * VECTORS<Kind>>());
template <class Kind> constexpr auto UNPACKED_TILES =
    unpacked_tiles<Kind>(std::make_integer_sequence<int, UNPACKED_ROWS * TILES.unpacked_vectors * 2>());

}  // namespace
