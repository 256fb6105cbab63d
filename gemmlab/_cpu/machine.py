"""This machine's CPU, as far as block sizes, thread counts and records need it."""

from __future__ import annotations

import math
import os
import platform
import re
from functools import cache
from pathlib import Path

_SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_CGROUP = Path("/sys/fs/cgroup")
_UNIT = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def caches() -> dict[str, int]:
    """Bytes of the data caches that one core sees, by level; a level that is not known is left out.

    Examples
    --------
    >>> from gemmlab._cpu.machine import caches
    >>> all(size > 0 for size in caches().values())
    True
    """
    return _caches_from_sys() or _caches_from_sysconf()


def _caches_from_sys() -> dict[str, int]:
    found = {}
    for folder in sorted(_SYS_CACHE.glob("index*")):
        try:
            if (folder / "type").read_text().strip() == "Instruction":
                continue
            level = (folder / "level").read_text().strip()
            size = (folder / "size").read_text().strip()
        except OSError:
            continue
        if match := re.fullmatch(r"(\d+)([KMG]?)", size):
            found[f"L{level}"] = int(match[1]) * _UNIT.get(match[2], 1)
    return found


def _caches_from_sysconf() -> dict[str, int]:
    names = {"L1": "SC_LEVEL1_DCACHE_SIZE", "L2": "SC_LEVEL2_CACHE_SIZE", "L3": "SC_LEVEL3_CACHE_SIZE"}
    found = {}
    for level, name in names.items():
        if name in getattr(os, "sysconf_names", {}) and (size := os.sysconf(name)) > 0:
            found[level] = size
    return found


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
