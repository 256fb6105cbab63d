"""The probe of a session: a process that does the same work before and after every turn, and says how fast.

It also waits: a neighbour of the machine often comes and goes within a tenth of a second, so where the probe is slower
than usual it is asked again, until it is not, or until too much of the session has gone by in waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter

from gemmlab.measure import noise
from gemmlab.measure.process import WorkerDied, WorkerProcess

PATIENCE_S = 60.0
FIRST_PROBES = 20  # what is usual is known from these on
MOST_PROBES = 10  # before one turn
WAITING_SHARE = 0.25  # of the session's time
FRESH_S = 5e-3  # what was said after one turn holds before the next, if that follows at once


class Prober:
    """The probe's process, and all that it has said; without a command it says nothing."""

    def __init__(self, command: Sequence[str] | None) -> None:
        self._command = command
        self._process: WorkerProcess | None = None
        self._said: list[float] = []
        self._start_s = self._waited_s = self._said_s = 0.0

    def start(self, threads: int) -> None:
        """Start it on so many threads; where it cannot run, there is no probe."""
        if self._command is not None and self._process is None:
            with suppress(WorkerDied):
                self._process = WorkerProcess(threads, self._command)
                if "error" in self._process.ask("hello", PATIENCE_S, threads=threads):
                    self.close(gently=False)
            self._start_s = perf_counter()
            for _ in range(FIRST_PROBES):
                self.probe()

    def probe(self) -> list[float]:
        """GFLOP/s of the machine now; nothing where there is no probe."""
        said = self._ask()
        self._said += said
        self._said_s = perf_counter()
        return said

    def latest(self) -> list[float]:
        """What was said just now, or else the answer to another probe."""
        return self._said[-1:] if perf_counter() - self._said_s < FRESH_S else self.probe()

    def calm(self) -> list[float]:
        """The same, asked again until it is as fast as usual, if there is time to wait for that.

        Only the first answer tells what is usual: a slow machine is not asked more often than a fast one.
        """
        said = self.latest()
        for _ in range(MOST_PROBES - 1):
            if self.is_calm(said) or not self.may_wait:
                break
            start_s = perf_counter()
            said = self._ask()
            self.waited(perf_counter() - start_s)
        return said

    def is_calm(self, said: Sequence[float]) -> bool:
        """Whether all of these were as fast as usual."""
        return noise.is_calm(said, self.usual)

    @property
    def may_wait(self) -> bool:
        """Whether the session can spare time for what has to be done again."""
        return self._waited_s < WAITING_SHARE * (perf_counter() - self._start_s)

    def waited(self, seconds: float) -> None:
        """So much of it was spent on that."""
        self._waited_s += seconds

    @property
    def usual(self) -> float | None:
        """The speed of an undisturbed probe in this session."""
        return noise.usual(self._said)

    @property
    def pace(self) -> float | None:
        """The same, once there are enough probes to tell this session's from another's."""
        return self.usual if len(self._said) >= noise.LEAST_PROBES else None

    def close(self, gently: bool = True) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None

    def _ask(self) -> list[float]:
        if self._process is None:
            return []
        try:
            return [self._process.ask("probe", PATIENCE_S)["gflop_per_s"]]
        except WorkerDied:
            self.close(gently=False)
            return []
