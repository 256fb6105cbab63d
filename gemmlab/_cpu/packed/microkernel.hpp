/* The micro-kernel: C[rows x columns] (+)= A[rows x depth] B[depth x columns], all sums in registers.

       for p in 0..steps:
           for i in 0..rows:
               for v in 0..vectors:        sum[i][v] += A[i,p] * B[p, v's lanes]

   Each sum is one chain of multiply-adds in the order of p, in every instance: so a number of C has the same bits
   whichever tile computes it. The sums of a tile leave registers for a row of B and a number of A; complex numbers are
   split in panels of B, a vector of real and one of imaginary parts in place of each vector of sums, and side by side where B
   is as it is stored. */
#pragma once

#include "extents.hpp"
#include "numeric.hpp"

namespace {

/* The register tiles: rows by vectors of sums. */
struct Tiles {
    int rows, vectors;     // float32 and float64
    int complex_rows;      // by one vector of real and one of imaginary parts
    int integer_rows;      // by as many vectors as float32
    int unpacked_sums, wide_vectors;  // vectors of sums, of operands as they are stored, and how many are side by side
    int complex_sums;      // the same of complex numbers, where each vector of B takes two registers
    int steps;             // of k in one pass of the loop: the fewer additions of addresses, the more multiply-adds
};
//                     f32, f64  complex  integers  unpacked  complex  steps   registers    chosen by
constexpr Tiles V4    = {14, 2,    14,      12,      24, 4,     16,     1};  // 32 x 64 B  measurement; unpacked complex: registers
constexpr Tiles V3    = {6, 2,      6,       6,      12, 2,     10,     4};  // 16 x 32 B  measurement
constexpr Tiles V2    = {3, 4,      6,       3,      12, 2,     10,     1};  // 16 x 16 B  measurement; loads B anew for each row
constexpr Tiles NEON  = {12, 2,    12,      12,      24, 4,     16,     1};  // 32 x 16 B  the number of registers: not timed
constexpr Tiles PLAIN = {6, 2,      6,       4,      12, 2,     10,     1};  // unknown    as for 16 registers: not timed

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
constexpr int PANEL_BYTES = TILES.vectors * VECTOR_BYTES;       // of a row of a panel of B,
constexpr int AHEAD = bytes_ahead(PANEL_BYTES, TILES.rows);  // which is longer than L1, and prefetched

template <class Kind> constexpr bool IS_COMPLEX = Kind::PARTS == 2;
template <class Kind>
constexpr int MR = IS_COMPLEX<Kind> ? TILES.complex_rows : Kind::FUSED ? TILES.rows : TILES.integer_rows;
template <class Kind> constexpr int VECTORS = IS_COMPLEX<Kind> ? 1 : TILES.vectors;  // of sums in a row
template <class Kind> concept IsPaired = requires { Kind::REGISTERS; };
template <IsPaired Kind> constexpr int VECTORS<Kind> = 2;  // by as many rows as registers are left for
template <IsPaired Kind>
constexpr int MR<Kind> = TILES.integer_rows * TILES.vectors / (VECTORS<Kind> * Kind::REGISTERS);
template <class Kind> constexpr int NR = VECTORS<Kind> * LANES<typename Kind::Sum>;
template <class Kind> constexpr int ROW_OF_B = Kind::PARTS * VECTORS<Kind> * VECTOR_BYTES;  // bytes in a panel

template <class Kind, int ROWS, int NV> using Registers = Vector<typename Kind::Sum>[ROWS][NV];

/* Sums one by one, where C's columns are not adjacent. */
template <class Kind> void accumulate(const Sums &given) {
    const Sums x = given;
    using T = typename Kind::Sum;
    for (Count i = 0; i < x.rows; i++) {
        const T *from = (const T *)(x.from + i * x.rs_from);
        char *to = x.c + i * x.rs_c;
        for (Count j = 0; j < x.columns; j++)
            for (int part = 0; part < Kind::PARTS; part++) {
                T *number = (T *)(to + j * x.cs_c) + part;
                const T sum = from[j * Kind::PARTS + part];
                *number = x.add ? Kind::add(*number, sum) : sum;
            }
    }
}
INLINE Sums sums_of(const Tile &x, const void *from, Count rs_from) {
    return {x.kernel, (const char *)from, rs_from, x.c, x.rs_c, x.cs_c, x.rows, x.columns, x.add};
}

/* Lanes of the last vector of a row, which are C's, or B's as it is stored. */
template <class Kind, int NV> INLINE Part last_part(const Tile &x) {
    return part_of_lanes<typename Kind::Sum>(x.columns * Kind::PARTS - (NV - 1) * LANES<typename Kind::Sum>);
}

template <class Kind, int ROWS, int NV, bool WHOLE> INLINE void put_rows(Registers<Kind, ROWS, NV> &sum, const Tile &x) {
    using T = typename Kind::Sum;
    constexpr int LAST = NV - 1;
    const Part part = last_part<Kind, NV>(x);
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
    if (x.columns * Kind::PARTS == NV * LANES<typename Kind::Sum>)
        put_rows<Kind, ROWS, NV, true>(sum, x);
    else
        put_rows<Kind, ROWS, NV, false>(sum, x);
}

/* Whether rows of C cannot be stored as vectors: its columns are not adjacent, or a part of a vector has no instruction.
   Then the same tile puts its sums into a buffer, and each goes to C alone. */
template <class Kind, int ROWS, int NV> INLINE bool has_no_rows_of_c(const Tile &x) {
    static_assert(ROWS * NV <= REGISTERS, "the buffer holds the sums of every tile");
    using T = typename Kind::Sum;
    return x.cs_c != Kind::PARTS * sizeof(T) || (sizeof(T) < 4 && x.columns * Kind::PARTS != NV * LANES<T>);
}
template <class Kind> __attribute__((noinline)) void by_buffer(const Tile &given, int vectors, MicroKernel tile) {
    using T = typename Kind::Sum;
    alignas(VECTOR_BYTES) char sums[REGISTERS * VECTOR_BYTES];
    Tile x = given;
    Sums to_c = sums_of(given, sums, vectors * VECTOR_BYTES);
    x.c = sums, x.rs_c = to_c.rs_from, x.cs_c = Kind::PARTS * sizeof(T), x.add = false, x.products = 1;
    if (sizeof(T) < 4) x.columns = vectors * LANES<T>;
    for (Count i = 0; i < max(1, given.products); i++, x.a += x.a_step, x.b += x.b_step, to_c.c += x.c_step) {
        tile(x);
        accumulate<Kind>(to_c);
    }
}

/* Sums that were put into a buffer, to go on with. */
template <class Kind, int ROWS, int NV, bool WHOLE> INLINE void get(Registers<Kind, ROWS, NV> &sum, const Tile &x) {
    using T = typename Kind::Sum;
    const Part part = last_part<Kind, NV>(x);
    UNROLL for (int i = 0; i < ROWS; i++) {
        const char *row = x.c + i * x.rs_c, *end = row + (NV - 1) * VECTOR_BYTES;
        UNROLL for (int v = 0; v < NV - 1; v++) sum[i][v] = load<T>(row + v * VECTOR_BYTES);
        sum[i][NV - 1] = WHOLE ? load<T>(end) : load_part<T>(end, part);
    }
}
template <class Kind, int ROWS, int NV> INLINE void clear(Registers<Kind, ROWS, NV> &sum) {
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < NV; v++) sum[i][v] = Vector<typename Kind::Sum>{};
}

/* The numbers of A that one step multiplies, from a panel. Where instructions take a number from its place in a vector,
   they are loaded as vectors, if registers are left for these. */
template <class Kind, int ROWS> struct PackedNumbers {
    using T = typename Kind::Sum;
    static constexpr int COUNT = ROWS * Kind::PARTS, N = LANES<T>, LOADED = BY_ELEMENT && COUNT <= 6 * N ? COUNT / N : 0;
    Vector<T> vectors[LOADED + 1];
    const char *const a;
    INLINE PackedNumbers(const char *from) : a(from) {
        UNROLL for (int v = 0; v < LOADED; v++) vectors[v] = load<T>(a + v * VECTOR_BYTES);
    }
    INLINE T at(int i, int part) const {
        const int place = i * Kind::PARTS + part;
        return place < LOADED * N ? vectors[place / N][place % N] : ((const T *)(a + i * Kind::STEP))[part];
    }
};

/* The same as they are stored, each row at a distance from the one before. A few addresses and two distances are all that
   the loop keeps in general registers: an instruction adds 0, 1, 2 or 4 times a distance by itself. */
template <class Kind, int ROWS> struct StoredNumbers {
    using T = typename Kind::Sum;
    static constexpr int ROWS_AN_ADDRESS = 5, ADDRESSES = (ROWS + ROWS_AN_ADDRESS - 1) / ROWS_AN_ADDRESS;
    const char *first[ADDRESSES];
    const Count distance, three;

    INLINE StoredNumbers(const Tile &x) : distance(x.rs_a), three(3 * x.rs_a) {
        UNROLL for (int i = 0; i < ADDRESSES; i++) first[i] = x.a + i * ROWS_AN_ADDRESS * x.rs_a;
    }
    INLINE T at(int i, int part) const {
        const char *const x = first[i / ROWS_AN_ADDRESS] + part * sizeof(T);
        const int times = i % ROWS_AN_ADDRESS;
        return *(const T *)(times == 3 ? x + three : x + times * distance);
    }
    INLINE void step(Count bytes) {
        UNROLL for (int i = 0; i < ADDRESSES; i++) {
            first[i] += bytes;
            asm("" : "+r"(first[i]));  // else the compiler keeps an address for each row, in memory
        }
    }
};

/* One step of k, by a row of B in vectors: of complex numbers from a panel, one of real and one of imaginary parts. */
template <class Kind, int ROWS, int NV, class Numbers>
INLINE void multiply_add(Registers<Kind, ROWS, NV> &sum, const Numbers &numbers, const Vector<typename Kind::Sum> (&row)[NV]) {
    using T = typename Kind::Sum;
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
}

/* The same with B as it is stored. Parts of complex numbers are side by side in it, and in the sums. */
template <class Kind, int ROWS, int NV, class Numbers>
INLINE void multiply_add_stored(Registers<Kind, ROWS, NV> &sum, const Numbers &numbers,
                                const Vector<typename Kind::Sum> (&row)[NV]) {
    using T = typename Kind::Sum;
    if constexpr (!IS_COMPLEX<Kind>) return multiply_add<Kind, ROWS, NV>(sum, numbers, row);
    else {
        constexpr bool SIGNS_OF_B = ROWS >= NV;  // else it takes less to change those of A
        Vector<T> times[NV];
        UNROLL for (int v = 0; v < NV; v++) times[v] = SIGNS_OF_B ? times_i<T>(row[v]) : exchanged<T>(row[v]);
        UNROLL for (int i = 0; i < ROWS; i++) {
            const Vector<T> re = numbers.at(i, 0) - Vector<T>{}, im = numbers.at(i, 1) - Vector<T>{};
            const Vector<T> factor = SIGNS_OF_B ? im : with_signs_of_i<T>(im);
            UNROLL for (int v = 0; v < NV; v++) sum[i][v] = sum[i][v] + row[v] * re;
            UNROLL for (int v = 0; v < NV; v++) sum[i][v] = sum[i][v] + times[v] * factor;
        }
    }
}
/* Sums of real and of imaginary parts, a vector each, are put side by side. Not inlined: the loop of a tile wants all
   registers. */
template <class Kind> __attribute__((noinline)) void put_parts(const Vector<typename Kind::Sum> *sums, const Tile &x) {
    using T = typename Kind::Sum;
    Tile row = x;
    row.rows = 1;
    for (Count i = 0; i < x.rows; i++, sums += 2, row.c += x.rs_c) {
        Registers<Kind, 1, 1> first = {{shuffle<T, first_half>(sums[0], sums[1])}};
        Registers<Kind, 1, 2> all = {{first[0][0], shuffle<T, second_half>(sums[0], sums[1])}};
        2 * x.columns <= LANES<T> ? put<Kind, 1, 1>(first, row) : put<Kind, 1, 2>(all, row);
    }
}

/* A row of B: in a panel, with what comes later on its way, or as it is stored. WHOLE: the last vector may be read to its
   end. */
template <class T, int NV, bool WHOLE> INLINE void load_row(Vector<T> (&row)[NV], const char *b, Part part) {
    UNROLL for (int v = 0; v < NV - 1; v++) row[v] = load<T>(b + v * VECTOR_BYTES);
    row[NV - 1] = WHOLE ? load<T>(b + (NV - 1) * VECTOR_BYTES) : load_part<T>(b + (NV - 1) * VECTOR_BYTES, part);
}
template <class T, int NV> INLINE void load_panel_row(Vector<T> (&row)[NV], const char *b) {
    UNROLL for (int l = 0; l < NV * VECTOR_BYTES; l += LINE_BYTES) __builtin_prefetch(b + AHEAD + l);
    load_row<T, NV, true>(row, b, Part{});
}

/* The lines of C are on their way while the loop over k runs. */
template <class Kind, int ROWS> INLINE void prefetch_c(const Tile &x) {
    UNROLL for (int i = 0; i < ROWS; i++)
        for (int line = 0; line <= ROW_OF_B<Kind>; line += LINE_BYTES)
            __builtin_prefetch(x.c + i * x.rs_c + line, 1);
}

/* A and B in panels, both read from start to end. (Not inlined: GCC would split a tile into its first line and the rest.) */
template <class Kind, int ROWS, int NV> __attribute__((noinline)) void packed_tile(const Tile &given) {
    if (has_no_rows_of_c<Kind, ROWS, NV>(given)) return by_buffer<Kind>(given, NV, packed_tile<Kind, ROWS, NV>);
    const Tile x = given;
    Registers<Kind, ROWS, NV> sum;
    const char *a = x.a, *b = x.b;
    const auto step = [&]() __attribute__((always_inline)) {
        Vector<typename Kind::Sum> row[NV];
        load_panel_row<typename Kind::Sum>(row, b);
        multiply_add<Kind, ROWS, NV>(sum, PackedNumbers<Kind, ROWS>(a), row);
        a += ROWS * Kind::STEP, b += ROW_OF_B<Kind>;
    };
    prefetch_c<Kind, ROWS>(x);
    clear<Kind, ROWS, NV>(sum);
    Count p = 0;
    for (; p + TILES.steps <= x.depth; p += TILES.steps)
        UNROLL for (int q = 0; q < TILES.steps; q++) step();
    for (; p < x.depth; p++) step();
    if constexpr (IS_COMPLEX<Kind>) put_parts<Kind>(&sum[0][0], x);
    else put<Kind, ROWS, NV>(sum, x);
}

/* The same by pairs of k: two rows of B and two numbers of each row of A make one product. Sums over k of what is to be
   subtracted come after the panel of A, and in `of_b`. */
template <class Kind, int ROWS, int NV> __attribute__((noinline)) void paired_tile(const Tile &given) {
    using T = typename Kind::Sum;
    if (has_no_rows_of_c<Kind, ROWS, NV>(given)) return by_buffer<Kind>(given, NV, paired_tile<Kind, ROWS, NV>);
    const Tile x = given;
    Registers<Kind, ROWS, NV * Kind::REGISTERS> sum;
    Registers<Kind, ROWS, NV> total;
    const T *a = (const T *)x.a;
    const char *b = x.b;
    prefetch_c<Kind, ROWS>(x);
    clear<Kind, ROWS, NV * Kind::REGISTERS>(sum);
    for (Count p = 0; p < x.depth; p++, a += 2 * ROWS, b += 2 * ROW_OF_B<Kind>)
        UNROLL for (int i = 0; i < ROWS; i++) {
            UNROLL for (int v = 0; v < NV; v++) {
                const char *const first = b + v * VECTOR_BYTES, *const second = first + ROW_OF_B<Kind>;
                Kind::multiply_add(sum[i] + v * Kind::REGISTERS, load<T>(second) + a[i], load<T>(first) + a[ROWS + i]);
            }
            asm("" : "+r"(b));
        }
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < NV; v++)
            total[i][v] = Kind::total(sum[i] + v * Kind::REGISTERS) - (load<T>(x.of_b + v * VECTOR_BYTES) + a[i]);
    put<Kind, ROWS, NV>(total, x);
}

/* A as it is stored, B in panels. */
template <class Kind, int ROWS, int NV> __attribute__((noinline)) void half_packed_tile(const Tile &given) {
    if (has_no_rows_of_c<Kind, ROWS, NV>(given)) return by_buffer<Kind>(given, NV, half_packed_tile<Kind, ROWS, NV>);
    const Tile x = given;
    Registers<Kind, ROWS, NV> sum;
    StoredNumbers<Kind, ROWS> numbers(x);
    prefetch_c<Kind, ROWS>(x);
    clear<Kind, ROWS, NV>(sum);
    const char *b = x.b;
    for (Count p = 0; p < x.depth; p++, numbers.step(x.cs_a), b += ROW_OF_B<Kind>) {
        Vector<typename Kind::Sum> row[NV];
        load_panel_row<typename Kind::Sum>(row, b);
        multiply_add<Kind, ROWS, NV>(sum, numbers, row);
    }
    put<Kind, ROWS, NV>(sum, x);
}

/* A with any strides, B with adjacent columns, through all products that are given. */
template <class Kind, int ROWS, int NV, bool WHOLE> __attribute__((noinline)) void unpacked_tile(const Tile &given) {
    using T = typename Kind::Sum;
    if (has_no_rows_of_c<Kind, ROWS, NV>(given)) return by_buffer<Kind>(given, NV, unpacked_tile<Kind, ROWS, NV, WHOLE>);
    Tile x = given;
    const Part part = last_part<Kind, NV>(x);
    for (Count i = 0; i < x.products; i++, x.a += x.a_step, x.b += x.b_step, x.c += x.c_step) {
        Registers<Kind, ROWS, NV> sum;
        StoredNumbers<Kind, ROWS> numbers(x);
        if (x.resume) get<Kind, ROWS, NV, WHOLE>(sum, x);
        else clear<Kind, ROWS, NV>(sum);
        const char *b = x.b;
        for (Count p = 0; p < x.depth; p++, numbers.step(x.cs_a), b += x.rs_b) {
            Vector<T> row[NV];
            load_row<T, NV, WHOLE>(row, b, part);
            multiply_add_stored<Kind, ROWS, NV>(sum, numbers, row);
        }
        put<Kind, ROWS, NV>(sum, x);
    }
}

/* The instances, in the order of `Kernel`. */
template <int N> struct MicroKernels { MicroKernel at[N]; };

template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> packed_tiles(std::integer_sequence<int, I...>) {
    if constexpr (IsPaired<Kind>) return {{paired_tile<Kind, I / VECTORS<Kind> + 1, I % VECTORS<Kind> + 1>...}};
    else return {{packed_tile<Kind, I / VECTORS<Kind> + 1, Kind::PARTS * (I % VECTORS<Kind> + 1)>...}};
}
template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> half_packed_tiles(std::integer_sequence<int, I...>) {
    return {{half_packed_tile<Kind, I / VECTORS<Kind> + 1, I % VECTORS<Kind> + 1>...}};
}
/* Vectors of the widest tile of so many rows of operands as they are stored, and rows of the highest of so many vectors. */
template <class Kind> constexpr int UNPACKED_SUMS = IS_COMPLEX<Kind> ? TILES.complex_sums : TILES.unpacked_sums;
template <class Kind> constexpr int unpacked_rows(int vectors) {
    return UNPACKED_SUMS<Kind> / vectors < UNPACKED_ROWS ? UNPACKED_SUMS<Kind> / vectors : UNPACKED_ROWS;
}
template <class Kind> constexpr int unpacked_vectors(int rows) {
    return UNPACKED_SUMS<Kind> / rows < MAX_UNPACKED_VECTORS ? UNPACKED_SUMS<Kind> / rows : MAX_UNPACKED_VECTORS;
}
template <class Kind, int I> constexpr MicroKernel unpacked_tile_at() {
    constexpr int ROWS = I / 2 / MAX_UNPACKED_VECTORS + 1, NV = I / 2 % MAX_UNPACKED_VECTORS + 1;
    constexpr bool WHOLE = I % 2, CAN_BE_PART = LANES<typename Kind::Sum> > Kind::PARTS;
    if constexpr (NV <= unpacked_vectors<Kind>(ROWS) && (WHOLE || CAN_BE_PART)) return unpacked_tile<Kind, ROWS, NV, WHOLE>;
    else return nullptr;
}
template <class Kind, int... I> constexpr MicroKernels<sizeof...(I)> unpacked_tiles(std::integer_sequence<int, I...>) {
    return {{unpacked_tile_at<Kind, I>()...}};
}
template <class Kind> constexpr auto PACKED_TILES =
    packed_tiles<Kind>(std::make_integer_sequence<int, MR<Kind> * VECTORS<Kind>>());
template <class Kind> constexpr auto HALF_PACKED_TILES =
    half_packed_tiles<Kind>(std::make_integer_sequence<int, MR<Kind> * VECTORS<Kind>>());
template <class Kind> constexpr auto UNPACKED_TILES =
    unpacked_tiles<Kind>(std::make_integer_sequence<int, UNPACKED_ROWS * MAX_UNPACKED_VECTORS * 2>());

}  // namespace
