"""One backend in a session: its process, started when first needed and again after a death, and its pace.

Whatever ends its run at a case early is an `Over` with a status and a reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gemmlab._gpu import RUNTIMES
from gemmlab._registry import plain
from gemmlab.measure.binding import cpu_numbers
from gemmlab.measure.problems import Case
from gemmlab.measure.process import WorkerDied, WorkerProcess
from gemmlab.measure.records import titled

_PROBE_GFLOP = 2e-9 * 128**3  # done in well under a second by anything
_PROBE_SHARE = 1 / 8  # of the cap: what a probe may take
_PROBE_GROWTH = 1.5  # a probe not so much larger than what is known already is not worth running
_PATIENCE_S, _PATIENCE_CAPS = 60.0, 20.0  # after the longer of the two, a silent worker hangs


class Over(Exception):
    """A run ends here."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Pace:
    """How fast a backend was at the work that it did last."""

    gflop: float
    gflop_per_s: float


class Entrant:
    """One backend in a session; `resident` has a device's operands be on the device beforehand."""

    def __init__(self, backend: str, threads: int, command: Sequence[str], resident: bool = False) -> None:
        self.backend = backend
        self.threads = threads
        self.resident = resident
        self.cap_s = float("inf")  # seconds that one product may take; each measurement sets it
        self.hello: dict[str, Any] = {}
        self._command = command
        self._process: WorkerProcess | None = None
        self._pace: dict[str, Pace] = {}  # by dtype and parameters
        self._never: tuple[str, str] | None = None  # status and reason of one that cannot run here

    def ask(self, command: str, more_s: float = 0.0, **arguments: Any) -> dict[str, Any]:
        """Ask the backend's process; `more_s` is time that the command itself asks for."""
        with self._mortal():
            answer = self._started().ask(command, self._patience_s + more_s, **arguments)
        if over := _over_by(answer):
            raise over
        return answer

    def start(self) -> None:
        """Start the process, so that `hello` says what it is; whatever stops it, later questions meet again."""
        with suppress(Over), self._mortal():
            self._started()

    @property
    def title(self) -> str:
        """The backend, and whether its times include transfers."""
        return titled(self.backend, self.transfers_counted)

    @property
    def on_device(self) -> bool:
        """Whether the backend runs on a device, as far as is known; until it says so, it does not."""
        return not self.hello.get("on_cpu", True)

    @property
    def transfers_counted(self) -> bool | None:
        """Whether moving operands to and from a device is in its times; None on a CPU."""
        return not self.resident if self.on_device else None

    def renew(self) -> None:
        """Have the next question start another process, where that is cheap: a device's compiles its kernels again."""
        if not self.on_device:
            self.close()

    def close(self, gently: bool = True) -> None:
        """End the process; a later question starts another."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None

    def prepare(self, case: Case, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the product once, have it checked, and remember how fast it was."""
        answer = self.ask("prepare", case=case.to_json(), params=dict(params))
        pace = Pace(case.gflop, case.gflop / max(answer["call_s"], 1e-9))
        self._pace[_kind_of_work(case, params)] = pace
        return answer

    def again(self, case: Case, params: Mapping[str, Any], call_s: float) -> None:
        """Have a product made again whose call was found to take so long."""
        self.ask("again", case=case.to_json(), params=dict(params), call_s=call_s)

    def predicted_s(self, case: Case, params: Mapping[str, Any]) -> float:
        """Seconds that one product will take, from the pace at smaller work; 0 for work that is small.

        A small product says little about a large one, so before a case is found too long, squares are
        tried that climb towards it, each as large as it can be and still be cheap.
        """
        while True:
            pace = self._pace.get(_kind_of_work(case, params))
            if pace is None and case.gflop <= _PROBE_GFLOP:
                return 0.0
            predicted_s = case.gflop / pace.gflop_per_s if pace else float("inf")
            cheap_gflop = pace.gflop_per_s * self.cap_s * _PROBE_SHARE if pace else _PROBE_GFLOP
            probe = _square(min(cheap_gflop, case.gflop), case.dtype)
            if predicted_s <= self.cap_s or (pace and probe.gflop < _PROBE_GROWTH * pace.gflop):
                return predicted_s
            self.prepare(probe, params)

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        """Turn the death of the process into the end of a run; one that died at its start stays dead."""
        if self._never is not None:
            raise Over(*self._never)
        try:
            yield
        except WorkerDied as death:
            self.close(gently=False)
            if not self.hello:
                self._never = "failed", str(death)
            raise Over("failed", str(death)) from None

    @property
    def _patience_s(self) -> float:
        return max(_PATIENCE_S, _PATIENCE_CAPS * self.cap_s)

    def _started(self) -> WorkerProcess:
        if self._process is None:
            on_runtime = plain(self.backend).partition("-")[0] in RUNTIMES
            self._process = WorkerProcess(self.threads, self._command, bound=not on_runtime)
            wish = {"backend": self.backend, "threads": self.threads, "resident": self.resident}
            hello = self._process.ask("hello", self._patience_s, **wish, cpus=cpu_numbers())
            if over := _over_by(hello):
                self._never = over.status, str(over)
                raise over
            self.hello = hello
        return self._process


def _over_by(answer: Mapping[str, Any]) -> Over | None:
    """Return how a run ends that got this answer; None if it goes on."""
    if "error" not in answer:
        return None
    if answer.get("unsupported"):
        return Over("skipped", str(answer["error"]).partition(": ")[2])
    return Over("failed", str(answer["error"]))


def _square(gflop: float, dtype: str) -> Case:
    """Return the largest square product of no more than this work."""
    edge = max(1, int(math.cbrt(gflop / 2e-9) + 1e-6))
    return Case("probe", str(edge), edge, edge, edge, dtype)


def _kind_of_work(case: Case, params: Mapping[str, Any]) -> str:
    return f"{case.dtype} {sorted(params.items())}"
