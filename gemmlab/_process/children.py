"""Child processes of gemmlab: one that is run once, and one that is asked again and again.

A `WorkerProcess` is asked and answers in lines of JSON. Between two questions it is suspended, so that its idle threads
cannot take time from the process that is being timed. Where the system has no SIGSTOP it keeps running, and the
records say so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Answer = dict[str, Any]  # a JSON object


def child_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a process that runs `main()` of one of gemmlab's modules.

    The child runs the same gemmlab as its parent, installed or not. That one's directory is first on the search path
    for one import only, and -P keeps the working directory off the path: a source tree there may have no extensions.
    Modules are imported without garbage collection, which would take a sixth of the time and find nothing.
    """
    home = str(Path(__file__).parents[2])
    start = f"""import gc, sys
gc.disable()
sys.path.insert(0, {home!r})
import gemmlab
del sys.path[0]
from {module} import main
gc.freeze()
gc.enable()
main()"""
    return (sys.executable, "-P", "-c", start, *arguments)


class ChildFailed(Exception):
    """A child ended with another exit status than 0; the message is its last line."""

    def __init__(self, status: int, last_line: str) -> None:
        super().__init__(last_line)
        self.status = status


def ask_child(
    module: str, request: Mapping[str, object], *, environ: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Any:  # fmt: skip
    """Run `main()` of one of our modules on a request, both ways as JSON, and return the last line that it printed.

    ChildFailed if its exit status is not 0; subprocess.TimeoutExpired if there was no answer within `timeout_s`.
    """
    done = subprocess.run(
        child_command(module, json.dumps(request)), env={**os.environ, **(environ or {})}, capture_output=True,
        text=True, check=False, timeout=timeout_s,
    )  # fmt: skip
    if done.returncode != 0:
        raise ChildFailed(done.returncode, (done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])  # a driver may have printed something before


OPENMP_AFFINITY = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}  # each thread stays on a core, far from the others
CAN_SUSPEND = hasattr(signal, "SIGSTOP")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_EXIT_S = 2.0  # for a process to end by itself


class WorkerDied(Exception):
    """The worker ended, or was ended, without an answer; the message is a sentence for the record."""


class WorkerProcess:
    """One worker process: ask it, then close it.

    `threads` is set in its environment, where libraries look for it when they are loaded; None: they have their own
    number. With `affinity`, OpenMP keeps each thread on a separate core. Not for a device: its driver's threads would
    all inherit the core of the first.
    """

    def __init__(self, threads: int | None, command: Sequence[str], affinity: bool = True) -> None:
        # What a library prints goes to a file: not among the answers, and not across a progress bar.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by close
        self._exceeded_s: float | None = None
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, encoding="utf-8",
                env=_environment(threads, OPENMP_AFFINITY if affinity else {}),
            )  # fmt: skip
        except OSError as error:
            self._log.close()
            raise WorkerDied(f"its process cannot be started: {error.strerror or error}") from None

    def ask(self, command: str, limit_s: float, **arguments: object) -> Answer:
        """Send one command and wait for its answer.

        Raises
        ------
        WorkerDied
            If the process ends first, or gives no answer within `limit_s` and is killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), self._kill_after, [limit_s])
        watchdog.daemon = True
        watchdog.start()
        try:
            self._suspend(False)
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # a broken pipe
            line = ""
        finally:
            watchdog.cancel()
        if not line.endswith("\n"):
            raise WorkerDied(self._why_it_ended())
        self._suspend()
        answer: Answer = json.loads(line)
        return answer

    def close(self, gently: bool = True) -> None:
        """End the process and reap it; gently lets it finish by itself first."""
        self._suspend(False)
        if gently:
            with suppress(subprocess.TimeoutExpired, ValueError, OSError):
                self._process.communicate(timeout=_EXIT_S)
        self._process.kill()
        self._process.wait()
        self._log.close()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError):  # a command that a dead process never read
                pipe.close()

    def _suspend(self, suspended: bool = True) -> None:
        if CAN_SUSPEND:
            self._process.send_signal(signal.SIGSTOP if suspended else signal.SIGCONT)

    def _kill_after(self, limit_s: float) -> None:
        self._exceeded_s = limit_s
        self._process.kill()

    def _why_it_ended(self) -> str:
        """Why there was no answer, with the last line that the process printed."""
        self._process.kill()
        status = self._process.wait()
        if self._exceeded_s is not None:
            return f"no answer within {self._exceeded_s:g} s"
        ending = f"exit status {status}" if status >= 0 else _signal_name(-status)
        self._log.seek(0)
        last_lines = self._log.read().decode(errors="replace").strip().split("\n")[-1:]
        return ": ".join(filter(None, [f"its process ended ({ending})", *last_lines]))


def _environment(threads: int | None, defaults: Mapping[str, str]) -> dict[str, str]:
    """Our environment with the number of threads, which GEMMLAB_THREADS would override, and defaults for the rest."""
    if threads is None:
        return {**defaults, **os.environ}
    inherited = {name: value for name, value in os.environ.items() if name != "GEMMLAB_THREADS"}
    return {**defaults, **inherited} | dict.fromkeys(_THREAD_VARIABLES, str(threads))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
