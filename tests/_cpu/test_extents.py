"""What a machine says of itself, and what `cpu-packed` works out from it."""

from __future__ import annotations

import os

import pytest

from gemmlab._cpu import machine
from gemmlab._cpu.machine import Cache
from gemmlab._cpu.packed_backend._packed import extents_from

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
    write_caches(tmp_path, [("Data", 1, "32K", text, text), ("Unified", 2, text, 8, "0"), ("Unified", text, None, 8, "0")])
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
