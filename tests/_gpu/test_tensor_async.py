"""tensor-async: its text multiplies right on the host, whose warpgroups and barriers are those of the PTX ISA."""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_on_host import cuda_on_host
from devices import nvrtc_here
from randomness import RNG
from recorded_kernel import needs_compiler
from sweeps import swept
from unit_products import DEVICE, LARGEST, check, check_one, made_up_map

import gemmlab
from gemmlab._errors import DeviceError
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.cuda import compiled_for
from gemmlab._gpu.ptx import without_marks
from gemmlab._gpu.tensor import maps, trial
from gemmlab._gpu.tensor.async_rung import TENSOR_ASYNC
from gemmlab._gpu.tensor.backend import TensorBackend
from gemmlab._gpu.tensor.kinds import TF32, stored_and_result
from gemmlab._problem import Problem
from gemmlab.disassembly.occupancy import resources_of

KINDS = "float16", "bfloat16", "int8 into int32", TF32  # how sums are rounded is tensor's
MOST = 160  # rows and columns: some work-groups take several blocks of C


def drawn_params():
    while True:
        params = {
            "columns": int(RNG.choice([64, 128, 256])), "warpgroups": int(RNG.choice([1, 2])),
            "stages": int(RNG.integers(3, 6)), "boxes": 0, "group_m": int(RNG.integers(1, 4)),
            "shares": int(RNG.integers(1, 6)),
        }  # fmt: skip
        if TENSOR_ASYNC.refusal(params, "float16", DEVICE) is None:
            return params


@pytest.fixture(autouse=True)
def made_up_maps(monkeypatch):
    monkeypatch.setattr(maps, "encoded", made_up_map)


@needs_compiler
@pytest.mark.parametrize("kind", swept(KINDS))
def test_products_of_whole_numbers_are_exact(kind, tmp_path):
    layouts = [(a, b) for a in (False, True) for b in (False, True)]
    boxes = int(RNG.integers(2))
    check(TENSOR_ASYNC, kind, {**drawn_params(), "boxes": boxes}, layouts[RNG.integers(4)], tmp_path, most=MOST)
    if kind == KINDS[0]:
        check(TENSOR_ASYNC, kind, {**drawn_params(), "boxes": 1 - boxes, "shares": 1}, "unaligned", tmp_path, most=MOST)


OF_ITEMS = {
    "products do not wait for copies": ("wait_for_phase(filled + at->stage, at->round);", ""),
    "copies do not wait for products": ("wait_for_phase(emptied + at->stage, at->round ^ 1);", ""),
    "a stage is released too early": ("release(emptied, before);\n        before = at->stage;",
                                      "before = at->stage;\n        release(emptied, before);"),
    "tiles begin anywhere": (" + (-(int)(LOCAL_ADDRESS(memory) >> 4) & (8 * LINE - 1))", ""),
    "copies are not published": ("publish_writes();", ""),
    "copies are handed over before they are there": ("wait_for_copies(1);", "wait_for_copies(2);"),
    "the exclusive or is another": ("x % LINE ^ row % LINE", "x % LINE ^ row / 2 % LINE"),
}  # fmt: skip
OF_BOXES = {
    "copies do not wait for products": ("wait_for_phase(emptied + at->stage, at->round ^ 1);", ""),
    "half of the bytes are expected": ("(VECTORS_A + VECTORS_B) * 16", "(VECTORS_A + VECTORS_B) * 8"),
    "barriers are not published": ("        publish_writes();\n    }\n", "    }\n"),
    "panels are one line apart": ("x / (128 / SIZE) * STEP_K * LINE", "x / (128 / SIZE) * LINE"),
}


@needs_compiler
@pytest.mark.parametrize(
    ("boxes", "fault"), swept([*((0, fault) for fault in OF_ITEMS), *((1, fault) for fault in OF_BOXES)])
)
def test_a_fault_is_seen(boxes, fault, tmp_path):
    """Each in a separate process, since the stand-in ends a process whose barriers are used wrongly."""
    of_text, instead = (OF_ITEMS, OF_BOXES)[boxes][fault]
    params = {"columns": 128, "warpgroups": 2, "stages": 3, "boxes": boxes, "group_m": 1, "shares": 1}

    def changed(text):
        return text.replace(of_text, instead)

    def multiply():
        for backwards in (False, True):
            size = GemmSize(160, 300, 400, 1)
            check_one(TENSOR_ASYNC, "float16", params, size, (False, False), tmp_path, backwards, changed)

    assert of_text in TENSOR_ASYNC.text_of(params)
    assert not ends_well(multiply)


def ends_well(function):
    """Whether a function returns, in a process of its own."""
    child = os.fork()
    if child == 0:
        with suppress(Exception), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)  # no traceback of what is meant to fail
            faulthandler.disable()
            function()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@pytest.fixture(scope="module")
def nvrtc():
    return nvrtc_here()


@pytest.mark.parametrize(
    ("kind", "boxes"), [("float16", 0), *swept([("float16", 1), *((kind, 0) for kind in KINDS[1:])])]
)
def test_it_compiles_to_the_instructions_that_are_meant(kind, boxes, nvrtc):
    params, n = TENSOR_ASYNC.resolve({"shares": 1, "boxes": boxes}, "gpu"), 256
    layouts = Layout(0, n), Layout(0, n, transposed=True), Layout(0, n)
    *before, launch = TENSOR_ASYNC.launches(params, kind, GemmSize(n, n, n, 1), layouts, DEVICE)
    for one in before:
        ptx, _ = compiled_for("sm_90", one.text, one.macros)
        assert ptx.count("tensormap.replace.tile.global_address.global.b1024.b64 ") == 2
    ptx, code = compiled_for("sm_90", launch.text, launch.macros)
    numbers = {
        "float16": "k16.f32.f16.f16", "bfloat16": "k16.f32.bf16.bf16", "int8": "k32.s32.s8.s8",
        TF32: "k8.f32.tf32.tf32",
    }[stored_and_result(kind)[0]]  # fmt: skip
    assert ptx.count(f"wgmma.mma_async.sync.aligned.m64n256{numbers} ") == 4  # 128 bytes of k
    assert ("cp.async.bulk.tensor.3d" if boxes else "cp.async.cg.shared.global") in ptx
    assert ".local" not in ptx
    assert resources_of(code, ptx).registers <= 168  # three warpgroups at a time


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    with cuda_on_host(monkeypatch, tmp_path) as (runtime, _):
        yield TensorBackend(runtime, TENSOR_ASYNC, "1")


@needs_compiler
def test_a_product_of_host_arrays(cuda):
    (m, k), n = RNG.integers(1, 200, 2), RNG.integers(1, 200)
    a, b = (RNG.integers(-LARGEST, LARGEST + 1, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    problem = Problem.from_call(a, b, dtype="float32")
    cuda.gemm(problem, columns=64, warpgroups=1, boxes=int(RNG.integers(2))).wait()
    assert np.array_equal(problem.out, a.astype(np.float32) @ b.astype(np.float32))


def test_work_groups_are_as_many_as_compute_units():
    params, n = TENSOR_ASYNC.resolve({}, "gpu"), 4096
    size, layouts = GemmSize(n, n, n, 1), [Layout(0, n)] * 3
    device = SimpleNamespace(**{**vars(DEVICE), "compute_units": 132})
    *_, launch = TENSOR_ASYNC.launches(params, "float16", size, layouts, device)
    assert launch.groups == (132, 1, 1)
    assert TENSOR_ASYNC.work(params, size, device).groups == ((512, n),)
    shares = TENSOR_ASYNC.shares_for(params, "float16", GemmSize(3072, 3072, 3072, 1), 132)
    work = TENSOR_ASYNC.work({**params, "shares": shares}, GemmSize(3072, 3072, 3072, 1), device)
    (whole, each), (shared, depth) = work.groups
    assert (whole, shared) == (132, 132)
    assert each + depth < 2.2 * 3072  # of 288 blocks


def test_what_it_cannot_have_is_refused(cuda):
    assert cuda.probe().ok
    usual = TENSOR_ASYNC.resolve({}, "gpu")
    assert TENSOR_ASYNC.refusal(usual, "float16", DEVICE) is None
    assert "at least 3" in TENSOR_ASYNC.refusal({**usual, "stages": 2}, "float16", DEVICE)
    assert "bytes of local memory; a GPU has 232448" in TENSOR_ASYNC.refusal({**usual, "stages": 5}, "float16", DEVICE)
    for capability, why in ((80, "8.0; the instructions are of 9.0"), (120, "capability 12.0"), (None, "PTX")):
        device = SimpleNamespace(**{**vars(DEVICE), "compute_capability": capability})
        assert why in TENSOR_ASYNC.refusal(usual, "float16", device)
    assert "not float64" in cuda.supports(Problem.from_call(np.ones((4, 4)), np.ones((4, 4))))


def test_a_kernel_whose_marks_stay_is_refused():
    with pytest.raises(ValueError, match=r"0 marks and 1 targets sm_90$"):
        without_marks(b".target sm_90, texmode_independent\nwgmma.fence.sync.aligned;\n", "90a")
    with pytest.raises(ValueError, match=r"1 marks and 0 targets sm_90$"):
        without_marks(b".target sm_80, texmode_independent\n\t// sm_90a: wgmma.fence.sync.aligned;\n", "90a")
    if not (found := gemmlab.backends()["opencl-naive"]).available:
        pytest.skip(found.reason)
    queue = gemmlab.get_backend("opencl-naive").queue
    with pytest.raises(DeviceError, match="cannot build nothing for 90a: the compiler's PTX has 0 marks"):
        queue.kernel("__kernel void nothing() {}", "nothing", {"ARCHITECTURE": "90a"})


def test_where_a_trial_of_boxes_fails_work_items_copy(cuda, monkeypatch):
    a = np.ones((8, 8), np.float16)
    problem = Problem.from_call(a, a)

    def failure(device, kind, name="tensor", **more):
        return "has no boxes" if more.get("boxes") else None

    with monkeypatch.context() as patch:
        patch.setattr(trial, "failure", failure)
        assert cuda.resolve(problem, {})["boxes"] == 0
        with pytest.raises(gemmlab.UnsupportedProblem, match="has no boxes: use cuda-tuned"):
            cuda.gemm(problem, boxes=1)
        patch.setattr(trial, "failure", lambda *given, **more: None)
        assert cuda.resolve(problem, {})["boxes"] == 1
