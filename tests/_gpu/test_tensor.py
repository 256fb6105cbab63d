"""tensor: its text multiplies right on the host, where its matrix unit and its copies are those of the PTX ISA."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import OnHost, cuda_on_host
from devices import nvrtc_here
from randomness import RNG
from recorded_kernel import needs_compiler
from sweeps import swept
from unit_products import DEVICE, DTYPES, LARGEST, check

import gemmlab
from gemmlab._gpu import choose_rung
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.cuda import compile_source
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.tensor import trial
from gemmlab._gpu.tensor.backend import TensorBackend
from gemmlab._gpu.tensor.kinds import NUMBERS, RESIDUES, TF32, stored_and_result
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab._problem import Problem

ROWS = Layout(0, 3072), Layout(0, 3072), Layout(0, 3072)
KINDS = ["float16", *(kind for kind in NUMBERS if kind not in ("float16", RESIDUES))]  # residues: test_emulated.py


def drawn_params():
    """Small tiles, so that small products have several work-groups, warps, and steps of k."""
    while True:
        params = {
            "tile_x": int(RNG.choice([32, 64])), "tile_y": int(RNG.choice([16, 32])),
            "warps_x": int(RNG.choice([1, 2])), "warps_y": int(RNG.choice([1, 2])),
            "step_bytes": int(RNG.choice([64, 128])),
            "stages": int(RNG.integers(2, 5)), "group_m": int(RNG.integers(1, 4)), "shares": int(RNG.integers(1, 9)),
        }  # fmt: skip
        if all(TENSOR.refusal(params, kind, DEVICE) is None for kind in KINDS):
            return params


@needs_compiler
@pytest.mark.parametrize("kind", swept(KINDS))
def test_products_of_whole_numbers_are_exact(kind, tmp_path):
    layouts = [(False, True), (True, False), "unaligned"]
    for one in layouts if kind == KINDS[0] else [layouts[RNG.integers(3)]]:  # each is a program to compile
        check(TENSOR, kind, drawn_params(), one, tmp_path)


@needs_compiler
@pytest.mark.parametrize(
    ("of_text", "instead"),
    [("barrier(CLK_LOCAL_MEM_FENCE);", ""), ("wait_for_copies(STAGES - 2)", "wait_for_copies(STAGES - 1)")],
    ids=["no barrier", "a wait for one group less"],
)
def test_a_race_is_seen(of_text, instead, tmp_path):
    params = {"tile_x": 32, "tile_y": 32, "warps_x": 2, "warps_y": 2, "step_bytes": 64, "stages": 3, "group_m": 1}
    params["shares"] = 1
    with pytest.raises(AssertionError):
        check(TENSOR, "float16", params, (False, True), tmp_path, lambda text: text.replace(of_text, instead))


@pytest.fixture(scope="module")
def nvrtc():
    return nvrtc_here()


@pytest.mark.parametrize(
    ("kind", "capability"),
    [("float16", 90), *((kind, 80) for kind in ("bfloat16", "int8 into int32", TF32, "float64")), ("float64", 90)],
)
def test_it_compiles_to_the_instructions_that_are_meant(kind, capability, nvrtc):
    params, n = TENSOR.resolve({}, "gpu"), 256
    layouts = [Layout(0, n), Layout(0, n, transposed=True), Layout(0, n)]
    device = SimpleNamespace(**{**vars(DEVICE), "compute_capability": capability})
    (launch,) = TENSOR.launches(params, kind, GemmSize(n, n, n, 1), layouts, device)
    ptx = compile_source(kernel_text("common/cuda.h") + launch.text, launch.macros, f"compute_{capability}").decode()
    shape, numbers = {
        "float16": ("m16n8k16", "f32.f16.f16.f32"), "bfloat16": ("m16n8k16", "f32.bf16.bf16.f32"),
        "int8": ("m16n8k32", "s32.s8.s8.s32"), TF32: ("m16n8k8", "f32.tf32.tf32.f32"),
        "float64": ("m16n8k8" if capability == 90 else "m8n8k4", "f64.f64.f64.f64"),
    }[stored_and_result(kind)[0]]  # fmt: skip
    assert f"mma.sync.aligned.{shape}.row.col.{numbers}" in ptx
    assert "cp.async.cg.shared.global" in ptx
    assert ".local" not in ptx  # nothing is spilled to memory by indices that are not constant
    assert ("ldmatrix" in ptx) == (kind != "float64")


def test_a_device_without_the_unit_says_so():
    if not (found := gemmlab.backends()["opencl-naive"]).available:
        pytest.skip(found.reason)
    if " (" not in found.device:
        pytest.skip("a GPU")
    info = gemmlab.backends()["opencl-tensor"]
    assert not info.available
    assert "no matrix unit that PTX reaches" in info.reason


# The whole way of a product on CUDA, by a stand-in for CuPy whose kernels run on the host


@pytest.fixture
def cuda_tensor(monkeypatch, tmp_path):
    with cuda_on_host(monkeypatch, tmp_path) as (runtime, fake):
        yield TensorBackend(runtime, TENSOR, "1"), fake


SMALL = {"tile_x": 32, "tile_y": 32, "warps_x": 2, "warps_y": 1, "step_bytes": 64, "stages": 3}


@needs_compiler
@pytest.mark.parametrize("dtype", swept(["float16", "bfloat16", "int8", "float64", "float32"]))
def test_a_product_of_host_arrays(dtype, cuda_tensor):
    backend, fake = cuda_tensor
    dtype = DTYPES.get(dtype) or np.dtype(dtype)
    more = {"precision": "tf32"} if dtype == np.float32 else {}
    shapes = (2, *RNG.integers(1, 60, 2)), RNG.integers(1, 60)
    (batch, m, k), n = shapes
    a, b = (RNG.integers(-LARGEST, LARGEST + 1, shape).astype(dtype) for shape in ((batch, m, k), (k, n)))
    exact = a.astype(int) @ b.astype(int)
    problem = Problem.from_call(a, b)
    backend.gemm(problem, **SMALL, **more).wait()
    assert np.array_equal(problem.out.astype(int), exact.astype(dtype).astype(int))
    assert [x for x in fake.log if x[0] == OnHost.ptr]  # CUDA was asked for local memory
    if dtype.name in backend.sums:
        wide = backend.sums[dtype.name]
        problem = Problem.from_call(a, b, dtype=wide)
        backend.gemm(problem, **SMALL).wait()
        assert np.array_equal(problem.out, exact.astype(wide))


@needs_compiler
def test_a_familys_name_takes_the_unit_where_a_device_has_it(cuda_tensor, monkeypatch):
    backend, _ = cuda_tensor
    for dtype in ("float16", "float64", "int8"):
        assert choose_rung("cuda", backend.device, dtype, 300, 300, 300)[0] == "tensor"
        assert choose_rung("cuda", backend.device, dtype, 300, 300, 30)[0] == "tuned"
    assert choose_rung("cuda", backend.device, "float32", 300, 300, 300)[0] == "tuned"
    monkeypatch.setattr(trial, "has_unit", lambda device, kind: False)
    rung, why = choose_rung("cuda", backend.device, "float64", 300, 300, 300)
    assert rung == "tuned"
    assert "not cuda-tensor: NVIDIA H200 has no matrix unit for float64" in why


def test_float32_wants_its_precision_said(cuda_tensor):
    backend, _ = cuda_tensor
    a = np.ones((4, 4), np.float32)
    with pytest.raises(gemmlab.UnsupportedProblem, match="precision='tf32' alone: pass that, or use cuda-tuned"):
        backend.gemm(Problem.from_call(a, a))
    with pytest.raises(ValueError, match="float64 is not multiplied in tf32"):
        backend.gemm(Problem.from_call(a, a, dtype=float), precision="tf32")
    assert "not float32" not in str(backend.supports(Problem.from_call(a, a)))
    assert "multiplies" in backend.supports(Problem.from_call(a, a, dtype="complex64"))


def test_a_trial_keeps_bfloat16_as_ml_dtypes_does():
    x = RNG.integers(-trial.K, trial.K + 1, (5, 7))
    assert np.array_equal(trial.as_kept(x, "bfloat16"), x.astype(DTYPES["bfloat16"]).view(np.uint16))


@needs_compiler
def test_a_unit_that_gives_zeros_is_refused(cuda_tensor, monkeypatch):
    backend, _ = cuda_tensor
    monkeypatch.setattr(OnHost, "__call__", lambda *given: None)
    a = np.ones((4, 4), np.float16)
    with pytest.raises(gemmlab.UnsupportedProblem, match=r"gets a product of float16 .* wrong: use cuda-tuned"):
        backend.gemm(Problem.from_call(a, a))


def test_tiles_that_fill_no_wave_are_shared():
    usual = TENSOR.resolve({}, "gpu")
    assert TENSOR.shares_for(usual, "float16", GemmSize(4096, 4096, 4096, 1), 132) == 1  # 512 tiles: nearly four waves
    assert TENSOR.shares_for(usual, "float16", GemmSize(3072, 3072, 3072, 1), 132) == 132  # 288 tiles: 2.2 waves
    assert TENSOR.shares_for(usual, "float16", GemmSize(256, 256, 256, 1), 132) == 1
    launches = TENSOR.launches({**usual, "shares": 132}, "float16", GemmSize(3072, 3072, 3072, 1), ROWS, DEVICE)
    assert [launch.name for launch in launches] == ["gemm", "add_shares"]


def test_what_a_device_cannot_hold_is_refused():
    usual = TENSOR.resolve({}, "gpu")
    assert TENSOR.refusal(usual, "float16", DEVICE) is None
    assert "multiples of 16" in TENSOR.refusal({**usual, "tile_y": 8}, "float16", DEVICE)
    assert "copy no whole rows" in TENSOR.refusal({**usual, "warps_x": 3, "tile_x": 80}, "float16", DEVICE)
    assert "sums in the registers" in TENSOR.refusal({**usual, "tile_x": 128, "tile_y": 128}, "float16", DEVICE)
    older = SimpleNamespace(**{**vars(DEVICE), "compute_capability": 75})
    assert "has compute capability 7.5; this takes 8.0" in TENSOR.refusal(usual, "float16", older)


def test_what_is_packed_is_taken_as_it_lies():
    for kind, columns in (("float16", 50), ("float16", 51), ("int8", 50), (TF32, 33)):
        numbers = TENSOR.numbers[kind]
        along_k = bool(TENSOR.packs_along_k(numbers.itemsize, columns))
        ld = -(-(40 if along_k else columns) * numbers.itemsize // 16) * 16 // numbers.itemsize
        size, layouts = GemmSize(30, columns, 40, 1), [Layout(0, 64), Layout(0, ld, 0, along_k), Layout(0, 64)]
        launches = TENSOR.launches(TENSOR.resolve({"shares": 1}, "gpu"), kind, size, layouts, DEVICE)
        assert [one.name for one in launches] == ["gemm"]
