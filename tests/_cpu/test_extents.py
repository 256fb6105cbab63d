"""What a machine says of itself, and what `cpu-packed` works out from it."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest
from randomness import RNG

import gemmlab
from gemmlab._cpu import machine
from gemmlab._cpu.machine import Cache
from gemmlab._cpu.packed_backend._packed import PackedKernel, extents_from
from gemmlab._cpu.packed_backend.backend import Packed

KIB, MIB = 1 << 10, 1 << 20


# The reader


def write_caches(root, caches, cpu=None):
    """A folder like that of the system: for each cache its type, level, size, ways and CPUs, what is None left out."""
    cpu = min(os.sched_getaffinity(0)) if cpu is None and hasattr(os, "sched_getaffinity") else cpu or 0
    names = ("type", "level", "size", "ways_of_associativity", "shared_cpu_list")
    for index, texts in enumerate(caches):
        folder = root / f"cpu{cpu}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in zip(names, texts, strict=True):
            if text is not None:
                (folder / name).write_text(f"{text}\n")


def test_the_caches_are_read_from_the_system(tmp_path):
    write_caches(tmp_path, [
        ("Data", 1, "48K", 12, "0"), ("Instruction", 1, "32K", 8, "0"), ("Unified", 2, "2M", 16, "0,4"),
        ("Unified", 3, "266240K", None, "0-3,8-11"),
    ])  # fmt: skip
    found = {"L1": Cache(48 * KIB, 12, 1), "L2": Cache(2 * MIB, 16, 2), "L3": Cache(260 * MIB, 0, 8)}
    assert machine._caches_from_sys(tmp_path) == found


@pytest.mark.parametrize("text", ["", "odd", "-1", "\0", "K"])
def test_what_the_system_says_badly_counts_as_not_known(tmp_path, text):
    caches = [("Data", 1, "32K", text, text), ("Unified", 2, text, 8, "0"), ("Unified", text, None, 8, "0")]
    write_caches(tmp_path, caches)
    assert machine._caches_from_sys(tmp_path) == {"L1": Cache(32 * KIB, 0, 1)}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_the_first_cpu_that_may_be_used_is_asked(tmp_path):
    allowed = os.sched_getaffinity(0)
    last = max(allowed)
    write_caches(tmp_path, [("Data", 1, "48K", 12, "0")], cpu=last + 1)
    write_caches(tmp_path, [("Data", 1, "32K", 8, "0")], cpu=last)
    try:
        os.sched_setaffinity(0, {last})
        assert machine._caches_from_sys(tmp_path) == {"L1": Cache(32 * KIB, 8, 1)}
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_system_that_hides_its_caches_is_asked_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    monkeypatch.setattr(machine, "_caches_from_sysconf", lambda: {"L1": Cache(1)})
    assert machine.data_caches.__wrapped__() == {"L1": Cache(1)}


def test_a_system_that_says_nothing_at_all_has_what_is_usual(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    monkeypatch.setattr(machine, "_HUGE_PAGE", tmp_path / "none")
    for name in ("sysconf", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    assert machine.data_caches.__wrapped__() == {}
    assert machine._huge_page() == 0


# What it means for a core, and for the loops


class Made(NamedTuple):
    """A machine that is made up, and its readings in bytes."""

    caches: dict[str, Cache]
    huge_page: int
    readings: tuple[int, int, int, int, int, int]


def made(l1, l2, l3, huge_page, *readings):
    """Caches as (KiB, ways, CPUs); readings in KiB."""
    caches = {f"L{i}": Cache(one[0] * KIB, *one[1:]) for i, one in enumerate((l1, l2, l3), 1) if one}
    return Made(caches, huge_page * KIB, tuple(x * KIB for x in readings))


MACHINES = {
    "Zen 3": made((32, 8, 1), (512, 8, 1), (32768, 16, 8), 2048, 32, 4, 512, 64, 4096, 2048),
    "Zen 3, two threads a core": made((32, 8, 2), (512, 8, 2), (32768, 16, 16), 2048, 32, 4, 512, 64, 4096, 2048),
    "Zen 3, a machine of two": made((32, 8, 1), (512, 8, 1), (32768, 16, 2), 2048, 32, 4, 512, 64, 8192, 2048),
    "Emerald Rapids": made((48, 12, 2), (2048, 16, 2), (327680, 20, 128), 2048, 48, 4, 2048, 128, 5120, 2048),
    "260 MiB for two": made((48, 12, 1), (2048, 16, 1), (266240, 20, 2), 2048, 48, 4, 2048, 128, 8192, 2048),
    "L2 of 256 KiB": made((32, 8, 2), (256, 4, 2), (8192, 16, 8), 2048, 32, 4, 256, 64, 2048, 2048),
    "no L3": made((32, 2, 1), (1024, 16, 4), None, 2048, 32, 8, 256, 16, 0, 2048),
    "Apple": made((128, 8, 1), (12288, 12, 4), None, 32768, 128, 16, 3072, 256, 0, 0),
    "nothing known": made(None, None, None, 0, 32, 4, 512, 64, 0, 0),
    "ways not known": made((32, 0, 1), (1024, 0, 1), (16384, 0, 4), 2048, 32, 4, 1024, 128, 4096, 2048),
    "absurdly small": made((1, 1, 1), (1, 1, 1), (1, 1, 64), 4, 16, 4, 128, 32, 0, 0),
    "absurdly large": made((9 << 20, 64, 1), (9 << 20, 64, 1), (9 << 30, 64, 1), 1 << 20, 192, 4, 8192, 256, 8192, 0),
}  # fmt: skip
each_machine = pytest.mark.parametrize("name", MACHINES)


def readings_of(name):
    return machine.readings_of(MACHINES[name].caches, MACHINES[name].huge_page)


@each_machine
def test_readings_are_of_one_core_and_within_what_there_is(name):
    found, wanted = readings_of(name), MACHINES[name].readings
    assert found[:4] + found[5:] == wanted[:4] + wanted[5:]
    assert found.l3 // KIB * KIB == wanted[4]


def test_this_machine_has_readings():
    assert str(machine.readings()).startswith("a core has L1 ")
    extents = extents_from(machine.readings()._asdict())
    assert all(size > 0 for name, size in extents.items() if name != "huge_page")


# By hand from the formulas of extents.hpp, in KiB.
EXTENTS = {
    "260 MiB for two": {"at_once": 12, "conflict": 4, "in_place": 128, "deep_a": 512,
                        "thin_b": 512, "a_of_a_thread": 2048, "b_of_a_thread": 2048, "min_b": 4096, "round": 4096},
    "Zen 3": {"at_once": 8, "conflict": 4, "deep_a": 512, "thin_b": 512, "b_of_a_thread": 2048,
              "min_b": 4096},
    "L2 of 256 KiB": {"in_place": 64, "deep_a": 512, "b_of_a_thread": 1024, "min_b": 2048},
    "no L3": {"conflict": 8, "b_of_a_thread": 128, "min_b": 256},
    "Apple": {"conflict": 16, "in_place": 341, "deep_a": 768, "b_of_a_thread": 1536,
              "huge_page": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", EXTENTS)
def test_extents_follow_from_the_readings(name):
    found = extents_from(readings_of(name)._asdict())
    assert {key: found[key] // KIB for key in EXTENTS[name]} == EXTENTS[name]


def test_what_a_virtual_machine_says_of_its_l3_changes_nothing():
    real, said = (extents_from(readings_of(name)._asdict()) for name in ("Emerald Rapids", "260 MiB for two"))
    assert real == said


def kernel_of(name):
    rung = Packed()
    entries = {names: (*rung.default_blocks(*names), rung.team_flop(*names)) for names in rung.kernels}
    return PackedKernel(rung.tables, entries, readings_of(name)._asdict())


# m, k, n that reach in place, five loops in several blocks of each operand, pieces, slices, few rows, one column
SHAPES = [
    (90, 100, 150),
    (190, 200, 210),
    (300, 1300, 1100),
    (200, 150, 3000),
    (40, 9000, 50),
    (5, 700, 900),
    (400, 5000, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
def test_no_machine_has_other_bits(dtype):
    kernels = [kernel_of(name) for name in MACHINES]
    for m, k, n in SHAPES:
        a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        results = set()
        for kernel in kernels:
            for threads in (1, 2):
                out = np.full((m, n), np.nan, dtype)
                kernel.run(a, b, out, threads=threads)
                results.add(out.tobytes())
        assert len(results) == 1, (m, k, n)


@each_machine
def test_blocks_fit_the_caches(name):
    kernel, readings = kernel_of(name), readings_of(name)
    for m, k, n in [*SHAPES, (2000, 2000, 2000), (5000, 700, 300), (700, 20000, 1500)]:
        for dtype in ("float32", "float64"):
            a, b, c = (np.broadcast_to(np.zeros((), dtype), shape) for shape in ((m, k), (k, n), (m, n)))
            plan = kernel.plan(a, b, c)
            if plan.is_packed:
                panel = plan.nr * plan.kc * plan.panel_bytes
                block = plan.mc * plan.kc * plan.panel_bytes
                assert plan.mc <= 3 * plan.mr or block + panel <= readings.l2, (m, k, n)
                assert plan.workspace <= 16 * MIB


@each_machine
def test_the_depth_of_a_block_does_not_hang_on_the_machine(name):
    kernel = kernel_of(name)
    for k in (100, 1000, 7777):
        a, b, c = (np.broadcast_to(np.zeros((), "float32"), shape) for shape in ((500, k), (k, 500), (500, 500)))
        assert kernel.plan(a, b, c).kc == Packed().kernel.plan(a, b, c).kc


def test_explain_prints_the_readings(monkeypatch):
    monkeypatch.setattr(machine, "readings", lambda: readings_of("no L3"))
    told = str(gemmlab.explain(np.eye(3), np.eye(3), backend="cpu-packed"))
    assert told.splitlines()[2].strip() == "machine: a core has L1 32 KiB, L2 256 KiB, no L3; huge pages of 2 MiB"
