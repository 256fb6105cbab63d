"""What a command prints, whatever its streams are: closed, full, of an encoding without a file's letters.

The work of a command does not depend on its streams: what cannot be printed is escaped, or lost if nobody can read it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOST_LETTERS = 300  # of a message


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
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def say(text: str) -> None:
    """Print a line to standard error, if it can be: a full disk there does not end the work."""
    with suppress(OSError, ValueError):
        print(printable(text), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """A text in one line, whose control characters are escaped, so that a terminal shows them and does nothing else.

    Examples
    --------
    >>> printable("a\x1b[31m.npy is\\n damaged")
    'a\\\\x1b[31m.npy is damaged'
    """
    return escaped(" ".join(text.split()))


def escaped(line: str) -> str:
    """A line without control characters."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def shortened(text: str) -> str:
    """At most `MOST_LETTERS` of a text, from its start and its end."""
    half = (MOST_LETTERS - 5) // 2
    return text if len(text) <= MOST_LETTERS else f"{text[:half]} ... {text[-half:]}"


def _keep_their_numbers() -> None:
    """No file of the work gets the number of a stream that is closed: what prints by number would write to it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # the least number that is free
