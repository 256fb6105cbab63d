"""The probe of a session: a process that does the same work before every turn, and says how fast."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from gemmlab.measure import noise
from gemmlab.measure.entrant import Run
from gemmlab.measure.process import WorkerDied, WorkerProcess

PATIENCE_S = 60.0


class Prober:
    """The probe's process, and all that it has said; without a command it says nothing."""

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command
        self._process: WorkerProcess | None = None
        self._said: list[float] = []

    def start(self, threads: int) -> None:
        """Start it on so many threads; where it cannot run, there is no probe."""
        if self._command is not None and self._process is None:
            with suppress(WorkerDied):
                self._process = WorkerProcess(threads, self._command)
                if "error" in self._process.ask("hello", PATIENCE_S, threads=threads):
                    self.close(gently=False)

    def before(self, run: Run) -> None:
        """Probe the machine before a run's turn."""
        if self._process is not None and run.status == "ok":
            try:
                speed = self._process.ask("probe", PATIENCE_S)["gflop_per_s"]
            except WorkerDied:
                self.close(gently=False)
                return
            self._said.append(speed)
            run.probes.append(speed)

    @property
    def usual(self) -> float | None:
        """The speed of an undisturbed probe in this session."""
        return noise.usual(self._said)

    def close(self, gently: bool = True) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None
