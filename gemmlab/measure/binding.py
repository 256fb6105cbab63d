"""Each thread of a measured product on a core of its own.

A system may leave two threads of one product on one core, with another core idle, for as long as a turn lasts: the
product then takes twice as long, in that turn and not in the next. OpenMP's threads are bound by its own variables
(`BOUND` in `process.py`); other libraries' threads are bound here, once they are there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


def cpu_numbers() -> list[int]:
    """The numbers of the CPUs that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def bind_threads(cpus: Sequence[int]) -> None:
    """Bind the calling thread to a CPU of its own, and the process's others to the rest of these, in turn.

    Threads that are bound already stay, but for those on the calling thread's own CPU: they were started by it after
    it was bound. Where the system has no such thing, nothing is bound.
    """
    if not hasattr(os, "sched_setaffinity") or not _TASKS.exists() or len(cpus) < 2:
        return
    main = threading.get_native_id()
    _bind(main, lambda where: len(where) > 1, cpus[0])
    (own, *_) = os.sched_getaffinity(main)
    rest = [cpu for cpu in cpus if cpu != own]
    others = sorted(int(task.name) for task in _TASKS.iterdir() if int(task.name) != main)
    for i, thread in enumerate(others):
        _bind(thread, lambda where: len(where) > 1 or where == {own}, rest[i % len(rest)])


def _bind(thread: int, is_free: Callable[[set[int]], bool], cpu: int) -> None:
    with suppress(OSError):  # a thread that has ended meanwhile
        if is_free(os.sched_getaffinity(thread)):
            os.sched_setaffinity(thread, {cpu})
