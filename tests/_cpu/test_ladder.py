"""The CPU rungs: block sizes, every instruction set, the loops in the machine code, and the traffic model."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers import output_of, run_python
from randomness import RNG

import gemmlab
from gemmlab import BackendUnavailable, Problem, _front
from gemmlab._cpu import _driver, _features, isa, machine
from gemmlab._cpu.rungs import ladder, tiled

X86 = platform.machine().lower() in ("x86_64", "amd64")
RUNGS = {rung.name: rung for rung in ladder.RUNGS}
BLOCKED = ["cpu-blocked", "cpu-blocked-local", "cpu-register"]
COPYING = ["cpu-pack-b", "cpu-pack-ab", "cpu-five-loops"]
KIB, MIB = 1 << 10, 1 << 20
CACHES = {"L1": 32 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}


@pytest.fixture(autouse=True)
def caches(monkeypatch):
    """The same caches on every machine."""
    monkeypatch.setattr(machine, "caches", lambda: CACHES)


def problem_of(m, n, k, dtype="float32"):
    """A problem of this size that holds no memory."""
    a, b, c = (np.broadcast_to(np.zeros((), dtype), shape) for shape in ((m, k), (k, n), (m, n)))
    return Problem(a, b, c)


# Block sizes


@pytest.mark.parametrize("l1", [16 * KIB, 32 * KIB, 48 * KIB, 64 * KIB, 128 * KIB, None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BLOCKED)
def test_a_block_of_b_takes_up_to_half_of_l1(name, dtype, l1, monkeypatch):
    monkeypatch.setattr(machine, "caches", lambda: {"L1": l1} if l1 else {})
    params = RUNGS[name].resolve(problem_of(1000, 1000, 1000, dtype), {})
    block = params["bs_c"] * params["bs_k"] * np.dtype(dtype).itemsize
    room = (l1 or 32 * KIB) // 2
    assert min(room, 48 * KIB) / 2 <= block <= room


@pytest.mark.parametrize("l1", [16 * KIB, 32 * KIB, 48 * KIB, 64 * KIB, 128 * KIB, None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COPYING)
def test_a_panel_of_b_fills_half_of_l1(name, dtype, l1, monkeypatch):
    monkeypatch.setattr(machine, "caches", lambda: {"L1": l1} if l1 else {})
    params, (rows, width) = RUNGS[name].resolve(problem_of(1000, 1000, 1000, dtype), {}), tiled.tile()
    assert params["bs_k"] * width == (l1 or 32 * KIB) // 2
    assert params["bs_r"] % rows == 0
    if name != "cpu-five-loops":
        assert params["bs_c"] * np.dtype(dtype).itemsize == width


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_five_loops_have_a_block_for_each_cache(dtype, monkeypatch):
    of_core = machine.readings()._replace(l2=512 * KIB, l3=4 * MIB)
    monkeypatch.setattr(machine, "readings", lambda: of_core)
    params, size = RUNGS["cpu-five-loops"].resolve(problem_of(96_000, 9000, 1000, dtype), {}), np.dtype(dtype).itemsize
    rows, width = tiled.tile()
    assert 0.8 * 256 * KIB <= params["bs_r"] * params["bs_k"] * size <= 256 * KIB + rows * params["bs_k"] * size
    assert 0.8 * 2 * MIB <= params["bs_c"] * params["bs_k"] * size <= 2 * MIB
    assert params["bs_c"] * size % width == 0


def test_without_memory_for_the_copies_there_is_one_error():
    code = """
import resource, numpy as np, gemmlab
a = np.ones((2000, 2000))
for name in ("cpu-pack-b", "cpu-pack-ab", "cpu-five-loops"):
    gemmlab.matmul(a[:8, :8], a[:8, :8], backend=name)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
out = np.empty((2000, 2000))
resource.setrlimit(resource.RLIMIT_AS, (size + 40 * 2**20, -1))
for name in ("cpu-pack-b", "cpu-pack-ab", "cpu-five-loops"):
    try:
        gemmlab.matmul(a, a, out=out, backend=name, threads=1, bs_c=2000, bs_k=2000, bs_r=2000)
    except MemoryError as error:
        print(error)
"""
    said = "there is no memory for the copies that this rung makes of its operands"
    assert output_of(code).splitlines() == [said] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BLOCKED)
def test_a_block_is_whole_vectors_wide(name, dtype):
    vector = isa.VECTOR_BYTES[isa.chosen()] // np.dtype(dtype).itemsize
    assert RUNGS[name].resolve(problem_of(1000, 1000, 1000, dtype), {})["bs_c"] % vector == 0


MADE_UP_L1 = [(16, 4), (32, 8), (48, 12), (64, 16), (128, 8)]  # KiB and ways
# The strips of v2, v3 and v4; cpu-blocked; and the tiles of v3 and v4.
PIECES = [(128, 1024), (256, 1024), (512, 1024), (2048, 2048), (64, 1024), (128, 1024)]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(("l1", "ways"), MADE_UP_L1)
def test_the_rows_of_a_block_find_room_in_the_sets_of_l1(l1, ways, piece):
    way = l1 * KIB // ways
    for n in (*RNG.integers(64, 5000, 40).tolist(), 512, 1000, 1024, 1025, 1536, 2047, 2048, 4032, 4096):
        for size in (4, 8):
            _, columns, rows = _driver.default_blocks((*piece, l1 * KIB, way, 0, 0, 1), size, n, n, n, 1)
            starts = [row * n * size for row in range(rows)]
            lines = [line for at in starts for line in range(at // 64, (at + min(columns, n) * size - 1) // 64 + 1)]
            fullest = max(np.bincount([line % (way // 64) for line in lines]))
            assert fullest <= ways, f"n {n}, itemsize {size}: {rows} rows of {columns}"


@pytest.mark.parametrize(
    ("l1", "n", "strip", "blocked", "local"),
    [
        (32, 1400, 32, (496, 8), (64, 48)),  # AVX2
        (32, 2048, 32, (544, 7), (256, 8)),  # 8 KiB between rows: as many as ways
        (48, 1400, 64, (496, 12), (128, 48)),  # AVX-512
        (48, 2048, 64, (544, 11), (256, 12)),
        (48, 512, 32, (544, 11), (256, 24)),  # 2 KiB: twice as many rows of narrow blocks
    ],
)
def test_default_blocks_of_some_machines(l1, n, strip, blocked, local):
    def sizes(*widths):
        return _driver.default_blocks((*widths, l1 * KIB, 4 * KIB, 0, 0, 1), 4, n, n, n, 1)[1:]

    assert (sizes(2048, 2048), sizes(8 * strip, 1024)) == (blocked, local)


def test_default_blocks_follow_the_leading_dimension_of_b():
    def rows(b):
        problem = Problem(np.empty((9, 64), np.float32), b, np.empty((9, 1400), np.float32))
        return RUNGS["cpu-blocked-local"].resolve(problem, {})["bs_k"]

    b = np.empty((64, 2048), np.float32)[:, :1400]
    assert rows(b) == 8 < rows(np.asfortranarray(b)) == rows(np.ascontiguousarray(b))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("m", [1, 7, 256, 257, 1000, 5000])
def test_block_rows_are_equal_shares_and_few_enough_for_l2(m, threads):
    problem = Problem(np.empty((m, 1)), np.empty((1, 1)), np.empty((m, 1)), threads=threads)
    rows = RUNGS["cpu-blocked"].resolve(problem, {})["bs_r"]
    assert 1 <= rows <= 256
    blocks = -(-m // rows)
    assert blocks >= min(threads, m / 2)
    assert rows - (m - (blocks - 1) * rows) < max(blocks, 2)


class Plan(ctypes.Structure):
    """The plan of `rung.pxd`."""

    _fields_ = (
        ("threads", ctypes.c_int), ("bs_r", ctypes.c_ssize_t), ("bs_c", ctypes.c_ssize_t), ("bs_k", ctypes.c_ssize_t),
        ("accumulate", ctypes.c_int), ("failed", ctypes.c_int),
    )  # fmt: skip


GEMM = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_ssize_t] * 3, *[ctypes.c_ssize_t] * 3, ctypes.POINTER(Plan))


@pytest.fixture
def plan_of():
    """Sends a product the compiled way, with a rung's blocks but nothing computed: its plan and its schedule."""
    openmp = ctypes.CDLL(_driver.__file__)
    multiply = gemmlab.matmul
    seen = {}

    @GEMM
    def spy(*arguments):
        plan = arguments[-1].contents
        seen.update(threads=plan.threads, bs_r=plan.bs_r, bs_c=plan.bs_c, bs_k=plan.bs_k, schedule=None)
        if hasattr(openmp, "omp_get_schedule"):  # else a serial build
            kind, chunk = ctypes.c_int(), ctypes.c_int()
            openmp.omp_get_schedule(ctypes.byref(kind), ctypes.byref(chunk))
            seen["schedule"] = {number: name for name, number in _driver.SCHEDULES.items()}[kind.value]

    def plan_of(rung, a, b):
        address = ctypes.cast(spy, ctypes.c_void_p).value
        _front.register_kernel("spy", _driver.Kernel(address, address, blocks=rung.block_rule()))
        multiply(a, b, backend="spy")
        return seen

    yield plan_of
    _front.settings_changed()  # forgets the spy


@pytest.mark.parametrize("n", [4, 90, 300, 700])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BLOCKED)
def test_the_compiled_way_follows_the_plan_that_a_trace_tells(name, dtype, n, plan_of):
    a, b = np.empty((n, 70), dtype), np.empty((70, n), dtype)
    rung, problem = RUNGS[name], Problem(a, b, np.empty((n, n), dtype))
    plan = plan_of(rung, a, b)
    told = rung.resolve(problem, {}) | {"threads": rung.threads(problem)}
    if plan["schedule"] is None or plan["threads"] == 1:
        plan = plan | {"schedule": told["schedule"]}
    assert plan == told


# Instruction sets

EVERY_RUNG = """
import sys
import numpy as np
import gemmlab
from gemmlab._cpu import isa
from gemmlab._cpu.rungs import ladder
from gemmlab.verify import error_over_bound

rng = np.random.default_rng(0)
assert isa.chosen() == sys.argv[1]
for name in (rung.name for rung in ladder.RUNGS):
    for dtype in ("float32", "float64"):
        for m, n, k in ((1, 1, 1), (2, 3, 5), (17, 259, 33), (64, 128, 300), (130, 131, 257)):
            a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
            c = gemmlab.matmul(a.astype(dtype), b.astype(dtype), backend=name, threads=2)
            assert np.array_equal(c, a @ b), (name, dtype, m, n, k)
            a, b = rng.random((m, k), dtype), rng.random((k, n), dtype)
            assert error_over_bound(a, b, gemmlab.matmul(a, b, backend=name)) <= 1, (name, dtype, m, n, k)
folders = tuple(f"gemmlab._cpu.rungs.{name}." for name in isa.VECTOR_BYTES)
built = [module for module in sys.modules if module.startswith(folders)]
assert len(built) >= 4 and all(f"gemmlab._cpu.rungs.{sys.argv[1]}" in module for module in built), built
"""


@pytest.mark.parametrize("level", isa.available())
def test_every_rung_is_right_on(level):
    done = run_python("-c", EVERY_RUNG, level, GEMMLAB_ISA=level)
    assert done.returncode == 0, done.stderr


def test_without_a_pin_the_best_of_this_cpu_runs():
    assert output_of("from gemmlab._cpu import isa; print(isa.chosen())") == f"{isa.available()[-1]}\n"


def test_a_pin_that_is_no_instruction_set_fails_at_import():
    done = run_python("-c", "import gemmlab", GEMMLAB_ISA="v9")
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert re.search(r"BackendUnavailable: GEMMLAB_ISA=v9 is not one of v2, v3, v4.*; here it may be \w+", last)


@pytest.fixture
def pinned(monkeypatch):
    """Pins an instruction set on a CPU that has those up to `level`."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def pin(wanted, level):
        monkeypatch.setattr(_features, "has_level", lambda asked: asked <= level)
        monkeypatch.setattr(gemmlab.config, "_isa", wanted)
        forget()

    def forget():
        for known in (isa.available, isa.chosen, isa.extras_here, isa.extras):
            known.cache_clear()

    yield pin
    monkeypatch.undo()
    forget()


def test_a_pin_that_the_cpu_lacks_is_one_clear_line(pinned):
    pinned("v4", level=3)
    with pytest.raises(BackendUnavailable) as caught:
        isa.chosen()
    assert str(caught.value) == ("GEMMLAB_ISA=v4 is not what this CPU has; here it may be v2, v3, or leave it unset")


@pytest.mark.parametrize(("level", "best"), [(2, "v2"), (3, "v3"), (4, "v4")])
def test_the_best_that_the_cpu_has_is_taken(pinned, level, best):
    pinned(None, level)
    assert isa.chosen() == best


@pytest.mark.parametrize(("processor", "name"), [("aarch64", "neon"), ("arm64", "neon"), ("riscv64", "plain")])
def test_other_processors_have_one_build(pinned, monkeypatch, processor, name):
    pinned(None, level=0)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    assert isa.chosen() == name


# Machine code: a rung stays what its name says

MULTIPLY_ADD = {"ss": r"vfn?madd\d+ss|mulss", "sd": r"vfn?madd\d+sd|mulsd"}
LEVELS = [level for level in isa.LEVELS if list((Path(ladder.__file__).parent / level).glob("naive*.so"))]
needs_objdump = pytest.mark.skipif(
    not (X86 and shutil.which("objdump") and LEVELS), reason="needs objdump and kernels for x86"
)


def innermost_loops(level, *rung):
    """Instructions, as (mnemonic, operands), of each loop without a loop in it in a rung's machine code."""
    *folder, name = rung
    library = next(Path(ladder.__file__).parent.joinpath(*folder, level).glob(f"{name}.*so"))
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ *([0-9a-f]+):\t(\w+) *([^\n#<]*)", listing, re.MULTILINE)
    code = [(int(address, 16), mnemonic, operands.strip()) for address, mnemonic, operands in found]
    at = {address: index for index, (address, _, _) in enumerate(code)}
    loops = []
    for end, (address, mnemonic, operands) in enumerate(code):
        back = mnemonic.startswith("j") and re.fullmatch("[0-9a-f]+", operands)
        if back and int(operands, 16) <= address and (start := at.get(int(operands, 16))) is not None:
            loops.append((start, end))
    innermost = [
        (start, end) for start, end in loops
        if not any(start <= other and last < end for other, last in loops)
    ]  # fmt: skip
    return [[code[i][1:] for i in range(start, end + 1)] for start, end in innermost]


def count(loop, mnemonic, operands=""):
    return sum(bool(re.fullmatch(mnemonic, name) and re.match(operands, given)) for name, given in loop)


@needs_objdump
@pytest.mark.parametrize("number", ["ss", "sd"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_naive_rung_stores_its_sum_in_each_step(level, number):
    loops = [loop for loop in innermost_loops(level, "naive") if count(loop, MULTIPLY_ADD[number])]
    assert loops
    assert all(count(loop, f"v?mov{number}", r"%xmm\d+,.*\(") for loop in loops)
    assert not any(count(loop, r"v?(mul|add|fmadd\d+)p[sd]") for loop in loops), "vectorised"


@needs_objdump
@pytest.mark.parametrize("number", ["ps", "pd"])
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "v2"])
def test_the_local_rung_keeps_eight_sums_in_registers(level, number):
    register = {"v3": "ymm", "v4": "zmm"}[level]
    assert any(
        count(loop, rf"vfmadd\d+{number}", f".*%{register}") == 8
        and not count(loop, r"vmov[au]p[sd]", r"%[xyz]mm\d+,.*\(")
        for loop in innermost_loops(level, "blocked_local")
    )


@needs_objdump
@pytest.mark.parametrize("number", ["ps", "pd"])
@pytest.mark.parametrize("rung", ["ikj", "blocked"])
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "v2"])
def test_the_rungs_between_store_c_beside_each_multiply_add(level, rung, number):
    register = {"v3": "ymm", "v4": "zmm"}[level]
    loops = innermost_loops(level, rung)
    hot = [loop for loop in loops if count(loop, rf"vfmadd\d+{number}", f".*%{register}")]
    assert hot
    for loop in hot:
        stores = count(loop, r"vmov[au]p[sd]", rf"%{register}\d+,.*\(")
        assert stores == count(loop, rf"vfmadd\d+{number}", f".*%{register}")


@needs_objdump
@pytest.mark.parametrize("number", ["ps", "pd"])
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "v2"])
def test_a_tile_keeps_its_sums_in_registers(level, number):
    register, sums = {"v3": ("ymm", 12), "v4": ("zmm", 28)}[level]
    loops = [loop for loop in innermost_loops(level, "tiles", "rungs")
             if count(loop, rf"vfmadd\d+{number}", f".*%{register}") >= sums]  # fmt: skip
    assert len(loops) >= 1
    for loop in loops:
        assert not count(loop, r"vmov[au]p[sd]", r"%[xyz]mm\d+,.*\(")


# The traffic model


def traffic(name, n, dtype="float32", **params):
    return RUNGS[name].traffic(problem_of(n, n, n, dtype), CACHES, **params)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_rung_moves_no_more_from_memory_than_the_one_before_it(dtype):
    moved = [traffic(name, 8192, dtype)["dram"] for name in RUNGS if name != "cpu-five-loops"]  # C, for each block of k
    assert all(after <= 1.001 * before for before, after in pairwise(moved))  # the copies, once


@pytest.mark.parametrize("level", ["l2", "l3"])
def test_each_rung_moves_no_more_between_caches_either(level):
    moved = [traffic(name, 8192)[level] for name in ("cpu-naive", "cpu-ikj", "cpu-blocked")]
    assert moved == sorted(moved, reverse=True)
    blocks = {"bs_r": 128, "bs_c": 64, "bs_k": 64}
    assert traffic("cpu-blocked", 8192, **blocks)[level] == traffic("cpu-blocked-local", 8192, **blocks)[level]


def test_blocks_save_most_of_the_memory_traffic_of_a_large_product():
    assert traffic("cpu-blocked", 8192)["dram"] < traffic("cpu-ikj", 8192)["dram"] / 10


def test_the_local_rung_saves_loads_and_stores_of_c():
    assert traffic("cpu-blocked-local", 1024)["l1"] < traffic("cpu-blocked", 1024)["l1"] / 2


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("n", [16, 500, 4096])
def test_every_level_moves_the_operands_at_least_once(name, n):
    moved = traffic(name, n)
    assert list(moved) == ["l1", "l2", "l3", "dram"]
    assert min(moved.values()) >= 3 * n * n * 4


@pytest.mark.parametrize("name", RUNGS)
def test_a_product_that_fits_a_cache_moves_its_operands_once(name):
    once = 4 * 64 * 64 * 4  # C is read and written
    assert once < traffic(name, 64)["dram"] < 2 * once if name in COPYING else traffic(name, 64)["dram"] == once


@pytest.mark.parametrize("name", RUNGS)
def test_a_stack_of_three_moves_three_times_as_much(name):
    stack = Problem(*(np.empty((3, 8, 8), np.float32) for _ in range(3)))
    assert RUNGS[name].traffic(stack, CACHES)["dram"] == 3 * traffic(name, 8)["dram"]


# The machine


def test_a_quota_limits_the_threads_of_a_product(monkeypatch):
    monkeypatch.setattr(machine, "cgroup_cpus", lambda: 1)
    assert machine.usable_cpus() == 1
    assert ladder.default_threads(1e9) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_an_affinity_mask_limits_the_threads_of_a_product():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert machine.usable_cpus() == 1
        assert ladder.default_threads(1e9) == 1
    finally:
        os.sched_setaffinity(0, allowed)
