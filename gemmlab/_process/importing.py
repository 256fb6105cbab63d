"""Imports that a fork waits for.

Python does not free the locks of modules in the child of a fork. A module that another thread was importing at that
moment can never be imported there: the first use of it would wait for ever.
"""

from __future__ import annotations

import logging  # noqa: F401 - first: its hook at a fork takes a lock that imports need, and must be called after ours
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType

MAX_WAIT_S = 10.0  # of a fork

_changed = threading.Condition()
_inside: Counter[int] = Counter()  # how often each thread is in an `Importing`


class Importing:
    """A context manager around imports on first use."""

    def __enter__(self) -> None:
        with _changed:
            _inside[threading.get_ident()] += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _changed:
            _inside[threading.get_ident()] -= 1
            _changed.notify_all()


def names_on_first_use(
    package: str, homes: Mapping[str, Sequence[str]], require: Callable[[], object] = lambda: None
) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names are imported on first use, each from the module that has it.

    So a process that needs one module of the package does not import them all. `require` is called before; it raises
    where what they need is not installed.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with Importing():
            require()
            value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def _others_are_outside() -> bool:
    return _inside.total() == _inside[threading.get_ident()]


def _before_fork() -> None:
    _changed.acquire()
    _changed.wait_for(_others_are_outside, MAX_WAIT_S)


def _in_parent() -> None:
    _changed.release()


def _in_child() -> None:
    global _changed, _inside
    _changed = threading.Condition()
    _inside = Counter({threading.get_ident(): _inside[threading.get_ident()]})


if hasattr(os, "register_at_fork"):  # the hook that is registered last is called first
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
