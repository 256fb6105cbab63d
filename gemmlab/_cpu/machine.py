"""This machine's CPU, as far as block sizes, thread counts and records need it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gemmlab._cpu import cgroups
from gemmlab._cpu.cgroups import text_of
from gemmlab._words import size

_CPUS = Path("/sys/devices/system/cpu")
_HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_UNIT = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
KIB, MIB = 1 << 10, 1 << 20


class Cache(NamedTuple):
    """A data cache as the system describes it: bytes, ways (0: not known), and how many CPUs share it."""

    size: int
    ways: int = 0
    cpus: int = 1


class Readings(NamedTuple):
    """What block sizes are worked out from, in bytes; of caches, what belongs to one core, within what processors have.

    Attributes
    ----------
    l1, l2 : int
        Of the data caches.
    l1_way, l2_way : int
        Of one way of each: addresses at this distance share a set.
    l3 : int
        A core's share of L3; 0 without one.
    huge_page : int
        Of a huge page of memory; 0 where the system has none, or none of a few MiB.
    """

    l1: int
    l1_way: int
    l2: int
    l2_way: int
    l3: int
    huge_page: int

    def __str__(self) -> str:
        l3 = f"L3 {size(self.l3)}" if self.l3 else "no L3"
        pages = f"huge pages of {size(self.huge_page)}" if self.huge_page else "no huge pages"
        return f"a core has L1 {size(self.l1)}, L2 {size(self.l2)}, {l3}; {pages}"


USUAL = {"L1": Cache(32 * KIB, 8), "L2": Cache(512 * KIB, 8), "L3": Cache(0)}  # where the system does not tell
LEAST = {"L1": 16 * KIB, "L2": 128 * KIB, "L3": 0}  # of a core: a virtual machine may report anything
MOST = {"L1": 192 * KIB, "L2": 8 * MIB, "L3": 8 * MIB}
WAYS = 4, 32  # at least and at most
HUGE_PAGES = 1 * MIB, 4 * MIB  # of more, a buffer would have few, and waste much of the last


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
    return readings_of(data_caches(), _huge_page())


def readings_of(found: Mapping[str, Cache], huge_page: int) -> Readings:
    """What caches mean for one core; of those that were not found, what is usual.

    Examples
    --------
    Eight cores of two threads each, and their L3:

    >>> found = {"L1": Cache(32 << 10, 8, 2), "L2": Cache(512 << 10, 8, 2), "L3": Cache(32 << 20, 16, 16)}
    >>> print(readings_of(found, 2 << 20))
    a core has L1 32 KiB, L2 512 KiB, L3 4 MiB; huge pages of 2 MiB
    """
    known = {level: found.get(level, usual) for level, usual in USUAL.items()}
    threads = max(1, known["L1"].cpus)  # of a core
    size = {}
    for level, one in known.items():
        share = one.size * threads // max(threads, one.cpus)
        size[level] = min(max(share, LEAST[level]), MOST[level])
    least, most = HUGE_PAGES
    huge = huge_page if least <= huge_page <= most and huge_page.bit_count() == 1 else 0
    return Readings(
        size["L1"], _way(size["L1"], known["L1"]), size["L2"], _way(size["L2"], known["L2"]), size["L3"], huge
    )


def _way(size: int, cache: Cache) -> int:
    """Bytes of a way: a power of two, as sets are found by some bits of an address."""
    least, most = WAYS
    return 1 << (size // min(max(cache.ways or 8, least), most)).bit_length() - 1


@cache
def data_caches() -> dict[str, Cache]:
    """The data caches that one core sees, by level; a level that is not known is left out."""
    return _caches_from_sys(_CPUS) or _caches_from_sysconf()


def _caches_from_sys(cpus: Path) -> dict[str, Cache]:
    """Those of the first CPU that this process may run on: cores need not be alike."""
    first = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    found = {}
    for folder in sorted((cpus / f"cpu{first}" / "cache").glob("index*")):
        level, kind, size = (text_of(folder / name) for name in ("level", "type", "size"))
        if kind == "Instruction" or not (match := re.fullmatch(r"(\d+)([KMG]?)", size)):
            continue
        ways, shared = text_of(folder / "ways_of_associativity"), text_of(folder / "shared_cpu_list")
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
    size = text_of(_HUGE_PAGE)
    return int(size) if size.isdecimal() else 0


@cache
def cpu_name() -> str:
    """The processor's name, as the system gives it."""
    match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text_of(Path("/proc/cpuinfo")), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def usable_cpus() -> int:
    """CPUs that the affinity mask and the quotas of control groups leave to this process."""
    from gemmlab._cpu.threads._threads import cpus_here

    cpus = cpus_here()
    return max(1, min(cpus, cgroup_cpus() or cpus))


@cache
def cgroup_cpus() -> int | None:
    """CPUs worth of time that control groups grant; None without a quota."""
    return cgroups.cpus()


def memory_bytes() -> int:
    """The machine's memory, or what control groups leave of it; 8 GiB where the system does not say."""
    machine = _sysconf("SC_PAGE_SIZE") * _sysconf("SC_PHYS_PAGES") or 8 << 30
    return min(machine, cgroups.memory_limit() or machine)


def free_memory_bytes() -> int:
    """Memory that this process can still get, within its control groups; all of it where the system does not say."""
    free = [memory_bytes()]
    if found := re.search(r"^MemAvailable:\s+(\d{1,15}) kB", text_of(Path("/proc/meminfo")), re.MULTILINE):
        free.append(int(found[1]) << 10)
    if (left := cgroups.free_memory()) is not None:
        free.append(left)
    return min(free)
