"""`gemmlab tune cpu-packed`: the block sizes that are fastest on this machine, and what a team of threads costs.

Some configurations and the fastest so far are measured together, as backends are: each in an isolated process, in
interleaved rounds, on several squares. Their products of integers are checked for exact results first. At the end the
fastest, or of those about as fast the one most like the defaults, is measured beside the defaults. It is kept if it is
faster by more than `MIN_GAIN`, and noise does not explain that.

The log has one entry for each configuration. Its times are those of all squares, each scaled to the work of the
largest one, which is the entry's shape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import geometric_mean, median
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from gemmlab import _front, _profile
from gemmlab._api import get_backend, matmul
from gemmlab._cpu import isa
from gemmlab._cpu.threads._threads import max_threads
from gemmlab._version import __version__
from gemmlab.measure import Session, Settings, sized
from gemmlab.measure.comparison import is_good, ratio
from gemmlab.measure.noise import interval_percent, summarise, why_noisy
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings.probe_loop import COMMAND
from gemmlab.tune.evidence import Disturbed, Gain, Undecided
from gemmlab.tune.search import log as logs
from gemmlab.tune.search.clock import Clock
from gemmlab.tune.search.log import Log
from gemmlab.tune.search.ranking import Values
from gemmlab.tune.search.space import Space
from gemmlab.tune.search.strategy import Strategy

EDGES = (384, 768, 1536)
TOGETHER = 8  # configurations that are measured beside the fastest so far
MIN_GAIN = 0.02
FIRST_ROUNDS = 2  # in which a configuration is found to be worth a longer look
BUDGET_S = 0.5  # of timing of a configuration at an edge, in the last comparison
UNTUNED = {"bool", "bfloat16"}  # products of bool are no sums; NumPy has no bfloat16
TEAM_EDGE = 96  # of the product that shows the cost of a team
TEAM_CALLS = 50  # of it in a sample
MORE_ROUNDS = 6  # times as many where the rounds of it disagree
Blocks = dict[str, Any]  # parameters
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Tuned:
    """The result for one dtype: the parameters, and the speed with the defaults and with them, in GFLOP/s."""

    dtype: str
    parameters: Mapping[str, int]
    before: float
    after: float

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        return f"{self.dtype:<10}  {said}: {self.after:.4g} GFLOP/s, before {self.before:.4g}"

    def stored(self) -> Mapping[str, int]:
        """What the profile stores: block sizes only if they beat the defaults, which may improve later."""
        cost = {"team_flop": self.parameters["team_flop"]}
        return self.parameters if self.after > self.before else cost


class BlocksSearch:
    """A search of the parameters of cpu-packed.

    Parameters
    ----------
    dtypes : sequence of str
        They are tuned one by one.
    rounds : int
        How often the fastest and the defaults run at the end.
    edges : sequence of int
        Edges of the squares that are multiplied.
    minutes : float
        How long to search; a last comparison follows.
    log : Path, optional
        A file to go on from, or a new one. By default one in `config.cache_dir`.

    Raises
    ------
    ValueError
        For a dtype that cpu-packed does not tune.
    """

    def __init__(
        self, dtypes: Sequence[str], rounds: int, edges: Sequence[int] = EDGES, minutes: float = 5.0,
        log: Path | None = None,
    ) -> None:  # fmt: skip
        chosen: Any = get_backend("cpu-packed")
        self.chosen = chosen
        self._known = sorted({dtype for dtype, out in chosen.kernels if dtype == out} - UNTUNED)
        if wrong := next((dtype for dtype in dtypes if dtype not in self._known), None):
            raise ValueError(f"{self.chosen.name}: dtype must be one of {', '.join(self._known)}, not {wrong!r}")
        self.dtypes, self.rounds, self.edges = tuple(dtypes), rounds, tuple(sorted(set(edges)))
        self.seconds, self._log = 60 * minutes, log
        self.log_path: Path | None = None  # known once it is open
        self.found: list[Tuned | Disturbed] = []

    def run(self, progress: Progress | None = None) -> list[Tuned | Disturbed]:
        """Search, and store the best of each dtype that no noise disturbed, as soon as its last comparison is done.

        Raises
        ------
        CannotGoOn, CannotWrite
            If the log is of another search, or cannot be written.
        """
        header = self._header()
        with Log(self._log or logs.usual_path(header), header) as log, Session(probe_command=COMMAND) as session:
            self.log_path = log.path
            clock = Clock(self.seconds, self.dtypes, progress or (lambda done, total, doing: None))
            for dtype in self.dtypes:
                clock.begin(dtype)
                one = _OneDtype(self, dtype, session, log, clock).result()
                self._keep(one)
                self.found.append(one)
            clock.end()
        return self.found

    def _keep(self, one: Tuned | Disturbed) -> None:
        """Store a result in the profile."""
        if isinstance(one, Tuned):
            _profile.store(isa.profile_name(), self.chosen.name, {one.dtype: one.stored()})
            self.chosen.forget()
            _front.settings_changed()  # the compiled way has the old parameters

    def defaults(self, dtype: str) -> Blocks:
        """The parameters of cpu-packed without a profile."""
        return dict(zip(self.chosen.params, self.chosen.usual_blocks(dtype, dtype), strict=True))

    def _header(self) -> dict[str, Any]:
        compiled = Path(sys.modules[type(self.chosen.kernel).__module__].__file__ or "").read_bytes()
        return {
            "gemmlab_tune": logs.VERSION, "backend": self.chosen.name, "device": isa.profile_name(),
            "driver": f"{max_threads()} threads, squares of {', '.join(map(str, self.edges))}",
            "text_sha256": sha256(compiled).hexdigest(), "names": list(self.chosen.params),
            "defaults": {dtype: list(self.defaults(dtype).values()) for dtype in self._known},
            "seed": int(np.random.SeedSequence().generate_state(1)[0]), "dtypes": self.dtypes,
            "shapes": [[self.edges[-1]] * 3], "label": isa.profile_name(), "gemmlab": __version__,
            "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip


class _OneDtype:
    """The search for one dtype."""

    def __init__(self, search: BlocksSearch, dtype: str, session: Session, log: Log, clock: Clock) -> None:
        self.search, self.dtype, self.session, self.log, self.clock = search, dtype, session, log, clock
        usual = search.defaults(dtype)
        self.defaults: Values = tuple(usual.values())
        choices = {name: sorted({*param.choices, usual[name]}) for name, param in search.chosen.params.items()}
        self.space = Space(choices)
        edge = search.edges[-1]
        self.ranking = logs.ranking_of((dtype, (edge, edge, edge)), log.entries)
        rng = np.random.default_rng([log.header["seed"], len(log.entries)])
        self.strategy = Strategy(self.space, [self.ranking], set(self.ranking.outcomes), [self.defaults], rng)

    def result(self) -> Tuned | Disturbed:
        """What is kept: the fastest, or the defaults. What noise may explain is not."""
        try:
            while not self.log.is_full and (self.clock.left_s > 0 or self.ranking.best is None):
                some = [values for _ in range(TOGETHER) if (values := self.strategy.next(self.clock.share)) is not None]
                if not some:
                    break
                self._try(some)
            if self.ranking.best is None:
                raise Undecided("no configuration gave right products")
            return self._compared_with_defaults()
        except Undecided as noise:
            return Disturbed(self.dtype, str(noise))

    def _try(self, some: Sequence[Values]) -> None:
        """Measure some configurations beside the fastest so far, and rank those that are right."""
        right = [values for values in some if self._is_right(values)]
        together = [*([] if self.ranking.best is None else [self.ranking.best]), *right]
        records = self._measured(together, min(FIRST_ROUNDS, self.search.rounds))
        times = {values: self._scaled(self.space.parameters(values), records) for values in together}
        if self.defaults in right and not times[self.defaults]:
            raise Undecided(f"the defaults: not measured ({self._reason(self.defaults, records)})")
        for values in right:
            if own := times[values]:
                best = [] if self.ranking.best is None else times[self.ranking.best]
                self._note(values, {"outcome": "measured", "times_s": own, "best_times_s": best})
            else:
                self._note(values, {"outcome": "failed", "reason": self._reason(values, records)})

    def _reason(self, values: Values, records: Sequence[Record]) -> str:
        """Why a configuration has no time at an edge."""
        choice = self.space.parameters(values)
        return next((one["reason"] for one in records if one["reason"] and one["params"] == choice), "no time")

    def _is_right(self, values: Values) -> bool:
        if is_right(self.search.chosen, self.dtype, self.space.parameters(values)):
            return True
        self._note(values, {"outcome": "wrong", "reason": "its product of whole numbers is wrong"})
        return False

    def _measured(self, together: Sequence[Values], rounds: int) -> Sequence[Record]:
        budget_s = BUDGET_S * rounds / self.search.rounds
        name, choices = self.search.chosen.name, [self.space.parameters(values) for values in together]
        settings = Settings(params={name: choices}, rounds=rounds, budget_s=budget_s, cap_s=5.0)

        def show(done: int, total: int, doing: str) -> None:
            best = self.ranking.rates[self.ranking.best] if self.ranking.best else 0.0
            self.clock.tell(f"{self.dtype}: {len(self.ranking.outcomes)} tried, {best:.4g} GFLOP/s")

        return self.session.measure([name], sized(self.search.edges, self.dtype), settings, progress=show)

    def _scaled(self, choice: Blocks, records: Sequence[Record]) -> list[float]:
        """Seconds of a configuration at every edge, scaled to the work of the largest; none if one is missing."""
        own = {one["problem"]["n"]: one["median_s"] for one in records if is_good(one) and one["params"] == choice}
        if own.keys() < set(self.search.edges):
            return []
        return [float(f"{own[edge] * (self.search.edges[-1] / edge) ** 3:.5g}") for edge in self.search.edges]

    def _note(self, values: Values, answer: Mapping[str, Any]) -> None:
        seconds = round(self.log.before_s + monotonic() - self.clock.start_s, 3)
        shape = self.ranking.shape if answer["outcome"] == "measured" else None
        entry = {"seconds": seconds, "dtype": self.dtype, "shape": shape, "values": values, **answer}
        self.ranking.add(values, entry)
        self.log.append(entry)

    def _compared_with_defaults(self) -> Tuned:
        chosen, usual = self.search.chosen, self.space.parameters(self.defaults)
        fastest = self._best()
        best = self.space.parameters(fastest)
        cost = {"team_flop": _team_flop(chosen, self.dtype, best, self.search.rounds)}
        if best == usual:
            speed = self.ranking.rates[self.defaults]
            m, n, k = self.ranking.shape
            same_s = [2e-9 * m * n * k / speed]
            self._note_last(fastest, same_s, same_s, False)
            return Tuned(self.dtype, usual | cost, speed, speed)
        records = self._measured([self.defaults, fastest], self.search.rounds)
        speed, gains = _gains("all together", [usual, best], records)
        is_kept = False
        try:
            is_kept = 1 in gains and gains[1].is_over(MIN_GAIN)
        finally:  # also where noise may explain it
            self._note_last(fastest, self._scaled(best, records), self._scaled(usual, records), is_kept)
        if is_kept:
            return Tuned(self.dtype, best | cost, speed, speed * gains[1].ratio)
        return Tuned(self.dtype, usual | cost, speed, speed)

    def _note_last(self, values: Values, own: Sequence[float], of_defaults: Sequence[float], is_kept: bool) -> None:
        """Write the last comparison to the log, so that a replay of it says the same."""
        if own and of_defaults:
            times = {"times_s": own, "best_times_s": of_defaults}
            self._note(values, {"outcome": "measured", **times, "against_defaults": True, "kept": is_kept})

    def _best(self) -> Values:
        """Of the fastest, and those that are slower by less than counts, the one that is most like the defaults.

        If the defaults are not among these, it is faster than they are by more than counts.
        """
        scores = self.ranking.scores
        least, of_defaults = max(scores.values()) / (1 + MIN_GAIN), scores.get(self.defaults, 0.0)
        if of_defaults < least:
            least = max(least, of_defaults * (1 + MIN_GAIN))
        alike = [values for values in self.ranking.rates if scores[values] >= least]
        changed = {values: sum(x != y for x, y in zip(values, self.defaults, strict=True)) for values in alike}
        return min(alike, key=lambda values: (changed[values], -scores[values]))


def _gains(what: str, choices: Sequence[Blocks], records: Sequence[Record]) -> tuple[float, dict[int, Gain]]:
    """The speed of the first choice in GFLOP/s, the geometric mean over the edges; and what each other one gains, by
    its place, if it was measured at all edges of the first."""
    times: dict[int, dict[int, Record]] = {}
    for record in filter(is_good, records):
        with suppress(ValueError):
            times.setdefault(choices.index(record["params"]), {})[record["problem"]["n"]] = record
    first = times.pop(0, {})
    if not first:
        reason = next((record["reason"] for record in records if record["reason"]), "no time")
        raise Undecided(f"{what}: the parameters in force were not measured ({reason})")
    gains = {
        i: Gain(f"{what} {choices[i].get(what, '')}".strip(), [ratio(first[edge], own[edge]) for edge in first])
        for i, own in sorted(times.items()) if own.keys() >= first.keys()
    }  # fmt: skip
    return geometric_mean(record["gflop_per_s"] for record in first.values()), gains


def _team_flop(chosen: Any, dtype: str, blocks: Blocks, rounds: int) -> int:
    """The cost of a team of two, in flop of one thread: from a small product, on one thread and on all.

    At most a factor of eight from the default. Undecided where the rounds disagree, and the default is within what
    their intervals leave open.
    """
    usual, team = chosen.usual_team_flop(dtype, dtype), max_threads()
    if team == 1:
        return int(usual)
    seconds = _team_seconds(chosen, dtype, blocks, rounds, team)
    together, alone = median(seconds[team]), median(seconds[1])
    flop = (together / alone - 1 / team) * 2 * TEAM_EDGE**3 * 6 / (team + 4)
    marks = [_mark(own) for own in seconds.values()]
    if any(mark for _, mark in marks):
        off = sum(percent for percent, _ in marks) / 100 * together / alone * 2 * TEAM_EDGE**3 * 6 / (team + 4)
        if flop - off <= usual <= flop + off:
            raise Undecided(f"what a team of threads costs: {next(mark for _, mark in marks if mark)}")
    return int(min(max(flop, usual / 8), usual * 8))


def _team_seconds(chosen: Any, dtype: str, blocks: Blocks, rounds: int, team: int) -> dict[int, list[float]]:
    """Seconds of a call of the small product, in each round, by the number of threads; more rounds if they disagree."""
    a, b = np.random.default_rng(TEAM_EDGE).random((2, TEAM_EDGE, TEAM_EDGE)).astype(dtype)
    out = np.empty_like(a)
    seconds: dict[int, list[float]] = {1: [], team: []}
    for number in range(-1, MORE_ROUNDS * rounds):  # the first warms up
        if number >= rounds and not any(mark for _, mark in map(_mark, seconds.values())):
            break
        for threads, own in seconds.items():
            start = perf_counter()
            for _ in range(TEAM_CALLS):
                chosen.kernel.run(a, b, out, threads=threads, **blocks)
            if number >= 0:
                own.append((perf_counter() - start) / TEAM_CALLS)
    return seconds


def _mark(rounds_s: Sequence[float]) -> tuple[float, str | None]:
    """By how many per cent a time may be wrong, and why it is noisy."""
    spread, interval = summarise(rounds_s)["noise_percent"], interval_percent(rounds_s)
    return spread if interval is None else interval, why_noisy(spread, interval)


def is_right(chosen: Any, dtype: str, choice: Blocks) -> bool:
    """Whether products of whole numbers are exact with these parameters: rounded once, of integers modulo 2^bits."""
    rng = np.random.default_rng()
    for m, n, k in ((70, 90, 2100), (519, 613, 777)):
        a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
        c = matmul(a.astype(dtype), b.astype(dtype), backend=chosen.name, **choice)
        exact = (a.astype(float) @ b.astype(float)).astype(int)
        if not np.array_equal(c, exact.astype(dtype)):
            return False
    return True
