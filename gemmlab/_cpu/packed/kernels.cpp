/* The kernels of one instruction set, by dtype. This file is compiled once for each: with AMX, or with the dot products
   of AVX512-BF16 and AVX512-VNNI, it lists what these multiply, and else every dtype. */
#include "pack.hpp"
#include "vectors.hpp"
#if defined(__AMX_TILE__)
#include "microkernel_amx.hpp"
#endif

namespace {

template <class Kind, class S>
constexpr bool AS_STORED = Kind::GROUP == 1 && (Kind::PARTS == 2 || __is_same(S, typename Kind::Sum));

template <class Kind> constexpr void set_tiles(Kernel &x) {
    x.mr = MR<Kind>, x.nr = NR<Kind>, x.packed = PACKED_TILES<Kind>.at;
    if constexpr (Kind::UNPACKED) {
        for (int rows = 1; rows <= UNPACKED_ROWS; rows++) x.unpacked_vectors[rows - 1] = unpacked_vectors<Kind>(rows);
        for (int v = 1; v <= MAX_UNPACKED_VECTORS; v++) x.unpacked_rows[v - 1] = unpacked_rows<Kind>(v);
        x.wide_vectors = TILES.wide_vectors;
        x.unpacked = UNPACKED_TILES<Kind>.at;
        if constexpr (!IS_COMPLEX<Kind>) x.half_packed = x.as_stored ? HALF_PACKED_TILES<Kind>.at : nullptr;
    }
}
template <class Kind, class S> constexpr void set_vectors(Kernel &x) {
    if constexpr (Kind::GROUP == 1) {
        using Column = ByVector<Kind, S, false>;
        using Row = ByVector<Kind, S, true>;
        x.column.columns = Column::columns;
        if constexpr (!Kind::UNPACKED || Kind::PARTS == 2 || !AS_STORED<Kind, S>) x.row.columns = Row::columns;
        if constexpr (Kind::FUSED) x.row.rows = Row::rows;
        x.dot = dot<Kind, 1>, x.dots = dot<Kind, DOT_ROWS<Kind>>, x.dot_rows = DOT_ROWS<Kind>;
        x.copy = x.as_stored ? x.pack_a : copy<S>;
        x.vector_rows = Column::ROWS, x.column_rows = Column::ROWS * Column::MOST;
    }
}
template <class Kind, class S> constexpr void set_packing(Kernel &x) {
    using T = typename Kind::Sum;
    if constexpr (Kind::PARTS == 2) x.pack_a = ComplexPacking<T>::pack_a, x.pack_b = ComplexPacking<T>::pack_b;
    else if constexpr (IsPaired<Kind>) {
        x.pack_a = x.pack_b = PairedPacking<T, S>::pack;
        x.pair_products = PairedPacking<T, S>::pair_products;
    }
    else x.pack_a = x.pack_b = Packing<T, S>::pack;
}

#if defined(__SSE4_1__) && !defined(__AMX_TILE__)
template <class Kind, class S> requires(Kind::GROUP > 1 && !IsPaired<Kind>) constexpr void set_packing(Kernel &x) {
    if constexpr (Kind::GROUP * sizeof(S) == 4)
        x.pack_a = x.pack_b = GroupPacking<S, Kind::GROUP, Packing<uint32_t, uint32_t>, 1>::pack;
    else
        x.pack_a = x.pack_b = GroupPacking<S, Kind::GROUP, Packing<uint32_t, Pair<S>>, 1>::pack;
}
#elif defined(__AMX_TILE__)
template <class Kind> requires(Kind::GROUP > 1) constexpr void set_tiles(Kernel &x) {
    x.mr = x.nr = TILES_EDGE, x.whole_panels = x.tiles_narrow = true;
    x.packed = AMX_TILES<Kind, true>.at, x.half_packed = AMX_TILES<Kind, false>.at;
    x.begin = begin_tiles, x.end = end_tiles;
}
template <class Kind, class S> requires(Kind::GROUP > 1) constexpr void set_packing(Kernel &x) {
    x.pack_a = StepPacking<S>::pack;
    x.pack_b = GroupPacking<S, 4 / sizeof(S), Packing<uint32_t, uint32_t>, TILE_ROWS>::pack;
}
#endif

/* Numbers stored as S, multiplied as this kind of number, into numbers stored as C. */
template <class Kind, class S, class C = typename Kind::Sum> constexpr Kernel kernel(Kernel x) {
    using T = typename Kind::Sum;
    x.lanes = LANES<T>, x.vectors = VECTORS<Kind>, x.group = Kind::GROUP, x.step = Kind::STEP, x.parts = Kind::PARTS;
    x.cost = 1.0 / Kind::SPEED;
    x.stored = sizeof(S), x.sum = Kind::PARTS * sizeof(T), x.result = sizeof(C);
    x.as_stored = AS_STORED<Kind, S>, x.stored_lanes = LANES<T> / Kind::PARTS;
    x.narrows = Kind::PARTS == 1 && !__is_same(C, T);
    set_tiles<Kind>(x);
    set_packing<Kind, S>(x);
    set_vectors<Kind, S>(x);
    x.gather = x.as_stored ? x.pack_a : nullptr;
    if constexpr (Kind::PARTS == 2) x.unpack = unpack<C, C>, x.widen = ComplexPacking<T>::pack_a;
    else x.unpack = unpack<T, C>, x.widen = Packing<T, C>::pack;
    x.accumulate = accumulate<Kind>;
    if constexpr (sizeof(S) == 1 && sizeof(C) == 4) x.residues = residues;
    if constexpr (Kind::PARTS == 1) x.mirror = mirror<Number<sizeof(C)>>;
    return x;
}

/* An integer of the same size as C's may have a sign or none, and so may C's. */
constexpr Kernel KERNELS[] = {
#if defined(__AMX_TILE__)
    kernel<TiledBfloat16, uint16_t, Bfloat16>({.dtype = "bfloat16", .out = "bfloat16", .mc = 256, .kc = 2048}),
    kernel<TiledBfloat16, uint16_t>({.dtype = "bfloat16", .out = "float32", .mc = 256, .kc = 2048}),
    kernel<TiledInt8, uint8_t, uint8_t>({.dtype = "int8", .out = "int8", .mc = 256, .kc = 2048}),
    kernel<TiledInt8, uint8_t>({.dtype = "int8", .out = "int32", .mc = 256, .kc = 2048}),
    kernel<TiledUint8, uint8_t>({.dtype = "uint8", .out = "int32", .mc = 256, .kc = 2048}),
#elif defined(__AVX512BF16__) && defined(__AVX512VNNI__)
    kernel<DotBfloat16, uint16_t, Bfloat16>({.dtype = "bfloat16", .out = "bfloat16", .mc = 84, .kc = 1024}),
    kernel<DotBfloat16, uint16_t>({.dtype = "bfloat16", .out = "float32", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint16_t, uint16_t>({.dtype = "int16", .out = "int16", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint16_t>({.dtype = "int16", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<DotInt16, int8_t>({.dtype = "int8", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint8_t>({.dtype = "uint8", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<DotInt8, uint8_t, uint8_t>({.dtype = "int8", .out = "int8", .mc = 84, .kc = 2048}),
#else
    kernel<Real<float>, float>({.dtype = "float32", .out = "float32", .mc = 84, .kc = 512}),
    kernel<Real<double>, double>({.dtype = "float64", .out = "float64", .mc = 84, .kc = 384}),
    kernel<Complex<float>, Pair<float>, Pair<float>>({.dtype = "complex64", .out = "complex64", .mc = 84, .kc = 384}),
    kernel<Complex<double>, Pair<double>, Pair<double>>(
        {.dtype = "complex128", .out = "complex128", .mc = 84, .kc = 192}),
    kernel<Real<float>, Float16, Float16>({.dtype = "float16", .out = "float16", .mc = 84, .kc = 512}),
    kernel<Real<float>, Float16>({.dtype = "float16", .out = "float32", .mc = 84, .kc = 512}),
    kernel<Real<float>, Bfloat16, Bfloat16>({.dtype = "bfloat16", .out = "bfloat16", .mc = 84, .kc = 512}),
    kernel<Real<float>, Bfloat16>({.dtype = "bfloat16", .out = "float32", .mc = 84, .kc = 512}),
    kernel<Boolean, Bool, Bool>({.dtype = "bool", .out = "bool", .mc = 84, .kc = 512}),
    // Integers: one number of k at a time, for a matrix by a vector; and pairs of them, for all else where there is a way.
    kernel<Modular<uint16_t>, uint8_t, uint8_t>({.dtype = "int8", .out = "int8", .mc = 84, .kc = 512}),
    kernel<Modular<uint16_t>, uint16_t>({.dtype = "int16", .out = "int16", .mc = 84, .kc = 512}),
    kernel<Modular<uint32_t>, uint32_t>({.dtype = "int32", .out = "int32", .mc = 84, .kc = 512}),
    kernel<Modular<uint64_t>, uint64_t>({.dtype = "int64", .out = "int64", .mc = 84, .kc = 384}),
    kernel<Modular<uint32_t>, int8_t>({.dtype = "int8", .out = "int32", .mc = 84, .kc = 512}),
    kernel<Modular<uint32_t>, uint8_t>({.dtype = "uint8", .out = "int32", .mc = 84, .kc = 512}),
    kernel<Modular<uint32_t>, int16_t>({.dtype = "int16", .out = "int32", .mc = 84, .kc = 512}),
    kernel<Modular<uint32_t>, uint16_t>({.dtype = "uint16", .out = "int32", .mc = 84, .kc = 512}),
    kernel<Modular<uint64_t>, int32_t>({.dtype = "int32", .out = "int64", .mc = 84, .kc = 384}),
    kernel<Modular<uint64_t>, uint32_t>({.dtype = "uint32", .out = "int64", .mc = 84, .kc = 384}),
#if defined(__SSE4_1__)
    kernel<DotInt16, uint8_t, uint8_t>({.dtype = "int8", .out = "int8", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint16_t, uint16_t>({.dtype = "int16", .out = "int16", .mc = 84, .kc = 1024}),
    kernel<Paired<uint32_t>, uint32_t>({.dtype = "int32", .out = "int32", .mc = 168, .kc = 512}),
    kernel<Paired<uint64_t>, uint64_t>({.dtype = "int64", .out = "int64", .mc = 168, .kc = 384}),
    kernel<DotInt16, int8_t>({.dtype = "int8", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint8_t>({.dtype = "uint8", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<DotInt16, uint16_t>({.dtype = "int16", .out = "int32", .mc = 84, .kc = 1024}),
    kernel<Paired<uint32_t>, uint16_t>({.dtype = "uint16", .out = "int32", .mc = 168, .kc = 512}),
    kernel<Paired<uint64_t>, int32_t>({.dtype = "int32", .out = "int64", .mc = 168, .kc = 384}),
    kernel<Paired<uint64_t>, uint32_t>({.dtype = "uint32", .out = "int64", .mc = 168, .kc = 384}),
#endif
#endif
    {.dtype = nullptr},
};

}  // namespace

/* The table, which ends with a kernel without a dtype. */
extern "C" __attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return KERNELS; }
