/* The rungs with a register tile, for one instruction set: a row each, with its function for float and for double. */
#include "five_loops.hpp"
#include "pack_ab.hpp"
#include "pack_b.hpp"
#include "register.hpp"

namespace {

template <class real>
using Rung = void (*)(View<const real>, View<const real>, View<real>, ptrdiff_t, ptrdiff_t, ptrdiff_t, RungParams *);

/* A rung as all are called (rung.pxd). */
template <class real, Rung<real> rung>
void called(real *A, ptrdiff_t lda, real *B, ptrdiff_t ldb, real *C, ptrdiff_t ldc, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
            RungParams *params) {
    rung({A, lda, 1}, {B, ldb, 1}, {C, ldc, 1}, m, n, k, params);
}

/* As tiled.py reads it. */
constexpr struct {
    int tile_rows, tile_bytes;
    struct {
        const char *name;
        Gemm32 f32;
        Gemm64 f64;
    } rungs[5];
} TABLE = {
    TILE_ROWS, TILE_VECTORS * VECTOR_BYTES, {
        {"register", called<float, register_tile>, called<double, register_tile>},
        {"pack_b", called<float, packed_b>, called<double, packed_b>},
        {"pack_ab", called<float, packed_ab>, called<double, packed_ab>},
        {"five_loops", called<float, five_loops>, called<double, five_loops>},
        {NULL, NULL, NULL},
    },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void *gemmlab_kernels(void) { return &TABLE; }
