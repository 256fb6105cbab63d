"""The command line: `gemmlab COMMAND`.

    arguments.py    every command with its options
    benching.py     bench: backends at products, and against an earlier run or a baseline
    measuring.py    what the other commands that measure do: report, roofline, study; and records
    learning.py     course: the pages of the rungs; asm: the machine code of an inner loop
    tuning.py       tune: what is fastest on this machine
    inspecting.py   what the others do: backends, verify, cache, info
    product.py      product: one large product, from file to file
    workloads.py    gpp, postings: kernels from science
    new_rung.py     new-rung, which writes a plugin package from templates/
    selection.py    which backends a command uses
    progress.py     a progress bar on a terminal, lines elsewhere
    ending.py       Ctrl-C, SIGTERM and warnings
    streams.py      what is printed, whatever the streams are

Exit status: 0 done, 1 a check failed, 2 wrong usage or a file that cannot be read or written, 130 ended by Ctrl-C, 143
ended by SIGTERM. After both, what was measured is kept. A command imports what it needs when it runs, so that
`gemmlab --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from gemmlab._config import config
from gemmlab._errors import GemmlabError
from gemmlab._words import printable, shortened
from gemmlab.cli.arguments import parser
from gemmlab.cli.ending import INTERRUPTED, TERMINATED, Terminated, sigterm_ends_orderly, warnings_in_one_line
from gemmlab.cli.streams import say, usable_streams

__all__ = ["main", "parser"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    with usable_streams():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    arguments = parser().parse_args(argv)
    try:
        _check_default_backend()
        with sigterm_ends_orderly(), warnings_in_one_line():
            status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except Terminated:
        say("terminated")
        return TERMINATED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the process that read our output has ended
        _drop_output()
        return 0
    except (GemmlabError, ValueError, TypeError, OSError, MemoryError) as error:
        say(f"gemmlab: {_in_one_line(error)}")
        try:
            sys.stdout.flush()
        except OSError:  # what is left would be an error again at the end of the process
            _drop_output()
        return 2


def _drop_output() -> None:
    """What stdout still holds goes nowhere."""
    with suppress(OSError, ValueError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_default_backend() -> None:
    """UnknownBackend if GEMMLAB_BACKEND names none, also for commands that multiply nothing by it."""
    if config.backend != "auto":
        from gemmlab import _registry

        _registry.default_name()


def _in_one_line(error: Exception) -> str:
    """An error's message; of the system's, the file and the reason, without the number."""
    is_plain = isinstance(error, OSError) and not isinstance(error, GemmlabError) and error.filename and error.strerror
    text = f"{error.filename}: {error.strerror}" if is_plain else str(error)  # type: ignore[attr-defined]
    text = printable(text)
    return text if type(error) is GemmlabError else shortened(text)  # the others may repeat what a file has
