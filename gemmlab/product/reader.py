"""A thread that reads ahead. Ctrl-C in the main thread must not leave it waiting for a lock that is never freed.

That is what an executor's locks may do: KeyboardInterrupt may come between the taking of a lock in Python code and the
block that frees it. The queues here are compiled, and have no such place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

from gemmlab._problem import Array

Task: TypeAlias = Callable[[], Array]
Answer: TypeAlias = "Array | BaseException"


class Reader:
    """Does tasks in a thread, one after another; a context manager, whose end waits for the task under way."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Task, SimpleQueue[Answer]] | None] = SimpleQueue()
        self._is_left = False
        self._thread = threading.Thread(target=self._work, name="gemmlab-reader", daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_left = True
        self._tasks.put(None)
        self._thread.join()

    def start(self, task: Task) -> Callable[[], Array]:
        """Start a task; the function that waits for what it gives, or raises what it raised."""
        answers: SimpleQueue[Answer] = SimpleQueue()
        self._tasks.put((task, answers))

        def result() -> Array:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return result

    def _work(self) -> None:
        while (found := self._tasks.get()) is not None and not self._is_left:
            task, answers = found
            try:
                answers.put(task())
            except BaseException as error:  # for whoever waits
                answers.put(error)
