"""RT-emulated: the bits of cpu-emulated on every device, the same bounds, and programs that CUDA's compiler takes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import on_host
import pytest
from devices import PLACES, backend_at, nvrtc_here
from emulated_inputs import drawn, same_bits
from randomness import RNG
from recorded_kernel import needs_compiler
from sweeps import swept
from unit_products import made_up_map

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._emulated import schemes
from gemmlab._emulated.schemes import Scheme
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.emulated import backend
from gemmlab._gpu.emulated.backend import error_by_unit
from gemmlab._gpu.emulated.launches import of_parts, of_residues
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import Launches, Workspace
from gemmlab._gpu.ptx import ARCHITECTURE
from gemmlab._gpu.tensor import maps
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
@pytest.mark.parametrize("scheme", ["bf16x6", "bf16x9", "f16-pairs"])
def test_parts_are_those_of_the_cpu(place, scheme):
    a, b = (RNG.standard_normal(shape).astype("f4") for shape in ((40, 300), (300, 30)))
    found = gemmlab.matmul(a, b, backend=backend_at(place, "emulated"), scheme=scheme).astype("f8")
    exact = a.astype("f8") @ b.astype("f8")
    error = schemes.error_of(Scheme(scheme), 300, 4, False)
    size = np.abs(a) @ np.abs(b) if error.kind == "componentwise" else np.outer(*(
        np.linalg.norm(x, axis=axis) for x, axis in ((a, 1), (b, 0))))  # fmt: skip
    assert (np.abs(found - exact) <= error.bound * size.astype("f8")).all()


@places
def test_what_is_refused_and_traced(place):
    name, x = backend_at(place, "emulated"), np.ones((3, 3))
    with pytest.raises(UnsupportedProblem, match="no scheme bounds each element of float64"):
        gemmlab.matmul(x, x, backend=name, error="componentwise")
    with pytest.raises(UnsupportedProblem, match="multiplies complex64 by residues: pass scheme='residues'"):
        gemmlab.matmul(x.astype("c8"), x.astype("c8"), backend=name)
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
@pytest.mark.parametrize("scheme", swept(["bf16x6", "bf16x9", "f16-pairs"]))
def test_parts_by_a_matrix_unit_keep_their_bound(scheme, monkeypatch, tmp_path):
    monkeypatch.setattr("gemmlab._gpu.emulated.launches.has_unit", lambda device, kind, name="tensor": True)
    (m, n), k, workspace = RNG.integers(1, 140, 2), int(RNG.integers(1, 150)), Workspace()
    a = (RNG.standard_normal((m, k)) * 2.0 ** RNG.integers(-9, 9, (m, k))).astype("f4")
    b = (RNG.standard_normal((k, n)) * 2.0 ** RNG.integers(-9, 9, (k, n))).astype("f4")
    a[0, 0] = np.inf
    layouts = [Layout(0, x) for x in (k, n, n)]
    kernels = tuple(of_parts(Scheme(scheme), "float32", GemmSize(m, n, k, 1), layouts, workspace, GPU))
    assert [one.name for one in kernels][-2:] == ["gemm", "finish"]
    operands = [on_host.aligned(max(1, count), "f4") for count in (m * k, k * n, m * n)]
    operands[0][:], operands[1][:] = a.ravel(), b.ravel()
    on_host.start(Launches(kernels, workspace.nbytes), operands, tmp_path)
    found = operands[2].reshape(m, n)
    ratios = element_ratios(a, b, found, error_by_unit(Scheme(scheme), k))
    assert ratios.max() <= 1


@pytest.mark.parametrize(
    "scheme", [Scheme("residues", 8), Scheme("residues", 15), Scheme("bf16x6"), Scheme("f16-pairs")], ids=str
)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_programs_compile_for_cuda(scheme, architecture, monkeypatch):
    nvrtc_here()
    from gemmlab._gpu.cuda import compile_source

    dtype = "float64" if scheme.moduli == 15 else "float32"
    first, launches = of_residues if scheme.moduli else of_parts, []
    for unit, boxes in (("", 0), ("tensor", 0), ("tensor-async", int(scheme.moduli == 8))):
        with_a_unit(monkeypatch, unit, boxes)
        launches += first(scheme, dtype, GemmSize(8, 8, 8, 1), [Layout(0, 8)] * 3, Workspace(), GPU)
    texts = {(one.text, tuple(one.macros.items())) for one in launches}
    for text, macros in texts:
        if architecture != "sm_80" or ARCHITECTURE not in dict(macros):
            assert compile_source(kernel_text("common/cuda.h") + text, dict(macros), architecture)
