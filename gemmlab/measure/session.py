"""A measuring session: every backend isolated in a separate process, all of them timed on the same products in rounds.

A round goes over all cases, smallest first. At each case every backend makes the operands, is timed for a while, and
has its result checked. Which backend is timed first changes from round to round, so a machine that slows down or speeds
up does so for all of them. Only the process that is being timed runs.

So the rounds of one case are some time apart, each with new operands and, on a CPU, in a new process. What the machine
does for a while, and where in memory a process happens to have its buffers, is then seen as a difference between
rounds, and not taken for the speed of a backend. Backends whose rounds disagree have more rounds (`noise.py`). Before
and after each round a probe does the same work, so that two runs at different clocks are not taken for equal.

With a time limit the first round may take its share of the time: the largest products that find no place in it are
skipped, so that all others have every round. No product is prepared where that might end after the limit, by the
longest so far.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, takewhile
from time import perf_counter

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab.measure.environment import environment
from gemmlab.measure.isolated.backend import WORKER_COMMAND, IsolatedBackend, Params, SpeedProbe
from gemmlab.measure.measurement import Measurement
from gemmlab.measure.noise import MIN_ROUNDS
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record, complete

Progress = Callable[[int, int, str], None]
OnRecord = Callable[[Record], None]
OnRound = Callable[[int], None]  # with its number, from 0
Group = Sequence[Measurement]  # measurements of one case, whose operands fit into memory together
TRANSFERS = ("both", "with", "without")
PAIRED = "-paired"  # ends the run id of what another worker command measured


@dataclass(frozen=True)
class Settings:
    """How a session measures.

    `params` are parameters of backends, by their names; several sets of them are measured as if they were several
    backends. `transfers` ("both", "with" or "without") says whether a device's times include moving operands to it and
    the result back; both are separate records. With `cold`, the caches of the CPU are emptied before each timed call.
    With `paired_command`, each backend is also timed in a worker that this command starts, in turn with the others;
    the run id of its records ends with `PAIRED`.
    """

    params: Mapping[str, Params | Sequence[Params]] = field(default_factory=dict)
    threads: int | None = None  # None: `gemmlab.config.threads`, else all usable CPUs
    transfers: str = "both"
    cap_s: float = 2.0  # a product that is predicted to take longer is skipped
    rounds: int = 5  # of each backend at each case; from three on, those whose rounds disagree have more
    more_time: float = 1.0  # for further rounds, as a multiple of the time of the planned ones
    cold: bool = False
    budget_s: float = 1.0  # of timing of a backend at a case, in all rounds; each round has at least one sample
    limit_s: float = math.inf  # of everything: the largest products that leave no time for all rounds are left out
    paired_command: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.transfers not in TRANSFERS:
            raise ValueError(f"transfers is one of {', '.join(TRANSFERS)}, not {self.transfers!r}")

    @property
    def thread_count(self) -> int:
        """Threads of each product, as a number."""
        return self.threads or config.threads or machine.usable_cpus()


class Session:
    """Worker processes, and the records of what they measured.

    `run_id` is in every record. `worker_command` starts a worker, and `probe_command` a probe, such as
    `gemmlab.roofline.ceilings.probe_loop.COMMAND`; by default there is no probe.

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
        self._backends: dict[tuple[object, ...], IsolatedBackend] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(gently=kind is None)

    def close(self, gently: bool = True) -> None:
        """End all worker processes; gently lets each finish by itself first."""
        self._probe.close(gently)
        while self._backends:
            self._backends.popitem()[1].close(gently)

    def measure(
        self, backends: Sequence[str], cases: Sequence[Case], settings: Settings | None = None, *,
        progress: Progress | None = None, on_record: OnRecord | None = None, on_round: OnRound | None = None,
    ) -> list[Record]:  # fmt: skip
        """Measure backends, by their names, at cases: one record each, for a backend on a device one or two.

        Cases are measured from the least work to the most. `progress` is called with steps done, all steps, and what
        comes next; `on_round` before each planned round, when no worker runs; `on_record` with each record as soon as
        it and those before it have no more rounds. After an interruption it has been called with everything that was
        measured.

        Returns
        -------
        list of dict
            Records of kind "gemm", as `docs/records.md` describes them.
        """
        settings, show = settings or Settings(), progress or (lambda done, total, text: None)
        begun_s = perf_counter()
        isolated: list[tuple[IsolatedBackend, Params]] = []
        for name in backends:
            show(0, 1, f"starting {name}")
            for command in filter(None, (self._worker_command, settings.paired_command)):
                isolated += self._isolated(name, settings, command)
        self._probe.start(settings.thread_count)
        groups = [
            [
                Measurement(backend, case, params, planned=settings.rounds, cold=settings.cold)
                for backend, params in together
            ]
            for case in sorted(cases, key=lambda case: case.gflop) for together in _that_fit(isolated, case)
        ]  # fmt: skip
        records: list[Record] = []

        def finish(group: Group) -> None:
            for measurement in group:
                if measurement.has_result:
                    records.append(self._record(measurement))
                    if on_record is not None:
                        on_record(records[-1])

        rounds = _Rounds(settings, self._probe, show, begun_s + settings.limit_s, perf_counter() - begun_s)
        rounds.measure(groups, finish, on_round or (lambda number: None))
        return records

    def _isolated(
        self, name: str, settings: Settings, command: Sequence[str]
    ) -> Iterator[tuple[IsolatedBackend, Params]]:
        """A backend's processes, started, with their parameters: for a device two, where both times are wanted.

        A process and its rates are kept from one measurement to the next.
        """
        own = settings.params.get(name, {})
        for number, params in enumerate([own] if isinstance(own, Mapping) else own):
            for resident in {"both": (True, False), "with": (False,), "without": (True,)}[settings.transfers]:
                key = name, number, settings.thread_count, resident, tuple(command)
                new = IsolatedBackend(name, settings.thread_count, command, resident)
                backend = self._backends.setdefault(key, new)
                backend.cap_s = settings.cap_s
                backend.start()
                yield backend, params
                if not backend.on_device:
                    break

    def _record(self, measurement: Measurement) -> Record:
        hello = measurement.backend.hello
        return complete(
            measurement.record(),
            run_id=self.run_id + PAIRED * (measurement.backend.command != self._worker_command),
            device=hello.get("device") or machine.cpu_name(),
            environment={**self._environment, "thread_pools": hello.get("thread_pools", [])},
        )


class _Rounds:
    """The rounds of one call of `Session.measure`. Starting all processes takes `start_s`, again in each round."""

    def __init__(
        self, settings: Settings, probe: SpeedProbe, progress: Progress, end_s: float, start_s: float
    ) -> None:
        self._settings, self._probe, self._progress, self._end_s = settings, probe, progress, end_s
        self._start_s = start_s
        self._done = self._total = 0  # steps: two for each measurement in each round
        self._longest_s = self._preparing_s = 0.0  # of all preparations: the longest, and their sum

    def measure(self, groups: Sequence[Group], finish: Callable[[Group], None], on_round: OnRound) -> None:
        """Take the planned rounds of all, then more of those that disagree; call `finish` with each group in order.

        A group is finished as soon as it and those before it have no more rounds, at the latest at an interruption.
        """
        rounds = self._settings.rounds
        unfinished = list(groups)
        start_s = perf_counter()
        self._total = 2 * rounds * sum(map(len, groups))
        try:
            for number in takewhile(lambda _: self._is_time(), range(rounds)):
                on_round(number)
                _restart(groups if number else [])
                for group in groups if number else self._with_place(groups):
                    self._take(group, number)
                    if number == rounds - 1 and group is unfinished[0] and not self._with_more(group):
                        finish(unfinished.pop(0))
            more_s = self._settings.more_time * (perf_counter() - start_s)
            number, self._end_s = rounds, min(self._end_s, perf_counter() + more_s)
            while self._is_time() and (again := list(filter(None, map(self._with_more, unfinished)))):
                self._total += 2 * sum(map(len, again))
                _restart(again)
                for group in again:
                    self._take(group, number)
                number += 1
            for measurement in chain.from_iterable(unfinished):
                measurement.attempt(measurement.require_a_round)
        finally:
            for group in unfinished:
                finish(group)

    def _with_place(self, groups: Sequence[Group]) -> Iterator[Group]:
        """The groups of the first round, until those left would take the time of later rounds; one at least.

        In a later round a group takes what it took in the first one, but its operands are made and not checked.
        """
        rounds = self._settings.rounds
        later_s = (rounds - 1) * self._start_s  # of all groups so far
        largest_s = 0.0  # of a group, in all rounds
        for position, group in enumerate(groups):
            begun_s, preparing_s = perf_counter(), self._preparing_s
            if position and begun_s + later_s + largest_s > self._end_s:
                break
            yield group
            whole_s = perf_counter() - begun_s
            again_s = whole_s - (self._preparing_s - preparing_s) + sum(one.operands_s for one in group)
            later_s += (rounds - 1) * again_s
            largest_s = max(largest_s, whole_s + (rounds - 1) * again_s)
        else:
            return
        for measurement in chain.from_iterable(groups[position:]):
            measurement.attempt(measurement.leave_out)
            self._done += 2

    def _is_time(self) -> bool:
        """Whether there is time for another preparation, should it take as long as the longest."""
        return perf_counter() + self._longest_s < self._end_s

    def _with_more(self, group: Group) -> Group:
        """The measurements that need more rounds."""
        enough = self._settings.rounds < MIN_ROUNDS
        return [] if enough else [measurement for measurement in group if measurement.needs_more_rounds]

    def _take(self, group: Group, number: int) -> None:
        """One round: prepare all, time one after the other, and check all; each round another is timed first."""
        prepared = []
        going_on = [measurement for measurement in group if measurement.status == "ok"]
        self._done += 2 * (len(group) - len(going_on))
        for measurement in takewhile(lambda _: self._is_time(), going_on):
            begun_s = perf_counter()
            self._step(measurement, measurement.prepare)
            self._longest_s = max(self._longest_s, perf_counter() - begun_s)
            self._preparing_s += perf_counter() - begun_s
            prepared.append(measurement)
        first, seconds = number % max(1, len(prepared)), self._settings.budget_s / self._settings.rounds
        before = self._probe.speed() if prepared else []
        for measurement in (*prepared[first:], *prepared[:first]):
            self._step(measurement, partial(measurement.time, seconds))
            after = self._probe.speed()
            measurement.probes += before + after
            before = after
        for measurement in prepared:
            measurement.attempt(measurement.release)

    def _step(self, measurement: Measurement, step: Callable[[], None]) -> None:
        self._progress(self._done, self._total, f"{measurement.backend.title} {measurement.case.label}")
        measurement.attempt(step)
        self._done += 1
        if self._done == self._total:
            self._progress(self._done, self._total, "")


def _restart(groups: Sequence[Group]) -> None:
    """A new process for each backend."""
    for backend in {measurement.backend for measurement in chain.from_iterable(groups)}:
        backend.restart()


def _that_fit(
    isolated: Sequence[tuple[IsolatedBackend, Params]], case: Case
) -> Iterator[Sequence[tuple[IsolatedBackend, Params]]]:
    """Groups whose operands, with as much again for copies, fill at most half the memory, a device's included."""
    devices = [backend.hello["memory_bytes"] for backend, _ in isolated if backend.on_device]
    together = max(1, min([machine.memory_bytes(), *devices]) // (4 * case.bytes_compulsory))
    for start in range(0, len(isolated), together):
        yield isolated[start : start + together]
