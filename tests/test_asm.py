"""`gemmlab asm` of CPU rungs: the inner loop, found by samples; its instructions, their kinds, and what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import runner
from helpers import ROOT
from sweeps import swept

from gemmlab._cpu import isa
from gemmlab._cpu.rungs.ladder import RUNGS
from gemmlab.disassembly import code, listing, loops, ports
from gemmlab.disassembly.kinds import counts, kinds_of, products_of

needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump here")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the sampler is for Linux")
UNPACKED_V4 = {"cpu-blocked-local": 0.5, "cpu-register": 0.8}
NAMES = ["cpu-register", *(rung.name for rung in RUNGS if rung.name != "cpu-register"), "cpu-packed"]

TEXT = """
./rungs.so:     file format elf64-x86-64

0000000000001d00 <void multiply<float>(float const*)>:
/somewhere/gemmlab/tile.hpp:70
    1d00:\tmov    rax,QWORD PTR [rsp+0x8]
/somewhere/gemmlab/tile.hpp:72 (discriminator 3)
    1d05:\tvmovups ymm1,YMMWORD PTR [rdx]
    1d09:\tvbroadcastss ymm2,DWORD PTR [rax+r8*1]
    1d0f:\tvfmadd231ps ymm0,ymm1,YMMWORD PTR [rcx]
    1d14:\tvmovups YMMWORD PTR [rsp+0x40],ymm1
    1d1a:\tprefetcht0 BYTE PTR [rsi]
    1d1d:\tadd    rdx,0x20
    1d21:\tjne    1d05 <void multiply<float>(float const*)+0x5>
    1d23:\tret

0000000000001e00 <copy>:
    1e00:\tvmovups ymm0,YMMWORD PTR [rdi]
    1e04:\tvmovups YMMWORD PTR [rsi],ymm0
    1e08:\tjne    1e00 <copy>
    1e0a:\tret
"""


@pytest.fixture
def functions():
    return list(code._functions(TEXT.splitlines()))


def test_objdumps_text_is_read(functions):
    multiply, copy = functions
    assert (multiply.name, copy.name) == ("void multiply<float>(float const*)", "copy")
    first, *_, jump, _ = multiply.instructions
    assert (first.address, first.text, first.source) == (0x1D00, "mov rax,QWORD PTR [rsp+0x8]", "tile.hpp:70")
    assert (jump.name, jump.jumps_to, jump.source) == ("jne", 0x1D05, "tile.hpp:72")
    assert multiply.instructions[3].operands == ["ymm0", "ymm1", "YMMWORD PTR [rcx]"]


def test_the_hot_loop_is_that_of_the_samples_without_copying(functions):
    samples = {0x1D0F: 60, 0x1D1D: 35, 0x1D23: 5, 0x1E04: 400}
    loop, share = loops.hot_loop(functions, samples)
    assert ([one.address for one in (loop.body[0], loop.body[-1])], share) == ([0x1D05, 0x1D21], 0.95)
    assert loops.innermost(loop, samples) is loop
    assert loops.likely_loop(functions, functions[0]).body == loop.body


def test_instructions_are_counted_by_kind(functions):
    (loop,) = loops.loops_of(functions[0])
    assert {kind: count for kind, count in counts(loop.body).items() if count} == {
        "multiply-adds": 1, "loads": 3, "stores": 1, "broadcasts and shuffles": 1, "spills": 1, "prefetches": 1,
        "other": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("text", "kinds"), [
    ("vmovaps ymm1,ymm2", ["moves"]), ("mulps xmm1,XMMWORD PTR [rax]", ["multiply-adds", "loads"]),
    ("addps xmm1,xmm2", ["additions"]), ("vpmaddwd ymm1,ymm2,ymm3", ["multiply-adds"]),
    ("lea rax,[rdx+0x8]", ["other"]), ("fmla v1.4s, v2.4s, v3.s[0]", ["multiply-adds"]), ("ldr q1, [x0]", ["loads"]),
    ("str q1, [sp, #16]", ["spills", "stores"]), ("cmp QWORD PTR [rsp+0x8],rdx", ["other", "spills", "loads"]),
])  # fmt: skip
def test_each_instruction_has_its_kinds(text, kinds):
    assert list(kinds_of(code.Instruction(0, text, "", None))) == kinds


@needs_objdump
@on_linux
@pytest.mark.parametrize("name", swept(NAMES))
def test_over_90_percent_of_the_time_is_in_the_loop_shown(name):
    found = listing.inner_loop_of(name)
    # With AVX-512 rows of B are half a KiB wide and not copied, so that few of them fill half of L1: to update C takes
    # as long as half of the loop for one row, and as a fifth for the tile of fourteen.
    least = UNPACKED_V4.get(name, 0.9) if isa.chosen() == "v4" else 0.9
    chance = 3 * (least * (1 - least) / sum(found.samples.values())) ** 0.5  # of a few hundred samples
    assert found.share > least - chance, listing.text_of(found)
    assert counts(found.inner.body)["multiply-adds"] > 0
    if name != "cpu-packed":  # whose many kernels would be a third larger with their lines
        assert any(one.source for one in found.loop.body)


@needs_objdump
@on_linux
@pytest.mark.parametrize("level", swept(["v2", "v3", "v4"]))
@pytest.mark.parametrize("name", swept(NAMES))
def test_builds_for_other_instruction_sets_are_shown_too(name, level, monkeypatch):
    if isa.chosen() not in ("v2", "v3", "v4"):
        pytest.skip("not x86")
    monkeypatch.setattr("gemmlab.disassembly.sampling.SECONDS", 0.2)
    found = listing.inner_loop_of(name, isa=level)
    names = {operand[:3] for one in found.inner.body for operand in one.operands}
    # For loops that it makes vectors of by itself, GCC prefers those of 32 bytes.
    widest = {"v2": {"xmm"}, "v3": {"ymm"}, "v4": {"ymm", "zmm"} if name == "cpu-ikj" else {"zmm"}}[level]
    assert names & widest or name == "cpu-naive", listing.text_of(found)


@pytest.mark.parametrize(("text", "products"), [
    ("vfmadd231ps zmm0,zmm1,DWORD PTR [rax]{1to16}", 16), ("vfmadd231pd ymm0,ymm1,ymm2", 4),
    ("vfmadd231sd xmm0,xmm1,xmm2", 1), ("mulps xmm0,xmm1", 4), ("vdpbf16ps zmm0,zmm1,zmm2", 32),
    ("vpdpbusd zmm0,zmm1,zmm2", 64), ("vpdpwssd zmm0,zmm1,zmm2", 32), ("vpmaddwd ymm0,ymm1,ymm2", 16),
    ("vpmulld ymm0,ymm1,ymm2", 8), ("vpmuludq zmm0,zmm1,zmm2", 8), ("vpmullq zmm0,zmm1,zmm2", 8),
    ("vpmullw ymm0,ymm1,ymm2", 16), ("imul rax,rdx", 1), ("tdpbf16ps tmm0,tmm4,tmm6", 8192),
    ("tdpbuud tmm0,tmm4,tmm6", 16384), ("fmla v0.4s, v1.4s, v2.s[0]", 4), ("fmadd d0, d1, d2, d3", 1),
])  # fmt: skip
def test_an_instruction_multiplies_as_many_numbers_as_its_registers_hold(text, products):
    assert products_of(code.Instruction(0, text, "", None)) == products


@pytest.mark.skipif("amx" not in isa.extras(), reason="no AMX here")
@needs_objdump
@on_linux
def test_tiles_are_bound_by_their_unit(monkeypatch):
    """16 cycles for each of four products, or more where the clock was not the same all the time."""
    monkeypatch.setattr(listing, "EDGE", 256)
    found = listing.inner_loop_of("cpu-packed", "bfloat16")
    assert found.inner.products == 4 * 8192
    assert found.bound.processor is None
    assert 40 < found.bound.cycles < 640


# The command


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listing, "EDGE", 256)
    monkeypatch.setattr("gemmlab.disassembly.sampling.SECONDS", 0.2)
    return runner(capsys)


@needs_objdump
@on_linux
def test_the_text_fits_80_columns_and_says_what_an_iteration_does(command):
    done = command("asm", "cpu-ikj", "--dtype", "float64")
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.out.startswith("cpu-ikj, float64, ")
    assert "multiply-adds" in done.out
    assert "ikj.pyx:" in done.out


@needs_objdump
@on_linux
def test_as_json(command):
    found = json.loads(command("asm", "cpu-naive", "--json").out)
    assert found["counts"]["multiply-adds"] == 1
    assert {"address", "text", "source", "samples", "inner"} == set(found["instructions"][0])


@pytest.mark.parametrize(("asked", "said"), [
    (["opencl-tuned", "--isa", "v3"], "--isa v3 is not for opencl-tuned: cuda rungs take an architecture"),
    (["opencl:all"], "opencl:all is no rung"), (["cuda-clblast"], "cuda-clblast is no rung: gemmlab asm shows naive, "),
    (["cuda-local", "--dtype", "float16"], "cuda-local multiplies float32, float64, not float16"),
    (["cpu-none"], "no backend is named"),
    (["cpu-naive", "--isa", "neon"], "there is no build for neon of naive here"),
])  # fmt: skip
@needs_objdump
@on_linux
def test_what_cannot_be_shown_is_one_line(command, asked, said):
    done = command("asm", *asked)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@on_linux
def test_without_a_disassembler_one_line_names_the_package(command, monkeypatch):
    monkeypatch.setattr(code.shutil, "which", lambda name: None)
    done = command("asm", "cpu-naive")
    assert done.status == 2
    assert done.err == "gemmlab: there is no disassembler here: install binutils (apt install binutils)\n"


@needs_objdump
@on_linux
def test_without_line_numbers_and_llvm_mca_the_text_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(listing, "EDGE", 128)
    found = listing.inner_loop_of("cpu-naive")
    bare = [code.Instruction(one.address, one.text, "", one.jumps_to) for one in found.loop.body]
    loop = loops.Loop(found.loop.function, bare)
    monkeypatch.setattr(ports.shutil, "which", lambda name: None)
    assert ports.bound_of(bare, "v3", True) is None
    text = listing.text_of(listing.Listing("cpu-naive", "float32", "v3", loop, loop, 1.0, found.samples, None))
    assert "Source: this build has no line numbers." in text
    assert "llvm-mca (apt install llvm) is not here" in text


def test_a_build_has_no_path_of_the_machine_it_was_built_on():
    for path in Path(ROOT, "gemmlab", "_cpu", "rungs").rglob("*.so"):
        assert str(ROOT).encode() not in path.read_bytes(), path


def test_nothing_is_imported_for_it_but_what_it_needs():
    assert subprocess.run([sys.executable, "-c", "import gemmlab.disassembly"], check=False, cwd=ROOT).returncode == 0
