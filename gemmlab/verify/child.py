"""An audit in a separate process, so that a crash is a result: of the backend that crashed, and of no other.

The parent sends the number of a check and a dtype, and gets the result. What is registered in this process alone is
audited here: the child would not know it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from gemmlab import _registry
from gemmlab._config import Scope, config, scope
from gemmlab._errors import GemmlabError
from gemmlab._process.child_server import serve
from gemmlab._process.children import Answer, WorkerDied, WorkerProcess, child_command
from gemmlab.verify.running import Result, run_check, supported

COMMAND = child_command("gemmlab.verify.child")
NO_LIMIT_S = float("inf")


class Crashed(Exception):
    """The process ended; the message says how."""


class Auditor:
    """Runs the checks of one backend, in a child where that can be; a context manager.

    UnknownBackend or BackendUnavailable where there is nothing to audit. Where there are several backends, the next
    one's can be made before it is needed: its child takes its time to start.
    """

    def __init__(self, backend: str) -> None:
        _registry.get(backend)
        self.backend = backend
        self._starting: WorkerProcess | None = None
        self._process: WorkerProcess | None = None
        if not _registry.is_of_this_process(backend):
            with suppress(WorkerDied):
                self._starting = WorkerProcess(None, COMMAND, affinity=False)

    def __enter__(self) -> Auditor:
        return self

    def __exit__(self, *_: object) -> None:
        for process in filter(None, (self._process, self._starting)):
            process.close(gently=False)
        self._process = self._starting = None

    def supported(self) -> list[str]:
        """See `running.supported`."""
        if self._child() is None:
            return supported(self.backend)
        found: list[str] = self._answer("supported", backend=self.backend)["dtypes"]
        return found

    def check(self, number: int, dtype: str, seed: int, thorough: bool) -> Result:
        """The result of a check. Crashed if there is none, and none will be of the others."""
        if self._child() is None:
            return run_check(self.backend, number, dtype, seed, thorough)
        what = {"number": number, "dtype": dtype, "seed": seed, "thorough": thorough}
        return Result(**self._answer("check", backend=self.backend, **what))

    def _child(self) -> WorkerProcess | None:
        """The child, with the settings of this process; None where no process can be started."""
        starting, self._starting = self._starting, None
        if starting is not None:
            try:
                starting.ask("hello", NO_LIMIT_S, settings=_settings())
                self._process = starting
            except WorkerDied:
                starting.close(gently=False)
        return self._process

    def _answer(self, command: str, **arguments: object) -> Answer:
        assert self._process is not None
        try:
            answer = self._process.ask(command, NO_LIMIT_S, **arguments)
        except WorkerDied as death:
            raise Crashed(str(death)) from None
        if "error" in answer:
            raise GemmlabError(f"the audit of {self.backend} cannot go on: {answer['error']}")
        return answer


def _settings() -> Answer:
    """What may be other than its default, as JSON."""
    return {
        "threads": (scope.get() or Scope()).threads or config.threads, "block": sorted(config.block),
        "cache_dir": str(config.cache_dir), "device_memory": config.device_memory,
    }  # fmt: skip


# In the child


def _hello(settings: dict[str, object]) -> Answer:
    for name, value in settings.items():
        setattr(config, name, value)
    return _settings()


def _supported(backend: str) -> Answer:
    return {"dtypes": supported(backend)}


def _check(**what: Any) -> Answer:
    return asdict(run_check(**what))


def main() -> None:
    """Answer commands from standard input."""
    serve({"hello": _hello, "supported": _supported, "check": _check})
