"""One backend of a session, isolated in a process that starts when it is first needed, and again after a death.

Whatever ends the measurement of a case early is a `NotMeasured` with a status and a reason.

Beside the backends a session has a probe of the machine's speed: a process that does the same work between all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict

from gemmlab._name import BackendName
from gemmlab._process.children import Answer, WorkerDied, WorkerProcess, child_command
from gemmlab.measure.isolated.affinity import cpu_numbers
from gemmlab.measure.problems import Case
from gemmlab.measure.records import titled

WORKER_COMMAND = child_command("gemmlab.measure.isolated.worker")
_TRIAL_GFLOP = 2e-9 * 128**3  # any backend does it in well under a second
_TRIAL_SHARE = 1 / 8  # of the cap: what a trial may take
_TRIAL_GROWTH = 1.5  # a trial must be this much larger than what was run before
_DISTURBED = 0.5  # of the best rate so far: a call this slow may have met another program, and is tried again
_TIMEOUT_S, _TIMEOUT_CAPS = 60.0, 20.0  # a worker that is silent for the longer of the two hangs
_PROBE_TIMEOUT_S = 60.0

Params = Mapping[str, object]


def worker_of(python: str) -> tuple[str, ...]:
    """The command of a worker in another Python, with the gemmlab that is installed there."""
    return python, "-P", "-c", "from gemmlab.measure.isolated.worker import main\nmain()"


class NotMeasured(Exception):
    """The measurement of a case ends here."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class IsolatedBackend:
    """One backend in a session; with `resident`, a device's operands are on the device beforehand."""

    def __init__(self, backend: str, threads: int, command: Sequence[str], resident: bool = False) -> None:
        self.backend = backend
        self.threads = threads
        self.resident = resident
        self.cap_s = float("inf")  # seconds that one product may take; each measurement sets it
        self.hello: Answer = {}
        self.command = command
        self._process: WorkerProcess | None = None
        self._last: dict[str, tuple[float, float]] = {}  # GFLOP, and GFLOP/s at it, by dtype and parameters
        self._best: dict[str, float] = {}  # GFLOP/s, of all sizes so far
        self._cannot_run: tuple[str, str] | None = None  # status and reason

    def ask(self, command: str, more_s: float = 0.0, **arguments: object) -> Answer:
        """Ask the backend's process; `more_s` is time that the command itself asks for."""
        with self._death_ends_measurement():
            answer = self._started().ask(command, self._timeout_s + more_s, **arguments)
        _raise_if_error(answer)
        return answer

    def start(self) -> None:
        """Start the process, so that `hello` is filled; an error is raised again by later questions."""
        with suppress(NotMeasured), self._death_ends_measurement():
            self._started()

    @property
    def title(self) -> str:
        """The backend, and whether its times include transfers."""
        return titled(self.backend, self.transfers_counted)

    @property
    def on_device(self) -> bool:
        """Whether the backend runs on a device; False until its process has said so."""
        return not self.hello.get("on_cpu", True)

    @property
    def transfers_counted(self) -> bool | None:
        """Whether moving operands to and from a device is in its times; None on a CPU."""
        return not self.resident if self.on_device else None

    def restart(self) -> None:
        """Have the next question start a new process; not for a device, which would compile its kernels again."""
        if not self.on_device:
            self.close()

    def close(self, gently: bool = True) -> None:
        """End the process; a later question starts another."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None

    def prepare(self, case: Case, params: Params) -> Answer:
        """Run the product once, have it checked, and remember how fast it was."""
        answer = self.ask("prepare", case=asdict(case), params=dict(params))
        sort, rate = _sort_of_work(case, params), case.gflop / max(answer["call_s"], 1e-9)
        self._last[sort] = case.gflop, rate
        self._best[sort] = max(rate, self._best.get(sort, 0.0))
        return answer

    def prepare_again(self, case: Case, params: Params, call_s: float) -> None:
        """Make a product's operands anew; one call is known to take `call_s`."""
        self.ask("prepare_again", case=asdict(case), params=dict(params), call_s=call_s)

    def predicted_s(self, case: Case, params: Params) -> float:
        """Seconds that one product will take, from the rate at smaller work; 0 for work that is small.

        The rate of a small product says little about a large one. So before a case is found too long, trials are run:
        squares of growing size, each as large as is still cheap. And a rate far below an earlier one is measured again:
        else one disturbed call would end the backend's measurements.
        """
        sort = _sort_of_work(case, params)
        if sort not in self._last:
            if case.gflop <= _TRIAL_GFLOP:
                return 0.0
            self.prepare(_square(_TRIAL_GFLOP, case.dtype), params)
        tried_again = False
        while True:
            gflop, rate = self._last[sort]
            if case.gflop / rate <= self.cap_s:
                return case.gflop / rate
            trial = _square(min(rate * self.cap_s * _TRIAL_SHARE, case.gflop), case.dtype)
            if trial.gflop < _TRIAL_GROWTH * gflop:
                if tried_again or rate > _DISTURBED * self._best[sort]:
                    return case.gflop / rate
                tried_again, trial = True, _square(gflop, case.dtype)
            self.prepare(trial, params)

    @contextmanager
    def _death_ends_measurement(self) -> Iterator[None]:
        """Turn the death of the process into `NotMeasured`; after a death at the start there is no other attempt."""
        if self._cannot_run is not None:
            raise NotMeasured(*self._cannot_run)
        try:
            yield
        except WorkerDied as death:
            self.close(gently=False)
            if not self.hello:
                self._cannot_run = "failed", str(death)
            raise NotMeasured("failed", str(death)) from None

    @property
    def _timeout_s(self) -> float:
        return max(_TIMEOUT_S, _TIMEOUT_CAPS * self.cap_s)

    def _started(self) -> WorkerProcess:
        if self._process is None:
            on_cpu = not BackendName.of(self.backend).on_runtime
            self._process = WorkerProcess(self.threads, self.command, affinity=on_cpu)
            who = {"backend": self.backend, "threads": self.threads, "resident": self.resident}
            hello = self._process.ask("hello", self._timeout_s, **who, cpus=cpu_numbers())
            try:
                _raise_if_error(hello)
            except NotMeasured as end:
                self._cannot_run = end.status, str(end)
                raise
            self.hello = hello
        return self._process


class SpeedProbe:
    """The probe's process; without a command, or where it cannot run, there are no probes."""

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command
        self._process: WorkerProcess | None = None

    def start(self, threads: int) -> None:
        """Start it on this number of threads, unless it runs."""
        if self._command is not None and self._process is None:
            with suppress(WorkerDied):
                self._process = WorkerProcess(threads, self._command)
                if "error" in self._process.ask("hello", _PROBE_TIMEOUT_S, threads=threads):
                    self.close(gently=False)

    def speed(self) -> list[float]:
        """GFLOP/s of the machine now, one number; empty where there is no probe."""
        if self._process is None:
            return []
        try:
            return [self._process.ask("probe", _PROBE_TIMEOUT_S)["gflop_per_s"]]
        except WorkerDied:
            self.close(gently=False)
        return []

    def close(self, gently: bool = True) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None


def _raise_if_error(answer: Answer) -> None:
    if "error" in answer:
        if answer.get("unsupported"):
            raise NotMeasured("skipped", str(answer["error"]).partition(": ")[2])
        raise NotMeasured("failed", str(answer["error"]))


def _square(gflop: float, dtype: str) -> Case:
    """The largest square product of no more than this work."""
    edge = max(1, int(math.cbrt(gflop / 2e-9) + 1e-6))
    return Case("trial", str(edge), edge, edge, edge, dtype)


def _sort_of_work(case: Case, params: Params) -> str:
    return f"{case.dtype} {sorted(params.items())}"
