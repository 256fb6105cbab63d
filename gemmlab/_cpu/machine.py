"""This machine's CPU, as far as block sizes, thread counts and records need it."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from mmap import PAGESIZE
from pathlib import Path
from typing import NamedTuple

_CPUS = Path("/sys/devices/system/cpu")
_HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_CGROUP = Path("/sys/fs/cgroup")
_UNIT = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
KIB, MIB = 1 << 10, 1 << 20


class Cache(NamedTuple):
    """A data cache as the system describes it: bytes, ways (0: not known), and how many CPUs share it."""

    size: int
    ways: int = 0
    cpus: int = 1


class Readings(NamedTuple):
    """What block sizes are worked out from, in bytes, within what processors have; of caches, what belongs to one core.

    Attributes
    ----------
    l1, l2 : int
        Of the data caches.
    l1_way : int
        Of one way of L1: addresses at this distance share a set.
    l3 : int
        A core's share of L3; 0 without one.
    page, huge_page : int
        Of a page of memory, and of a huge one; 0 where the system has none.
    """

    l1: int
    l1_way: int
    l2: int
    l3: int
    page: int
    huge_page: int

    def __str__(self) -> str:
        shares = f"L1 {_in_words(self.l1)}, L2 {_in_words(self.l2)}, L3 {_in_words(self.l3)} a core"
        return f"{shares}; pages of {_in_words(self.page)} and {_in_words(self.huge_page)}"


USUAL = {"L1": Cache(32 * KIB, 8), "L2": Cache(512 * KIB, 8)}  # where the system does not tell
LEAST = {"L1": 16 * KIB, "L2": 128 * KIB, "L3": 0}  # of a core: a virtual machine may report anything
MOST = {"L1": 192 * KIB, "L2": 8 * MIB, "L3": 8 * MIB}


@cache
def caches() -> dict[str, int]:
    """Bytes of the data caches that one core sees, by level; a level that is not known is left out.

    Examples
    --------
    >>> from gemmlab._cpu.machine import caches
    >>> all(size > 0 for size in caches().values())
    True
    """
    return {level: one.size for level, one in data_caches().items()}


@cache
def readings() -> Readings:
    """This machine's."""
    return readings_of(data_caches(), PAGESIZE, _huge_page())


def readings_of(found: Mapping[str, Cache], page: int, huge_page: int) -> Readings:
    """What caches and pages mean for one core; of caches that were not found, what is usual.

    Examples
    --------
    Eight cores of two threads each, and their L3:

    >>> found = {"L1": Cache(32 << 10, 8, 2), "L2": Cache(512 << 10, 8, 2), "L3": Cache(32 << 20, 16, 16)}
    >>> print(readings_of(found, 4096, 0))
    L1 32 KiB, L2 512 KiB, L3 4 MiB a core; pages of 4 KiB and none
    """
    l1 = found.get("L1", USUAL["L1"])
    threads = max(1, l1.cpus)  # of a core
    share = {"L1": l1.size}
    for level in ("L2", "L3"):
        one = found.get(level, USUAL.get(level, Cache(0)))
        share[level] = one.size * threads // max(threads, one.cpus)
    size = {level: min(max(share[level], LEAST[level]), MOST[level]) for level in share}
    way = size["L1"] // (l1.ways or USUAL["L1"].ways)
    return Readings(
        size["L1"], _power_of_two(max(way, 1 * KIB)), size["L2"], size["L3"], _power_of_two(max(page, 4 * KIB)),
        _power_of_two(huge_page) if huge_page > page else 0,
    )  # fmt: skip


def _power_of_two(x: int) -> int:
    """The largest that is not over `x`."""
    return 1 << x.bit_length() - 1


def _in_words(x: int) -> str:
    unit = "MiB" if x >= MIB else "KiB"
    return f"{x / (MIB if x >= MIB else KIB):.4g} {unit}" if x else "none"


@cache
def data_caches() -> dict[str, Cache]:
    """The data caches that one core sees, by level; a level that is not known is left out."""
    return _caches_from_sys(_CPUS) or _caches_from_sysconf()


def _caches_from_sys(cpus: Path) -> dict[str, Cache]:
    """Those of the first CPU that this process may run on: cores need not be alike."""
    first = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    found = {}
    for folder in sorted((cpus / f"cpu{first}" / "cache").glob("index*")):
        level, kind, size = (_line(folder / name) for name in ("level", "type", "size"))
        if kind == "Instruction" or not (match := re.fullmatch(r"(\d+)([KMG]?)", size)):
            continue
        ways, shared = _line(folder / "ways_of_associativity"), _line(folder / "shared_cpu_list")
        found[f"L{level}"] = Cache(
            int(match[1]) * _UNIT.get(match[2], 1), int(ways) if ways.isdecimal() else 0, _cpus_in(shared)
        )
    return found


def _cpus_in(text: str) -> int:
    """How many CPUs a list as "0-3,8" names; 1 if it is none."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return max(1, sum(int(last or first) - int(first) + 1 for first, last in ranges))


def _caches_from_sysconf() -> dict[str, Cache]:
    names = {"L1": "SC_LEVEL1_DCACHE", "L2": "SC_LEVEL2_CACHE", "L3": "SC_LEVEL3_CACHE"}
    found = {level: Cache(_sysconf(f"{name}_SIZE"), _sysconf(f"{name}_ASSOC")) for level, name in names.items()}
    return {level: one for level, one in found.items() if one.size}


def _sysconf(name: str) -> int:
    """What the system says, 0 where it says nothing."""
    try:
        return max(0, os.sysconf(name))
    except (AttributeError, OSError, ValueError):  # not this system, or not this name
        return 0


def _huge_page() -> int:
    size = _line(_HUGE_PAGE)
    return int(size) if size.isdecimal() else 0


def _line(path: Path) -> str:
    """What a file of the system says; "" if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


@cache
def cpu_name() -> str:
    """The processor's name, as the system gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def usable_cpus() -> int:
    """CPUs that the affinity mask and the cgroup's quota leave to this process."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, cgroup_cpus() or cpus))


@cache
def cgroup_cpus() -> int | None:
    """CPUs worth of time that the cgroup grants, rounded up; None without a quota."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (_CGROUP / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (_CGROUP / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        return max(1, math.ceil(int(quota) / int(period))) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):  # "max": no quota
        return None
