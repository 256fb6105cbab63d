"""How a command ends early: Ctrl-C, SIGTERM, and warnings on the way in one line."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from gemmlab.cli.streams import say

INTERRUPTED, TERMINATED = 130, 143  # 128 and the number of the signal, as shells have it


class Terminated(KeyboardInterrupt):
    """SIGTERM; whatever keeps results at Ctrl-C keeps them here too."""


@contextmanager
def sigterm_ends_orderly() -> Iterator[None]:
    """Turn the first SIGTERM into `Terminated`, unless the process has a handler; a second one ends it at once."""
    is_ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )

    def terminate(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    if is_ours:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings without the line of code that they come from."""

    def show(message: Warning | str, *_: object) -> None:
        say(f"gemmlab: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield
