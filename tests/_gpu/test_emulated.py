"""RT-emulated: the bits of cpu-emulated on every device, the same bounds, and programs that CUDA's compiler takes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import on_host
import pytest
from devices import PLACES, backend_at, nvrtc_here
from emulated_inputs import around, drawn, same_bits
from randomness import RNG
from recorded_kernel import needs_compiler
from sweeps import swept
from unit_products import made_up_map

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._emulated.schemes import Scheme
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.emulated import backend
from gemmlab._gpu.emulated.backend import error_by_unit
from gemmlab._gpu.emulated.launches import of_parts, of_residues
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import Launches, Workspace
from gemmlab._gpu.ptx import ARCHITECTURE
from gemmlab._gpu.tensor import maps
from gemmlab._problem import Problem
from gemmlab.verify.bounds import element_ratios

CPU = "cpu-emulated"
# Each is a program to compile.
MODULI = {"float32": (4,), "float64": (20,), "complex128": (15,)}
GPU = SimpleNamespace(
    compute_capability=80, most_local_bytes=232448, local_bytes=49152, runtime="cuda", compute_units=3
)
places = pytest.mark.parametrize("place", PLACES)


@places
@pytest.mark.parametrize("dtype", swept(["float64", "complex128", "float32"]))
def test_residues_have_the_bits_of_the_cpus(place, dtype):
    for moduli in MODULI[dtype]:
        for _ in range(5):
            a, b = drawn(dtype)
            found = gemmlab.matmul(a, b, backend=backend_at(place, "emulated"), moduli=moduli)
            finite = np.isfinite(a).all(1)[:, None] & np.isfinite(b).all(0)
            expected = np.where(finite, gemmlab.matmul(a, b, backend=CPU, moduli=moduli), 0)
            assert same_bits(np.where(finite, found, 0), expected), (moduli, a, b)


@places
def test_a_larger_product_in_each_layout(place):
    a, b = RNG.standard_normal((3, 70, 190)), RNG.standard_normal((190, 50))
    expected = gemmlab.matmul(a, b, backend=CPU)
    for left in (a, np.swapaxes(np.swapaxes(a, 1, 2).copy(), 1, 2)):
        for right in (b, b.T.copy().T, np.repeat(b, 2, axis=1)[:, ::2]):
            assert same_bits(gemmlab.matmul(left, right, backend=backend_at(place, "emulated")), expected)


@places
def test_a_product_in_pieces_has_the_same_bits(place, monkeypatch):
    a, b = RNG.standard_normal((2, 70, 90)), RNG.standard_normal((90, 50))
    expected = gemmlab.matmul(a, b, backend=CPU, moduli=15)
    monkeypatch.setattr(backend, "LEAST_EDGE", 16)
    monkeypatch.setattr(backend, "WORKSPACE_PART", 1 << 60)
    device = gemmlab.get_backend(backend_at(place, "emulated")).device
    layouts = [Layout(0, x) for x in (90, 50, 50)]
    pieces = list(backend.in_pieces(Scheme("residues", 15), "float64", GemmSize(70, 50, 90, 1), layouts, device))
    assert len(pieces) > 4
    assert same_bits(gemmlab.matmul(a, b, backend=backend_at(place, "emulated")), expected)


@places
@pytest.mark.parametrize(("scheme", "dtype"), [
    ("bf16x6", "float32"), ("bf16x9", "float32"), ("f16-pairs", "float32"), ("bf16x6", "complex64"),
    pytest.param("f16-pairs", "complex64", marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_parts_keep_their_bound(place, scheme, dtype):
    name = backend_at(place, "emulated")
    for (m, k, n), orders in (((40, 300, 30), "CC"), ((3, 70, 33), "CF"), ((37, 5, 1), "FC")):
        a, b = (around(dtype, shape, order=order) for shape, order in zip(((m, k), (k, n)), orders, strict=True))
        found = gemmlab.matmul(a, b, backend=name, scheme=scheme)
        error = gemmlab.get_backend(name).error(Problem.from_call(a, b), scheme=scheme)
        assert element_ratios(a, b, found, error).max() <= 1
    a[2, 3], b[1, 0] = np.inf, np.nan
    found, expected = gemmlab.matmul(a, b, backend=name, scheme=scheme), gemmlab.matmul(a, b, backend=CPU)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))


@places
def test_what_is_refused_and_traced(place):
    name, x = backend_at(place, "emulated"), np.ones((3, 3))
    with pytest.raises(UnsupportedProblem, match="no scheme bounds each element of float64"):
        gemmlab.matmul(x, x, backend=name, error="componentwise")
    with gemmlab.trace() as calls:
        gemmlab.matmul(x, x, backend=name)
    assert calls[0].params.items() >= {"scheme": "residues", "moduli": 15}.items()
    assert calls[0].params["instruction"].startswith("int8 by ")
    family = name.partition("-")[0]
    with gemmlab.trace() as calls:
        gemmlab.matmul(x, x, backend=family)
    assert "emulated" not in calls[0].backend


def with_a_unit(monkeypatch, rung, boxes):
    """Have the device a matrix unit for one rung, or none, and copies of boxes."""
    launches = "gemmlab._gpu.emulated.launches"
    monkeypatch.setattr(f"{launches}.has_unit", lambda device, kind, name="tensor": name == rung)
    monkeypatch.setattr(
        f"{launches}.with_what_works", lambda device, kind, rung, params: params if boxes else params | rung.instead
    )
    monkeypatch.setattr(maps, "encoded", made_up_map)


@needs_compiler
@pytest.mark.parametrize(("dtype", "rung", "boxes"), swept([
    ("float64", "tensor-async", 1), ("float32", "tensor", 0), ("complex128", "tensor", 0),
]))  # fmt: skip
def test_residues_by_a_matrix_unit_have_the_bits_of_the_cpus(dtype, rung, boxes, monkeypatch, tmp_path):
    with_a_unit(monkeypatch, rung, boxes)
    scheme = Scheme("residues", MODULI[dtype][0])
    for _ in range(3):
        a, b = drawn(dtype)
        (m, k), n, workspace = a.shape, b.shape[1], Workspace()
        layouts = [Layout(0, x) for x in (k, n, n)]
        kernels = tuple(of_residues(scheme, dtype, GemmSize(m, n, k, 1), layouts, workspace, GPU))
        assert [one.name for one in kernels].count("gemm") == 1
        operands = [on_host.aligned(max(1, count), np.dtype(dtype)) for count in (m * k, k * n, m * n)]
        for place, x in zip(operands, (a, b), strict=False):
            place[: x.size] = x.ravel()
        on_host.start(Launches(kernels, workspace.nbytes), operands, tmp_path)
        found = operands[2][: m * n].reshape(m, n)
        finite = np.isfinite(a).all(1)[:, None] & np.isfinite(b).all(0)
        expected = np.where(finite, gemmlab.matmul(a, b, backend=CPU, moduli=scheme.moduli), 0)
        assert same_bits(np.where(finite, found, 0), expected), (a, b)


@needs_compiler
@pytest.mark.parametrize(("scheme", "dtype"), swept([
    ("bf16x6", "float32"), ("bf16x9", "float32"), ("f16-pairs", "float32"), ("bf16x6", "complex64"),
    ("f16-pairs", "complex64"),
]))  # fmt: skip
def test_parts_by_a_matrix_unit_keep_their_bound(scheme, dtype, monkeypatch, tmp_path):
    monkeypatch.setattr("gemmlab._gpu.emulated.launches.has_unit", lambda device, kind, name="tensor": True)
    (m, n), k, workspace = RNG.integers(1, 140, 2), int(RNG.integers(1, 150)), Workspace()
    a, b = around(dtype, (m, k)), around(dtype, (k, n))
    a[0, 0] = np.inf
    layouts = [Layout(0, x) for x in (k, n, n)]
    kernels = tuple(of_parts(Scheme(scheme), dtype, GemmSize(m, n, k, 1), layouts, workspace, GPU))
    assert [one.name for one in kernels][-2:] == ["gemm", "finish"]
    operands = [on_host.aligned(max(1, count), dtype) for count in (m * k, k * n, m * n)]
    operands[0][:], operands[1][:] = a.ravel(), b.ravel()
    on_host.start(Launches(kernels, workspace.nbytes), operands, tmp_path)
    found = operands[2].reshape(m, n)
    ratios = element_ratios(a, b, found, error_by_unit(Scheme(scheme), k * (1 + (dtype == "complex64"))))
    assert ratios[1:].max(initial=0) <= 1
    assert not np.isfinite(found[0]).any()


@pytest.mark.parametrize(
    ("scheme", "dtype"), [
        (Scheme("residues", 8), "float32"), (Scheme("residues", 15), "float64"), (Scheme("bf16x6"), "float32"),
        (Scheme("f16-pairs"), "complex64"),
    ], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_programs_compile_for_cuda(scheme, dtype, architecture, monkeypatch):
    nvrtc_here()
    from gemmlab._gpu.cuda import compile_source

    first, launches = of_residues if scheme.moduli else of_parts, []
    for unit, boxes in (("", 0), ("tensor", 0), ("tensor-async", int(scheme.moduli == 8))):
        with_a_unit(monkeypatch, unit, boxes)
        launches += first(scheme, dtype, GemmSize(8, 8, 8, 1), [Layout(0, 8)] * 3, Workspace(), GPU)
    texts = {(one.text, tuple(one.macros.items())) for one in launches}
    for text, macros in texts:
        if architecture != "sm_80" or ARCHITECTURE not in dict(macros):
            assert compile_source(kernel_text("common/cuda.h") + text, dict(macros), architecture)
