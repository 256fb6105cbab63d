"""A worker seen from the session: a child process that does one thing at a time, or stands still.

The worker is asked and answers in lines of JSON. Between two questions it is suspended, so that its idle
threads cannot take time from whoever is being measured; where the system has no SIGSTOP it keeps running,
and the records say so.
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


def child_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a process that runs `main()` of one of gemmlab's modules.

    The child runs the very gemmlab that its parent runs, installed or not. That one's folder leads the search
    path for one import only, and -P keeps the working directory off it: a source tree there may have no extensions.
    """
    home = str(Path(__file__).parents[2])
    start = f"""import sys
sys.path.insert(0, {home!r})
import gemmlab
del sys.path[0]
from {module} import main
main()"""
    return (sys.executable, "-P", "-c", start, *arguments)


class ChildFailed(Exception):
    """A child ended with another exit status than 0; the message is its last line."""

    def __init__(self, status: int, last_line: str) -> None:
        super().__init__(last_line)
        self.status = status


def ask_child(
    module: str, wish: Mapping[str, Any], *, environ: Mapping[str, str] | None = None, patience_s: float | None = None
) -> Any:
    """Run `main()` of one of our modules on a wish, both ways as JSON, and return the last line that it printed.

    Raises
    ------
    ChildFailed
        If it ended badly.
    subprocess.TimeoutExpired
        If it gave no answer in time.
    """
    done = subprocess.run(
        child_command(module, json.dumps(wish)), env={**os.environ, **(environ or {})}, capture_output=True, text=True,
        check=False, timeout=patience_s,
    )  # fmt: skip
    if done.returncode != 0:
        raise ChildFailed(done.returncode, (done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])  # a driver may have had something to say before


BOUND = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}  # threads stay on cores of their own, and far apart
WORKER_COMMAND = child_command("gemmlab.measure.worker")
CAN_SUSPEND = hasattr(signal, "SIGSTOP")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_GOODBYE_S = 2.0


class WorkerDied(Exception):
    """The worker ended, or was ended, without an answer; the message is a sentence for the record."""


class WorkerProcess:
    """One worker process. Ask it; close it.

    Parameters
    ----------
    threads : int
        Set in the environment of the process, where libraries look for it when they are loaded.
    command : sequence of str, optional
        What to start.
    bound : bool
        Whether OpenMP's threads are to stay on cores of their own. The first of them is the one that a device's
        driver starts its own threads from, so that those would share its core.
    """

    def __init__(self, threads: int, command: Sequence[str] = WORKER_COMMAND, bound: bool = True) -> None:
        # A library's chatter goes to a file: not among the answers, and not across a progress bar.
        self._chatter = tempfile.TemporaryFile()  # noqa: SIM115, closed by close
        self._overdue_s: float | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._chatter,
                env=_environment(threads, BOUND if bound else {}),
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            self._chatter.close()
            raise WorkerDied(f"its process cannot be started: {error.strerror or error}") from None

    def ask(self, command: str, limit_s: float, **arguments: Any) -> dict[str, Any]:
        """Send one command and wait for its answer, asleep.

        Raises
        ------
        WorkerDied
            If the process ends first, or gives no answer within `limit_s` and is killed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), self._kill_as_overdue, [limit_s])
        watchdog.daemon = True
        watchdog.start()
        try:
            self._resume()
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # a broken pipe
            line = ""
        finally:
            watchdog.cancel()
        if not line.endswith("\n"):
            raise WorkerDied(self._obituary())
        self._suspend()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self, gently: bool = True) -> None:
        """End the process and reap it; gently lets it finish by itself first."""
        self._resume()
        if gently:
            with suppress(subprocess.TimeoutExpired, ValueError, OSError):
                self._process.communicate(timeout=_GOODBYE_S)
        self._process.kill()
        self._process.wait()
        self._chatter.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a command that a dead process never read
                    pipe.close()

    def _suspend(self) -> None:
        if sys.platform != "win32":
            self._process.send_signal(signal.SIGSTOP)

    def _resume(self) -> None:
        if sys.platform != "win32":
            self._process.send_signal(signal.SIGCONT)

    def _kill_as_overdue(self, limit_s: float) -> None:
        self._overdue_s = limit_s
        self._process.kill()

    def _obituary(self) -> str:
        """Say why there was no answer, with the last thing that the process said."""
        self._process.kill()
        status = self._process.wait()
        if self._overdue_s is not None:
            return f"no answer within {self._overdue_s:g} s"
        ending = f"exit status {status}" if status >= 0 else _signal_name(-status)
        last_words = self._last_words()
        return f"its process ended ({ending})" + (f": {last_words}" if last_words else "")

    def _last_words(self) -> str:
        self._chatter.seek(0)
        lines = self._chatter.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _environment(threads: int, more: Mapping[str, str]) -> dict[str, str]:
    """Our environment with the number of threads, which GEMMLAB_THREADS would override, and more that it lacks."""
    inherited = {name: value for name, value in os.environ.items() if name != "GEMMLAB_THREADS"}
    return {**more, **inherited} | dict.fromkeys(_THREAD_VARIABLES, str(threads))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
