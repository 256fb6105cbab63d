/* The micro-kernel: C[rows x columns] (+)= A[rows x depth] B[depth x columns], all sums in registers.

       for p in 0..steps:
           for i in 0..rows:
               for v in 0..vectors:        sum[i][v] += A[i,p] * B[p, v's lanes]

   Each sum is one chain of multiply-adds in the order of p, in every instance: so a number of C has the same bits
   whichever tile computes it. The registers, of 32 with AVX-512 and 16 else:

                      sums        B       A, product      instance
       f32, f64       14 x 2      2       0 + 0           A from memory, broadcast by the multiply-add itself
       c64, c128      14 x 1 re, im   re, im              the same; B split into real and imaginary parts
       integers       12 x 2      2       1 + 1
       unpacked       6 x 4       4       0 + 0           operands as they are stored, for few rows and small products
       AVX2, f32      6 x 2       2       1 + 0 */
#pragma once

#include "extents.hpp"
#include "numeric.hpp"

namespace {

#if defined(__AVX512F__)
constexpr int FUSED_ROWS = 14, UNFUSED_ROWS = 12, UNPACKED_VECTORS = 4;
#else
constexpr int FUSED_ROWS = 6, UNFUSED_ROWS = 4, UNPACKED_VECTORS = 2;
#endif
constexpr int VECTORS = 2;   // of a panel of B
constexpr int AHEAD = bytes_ahead(VECTORS * VECTOR_BYTES, FUSED_ROWS);  // of a panel of B, which is longer than L1

template <class Kind> constexpr int MR = Kind::FUSED ? FUSED_ROWS : UNFUSED_ROWS;
template <class Kind> constexpr int NR = VECTORS / Kind::PARTS * LANES<typename Kind::Sum>;

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
        UNROLL for (int i = 0; i < ROWS; i++) {
            const T *number = (const T *)(x.a + i * x.rs_a);
            if constexpr (Kind::PARTS == 2) {
                const T re = number[0], im = number[1];
                sum[i][0] = sum[i][0] + row[0] * re;
                sum[i][1] = sum[i][1] + row[1] * re;
                sum[i][0] = sum[i][0] - row[1] * im;
                sum[i][1] = sum[i][1] + row[0] * im;
            } else {
                const T y = *number;
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
    y.rs_a = Kind::STEP, y.cs_a = ROWS * Kind::STEP, y.rs_b = VECTORS * VECTOR_BYTES;
    UNROLL for (int i = 0; i < ROWS; i++)
        for (int line = 0; line <= VECTORS * VECTOR_BYTES; line += LINE_BYTES)
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
constexpr int DOT_VECTORS = 4;
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
    return {{packed_tile<Kind, I / VECTORS + 1, Kind::PARTS == 2 ? 2 : I % VECTORS + 1>...}};
}
template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> unpacked_tiles(std::integer_sequence<int, I...>) {
    return {{unpacked_tile<Kind, I / 2 / UNPACKED_VECTORS + 1, I / 2 % UNPACKED_VECTORS + 1, I % 2>...}};
}
template <class Kind> constexpr auto PACKED_TILES =
    packed_tiles<Kind>(std::make_integer_sequence<int, MR<Kind> * VECTORS>());
template <class Kind> constexpr auto UNPACKED_TILES =
    unpacked_tiles<Kind>(std::make_integer_sequence<int, UNPACKED_ROWS * UNPACKED_VECTORS * 2>());

}  // namespace
