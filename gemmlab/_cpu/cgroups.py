"""What the control groups (cgroups) of this process grant: of its own group and all above it, the lowest counts.

The kernel has two versions, which may be mounted side by side: in version 2 one tree has all limits, in version 1 there
is a tree for each kind. What cannot be read, or makes no sense, is taken as no limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc/self")
USUAL = Path("/sys/fs/cgroup")  # where they are mounted, if the system does not tell
UNLIMITED = 1 << 60  # bytes; version 1 says a number over it for no limit


class Names(NamedTuple):
    """Files of a group that holds memory, and the fields of its statistics that count what can be given back."""

    limits: tuple[str, ...]
    used: str
    reclaimable: tuple[str, ...]


VERSION_2 = Names(("memory.max", "memory.high"), "memory.current", ("active_file", "inactive_file"))
VERSION_1 = Names(
    ("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)  # fmt: skip


def cpus() -> int | None:
    """CPUs worth of time, rounded up; None without a quota."""
    quotas = []
    for group in _groups(""):
        quotas.append(text_of(group / "cpu.max").split())
    for group in _groups("cpu"):
        quotas.append([text_of(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")])
    granted = [
        int(quota[0]) / int(quota[1]) for quota in quotas
        if len(quota) == 2 and all(map(_is_count, quota)) and int(quota[0]) and int(quota[1])
    ]  # fmt: skip
    return max(1, math.ceil(min(granted))) if granted else None


def memory_limit() -> int | None:
    """Bytes that this process and its neighbours may have together; None without a limit."""
    return min((limit for limit, _ in _memory()), default=None)


def free_memory() -> int | None:
    """Bytes that are left of the limits, with the page cache, which is given back; None without a limit."""
    return min((max(0, limit - used) for limit, used in _memory()), default=None)


def _memory() -> Iterator[tuple[int, int]]:
    """A limit, and what of it cannot be given back, for each group that has one."""
    for controller, names in (("", VERSION_2), ("memory", VERSION_1)):
        for group in _groups(controller):
            found = [text_of(group / name) for name in names.limits]
            limits = [int(text) for text in found if _is_count(text) and int(text) < UNLIMITED]
            if limits:
                used = text_of(group / names.used)
                statistics = dict(re.findall(r"^(\w+) (\d{1,19})$", text_of(group / "memory.stat"), re.MULTILINE))
                kept = sum(int(statistics.get(name, 0)) for name in names.reclaimable)
                yield min(limits), max(0, int(used) - kept) if _is_count(used) else 0


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's group and of those above it, in the tree of a controller ("" for version 2)."""
    for line in text_of(PROC / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if path and controller in controllers.split(","):
            top, root = _mount(controller)
            inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
            folder = top / inside.lstrip("/")
            if ".." in folder.parts or not _is_folder(folder):  # a namespace hides where the group is
                folder = top
            yield folder
            while folder != top:
                folder = folder.parent
                yield folder
            return


def _mount(controller: str) -> tuple[Path, str]:
    """Where the tree of a controller is mounted, and which group is its top there."""
    for line in text_of(PROC / "mountinfo").splitlines():
        place, _, system = line.partition(" - ")
        fields, kind = place.split(), system.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if (kind[0] == "cgroup2") if not controller else (kind[0] == "cgroup" and controller in kind[2].split(",")):
            return Path(_unescaped(fields[4])), _unescaped(fields[3])
    return USUAL / controller, "/"


def _unescaped(path: str) -> str:
    """A path of mountinfo, which has some characters as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def text_of(path: Path) -> str:
    """What a file of the system says; "" if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return ""
