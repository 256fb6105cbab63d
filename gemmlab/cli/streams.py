"""What a command prints, whatever its streams are: closed, full, of an encoding without a file's letters.

The work of a command does not depend on its streams: what cannot be printed is escaped, or lost if nobody can read it.
So are control characters: a name in a file must not move a terminal's cursor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from gemmlab._words import escaped, printable


@contextmanager
def usable_streams() -> Iterator[None]:
    """Streams that take any text; where there is none, what is printed goes nowhere."""
    _keep_their_numbers()
    before = sys.stdout, sys.stderr
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if not all(callable(getattr(stream, method, None)) for method in ("write", "flush", "isatty")):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, for all of the command
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = cast("TextIO", _Escaping(sys.stdout, "\n\t"))
    sys.stderr = cast("TextIO", _Escaping(sys.stderr, "\n\t\r"))  # which a progress bar needs
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Escaping:
    """A stream without control characters but those that are kept."""

    def __init__(self, stream: TextIO, kept: str) -> None:
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> int:
        """Write a text, escaped."""
        return self._stream.write(escaped(text, self._kept))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def say(text: str) -> None:
    """Print a line to standard error, if it can be: a full disk there does not end the work."""
    with suppress(OSError, ValueError):
        print(printable(text), file=sys.stderr, flush=True)


def _keep_their_numbers() -> None:
    """No file of the work gets the number of a stream that is closed: what prints by number would write to it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # the least number that is free
