"""What the child of a fork must not use: locks that threads of its parent held, and what waits for those threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

ADVICE = "start processes with 'spawn' or 'forkserver'"


class LeftBehind(Protocol):
    """An object that relies on threads."""

    def forked(self) -> None:
        """Called in the child of a fork, where only the thread that forked goes on."""


class Lock:
    """A reentrant lock, which is free in the child of a fork, whoever held it in the parent."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        tell(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def forked(self) -> None:
        """A new one in its place."""
        self._lock = threading.RLock()


def in_child(function: Callable[[], object]) -> None:
    """Call a function in the child of each fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def tell(one: LeftBehind) -> None:
    """Call `one.forked()` in the child of each fork, as long as something else refers to it."""
    _told.add(one)


def _tell_all() -> None:
    for one in list(_told):
        one.forked()


_told: WeakSet[LeftBehind] = WeakSet()
in_child(_tell_all)
