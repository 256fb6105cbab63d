"""The probe of a session: a process that does the same work between all measurements, and says how fast."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from gemmlab.measure.isolated.process import WorkerDied, WorkerProcess

TIMEOUT_S = 60.0


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
                if "error" in self._process.ask("hello", TIMEOUT_S, threads=threads):
                    self.close(gently=False)

    def speed(self) -> list[float]:
        """GFLOP/s of the machine now, one number; empty where there is no probe."""
        if self._process is None:
            return []
        try:
            return [self._process.ask("probe", TIMEOUT_S)["gflop_per_s"]]
        except WorkerDied:
            self.close(gently=False)
        return []

    def close(self, gently: bool = True) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None
