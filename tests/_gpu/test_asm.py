"""`gemmlab asm` of GPU rungs: PTX with its lines, registers and occupancy on NVIDIA, the host's code on PoCL."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from command import runner
from devices import FIRST_PLACES, nvrtc_here
from sweeps import swept

from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab.disassembly import listing, ptx
from gemmlab.disassembly.occupancy import Occupancy, Resources, occupancy_of, resources_of

PTX = """
.version 9.0
.target sm_90
.visible .entry gemm(
\t.param .u32 gemm_param_0
)
.reqntid 256, 1, 1
{
\t.reg .f32 \t%f<20>;
\t.shared .align 16 .b8 tile_a[4096];
\t.shared .align 16 .b8 tile_b[1024];
\t.loc\t1 3 5
\tld.param.u32 \t%r1, [gemm_param_0];
$L__BB0_1:
\t.loc\t1 12 9, function_name $L__info_string0, inlined_at 1 3 5
\tld.global.f32 \t%f1, [%rd1];
\tst.shared.f32 \t[%r2], %f1;
\tbar.sync \t0;
$L__BB0_2:
\tld.shared.v4.f32 \t{%f2, %f3, %f4, %f5}, [%r3];
\t@%p2 fma.rn.f32 \t%f6, %f2, %f3, %f6;
\tfma.rn.f32 \t%f7, %f4, %f5, %f7;
\t@%p1 bra \t$L__BB0_2;
\t@%p3 bra \t$L__BB0_1;
\tst.global.f32 \t[%rd2], %f6;
\tret;

}
"""


def test_the_inner_loop_of_ptx_is_found_with_its_lines():
    kernel = ptx.kernel_in(PTX, "gemm", [("common/gemm.h", 10), ("local.cl", 90)])
    loop = ptx.inner_loop(kernel)
    assert [one.text for one in loop.body][1:] == [
        "@%p2 fma.rn.f32 %f6, %f2, %f3, %f6", "fma.rn.f32 %f7, %f4, %f5, %f7", "@%p1 bra $L__BB0_2"]  # fmt: skip
    assert {one.source for one in loop.body} == {"local.cl:2"}
    assert kernel.instructions[0].source == "gemm.h:3"
    counts = {kind: count for kind, count in ptx.counts(loop.body).items() if count}
    assert counts == {"multiply-adds": 2, "reads of local memory": 1, "other": 1}
    assert ptx.counts(kernel.instructions)["writes to local memory"] == 1


@pytest.mark.parametrize(("resources", "group", "capability", "groups", "limit"), [
    (Resources(32, 0, 0), 256, 90, 8, "warps"), (Resources(149, 0, 16896), 256, 90, 1, "registers"),
    (Resources(128, 0, 0), 256, 90, 2, "registers"), (Resources(32, 0, 48 * 1024), 128, 80, 3, "local memory"),
    (Resources(16, 0, 0), 32, 86, 16, "work-groups"), (Resources(255, 0, 0), 32, 75, 8, "registers"),
])  # fmt: skip
def test_occupancy(resources, group, capability, groups, limit):
    found = occupancy_of(resources, group, capability)
    assert (found.groups, found.limit) == (groups, limit)


def test_of_an_unknown_architecture_no_occupancy_is_said():
    assert occupancy_of(Resources(32, 0, 0), 256, 999) is None


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listing, "EDGE", 512)
    monkeypatch.setattr("gemmlab.disassembly.sampling.SECONDS", 0.3)
    return runner(capsys)


@pytest.mark.parametrize("rung", RUNG_NAMES)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_every_rung_is_compiled_for_an_architecture_that_is_not_here(rung, architecture, command):
    nvrtc_here()
    found = json.loads(command("asm", f"cuda-{rung}", "--isa", architecture, "--json").out)
    assert found["counts"]["multiply-adds"] > 0
    assert 16 <= found["registers"] <= 255
    assert found["stack_bytes"] == 0
    kernel = next(one for one in RUNGS if one.name == rung)
    assert found["local_bytes"] == 4 * kernel.local(found["parameters"])
    assert (found["counts"]["reads of local memory"] > 0) == (found["local_bytes"] > 0)
    assert found["occupancy"] > 0
    assert any(one["source"].startswith(f"{rung.replace('-', '_')}.cl:") for one in found["instructions"])
    text = command("asm", f"cuda-{rung}", "--isa", architecture).out
    assert max(map(len, text.splitlines())) <= 80
    assert "limited by" in text


@pytest.mark.parametrize(
    ("rung", "dtype", "expected"), [
        ("tensor", "float16",
         {"multiply-adds": 64, "reads of local memory": 16, "asynchronous copies": 6, "barriers": 1}),
        ("tensor-async", "float32", {"multiply-adds": 4, "barriers": 2}),  # others copy
    ],
)  # fmt: skip
def test_the_inner_loops_of_matrix_units(rung, dtype, expected, command):
    nvrtc_here()
    found = json.loads(command("asm", f"cuda-{rung}", "--dtype", dtype, "--isa", "sm_90", "--json").out)
    assert {kind: found["counts"][kind] for kind in expected} == expected
    assert found["dtype"] == ("tf32" if dtype == "float32" else dtype)
    assert found["counts"]["spills"] == 0
    assert found["local_bytes"] > 96_000


def test_spilled_registers_are_seen(command):
    nvrtc_here()
    from gemmlab._gpu.cuda import compiled_for

    text = """
    extern "C" __global__ void __launch_bounds__(1024) gemm(float *x, int k) {
        float sum[100];
        for (int i = 0; i < 100; i++) sum[i] = x[i];
        for (int p = 0; p < k; p++)
            for (int i = 0; i < 100; i++) sum[i] += x[p] * x[i + p];
        for (int i = 0; i < 100; i++) x[i] = sum[i];
    }"""
    made, code = compiled_for("sm_90", text, {})
    assert resources_of(code, made).stack_bytes > 0


@pytest.mark.skipif(shutil.which("objdump") is None or sys.platform != "linux", reason="no objdump, or no sampler")
@pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")
@pytest.mark.parametrize("rung", swept(["register", *(name for name in RUNG_NAMES if name != "register")]))
def test_on_pocl_it_is_the_code_of_the_host(rung, command):
    done = command("asm", f"opencl-{rung}:pocl")
    if "no device" in done.err:
        pytest.skip("PoCL is not here")
    assert done.status == 0, done.err
    assert "multiply-adds" in done.out
    assert "% of the samples" in done.out
    assert "Source: this build has no line numbers." in done.out


@pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")
def test_where_the_driver_keeps_it_one_line_says_so(command):
    done = command("asm", "opencl-register:intel opencl")  # not "intel", which may name PoCL's processor
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    if "cannot run here" in done.err:
        pytest.skip("Intel's OpenCL runtime is not here")
    assert "its driver keeps that to itself" in done.err


def test_the_example_of_occupancy():
    assert occupancy_of(Resources(128, 0, 0), 256, 90) == Occupancy(2, 16, 64, "registers")
