"""The child's side of a process that is asked: one line of JSON in, one out, until "quit" or the end of input.

An exception becomes an answer {"error": "Type: message"}, and the child goes on. `children.py` is the parent's side.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import IO

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._process.children import Answer

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

Commands = Mapping[str, Callable[..., Answer]]


def serve(commands: Commands) -> None:
    """Answer from standard input; everything else that is printed goes to standard error."""
    answers = _take_stdout()
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    for line in sys.stdin:
        request = json.loads(line)
        if request["command"] == "quit":
            break
        print(json.dumps(answer(commands, **request)), file=answers, flush=True)


def serve_timed(commands: Commands) -> None:
    """As `serve`, for a child that times something."""
    gc.disable()  # no collection inside a sample
    serve(commands)


def answer(commands: Commands, command: str, **arguments: object) -> Answer:
    """Carry out one command; an exception becomes an answer."""
    try:
        if command not in commands:
            raise ValueError(f"no command {command!r}; commands: {', '.join(commands)}")
        return commands[command](**arguments)
    except Exception as error:
        unsupported = isinstance(error, UnsupportedProblem | BackendUnavailable)
        return {"error": f"{type(error).__name__}: {error}", "unsupported": unsupported}


def _take_stdout() -> IO[str]:
    """Reserve the real stdout for answers; what a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _end_with_parent() -> None:
    """Have Linux kill this process when its parent ends, even while it is suspended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
