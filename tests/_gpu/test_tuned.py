"""The rung tuned: every layout of its operands, even waves, copies read in vectors, and what the host decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from itertools import product as product_of
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import PLACES, backend_at, integers
from randomness import RNG

import gemmlab
from gemmlab._gpu import device_arrays, runtime_named
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder import thin, tuned, tuned_cpu, waves
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.runtime import Device
from gemmlab._registry import registered
from gemmlab.product import product

pytestmark = pytest.mark.usefixtures("quick_kernels")

RUNG = RUNGS[RUNG_NAMES.index("tuned")]
ON_A_GPU = replace(RUNG, cpu=None, defaults=dict.fromkeys(("gpu", "cpu"), RUNG.defaults["gpu"]))
# Small, since a CPU device runs the work-items one after another.
SMALL = {
    "vector_bytes": 16, "tile_x": 4, "tile_y": 8, "warp_y": 8, "warps_x": 1, "warps_y": 2, "step_k": 4,
    "buffers": 2, "pad": 4,
}  # fmt: skip
SIZES = ((1, 1, 1), (130, 66, 129))
H100 = Device("opencl", 0, "a GPU", "gpu", "NVIDIA", "1", 132, 1024, 48 << 10, 80 << 30, 20 << 30, True)
on_a_device = pytest.mark.skipif(not PLACES, reason="no device")


CHANGES = [
    {"buffers": 1}, {"pad": 0}, {"step_k": 8}, {"warp_y": 2}, {"warps_x": 2, "warps_y": 1}, {"tile_y": 4},
    {"serpentine": 1}, {"quads": 1}, {"quads": 1, "warp_y": 2}, {"quads": 1, "warp_y": 16}, {"group_m": 1},
    {"shares": 7}, {"shares": 40}, {"shares": 40, "buffers": 1}, {"shares": 61, "quads": 1},
    {"warps_x": 3, "warps_y": 1, "tile_x": 12}, {"tile_y": 12, "warps_y": 3},
]  # fmt: skip


@contextmanager
def as_on_a_gpu(place: str) -> Iterator[str]:
    """The name of a backend that runs the form for GPUs on any device."""
    runtime, _, selector = place.partition(":")
    backend = RungBackend(runtime_named(runtime), ON_A_GPU, selector)
    backend.name = f"{runtime}-as-on-a-gpu"
    with registered(backend):
        yield backend.name


@pytest.fixture(params=PLACES)
def on_a_gpu(request: pytest.FixtureRequest) -> Iterator[str]:
    with as_on_a_gpu(request.param) as name:
        yield name


@pytest.fixture(params=[place for place in PLACES if place.startswith("opencl")])
def on_opencl(request: pytest.FixtureRequest) -> Iterator[str]:
    with as_on_a_gpu(request.param) as name:
        yield name


@on_a_device
@pytest.mark.parametrize(
    ("dtype", "change"), [
        *(pytest.param(dtype, {}, marks=pytest.mark.optimised) for dtype in ("float32", "float64", "float16")),
        *(("float32", one) for one in CHANGES),
        *(("float16", one) for one in CHANGES if one.keys() & {"shares", "warps_x"}),
    ], ids=str,
)  # fmt: skip
def test_products_are_exact(dtype: str, change: dict[str, int], on_a_gpu: str) -> None:
    are_exact(dtype, on_a_gpu, **{**SMALL, **change})


@on_a_device
@pytest.mark.parametrize(("dtype", "shares"), [
    ("float32", 0), *(pytest.param(dtype, shares, marks=pytest.mark.exhaustive)
                      for dtype, shares in (("float32", 3), ("float64", 2), ("float16", 3))),
], ids=str)  # fmt: skip
def test_thin_products_are_exact(dtype: str, shares: int, on_opencl: str, queue: Any) -> None:
    for few in (1, int(RNG.integers(2, thin.MOST_VECTORS + 1))):
        rows, k = int(RNG.integers(1, 300)), int(RNG.integers(0, 200))
        for (m, n), layout in product_of(((rows, few), (few, rows), (few, few)), LAYOUTS):
            a, b = integers((m, k), dtype), integers((k, n), dtype)
            x, y = placed(queue, a, layout), placed(queue, b, layout)
            found = gemmlab.matmul(x, y, backend=on_opencl, shares=shares)
            assert np.array_equal(found.get(), (a.astype(float) @ b.astype(float)).astype(dtype)), (m, n, k, layout)
    a, b = integers((5, 30, 70), dtype), integers((70, 3), dtype)
    assert np.array_equal(gemmlab.matmul(a, b, backend=on_opencl, shares=shares), a @ b)


def test_k_is_cut_where_the_matrix_has_few_rows() -> None:
    assert [thin.slices_for(GemmSize(m, 1, 1 << 16, 1), 132) for m in (10, 1000, 200_000)] == [64, 64, 0]
    assert thin.slices_for(GemmSize(1, 10, 500, 1), 132) == 0
    resolved = ON_A_GPU.resolve({}, "gpu", GemmSize(1, 1000, 1 << 16, 1), 132)
    assert resolved["shares"] == 64


@pytest.mark.parametrize("place", [place for place in PLACES if runtime_named(place[: place.index(":")]).device(
    place[place.index(":") + 1 :]).kind == "cpu"])  # fmt: skip
@pytest.mark.parametrize(("dtype", "change"), [
    ("float32", {}), ("float32", {"vector_bytes": 32, "tile_x": 8}), ("float32", {"tile_x": 32}),
    ("float32", {"tile_y": 1}), ("float64", {}), ("float16", {}), ("float16", {"tile_x": 32}),
    ("float16", {"vector_bytes": 32, "tile_x": 8}),
], ids=str)  # fmt: skip
def test_products_of_the_form_for_cpus_are_exact(dtype: str, change: dict[str, int], place: str) -> None:
    are_exact(dtype, backend_at(place, "tuned"), **change)


def are_exact(dtype: str, backend: str, **params: int) -> None:
    for m, n, k in SIZES:
        a, b, out = integers((m, k), dtype), integers((k, n), dtype), np.full((m, n), np.nan, dtype)
        gemmlab.matmul(a, b, out=out, backend=backend, **params)
        assert np.array_equal(out, (a.astype(float) @ b.astype(float)).astype(dtype)), (m, n, k)


@on_a_device
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.optimised), "float16"])
@pytest.mark.parametrize("place", PLACES)
def test_products_by_panels_are_exact(dtype: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned_cpu, "LEAST_ROWS", 1)
    monkeypatch.setattr(tuned_cpu, "LEAST_BYTES", 1)
    m, k = RNG.integers(1, 60), RNG.integers(1, 3 * tuned_cpu.PACKED_ROWS)
    for lead_of_a, lead_of_b in (((), ()), ((3,), (3,)), ((3,), ()), ((2, 1), (3,))):
        n = RNG.integers(1, 60)
        a, b = integers((*lead_of_a, m, k), dtype), integers((*lead_of_b, k, n), dtype)
        found = gemmlab.matmul(a, b, backend=backend_at(place, "tuned"))
        assert np.array_equal(found, (a.astype(float) @ b.astype(float)).astype(dtype)), (a.shape, b.shape)


def test_a_large_b_is_copied_into_panels() -> None:
    device = replace(H100, kind="cpu", platform="p")
    form, layouts = RUNG.on("cpu"), [Layout(0, 4096)] * 3
    for (m, n, k), packs in (((512, 4096, 1024), True), ((64, 4096, 1024), False), ((4096, 256, 1024), False)):
        launches = form.launches(form.resolve({}, "cpu"), "float32", GemmSize(m, n, k, 1), layouts, device)
        assert [one.name for one in launches] == ["pack"] * packs + ["gemm"]
        assert launches.workspace_bytes == packs * 4 * n * k


@on_a_device
def test_what_a_device_ignores_is_said() -> None:
    a = np.ones((3, 3), np.float32)
    kind = gemmlab.get_backend("opencl-tuned").device.kind  # type: ignore[attr-defined]
    said = gemmlab.explain(a, a, backend="opencl-tuned").rows[0][2]
    assert ("it ignores warp_y, quads" in said) == (kind == "cpu")
    assert (gemmlab.matmul(a, a, backend="opencl-tuned", quads=1) == 3).all()


@pytest.fixture
def queue(on_opencl: str) -> Any:
    """A queue of pyopencl on the device of `on_opencl`."""
    return gemmlab.get_backend(on_opencl).queue.queue  # type: ignore[attr-defined]


LAYOUTS = ("plain", "transposed", "padded", "shifted")


def placed(queue: Any, x: np.ndarray, layout: str) -> Any:
    """On the device: row-major, column-major, with longer rows, or off the alignment of vectors."""
    import pyopencl.array as cl_array

    if layout == "transposed":
        return cl_array.to_device(queue, np.ascontiguousarray(x.T)).T
    if layout == "padded":
        return cl_array.to_device(queue, np.pad(x, ((0, 0), (0, 12))))[:, : x.shape[1]]
    if layout == "shifted":
        return cl_array.to_device(queue, np.pad(x, ((0, 0), (1, 2))))[:, 1 : 1 + x.shape[1]]
    return cl_array.to_device(queue, x)


@on_a_device
@pytest.mark.parametrize("much", [1, pytest.param(10**9, marks=pytest.mark.optimised)], ids=["copied", "in place"])
def test_every_layout_of_device_arrays(queue: Any, on_opencl: str, much: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "MUCH_REUSE", much)
    m, n, k = 65, 67, 29
    a, b = integers((m, k), "float32"), integers((k, n), "float32")
    for of_a in LAYOUTS:
        for of_b in LAYOUTS:
            x, y = placed(queue, a, of_a), placed(queue, b, of_b)
            with gemmlab.trace() as calls:
                c = gemmlab.matmul(x, y, backend=on_opencl, shares=11, **SMALL)
            assert np.array_equal(c.get(), a @ b), (of_a, of_b)
            assert calls[0].copies == 0, "what the rung copies to read it faster is a part of its work"
            assert calls[0].kernel_s > 0


@on_a_device
def test_infinity_beyond_the_end_of_k_does_not_reach_c(queue: Any, on_opencl: str) -> None:
    """Tiles are filled up with zeros, not with what follows in memory."""
    held_a, held_b = np.full((40, 64), np.inf, np.float32), np.full((64, 40), np.inf, np.float32)
    held_a[:, :33], held_b[:33] = integers((40, 33), "float32"), integers((33, 40), "float32")
    import pyopencl.array as cl_array

    a, b = cl_array.to_device(queue, held_a)[:, :33], cl_array.to_device(queue, held_b)[:33]
    c = gemmlab.matmul(a, b, backend=on_opencl, **SMALL)
    assert np.array_equal(c.get(), held_a[:, :33] @ held_b[:33])


@on_a_device
@pytest.mark.parametrize("size", [(20, 30, 3000), (200, 130, 65)])
def test_shares_are_added_in_their_order(on_a_gpu: str, size: tuple[int, int, int]) -> None:
    """The same bits every time."""
    m, n, k = size
    a, b = RNG.random((m, k), "float32"), RNG.random((k, n), "float32")
    first, *others = (gemmlab.matmul(a, b, backend=on_a_gpu, shares=7, **SMALL) for _ in range(4))
    assert all(np.array_equal(first, other) for other in others)
    assert gemmlab.verify.error_over_bound(a, b, first) <= 1


@on_a_device
def test_batches_are_shared_too(on_a_gpu: str) -> None:
    a, b = integers((5, 40, 33), "float32"), integers((33, 50), "float32")
    for shares in (2, 3, 29, 400):
        assert np.array_equal(gemmlab.matmul(a, b, backend=on_a_gpu, shares=shares, **SMALL), a @ b)


@on_a_device
def test_a_product_on_any_number_of_units_fills_its_waves(on_a_gpu: str) -> None:
    """As with so many units, which the device need not have."""
    a, b = integers((80, 600), "float32"), integers((600, 100), "float32")
    for units in (1, 20, 46, 108, 132, 144):
        shares = RUNG.resolve(SMALL, "gpu", GemmSize(80, 100, 600, 1), units)["shares"]
        assert np.array_equal(gemmlab.matmul(a, b, backend=on_a_gpu, shares=shares, **SMALL), a @ b)


# What the host decides


@pytest.mark.parametrize("units", [1, 20, 46, 108, 132, 144])
def test_each_pair_of_a_tile_and_a_step_is_computed_once(units: int) -> None:
    for _ in range(200):
        tiles, steps = (int(RNG.integers(1, most)) for most in (4 * units + 2, 60))
        shares = int(RNG.integers(0, 2 * units + 2))
        one = waves.Schedule.of(tiles, steps, shares)
        pairs = one.shared * steps
        firsts = [share * pairs // one.shares for share in range(one.shares + 1)] if one.shares else []
        assert one.whole + one.shared == tiles
        assert not one.shared or (firsts[0], firsts[-1]) == (0, pairs)
        assert all(y > x for x, y in pairwise(firsts))
        if one.whole:  # then a share is one to two tiles
            assert all(steps <= y - x <= 2 * steps for x, y in pairwise(firsts))
        assert one.groups == one.whole + one.shares


@pytest.mark.parametrize(("size", "shares"), [
    ((11 * 256, 12 * 128, 4096), 1), ((11 * 256, 24 * 128, 4096), 1),  # they fill one, and two
    ((128, 128, 128), 1), ((256, 256, 256), 1), ((6000, 6000, 64), 1),  # too little to share
    ((128, 128, 65536), 132), ((128, 128, 1024), 4), ((1536, 1536, 1536), 132), ((3072, 3072, 3072), 132),
    ((4096, 4096, 4096), 132),
])  # fmt: skip
def test_tiles_are_shared_where_they_fill_no_wave(size: tuple[int, int, int], shares: int) -> None:
    large = {"tile_x": 8, "tile_y": 16, "warps_x": 4, "warps_y": 2, "warp_y": 8}  # 256 x 128
    one = GemmSize(*size, 1)
    assert RUNG.resolve(large, "gpu", one, H100.compute_units)["shares"] == shares
    assert RUNG.resolve({**large, "shares": 5}, "gpu", one, H100.compute_units)["shares"] == 5


@on_a_device
def test_the_bits_do_not_depend_on_how_a_larger_product_is_cut(
    on_opencl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of a product in files, and of one that is streamed: each element of C is one chain."""
    a, b = RNG.random((70, 600), "float32"), RNG.random((600, 90), "float32")
    for name, x in (("a", a), ("b", b)):
        np.save(tmp_path / name, x)
    assert RUNG.resolve({}, "gpu", GemmSize(70, 90, 600, 1), 2)["shares"] == 2, "it would be shared"
    expected = gemmlab.matmul(a, b, backend=on_opencl, shares=1)
    product(tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "c.npy", backend=on_opencl)
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)
    monkeypatch.setattr(gemmlab.config, "_device_memory", 250_000)
    with gemmlab.trace() as calls:
        assert np.array_equal(gemmlab.matmul(a, b, backend=on_opencl), expected)
    assert calls[0].params["shares"] == 1


@pytest.mark.parametrize(("a", "b", "widths"), [
    (Layout(0, 64), Layout(0, 64), (4, 4)),
    (Layout(1, 64), Layout(0, 66), (1, 1)),
    (Layout(0, 64, 2), Layout(0, 64, 4), (1, 4)),
    (Layout(0, 64, 0, True), Layout(0, 64, 0, True), (4, 4)),
    (Layout(0, 64, 0, True, padded=True), Layout(0, 64, 0, False, padded=True), (4, 4)),
])  # fmt: skip
def test_vectors_are_read_where_alignment_allows(a: Layout, b: Layout, widths: tuple[int, int]) -> None:
    found = RUNG.layout(RUNG.resolve({}, "gpu"), "float32", GemmSize(64, 64, 64, 1), a, b, Layout(0, 64))
    assert (found["A_WIDTH"], found["B_WIDTH"]) == widths
    assert (found["A_ALONG_K"], found["B_ALONG_K"]) == (int(not a.transposed), int(b.transposed))


def test_rows_of_an_odd_length_are_read_in_vectors_along_k_alone() -> None:
    """A vector along k never reaches over the end; one across the rows would."""
    params, odd = RUNG.resolve({}, "gpu"), GemmSize(63, 63, 63, 1)
    found = RUNG.layout(params, "float32", odd, Layout(0, 64), Layout(0, 64), Layout(0, 64))
    assert (found["A_WIDTH"], found["B_WIDTH"], found["C_WIDTH"]) == (4, 1, 1)
    found = RUNG.layout(params, "float32", odd, Layout(0, 64), Layout(0, 64, 0, False, padded=True), Layout(0, 64))
    assert found["B_WIDTH"] == 4


def test_long_rows_need_wide_indices() -> None:
    params, far = RUNG.resolve({}, "gpu"), 2**26
    found = RUNG.layout(params, "float32", GemmSize(512, 512, far, 1), Layout(0, far), Layout(0, 512), Layout(0, 512))
    assert found["INDEX"] == "long"


def test_rows_in_reverse_order_need_wide_indices_too() -> None:
    params, back = RUNG.resolve({}, "gpu"), -20_000_000
    found = RUNG.layout(params, "float32", GemmSize(128, 64, 64, 1), Layout(0, back), Layout(0, 64), Layout(0, 64))
    assert found["INDEX"] == "long"


def test_a_tile_of_a_streamed_product_is_not_copied() -> None:
    tile, size = Layout(0, 4097, is_tile=True), GemmSize(4096, 4096, 4097, 1)
    assert RUNG.copied_ld(RUNG.resolve({}, "gpu"), "float32", size, tile, Layout(0, 4096, is_tile=True)) == (0, 0)


@pytest.mark.parametrize(("params", "dtype", "kind"), [
    ({"vector_bytes": 8}, "float64", "gpu"), ({"vector_bytes": 32}, "float32", "gpu"),
    ({"vector_bytes": 64}, "float32", "gpu"), ({"vector_bytes": 8}, "float64", "cpu"),
])  # fmt: skip
def test_vectors_that_no_language_has_are_refused(params: dict[str, int], dtype: str, kind: str) -> None:
    assert RUNG.on(kind).refusal(RUNG.resolve(params, kind), dtype, replace(H100, kind=kind)) is not None


def test_copies_are_made_where_much_is_read_again() -> None:
    params, odd = RUNG.resolve({}, "gpu"), Layout(0, 4097)
    assert RUNG.copied_ld(params, "float32", GemmSize(4096, 4096, 4097, 1), odd, Layout(0, 4096)) == (4100, 0)
    assert RUNG.copied_ld(params, "float32", GemmSize(4096, 100, 4097, 1), odd, Layout(0, 100)) == (0, 0)
    assert RUNG.copied_ld(params, "float64", GemmSize(100, 4097, 4096, 1), Layout(0, 4096), odd) == (0, 0)


@pytest.mark.parametrize(("change", "why"), [
    ({"tile_x": 2}, "multiple of the 4"), ({"step_k": 2}, "multiple of the 4"), ({"pad": 2}, "one of 0, 4, 8"),
    ({"warp_y": 3}, "one of 1, 2, 4"), ({"vector_bytes": 48}, "one of 8, 16"),
])  # fmt: skip
@on_a_device
def test_what_its_text_cannot_do_is_an_error(on_a_gpu: str, change: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        gemmlab.matmul(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32), backend=on_a_gpu,
                       **{**SMALL, **change})  # fmt: skip


def test_the_traffic_falls_with_the_block() -> None:
    small = RUNG.model(256, 256, 256, RUNG.resolve({"warps_x": 1}, "gpu"))
    large = RUNG.model(256, 256, 256, RUNG.resolve({"warps_x": 4}, "gpu"))
    assert large["l1"] < small["l1"]


@on_a_device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_packed_operand_lies_as_it_is_read_fastest(dtype: str, on_opencl: str, queue: Any) -> None:
    m, k, n = RNG.integers(20, 90, 3)
    for columns in (n // 8 * 8, n | 1):
        a, b = integers((m, k), dtype), integers((k, columns), dtype)
        packed = gemmlab.pack(b, backend=on_opencl)
        assert packed.shape == b.shape
        distance = packed.strides[columns % 2]  # of an odd number of columns: from one to the next
        assert distance % 16 == 0
        assert packed.strides[1 - columns % 2] == b.itemsize
        with gemmlab.trace() as calls:
            found = gemmlab.matmul(placed(queue, a, "plain"), packed, backend=on_opencl, **SMALL)
        assert np.array_equal(found.get(), (a.astype(float) @ b.astype(float)).astype(dtype))
        assert calls[0].copies == 0
        again = gemmlab.pack(packed, backend=on_opencl)  # of a device array
        assert again.strides == packed.strides
        assert np.array_equal(device_arrays.to_host(again), b)


def test_what_packs_nothing_says_so() -> None:
    with pytest.raises(gemmlab.UnsupportedProblem, match="packs no operand: pass the matrix itself"):
        gemmlab.pack(np.ones((3, 3)), backend="opencl-naive")
