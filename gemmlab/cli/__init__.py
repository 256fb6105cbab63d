"""The command line: `gemmlab COMMAND`.

    arguments.py    every command with its options
    measuring.py    what the commands that measure do: report, bench, roofline, study, tune
    inspecting.py   what the others do: backends, verify, cache, info
    new_rung.py     new-rung, which writes a plugin package from templates/
    selection.py    which backends a command uses
    progress.py     a progress bar on a terminal, lines elsewhere

Exit status: 0 done, 1 a check failed, 2 wrong usage or a file that cannot be written, 130 interrupted. A command
imports what it needs when it runs, so that `gemmlab --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gemmlab._config import config
from gemmlab._errors import GemmlabError
from gemmlab.cli.arguments import parser

__all__ = ["main", "parser"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        _check_default_backend()
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the process that read our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (GemmlabError, ValueError, TypeError, OSError) as error:
        print(f"gemmlab: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _check_default_backend() -> None:
    """UnknownBackend if GEMMLAB_BACKEND names none, also for commands that multiply nothing by it."""
    if config.backend != "auto":
        from gemmlab import _registry

        _registry.default_name()
