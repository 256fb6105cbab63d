"""Threads are as many as the system, OpenMP's settings and control groups leave, and CPUs stay the program's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import output_of
from randomness import RNG

from gemmlab._cpu import cgroups, machine

BINDING = [
    {"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "cores"}, {"GOMP_CPU_AFFINITY": "0-1"}, {"OMP_PROC_BIND": "spread"},
    {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}, {"GOMP_CPU_AFFINITY": "1 0"},
]  # fmt: skip
two_cpus = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1"
)
# What tests before have left in the environment, as Dask does, is not read.
CLEAN = """
import os
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(name, None)
"""
USE = CLEAN + """
before = os.sched_getaffinity(0)
import numpy as np
import gemmlab
from gemmlab._cpu.machine import usable_cpus
from gemmlab._cpu.threads._threads import max_threads
x = np.ones((700, 700))

def threads(backend="cpu-packed"):
    with gemmlab.trace() as calls:
        gemmlab.matmul(x, x, backend=backend)
    return calls[0].threads
"""


@two_cpus
@pytest.mark.parametrize("settings", BINDING, ids=str)
def test_loading_openmp_leaves_the_main_threads_cpus(settings):
    output_of(f"""{USE}
for backend in ("cpu-packed", "cpu-blocked"):
    assert threads(backend) == len(before), backend
assert usable_cpus() == max_threads() == len(before)
assert os.sched_getaffinity(0) == before
started = os.popen("python3 -c 'import os; print(len(os.sched_getaffinity(0)))'").read()
assert int(started) == len(before)
os.sched_setaffinity(0, {{1}})  # as taskset does
assert usable_cpus() == max_threads() == threads() == threads("cpu-ikj") == 1
""", **settings)


@two_cpus
@pytest.mark.parametrize("settings", BINDING, ids=str)
def test_openmp_was_loaded_before(settings):
    output_of(f"""{CLEAN}
import ctypes
ctypes.CDLL("libgomp.so.1")
narrow = os.sched_getaffinity(0)
{USE}
assert usable_cpus() == max_threads() == threads() == 2, (usable_cpus(), max_threads(), threads())
os.sched_setaffinity(0, {{0, 1}} - narrow or {{0}})
assert usable_cpus() == max_threads() == threads() == 1
""", **settings)


@two_cpus
@pytest.mark.parametrize("settings", BINDING, ids=str)
def test_another_openmp_library_was_loaded_before(settings, tmp_path):
    """As scikit-learn's wheel brings one."""
    maps = output_of("import ctypes\nctypes.CDLL('libgomp.so.1')\nprint(open('/proc/self/maps').read())")
    (system,) = {line.split()[-1] for line in maps.splitlines() if "libgomp.so" in line}
    copy = tmp_path / "libgomp-a34b3233.so.1.0.0"
    copy.write_bytes(Path(system).read_bytes().replace(b"libgomp.so.1\0", b"libgomq.so.1\0"))
    output_of(f"""{CLEAN}
import ctypes
ctypes.CDLL({str(copy)!r})
narrow = os.sched_getaffinity(0)
{USE}
assert os.sched_getaffinity(0) == narrow
assert usable_cpus() == max_threads() == threads() == 2, (usable_cpus(), max_threads(), threads())
os.sched_setaffinity(0, {{0, 1}} - narrow or {{0}})
assert usable_cpus() == max_threads() == threads() == 1
""", **settings)


@pytest.mark.parametrize("first", [
    "gemmlab.matmul", "gemmlab.backends()", "gemmlab._cpu.isa", "gemmlab.workloads.postings", "gemmlab.workloads.gpp",
    "gemmlab.roofline", "gemmlab.measure", "gemmlab.tune", "gemmlab.product",
])  # fmt: skip
def test_any_module_may_be_the_first(first):
    use = first if first in ("gemmlab.matmul", "gemmlab.backends()") else f"importlib.import_module({first!r})"
    code = f"import importlib, os\nbefore = os.sched_getaffinity(0)\nimport gemmlab\n{use}"
    output_of(f"{code}\nassert os.sched_getaffinity(0) == before", OMP_PROC_BIND="true")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_openmps_limit_of_threads(limit):
    output_of(f"""{USE}
most = min(usable_cpus(), {limit})
for backend in ("cpu-packed", "cpu-ikj", "cpu-blocked"):
    assert threads(backend) == most, backend
    with gemmlab.trace() as calls:
        gemmlab.matmul(x, x, backend=backend, threads=8)
    assert calls[0].threads == {limit}, (backend, calls[0].threads)
assert max_threads() == most
""", OMP_THREAD_LIMIT=str(limit))


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up /proc/self and trees of control groups."""
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "USUAL", tmp_path / "usual")
    monkeypatch.setattr(machine, "_sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 22}.get(name, 0))

    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("TMP", str(tmp_path)) + "\n")

    return make


V2 = "30 25 0:26 / TMP/cg rw,nosuid - cgroup2 cgroup2 rw\n"
IN_V2 = {"proc/mountinfo": V2}
V1 = ("31 25 0:27 / TMP/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 25 0:28 /docker/x TMP/memory rw shared:9 - cgroup cgroup rw,memory\n")  # fmt: skip
HYBRID = V1 + "33 25 0:29 / TMP/unified rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(("files", "cpus"), [
    ({}, None),
    ({"proc/cgroup": "0::/a/b", **IN_V2, "cg/a/b/cpu.max": "max 100000"}, None),
    ({"proc/cgroup": "0::/a/b", **IN_V2, "cg/a/b/cpu.max": "200000 100000"}, 2),
    ({"proc/cgroup": "0::/a/b", **IN_V2, "cg/a/b/cpu.max": "max 100000",
      "cg/a/cpu.max": "150000 100000"}, 2),
    ({"proc/cgroup": "0::/a/b", **IN_V2, "cg/a/b/cpu.max": "900000 100000",
      "cg/a/cpu.max": "1000 100000"}, 1),
    ({"proc/cgroup": "0::/", **IN_V2, "cg/cpu.max": "300000 100000"}, 3),
    ({"proc/cgroup": "0::/../../hidden", **IN_V2, "cg/cpu.max": "300000 100000"}, 3),
    ({"proc/cgroup": "0::/gone", **IN_V2, "cg/cpu.max": "300000 100000"}, 3),
    ({"proc/cgroup": "0::/a", "usual/a/cpu.max": "300000 100000"}, 3),
    ({"proc/cgroup": "4:cpu,cpuacct:/x", "proc/mountinfo": V1, "cpu/x/cpu.cfs_quota_us": "250000",
      "cpu/x/cpu.cfs_period_us": "100000"}, 3),
    ({"proc/cgroup": "4:cpu,cpuacct:/x/y", "proc/mountinfo": V1, "cpu/x/y/cpu.cfs_quota_us": "-1",
      "cpu/x/cpu.cfs_quota_us": "100000", "cpu/x/cpu.cfs_period_us": "100000"}, 1),
    ({"proc/cgroup": "4:cpu:/x\n0::/z", "proc/mountinfo": HYBRID, "cpu/x/cpu.cfs_quota_us": "400000",
      "cpu/x/cpu.cfs_period_us": "100000", "unified/z/cpu.max": "200000 100000"}, 2),
    ({"proc/cgroup": "4:cpu:/x", "usual/cpu/x/cpu.cfs_quota_us": "400000",
      "usual/cpu/x/cpu.cfs_period_us": "100000"}, 4),
    ({"proc/cgroup": "0::/a b", "proc/mountinfo": V2.replace("TMP/cg", "TMP/c\\040g"),
      "c g/a b/cpu.max": "200000 100000"}, 2),
    *(({"proc/cgroup": "0::/a", **IN_V2, "cg/a/cpu.max": odd}, None) for odd in (
        "rubbish", "", "100000", "100000 0", "-5 100000", "1 2 3", "9" * 5000 + " 1", "٣٠٠ 100", "0 100000", "\0 \0")),
    *(({"proc/cgroup": odd, "proc/mountinfo": odd, "usual/cpu.max": ""}, None) for odd in (
        "", ":", "::", "0::", "x\n\n:::", " - ", "a b c d e - cgroup2", "0::/" + "x/" * 3000, "\0::/\0")),
])  # fmt: skip
def test_the_lowest_quota_on_the_way_up(system, files, cpus):
    system(files)
    assert cgroups.cpus() == cpus


GIB = 1 << 30


def group(folder, limit, used, cache, **others):
    statistics = f"anon 5\ninactive_file {cache}\nactive_file 0"
    files = {"memory.max": limit, "memory.current": used, "memory.stat": statistics}
    return {f"{folder}/{name}": str(text) for name, text in (files | others).items()}


@pytest.mark.parametrize(("files", "limit", "free"), [
    ({}, 16 * GIB, None),
    (group("cg/a", 4 * GIB, 3 * GIB, 2 * GIB), 4 * GIB, 3 * GIB),
    (group("cg/a", "max", 3 * GIB, 0) | group("cg", 2 * GIB, GIB, 0), 2 * GIB, GIB),
    (group("cg/a", 8 * GIB, 0, 0) | group("cg", 12 * GIB, 11 * GIB, 0), 8 * GIB, GIB),
    (group("cg/a", 4 * GIB, 3 * GIB, 0, **{"memory.high": 2 * GIB}), 2 * GIB, 0),
    (group("cg/a", 4 * GIB, "rubbish", "rubbish"), 4 * GIB, 4 * GIB),
    (group("cg/a", "rubbish", 3, 0), 16 * GIB, None),
    (group("cg/a", 4 * GIB, GIB, 9 * GIB), 4 * GIB, 4 * GIB),
    (group("cg/a", "9" * 400, GIB, 0), 16 * GIB, None),
])  # fmt: skip
def test_memory_is_the_lowest_limit_and_the_page_cache_is_free(system, files, limit, free):
    system({"proc/cgroup": "0::/a", **IN_V2} | files)
    assert machine.memory_bytes() == limit
    assert cgroups.free_memory() == free


def test_memory_in_version_1(system):
    folder = "memory/y"
    system({
        "proc/cgroup": "7:memory:/docker/x/y", "proc/mountinfo": V1, f"{folder}/memory.limit_in_bytes": str(3 * GIB),
        f"{folder}/memory.usage_in_bytes": str(2 * GIB), "memory/memory.limit_in_bytes": "9223372036854771712",
        f"{folder}/memory.stat": f"cache {GIB}\ntotal_inactive_file {GIB}\ntotal_active_file 0",
    })  # fmt: skip
    assert (machine.memory_bytes(), cgroups.free_memory()) == (3 * GIB, 2 * GIB)


def test_random_trees_are_never_an_error(system):
    words = ["0::/a", "4:cpu:/a", V2, V1, "max", "100000", "-1", "\0", "é", "9" * 30, "/", "", "1 0", "anon 1"]
    for _ in range(30):
        names = ["proc/cgroup", "proc/mountinfo", "cg/a/cpu.max", "cg/cpu.max", "cg/a/memory.max", "cg/memory.current"]
        system({name: " ".join(RNG.choice(words, 3)) for name in names})
        assert (cgroups.cpus() or 1) >= 1
        assert machine.free_memory_bytes() >= 0
