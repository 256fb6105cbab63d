"""A measuring session: every backend in a process of its own, taking turns on the same product.

A round goes over all cases, smallest first. In each, every backend prepares the product, has it checked, has one turn
at which it is timed, and is checked again; the first turn goes round, so that a machine which slows down or speeds up
meanwhile does so for all of them. Only the process whose turn it is runs.

So the turns of one case lie a whole round apart, each in new memory and, on the CPU, in a new process: what a machine
is like for a while, and where a process happens to have its buffers, is seen as a difference between turns, and not
taken for the speed of a backend. Those whose turns do not agree have more rounds, until they do or the time is up.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from time import perf_counter
from types import TracebackType
from typing import Any

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab.measure.entrant import Entrant
from gemmlab.measure.environment import environment
from gemmlab.measure.noise import LEAST_TURNS
from gemmlab.measure.prober import Prober
from gemmlab.measure.problems import Case
from gemmlab.measure.process import WORKER_COMMAND
from gemmlab.measure.records import complete
from gemmlab.measure.run import Run

Progress = Callable[[int, int, str], None]
OnRecord = Callable[[dict[str, Any]], None]
Params = Mapping[str, Any] | Sequence[Mapping[str, Any]]
MORE_TIME = 1.0  # of all rounds, for those that need more
TRANSFERS = ("both", "with", "without")


class Session:
    """Worker processes, and the records that come of them.

    Parameters
    ----------
    run_id : str, optional
        Stands in every record; made up if not given.
    worker_command : sequence of str, optional
        What to start as a worker.
    probe_command : sequence of str, optional
        What to start as a probe, such as `gemmlab.roofline.probe.COMMAND`: a process that does the same work before
        and after every turn, and says how fast. By default there is none.
    known_probe : float, optional
        GFLOP/s of the probe on this machine as a rule; in a session that is not near that, all records are noisy.

    Examples
    --------
    >>> from gemmlab.measure import Session, squares
    >>> with Session() as session:  # doctest: +SKIP
    ...     records = session.measure(["cpu-naive", "cpu-blocked"], squares())
    """

    def __init__(
        self, *, run_id: str | None = None, worker_command: Sequence[str] = WORKER_COMMAND,
        probe_command: Sequence[str] | None = None, known_probe: float | None = None,
    ) -> None:  # fmt: skip
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self._worker_command = worker_command
        self._probe = Prober(probe_command)
        self._known_probe = known_probe
        self._environment = environment(pools=[])
        self._entrants: dict[tuple[str, int, int, bool], Entrant] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(gently=kind is None)

    def close(self, gently: bool = True) -> None:
        """End all worker processes; gently lets each finish by itself first."""
        self._probe.close(gently)
        while self._entrants:
            self._entrants.popitem()[1].close(gently)

    @property
    def probe_gflop_per_s(self) -> float | None:
        """What the probe did in this session, undisturbed; None where there were too few to tell."""
        return self._probe.pace

    def measure(
        self,
        backends: Sequence[str],
        cases: Sequence[Case],
        *,
        params: Mapping[str, Params] | None = None,
        threads: int | None = None,
        transfers: str = "both",
        cap_s: float = 2.0,
        rounds: int = 5,
        budget_s: float = 1.0,
        progress: Progress | None = None,
        on_record: OnRecord | None = None,
    ) -> list[dict[str, Any]]:
        """Measure every backend at every case; a record each, for a backend on a device one or two.

        Parameters
        ----------
        backends : sequence of str
            Their names.
        cases : sequence of Case
            In any order; they are measured from the least work to the most.
        params : mapping of str to mapping or sequence of mapping, optional
            Parameters of a backend, by its name. Several sets of them take turns, each in a process of its own.
        threads : int, optional
            Threads of each product; by default `gemmlab.config.threads`, else all usable CPUs.
        transfers : {"both", "with", "without"}
            Whether moving operands to a device and the result back is in the times of a backend on a device, or
            both, in processes and records apart. A CPU moves nothing.
        cap_s : float
            A product that is predicted to take longer is skipped.
        rounds : int
            Turns that each backend has at a case. From three on they can be seen to disagree, and those which do have
            more, for as long again as all these rounds took.
        budget_s : float
            Seconds of timing that a backend has in so many turns. Every turn takes at least one sample.
        progress : callable, optional
            Called with steps done, steps in all, and what comes next.
        on_record : callable, optional
            Called with each record as soon as it and those before it have no more turns. When the measurement is
            interrupted, it has been called with everything that was measured.

        Returns
        -------
        list of dict
            Records of kind "gemm", as `docs/records.md` describes them.
        """
        if transfers not in TRANSFERS:
            raise ValueError(f"transfers is one of {', '.join(TRANSFERS)}, not {transfers!r}")
        count = threads or config.threads or machine.usable_cpus()
        given: dict[Entrant, Mapping[str, Any]] = {}
        for name in backends:
            if progress is not None:
                progress(0, 1, f"starting {name}")
            own = (params or {}).get(name, {})
            for number, choice in enumerate([own] if isinstance(own, Mapping) else own):
                given |= dict.fromkeys(self._entrants_of(name, number, count, cap_s, transfers), choice)
        entrants = list(given)
        self._probe.start(count)
        races = [
            [Run(entrant, case, given[entrant]) for entrant in together]
            for case in sorted(cases, key=lambda case: case.gflop) for together in _that_fit(entrants, case)
        ]  # fmt: skip
        records: list[dict[str, Any]] = []
        kept = 0

        def keep(some: Sequence[Sequence[Run]]) -> None:
            nonlocal kept
            for run in chain.from_iterable(some[kept:]):
                if run.worth_recording:
                    records.append(self._record(run))
                    if on_record is not None:
                        on_record(records[-1])
            kept = max(kept, len(some))

        try:
            _take_rounds(races, rounds, budget_s / rounds, self._probe, _Steps(progress), keep)
        finally:  # an interruption keeps what there is
            keep(races)
        return records

    def _entrants_of(self, backend: str, number: int, threads: int, cap_s: float, transfers: str) -> list[Entrant]:
        """One of a CPU; of a device two, where both times are wanted. `number` tells a backend's several apart."""
        first = self._entrant(backend, number, threads, cap_s, resident=transfers != "with")
        if transfers == "both" and first.on_device:
            return [first, self._entrant(backend, number, threads, cap_s, resident=False)]
        return [first]

    def _entrant(self, backend: str, number: int, threads: int, cap_s: float, resident: bool) -> Entrant:
        """The backend's process and pace are kept from one measurement to the next."""
        key = backend, number, threads, resident
        entrant = self._entrants.setdefault(key, Entrant(backend, threads, self._worker_command, resident))
        entrant.cap_s = cap_s
        entrant.start()
        return entrant

    def _record(self, run: Run) -> dict[str, Any]:
        hello = run.entrant.hello
        return complete(
            run.record(self._probe.usual, self._pace_percent),
            run_id=self.run_id,
            device=hello.get("device") or machine.cpu_name(),
            environment={**self._environment, "thread_pools": hello.get("thread_pools", [])},
        )

    @property
    def _pace_percent(self) -> float | None:
        """How far this session's machine is above what is known of it, or below: under 0."""
        pace, known = self._probe.pace, self._known_probe
        return None if pace is None or known is None else 100 * (pace / known - 1)


class _Steps:
    """Counts steps for a progress display."""

    def __init__(self, progress: Progress | None) -> None:
        self.total = self.done = 0
        self._progress = progress

    def expect(self, races: Sequence[Sequence[Run]], rounds: int) -> None:
        """So many rounds are to come, a preparation and a turn for each run."""
        self.total += 2 * rounds * sum(map(len, races))

    def next(self, run: Run, step: Callable[..., None], *arguments: Any) -> None:
        """Say what comes, and do it."""
        if self._progress is not None:
            self._progress(self.done, self.total, f"{run.entrant.title} {run.case.label}")
        run.attempt(step, *arguments)
        self.done += 1
        if self._progress is not None and self.done == self.total:
            self._progress(self.done, self.total, "")


def _take_rounds(
    races: Sequence[Sequence[Run]], rounds: int, turn_s: float, probe: Prober, steps: _Steps,
    keep: Callable[[Sequence[Sequence[Run]]], None],
) -> None:  # fmt: skip
    """So many rounds for all; then more for those whose turns disagree, for as long again.

    `keep` is called with the first races, those that are over.
    """
    start_s = perf_counter()
    steps.expect(races, rounds)
    over = True  # all races so far
    for number in range(rounds):
        _renew(races if number else [])
        for place, runs in enumerate(races, 1):
            _race(runs, number, turn_s, probe, steps)
            if number == rounds - 1:
                over &= rounds < LEAST_TURNS or not _unsure([runs], probe.usual)
                keep(races[:place] if over else [])
    end_s = perf_counter() + MORE_TIME * (perf_counter() - start_s)
    while rounds >= LEAST_TURNS and perf_counter() < end_s and (unsure := _unsure(races, probe.usual)):
        number += 1
        steps.expect(unsure, 1)
        _renew(unsure)
        for runs in unsure:
            _race(runs, number, turn_s, probe, steps)


def _unsure(races: Sequence[Sequence[Run]], usual_probe: float | None) -> list[list[Run]]:
    """The runs that need more turns, by their races."""
    unsure = [[run for run in runs if run.needs_more_turns(usual_probe)] for runs in races]
    return [runs for runs in unsure if runs]


def _renew(races: Sequence[Sequence[Run]]) -> None:
    """A new process for each entrant."""
    for entrant in {run.entrant for run in chain.from_iterable(races)}:
        entrant.renew()


def _race(runs: Sequence[Run], number: int, turn_s: float, probe: Prober, steps: _Steps) -> None:
    """Prepare all, time them in turns, and check them again."""
    for run in runs:
        steps.next(run, run.prepare)
    for run in _rotated(runs, number):
        steps.next(run, run.take_turn, turn_s, probe)
    for run in runs:
        run.attempt(run.finish)


def _rotated(runs: Sequence[Run], number: int) -> list[Run]:
    """The same runs, with another one first in each turn."""
    first = number % len(runs)
    return [*runs[first:], *runs[:first]]


def _that_fit(entrants: list[Entrant], case: Case) -> Iterator[list[Entrant]]:
    """Yield groups whose operands, with as much again for copies, fill at most half the memory, a device's included."""
    devices = [entrant.hello["memory_bytes"] for entrant in entrants if entrant.on_device]
    together = max(1, min([_memory_bytes(), *devices]) // (4 * case.bytes_compulsory))
    for start in range(0, len(entrants), together):
        yield entrants[start : start + together]


def _memory_bytes() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 8 << 30
