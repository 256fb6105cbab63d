"""Locks and pools of threads that work after a fork and at the end of the program, and who else is told of a fork.

The child of a fork has one thread. It must not use locks that other threads held, nor wait for those threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

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


class Pool:
    """At most so many threads, started with the first tasks; new ones in the child of a fork.

    Where the program gets no more threads, as when it is ending, a task is done by the thread that submits it.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads, self._name = threads, name
        self._executor: ThreadPoolExecutor | None = None
        tell(self)

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Start a task, or do it."""
        done: Future[T] = Future()
        begun = threading.Lock()

        def do() -> None:
            if begun.acquire(blocking=False):  # a refused task may have got into the executor's queue before
                try:
                    done.set_result(task())
                except BaseException as error:  # for whoever asks for the result
                    done.set_exception(error)

        try:
            self._start(do)
        except RuntimeError:
            do()
        return done

    def _start(self, do: Callable[[], None]) -> None:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # its import fails, too, in a program that is ending

            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
        self._executor.submit(do)

    def forked(self) -> None:
        """The child has no threads of its parent."""
        self._executor = None


def is_ending() -> bool:
    """Whether the main thread has ended, after which the program gets no more threads."""
    return not threading.main_thread().is_alive()


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
