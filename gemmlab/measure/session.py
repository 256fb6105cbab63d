"""A measuring session: every backend isolated in its own process, all of them timed on the same products in rounds.

A round goes over all cases, smallest first. At each case every backend makes the operands, is timed for a while, and
has its result checked. Which backend is timed first changes from round to round, so a machine that slows down or speeds
up does so for all of them. Only the process that is being timed runs.

So the rounds of one case are some time apart, each with new operands and, on a CPU, in a new process. What the machine
does for a while, and where in memory a process happens to have its buffers, is then seen as a difference between
rounds, and not taken for the speed of a backend. Backends whose rounds disagree have more rounds (`noise.py`). Before
and after each round a probe does the same work, so that two runs at different clocks are not taken for equal.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import perf_counter
from types import TracebackType

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab.measure.environment import environment
from gemmlab.measure.isolated.backend import IsolatedBackend, Params
from gemmlab.measure.isolated.process import WORKER_COMMAND
from gemmlab.measure.isolated.speed_probe import SpeedProbe
from gemmlab.measure.measurement import Measurement
from gemmlab.measure.noise import MIN_ROUNDS
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record, complete

Progress = Callable[[int, int, str], None]
OnRecord = Callable[[Record], None]
Group = Sequence[Measurement]  # measurements of one case, whose operands fit into memory together
Key = tuple[str, int, int, bool]  # name, number of a set of parameters, threads, resident
MORE_TIME = 1.0  # for further rounds, as a multiple of the time of the planned ones
TRANSFERS = ("both", "with", "without")


@dataclass(frozen=True)
class Settings:
    """How a session measures.

    Attributes
    ----------
    params : mapping of str to mapping or sequence of mapping
        Parameters of a backend, by its name. Several sets of them are measured as if they were several backends.
    threads : int or None
        Threads of each product; None: `gemmlab.config.threads`, else all usable CPUs.
    transfers : {"both", "with", "without"}
        Whether moving operands to a device and the result back is in the times of a backend on a device, or both, in
        separate processes and records. A CPU moves nothing.
    cap_s : float
        A product that is predicted to take longer is skipped.
    rounds : int
        Rounds of each backend at each case. From three on their disagreement is known, and those that disagree have
        more, for at most as long again as all these rounds took.
    budget_s : float
        Seconds of timing of a backend at a case in all these rounds. Every round takes at least one sample.
    """

    params: Mapping[str, Params | Sequence[Params]] = field(default_factory=dict)
    threads: int | None = None
    transfers: str = "both"
    cap_s: float = 2.0
    rounds: int = 5
    budget_s: float = 1.0

    def __post_init__(self) -> None:
        if self.transfers not in TRANSFERS:
            raise ValueError(f"transfers is one of {', '.join(TRANSFERS)}, not {self.transfers!r}")


class Session:
    """Worker processes, and the records of what they measured.

    Parameters
    ----------
    run_id : str, optional
        In every record; made up if not given.
    worker_command : sequence of str, optional
        What to start as a worker.
    probe_command : sequence of str, optional
        What to start as a probe, such as `gemmlab.roofline.ceilings.probe_loop.COMMAND`. By default there is none.

    Examples
    --------
    >>> from gemmlab.measure import Session, Settings, squares
    >>> with Session() as session:  # doctest: +SKIP
    ...     records = session.measure(["cpu-naive", "cpu-blocked"], squares(), Settings(rounds=3))
    """

    def __init__(
        self, *, run_id: str | None = None, worker_command: Sequence[str] = WORKER_COMMAND,
        probe_command: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self._worker_command = worker_command
        self._probe = SpeedProbe(probe_command)
        self._environment = environment(pools=[])
        self._backends: dict[Key, IsolatedBackend] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(gently=kind is None)

    def close(self, gently: bool = True) -> None:
        """End all worker processes; gently lets each finish by itself first."""
        self._probe.close(gently)
        while self._backends:
            self._backends.popitem()[1].close(gently)

    def measure(
        self,
        backends: Sequence[str],
        cases: Sequence[Case],
        settings: Settings | None = None,
        *,
        progress: Progress | None = None,
        on_record: OnRecord | None = None,
    ) -> list[Record]:
        """Measure every backend at every case; one record each, for a backend on a device one or two.

        Parameters
        ----------
        backends : sequence of str
            Their names.
        cases : sequence of Case
            In any order; they are measured from the least work to the most.
        settings : Settings, optional
            How to measure.
        progress : callable, optional
            Called with steps done, all steps, and what comes next.
        on_record : callable, optional
            Called with each record as soon as it and those before it have no more rounds. After an interruption it has
            been called with everything that was measured.

        Returns
        -------
        list of dict
            Records of kind "gemm", as `docs/records.md` describes them.
        """
        settings = settings or Settings()
        steps = _Steps(progress)
        threads = settings.threads or config.threads or machine.usable_cpus()
        isolated = list(self._isolated(backends, settings, threads, steps))
        self._probe.start(threads)
        groups = [
            [Measurement(backend, case, params) for backend, params in together]
            for case in sorted(cases, key=lambda case: case.gflop) for together in _that_fit(isolated, case)
        ]  # fmt: skip
        records: list[Record] = []

        def finish(group: Group) -> None:
            for measurement in group:
                if measurement.has_result:
                    records.append(self._record(measurement))
                    if on_record is not None:
                        on_record(records[-1])

        _measure_in_rounds(groups, settings, self._probe, steps, finish)
        return records

    def _isolated(
        self, backends: Sequence[str], settings: Settings, threads: int, steps: _Steps
    ) -> Iterator[tuple[IsolatedBackend, Params]]:
        """Each backend's processes, started, with their parameters: for a device two, where both times are wanted."""
        for name in backends:
            steps.say(f"starting {name}")
            own = settings.params.get(name, {})
            for number, params in enumerate([own] if isinstance(own, Mapping) else own):
                resident = settings.transfers != "with"
                backend = self._started((name, number, threads, resident), settings.cap_s)
                yield backend, params
                if resident and settings.transfers == "both" and backend.on_device:
                    yield self._started((name, number, threads, False), settings.cap_s), params

    def _started(self, key: Key, cap_s: float) -> IsolatedBackend:
        """A backend's process; it and its rates are kept from one measurement to the next."""
        name, _, threads, resident = key
        backend = self._backends.setdefault(key, IsolatedBackend(name, threads, self._worker_command, resident))
        backend.cap_s = cap_s
        backend.start()
        return backend

    def _record(self, measurement: Measurement) -> Record:
        hello = measurement.backend.hello
        return complete(
            measurement.record(),
            run_id=self.run_id,
            device=hello.get("device") or machine.cpu_name(),
            environment={**self._environment, "thread_pools": hello.get("thread_pools", [])},
        )


class _Steps:
    """Counts steps for a progress display."""

    def __init__(self, progress: Progress | None) -> None:
        self._total = self._done = 0
        self._progress = progress

    def expect(self, groups: Sequence[Group], rounds: int) -> None:
        """So many rounds follow: two steps for each measurement."""
        self._total += 2 * rounds * sum(map(len, groups))

    def say(self, text: str) -> None:
        """Show what comes next."""
        if self._progress is not None:
            self._progress(self._done, max(self._total, 1), text)

    def take(self, measurement: Measurement, step: Callable[[], None]) -> None:
        """Show what comes next, and do it."""
        self.say(f"{measurement.backend.title} {measurement.case.label}")
        measurement.attempt(step)
        self._done += 1
        if self._done == self._total:
            self.say("")


def _measure_in_rounds(
    groups: Sequence[Group], settings: Settings, probe: SpeedProbe, steps: _Steps, finish: Callable[[Group], None]
) -> None:
    """The planned rounds for all; then more for those that disagree. `finish` is called with each group in order.

    A group is finished as soon as it and those before it have no more rounds, at the latest at an interruption.
    """
    unfinished = list(groups)
    start_s = perf_counter()
    steps.expect(groups, settings.rounds)
    round_s = settings.budget_s / settings.rounds
    extend = settings.rounds >= MIN_ROUNDS
    try:
        for number in range(settings.rounds):
            _restart(groups if number else [])
            for group in groups:
                _measure_round(group, number, round_s, probe, steps)
                if number == settings.rounds - 1 and group is unfinished[0] and not (extend and _that_need_more(group)):
                    finish(unfinished.pop(0))
        number, end_s = settings.rounds, perf_counter() + MORE_TIME * (perf_counter() - start_s)
        while extend and perf_counter() < end_s and (again := list(filter(None, map(_that_need_more, unfinished)))):
            steps.expect(again, 1)
            _restart(again)
            for group in again:
                _measure_round(group, number, round_s, probe, steps)
            number += 1
    finally:
        for group in unfinished:
            finish(group)


def _measure_round(group: Group, number: int, seconds: float, probe: SpeedProbe, steps: _Steps) -> None:
    """Prepare all, time one after the other, and check all; each round another is timed first."""
    for measurement in group:
        steps.take(measurement, measurement.prepare)
    first = number % len(group)
    before = probe.speed()
    for measurement in (*group[first:], *group[:first]):
        steps.take(measurement, partial(measurement.time, seconds))
        after = probe.speed()
        measurement.probes += before + after
        before = after
    for measurement in group:
        measurement.attempt(measurement.release)


def _that_need_more(group: Group) -> Group:
    return [measurement for measurement in group if measurement.needs_more_rounds]


def _restart(groups: Sequence[Group]) -> None:
    """A new process for each backend."""
    for backend in {measurement.backend for measurement in chain.from_iterable(groups)}:
        backend.restart()


def _that_fit(
    isolated: Sequence[tuple[IsolatedBackend, Params]], case: Case
) -> Iterator[Sequence[tuple[IsolatedBackend, Params]]]:
    """Groups whose operands, with as much again for copies, fill at most half the memory, a device's included."""
    devices = [backend.hello["memory_bytes"] for backend, _ in isolated if backend.on_device]
    together = max(1, min([_memory_bytes(), *devices]) // (4 * case.bytes_compulsory))
    for start in range(0, len(isolated), together):
        yield isolated[start : start + together]


def _memory_bytes() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 8 << 30
