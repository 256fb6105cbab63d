/* Packing: a piece of A or B, with any strides, becomes a panel that the micro-kernel reads from start to end.

       for p in 0..depth:
           for i in 0..width:      panel[p * padded + i] = x[i * across + p * along]
           for i in width..padded: panel[p * padded + i] = 0

   A is packed across its rows, B across its columns. There are three ways, by which stride is that of adjacent numbers:
   copy vectors, transpose squares of vectors, or take a few numbers one by one.

   And the way back: sums become numbers of C. One side of a symmetric C becomes the other.

   Each function copies what it is given: stores of numbers might change it otherwise, as far as the compiler knows. */
#pragma once

#include "numeric.hpp"

namespace {

/* Panels of T from numbers stored as S. */
template <class T, class S> struct Packing {
    using Reader = Read<T, S>;
    static constexpr int N = LANES<T>, SIZE = sizeof(S);
    /* Whether a part of a vector can be read: a panel has room for it in multiples of 4 bytes. */
    static constexpr bool IN_PARTS = __is_same(T, S) && sizeof(T) >= 4;

    static INLINE Vector<T> read(const char *x, Count numbers) {
        if (IN_PARTS && numbers < N) return load_part<T>(x, part_of_lanes<T>(numbers));
        return Reader::many(x);
    }

    /* The first numbers of a vector, in a panel that ends at `end`. What follows is overwritten as far as that: it
       belongs to the panel's next rows, which come afterwards. To store a part costs AVX2 as much as many whole
       vectors. */
    static INLINE void write(T *to, Vector<T> x, Count numbers, const T *end) {
        if (numbers >= N || to + N <= end) store<T>(to, x);
        else memcpy(to, &x, numbers * sizeof(T));
    }

    /* Numbers that are adjacent across the panel: vectors of them. */
    static INLINE void adjacent(const Panel &x, T *to) {
        const Count whole = x.width / N * N;
        const T *const end = to + x.depth * x.padded;
        const char *from = x.from;
        for (Count p = 0; p < x.depth; p++, to += x.padded, from += x.along) {
            for (Count i = 0; i < whole; i += N) store<T>(to + i, Reader::many(from + i * SIZE));
            Count i = whole;
            if (IN_PARTS && whole < x.padded) {
                write(to + whole, read(from + whole * SIZE, x.width - whole), x.padded - whole, end);
                i += N;
            }
            for (; i < x.width; i++) to[i] = Reader::one(from + i * SIZE);
            for (; i < x.padded; i++) to[i] = 0;
        }
    }

    /* `depth` numbers of k from each of N rows from `i` on, as that many rows of the panel. */
    static INLINE void square(const Panel &x, T *to, Count p, Count i, const Count depth, const T *end) {
        const Count rows = max(0, min(N, x.width - i)), columns = min(N, x.padded - i);
        const char *const from = x.from + i * x.across + p * SIZE;
        Vector<T> square[N];
        if (rows == N) {
            UNROLL for (int r = 0; r < N; r++) {
                square[r] = read(from + r * x.across, depth);
                __builtin_prefetch(from + (x.width + r) * x.across);  // for the next panel: its rows are other pages
            }
        } else {
            UNROLL for (int r = 0; r < N; r++) square[r] = r < rows ? read(from + r * x.across, depth) : Vector<T>{};
        }
        transpose<T>(square);
        UNROLL for (int q = 0; q < N; q++) {
            if (q == depth) return;
            write(to + (p + q) * x.padded + i, square[q], columns, end);
        }
    }

    /* Numbers at any distance, from `p` on: as many at a time as 16 bytes hold. */
    static INLINE void one_by_one(const Panel &x, T *to, Count p) {
        typedef T Some __attribute__((vector_size(16), aligned(1), may_alias));
        constexpr int SOME = 16 / sizeof(T);
        to += p * x.padded;
        for (const char *start = x.from + p * x.along; p < x.depth; p++, to += x.padded, start += x.along) {
            const char *from = start;
            Count i = 0;
            if (x.across == -SIZE)
                for (; i + N <= x.width; i += N, from -= N * SIZE) {
                    const Vector<T> forwards = Reader::many(from - (N - 1) * SIZE);
                    store<T>(to + i, shuffle<T, reversed>(forwards, forwards));
                }
            for (; i + SOME <= x.width; i += SOME, from += SOME * x.across) {
                Some some;
                UNROLL for (int q = 0; q < SOME; q++) some[q] = Reader::one(from + q * x.across);
                *(Some *)(to + i) = some;
            }
            for (; i < x.width; i++, from += x.across) to[i] = Reader::one(from);
            for (; i < x.padded; i++) to[i] = 0;
        }
    }

    static void pack(const Panel &given) {
        const Panel x = given;
        T *const to = (T *)x.to, *const end = to + x.depth * x.padded;
        Count p = 0;
        if (x.across == SIZE) return adjacent(x, to);
        if (x.along == SIZE)
            for (; p + N <= x.depth || (IN_PARTS && p < x.depth); p += N)
                for (Count i = (x.padded - 1) / N * N; i >= 0; i -= N) {  // the part of a vector first
                    if (p + N <= x.depth) square(x, to, p, i, N, end);
                    else square(x, to, p, i, x.depth - p, end);
                }
        if (p < x.depth) one_by_one(x, to, p);
    }
};

/* Numbers of 16 bytes, as they are: squares of vectors where those along the panel are adjacent. */
struct Packing16 {
    typedef double Number __attribute__((vector_size(16), aligned(1), may_alias));
    static constexpr int N = VECTOR_BYTES / 16, SIZE = 16;

    static INLINE void square(const char *from, Count across, char *to, Count bytes) {
        Vector<double> x[N];
        UNROLL for (int i = 0; i < N; i++) x[i] = load<double>(from + i * across);
        transpose_16<double>(x);
        UNROLL for (int q = 0; q < N; q++) store<double>(to + q * bytes, x[q]);
    }

    static void pack(const Panel &given) {
        const Panel x = given;
        const Count bytes = x.padded * SIZE, whole = N > 1 && x.along == SIZE ? x.width / N * N : 0;
        Count squares = whole ? x.depth / N * N : 0;
        char *const to = (char *)x.to;
        for (Count i = 0; i < whole; i += N)
            for (Count p = 0; p < squares; p += N)
                square(x.from + i * x.across + p * SIZE, x.across, to + p * bytes + i * SIZE, bytes);
        for (Count p = 0; p < x.depth; p++)
            for (Count i = p < squares ? whole : 0; i < x.padded; i++)
                *(Number *)(to + p * bytes + i * SIZE) =
                    i < x.width ? *(const Number *)(x.from + i * x.across + p * x.along) : Number{};
    }
};

/* Complex numbers. A as it is, a real and an imaginary part side by side to be broadcast; B split, the real parts of a
   panel's row as vectors and then the imaginary ones: where numbers of k are adjacent, these are two rows of a panel of
   real numbers. */
template <class T> struct ComplexPacking {
    static constexpr int N = LANES<T>, SIZE = 2 * sizeof(T);

    static void pack_a(const Panel &x) {
        if constexpr (SIZE == 16) Packing16::pack(x);
        else Packing<uint64_t, uint64_t>::pack(x);
    }

    template <int... I>
    static INLINE Vector<T> every_other(Vector<T> x, Vector<T> y, int first, std::integer_sequence<int, I...>) {
        return first ? __builtin_shufflevector(x, y, (2 * I + 1)...) : __builtin_shufflevector(x, y, (2 * I)...);
    }
    /* Numbers at any distance side by side, as doubles: of 8 bytes or of 16. */
    template <int NUMBERS> struct Joined {
        static constexpr int DOUBLES = NUMBERS * SIZE / 8;
        typedef double Some __attribute__((vector_size(NUMBERS * SIZE)));
        template <class Half, int... I> static INLINE Some both(Half x, Half y, std::integer_sequence<int, I...>) {
            return __builtin_shufflevector(x, y, I...);
        }
        static INLINE Some load(const char *x, Count apart) {
            typedef double Number __attribute__((aligned(1), may_alias));
            if constexpr (DOUBLES > 2)
                return both(Joined<NUMBERS / 2>::load(x, apart), Joined<NUMBERS / 2>::load(x + NUMBERS / 2 * apart, apart),
                            std::make_integer_sequence<int, DOUBLES>());
            else
                return Some{*(const Number *)x, *(const Number *)(x + (NUMBERS == 2 ? apart : 8))};
        }
    };
    static INLINE Vector<T> read(const char *x, Count apart) {
        return apart == SIZE ? load<T>(x) : (Vector<T>)Joined<N / 2>::load(x, apart);
    }
    static void split(const Panel &given) {
        const Panel x = given;
        constexpr auto LANE = std::make_integer_sequence<int, N>();
        T *to = (T *)x.to;
        for (Count p = 0; p < x.depth; p++, to += 2 * x.padded) {
            const char *const from = x.from + p * x.along;
            Count j = 0;
            for (; j + N <= x.width; j += N) {
                const char *const first = from + j * x.across;
                const Vector<T> low = read(first, x.across), high = read(first + N / 2 * x.across, x.across);
                store<T>(to + j, every_other(low, high, 0, LANE));
                store<T>(to + x.padded + j, every_other(low, high, 1, LANE));
            }
            for (; j < x.width; j++) {
                const T *const number = (const T *)(from + j * x.across);
                to[j] = number[0], to[x.padded + j] = number[1];
            }
            for (; j < x.padded; j++) to[j] = to[x.padded + j] = 0;
        }
    }
    static void pack_b(const Panel &x) {
        if (x.along != SIZE || x.across == SIZE) return split(x);
        Panel parts = x;
        parts.along = sizeof(T), parts.depth = 2 * x.depth;
        Packing<T, T>::pack(parts);
    }
};

/* Panels for pairs of k: those of single numbers, with another row of zeros where k is odd. */
template <class T, class S> struct PairedPacking {
    static void pack(const Panel &given) {
        const Panel x = given;
        Packing<T, S>::pack(x);
        if (x.depth % 2) memset((T *)x.to + x.depth * x.padded, 0, x.padded * sizeof(T));
    }

    /* Sums over k of the products of both numbers of a pair, for some rows or columns of a panel from `i` on. A vector
       may end in the next row of the panel, or after a panel of A in the place of these sums: half of it is there. */
    template <int SOME> static INLINE void products(const T *panel, Count width, Count pairs, T *to, Count i) {
        typedef T Some __attribute__((vector_size(SOME * sizeof(T)), aligned(1), may_alias));
        for (; i < width && 2 * (width - i) >= SOME; i += SOME) {
            Some sum = {};
            const T *pair = panel + i;
            for (Count p = 0; p < pairs; p++, pair += 2 * width) sum += *(const Some *)pair * *(const Some *)(pair + width);
            memcpy(to + i, &sum, min(SOME, width - i) * sizeof(T));
        }
        if constexpr (SOME > 1)
            if (i < width) products<SOME / 2>(panel, width, pairs, to, i);
    }
    static void pair_products(const char *panel, Count width, Count pairs, char *to) {
        products<LANES<T>>((const T *)panel, width, pairs, (T *)to, 0);
    }
};

#if defined(__SSE4_1__)
/* For instructions that multiply PER numbers of k at once, PER x BITS = 32: they are side by side in 4 bytes, a k-group.

       for g in 0..depth / PER:
           for i in 0..width:      panel[g * padded + i] = x[i * across + (g PER + 0, 1, ...) * along]
           for i in width..padded: panel[g * padded + i] = 0

   The last group is filled up with 0, and so are the groups that are missing to a step of the micro-kernel, which has
   IN_STEP of them. Where the numbers of a group are adjacent, groups are packed as numbers are, by `Whole`; where those
   of a row are, vectors of them are shifted and joined. */
template <class S, int PER, class Whole, int IN_STEP> struct GroupPacking {
    using Vec = Vector<uint32_t>;
    static constexpr int N = LANES<uint32_t>, BITS = 32 / PER, SIZE = sizeof(S);
    static constexpr uint32_t MASK = PER == 2 ? 0xffff : 0xff;

    static INLINE Vec many(const char *x) { return (S)-1 < 0 ? widened_to_32<S>(x) & MASK : widened_to_32<S>(x); }
    static INLINE uint32_t one(const char *x) { return (uint32_t)*(const S *)x & MASK; }

    static void pack(const Panel &given) {
        const Panel x = given;
        const Count groups = round_up_2(ceil_div_2(x.depth, PER), IN_STEP);
        uint32_t *to = (uint32_t *)x.to;
        Count g = 0;
        if (x.along == SIZE) {
            Panel whole = x;
            g = x.depth / PER;
            whole.along = PER * SIZE, whole.depth = g;
            Whole::pack(whole);
            to += g * x.padded;
        }
        for (; g < groups; g++, to += x.padded) {
            const char *from = x.from + g * PER * x.along;
            const Count here = max(0, min(PER, x.depth - g * PER));
            Count i = 0;
            if (x.across == SIZE && here == PER)
                for (; i + N <= x.width; i += N) {
                    Vec joined = many(from + i * SIZE);
                    UNROLL for (int q = 1; q < PER; q++) joined |= many(from + q * x.along + i * SIZE) << (q * BITS);
                    store<uint32_t>(to + i, joined);
                }
            for (; i < x.width; i++) {
                uint32_t group = 0;
                for (Count q = 0; q < here; q++) group |= one(from + i * x.across + q * x.along) << (q * BITS);
                to[i] = group;
            }
            for (; i < x.padded; i++) to[i] = 0;
        }
    }
};

#endif
#if defined(__AVX512BW__)
/* A for AMX: a step of k of each row is 64 bytes, one row after the other, then the next step. */
template <class S> struct StepPacking {
    static void pack(const Panel &given) {
        const Panel x = given;
        constexpr Count STEP = 64, GROUP = STEP / sizeof(S);
        char *to = (char *)x.to;
        for (Count p = 0; p < x.depth; p += GROUP, to += x.width * STEP) {
            const Count here = min(GROUP, x.depth - p);
            const char *from = x.from + p * x.along;
            if (x.along == sizeof(S)) {
                const Part part = part_of(here * sizeof(S));
                for (Count i = 0; i < x.width; i++) *(Bytes *)(to + i * STEP) = load_bytes(from + i * x.across, part);
                continue;
            }
            for (Count q = 0; q < GROUP; q++)
                for (Count i = 0; i < x.width; i++)
                    ((S *)(to + i * STEP))[q] = q < here ? *(const S *)(from + i * x.across + q * x.along) : 0;
        }
    }
};
#endif

/* Numbers of any distance, as they are stored. */
template <class S> void copy(const Panel &given) {
    const Panel x = given;
    S *to = (S *)x.to;
    for (Count p = 0; p < x.depth; p++)
        for (Count i = 0; i < x.width; i++) *to++ = *(const S *)(x.from + i * x.across + p * x.along);
}

#if defined(__AVX512F__)
/* Sixteen sums as they are stored, by the formulas of numeric.hpp. */
template <class S> INLINE __m256i stored_many(__m512 x) {
    if constexpr (__is_same(S, Float16)) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    const __m512i bits = (__m512i)x, high = _mm512_srli_epi32(bits, 16);
    const __m512i half = _mm512_add_epi32(_mm512_and_epi32(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40)));
}
#endif

/* Sums of T, to numbers of C stored as S. */
template <class T, class S> void unpack(const Sums &given) {
    const Sums x = given;
    for (Count i = 0; i < x.rows; i++) {
        const T *from = (const T *)(x.from + i * x.rs_from);
        char *const to = x.c + i * x.rs_c;
        Count j = 0;
        if (x.cs_c == sizeof(S)) {
#if defined(__AVX512F__)
            if constexpr (__is_same(S, Float16) || __is_same(S, Bfloat16))
                for (; j + LANES<T> <= x.columns; j += LANES<T>)
                    _mm256_storeu_si256((__m256i *)(to + j * sizeof(S)), stored_many<S>((__m512)load<T>(from + j)));
#endif
            for (; j < x.columns; j++) ((S *)to)[j] = stored<S>(from[j]);
        } else
            for (; j < x.columns; j++) *(S *)(to + j * x.cs_c) = stored<S>(from[j]);
    }
}

/* Sums to residues. Doubles hold sums of 32 bits, and nearest integers by adding what leaves no bit for a fraction. */
void residues(const Sums &given) {
    const Sums x = given;
    constexpr double WHOLE = 0x1.8p52;
    const double modulus = x.kernel->modulus, inverse = 1 / modulus;
    const auto row = [&](const int32_t *from, char *to, Count step) __attribute__((always_inline)) {
        for (Count j = 0; j < x.columns; j++)
            to[j * step] = (char)(int32_t)(from[j] - ((from[j] * inverse + WHOLE) - WHOLE) * modulus);
    };
    for (Count i = 0; i < x.rows; i++) {
        const int32_t *const from = (const int32_t *)(x.from + i * x.rs_from);
        if (x.cs_c == 1) row(from, x.c + i * x.rs_c, 1);
        else row(from, x.c + i * x.rs_c, x.cs_c);
    }
}

/* Numbers of so many bytes, as they are. */
template <int BYTES> using Number =
    std::conditional_t<BYTES == 8, uint64_t,
                       std::conditional_t<BYTES == 4, uint32_t, std::conditional_t<BYTES == 2, uint16_t, uint8_t>>>;

/* A block of C, transposed: c[j * rs_c + i * cs_c] = from[i * rs_c + j * cs_c]. Squares of vectors where the numbers of a
   row or of a column are adjacent. */
template <class S> void mirror(const Sums &given) {
    Sums x = given;
    if (x.rs_c == sizeof(S)) std::swap(x.rs_c, x.cs_c), std::swap(x.rows, x.columns);
    const auto one_by_one = [&](Count i, Count rows, Count j) {
        for (const Count end = i + rows; i < end; i++)
            for (Count q = j; q < x.columns; q++)
                *(S *)(x.c + q * x.rs_c + i * x.cs_c) = *(const S *)(x.from + i * x.rs_c + q * x.cs_c);
    };
    Count i = 0;
    if constexpr (sizeof(S) >= 4)
        if (x.cs_c == sizeof(S))
            for (constexpr Count N = LANES<S>; i + N <= x.rows; i += N) {
                Count j = 0;
                for (; j + N <= x.columns; j += N) {
                    Vector<S> square[N];
                    UNROLL for (int r = 0; r < N; r++) square[r] = load<S>(x.from + (i + r) * x.rs_c + j * sizeof(S));
                    transpose<S>(square);
                    UNROLL for (int r = 0; r < N; r++) store<S>(x.c + (j + r) * x.rs_c + i * sizeof(S), square[r]);
                }
                one_by_one(i, N, j);
            }
    one_by_one(i, x.rows - i, 0);
}

}  // namespace
