"""Several backends on one product: the rows of C by measured rates, and no split where it cannot gain.

Slices of the product at hand are measured once, backend by backend, for each dtype and about each shape (`rates.py`).
From their lines follow the rows with which all end together, and what the split can gain over the fastest backend
alone. A first slice of the split, with all at once, shows how far they slow each other down; later calls of the same
size correct the split until it is even, and then keep it.

The CPU's backends and CPU devices use the same cores, so only the fastest of them takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab._backend import Availability, FullBackend, Param
from gemmlab._problem import Problem
from gemmlab._process.forks import Lock, Pool
from gemmlab.scale.blocks import Block, along
from gemmlab.scale.lines import Line, ending_together
from gemmlab.scale.parts import part_of, run_at_once
from gemmlab.scale.rates import MANY, Rates, axis_of, device_of, is_small, seconds_of

if TYPE_CHECKING:
    from gemmlab._backend import Handle

MIN_GAIN = 1.05  # a smaller one is within the noise of a machine, and a split changes the bits of the result
SPLIT_S = 200e-6  # what a split itself takes: threads that start and are waited for
EVEN = 0.05  # a split whose backends end within this share of each other is kept
MAX_PLANS = 1000  # that are kept
CORRECTIONS = 4  # of a split at most, so that the bits of a result settle


@dataclass(frozen=True)
class Sharing:
    """Who computes what of a product, and what that should gain.

    `shares` are the rows of each backend, or the matrices of a batch. `lines` are those of the backends at work
    together. `gain` is what the best split was predicted to gain over the fastest backend alone, before the product.
    """

    names: tuple[str, ...]
    axis: int
    shares: tuple[int, ...]
    gain: float
    why: str
    alone_s: tuple[float, ...]
    lines: tuple[Line, ...] = ()
    corrections: int = CORRECTIONS

    @property
    def is_split(self) -> bool:
        """Whether more than one backend takes part."""
        return sum(share > 0 for share in self.shares) > 1

    @property
    def alone(self) -> int:
        """The backend that takes most, or all."""
        return self.shares.index(max(self.shares))

    @property
    def predicted_s(self) -> float:
        """Seconds of the product."""
        if not self.is_split:
            return self.alone_s[self.alone]
        return SPLIT_S + max(line.seconds(share) for line, share in zip(self.lines, self.shares, strict=True))

    @property
    def summary(self) -> str:
        """The prediction in half a line."""
        if self.is_split:
            return f"predicted {self.gain:.2f} times the fastest alone"
        return f"{self.names[self.alone]} alone: {self.why}"

    @property
    def loops(self) -> str:
        """Each backend's predicted time alone and its share."""
        total = sum(self.shares)
        said = [f"{name} {1e3 * alone_s:.3g} ms alone, {share} of {total}"
                for name, alone_s, share in zip(self.names, self.alone_s, self.shares, strict=True)]  # fmt: skip
        return "; ".join(said)


class CoExecution(FullBackend):
    """Backends that share products, by the name that joins theirs with "+"."""

    kind = "co-execution"
    source = "each backend's own"
    params: Mapping[str, Param] = {}

    def __init__(self, name: str, backends: Sequence[FullBackend]) -> None:
        self.name, self.backends = name, tuple(backends)
        self.rates = Rates(self.backends)
        self._plans: dict[tuple[object, ...], Sharing] = {}
        self._lock = Lock()

    @property
    def summary(self) -> str:
        """A description in half a line."""
        return "rows of C shared by measured rates, where that gains"

    @cached_property
    def _pool(self) -> Pool:
        return Pool(len(self.backends), "gemmlab-co-execution")

    def probe(self) -> Availability:
        """Available if every backend is."""
        found = [backend.probe() for backend in self.backends]
        missing = next((one for one in found if not one.ok), None)
        return missing or Availability(True, device=" + ".join(dict.fromkeys(one.device for one in found)))

    def supports(self, problem: Problem) -> bool | str:
        """What every backend supports."""
        verdicts = (backend.supports(problem) for backend in self.backends)
        return next((verdict for verdict in verdicts if verdict is not True), True)

    def threads(self, problem: Problem) -> int:
        """Threads of the backend of the host, if one takes part."""
        on_host = [one for one in self.backends if device_of(one) is None]
        return max((one.threads(problem) or 1 for one in on_host), default=1)

    def plan(self, problem: Problem, **params: Any) -> Sharing | None:
        """How a product would be shared; what is not known yet is measured. None for an empty product."""
        if not problem.out.size or not problem.k:
            return None
        with self._lock:
            key = (problem.a.shape, problem.b.shape, problem.dtype.name, problem.threads)
            if key not in self._plans:
                if len(self._plans) >= MAX_PLANS:
                    self._plans.clear()
                self._plans[key] = self._planned(problem)
            return self._plans[key]

    def _planned(self, problem: Problem) -> Sharing:
        names = tuple(backend.name for backend in self.backends)
        axis = axis_of(problem, len(names))
        total = problem.out.shape[axis]

        def alone(number: int) -> tuple[int, ...]:
            return tuple(total * (i == number) for i in range(len(names)))

        lines = self.rates.lines(problem)
        alone_s = tuple(line.seconds(total) for line in lines)
        fastest = alone_s.index(min(alone_s))
        if is_small(problem):
            return Sharing(names, axis, alone(fastest), 1.0, "too small to gain by a split", alone_s)
        able = self._able(alone_s)
        if len(able) == 1:
            return Sharing(names, axis, alone(fastest), 1.0, "all use the same cores or device", alone_s)
        split = Sharing(names, axis, _shares(lines, able, total), 1.0, "", alone_s, lines, 0)
        if split.is_split:
            lines = self._at_once(problem, split)
            split = replace(split, lines=lines, shares=_shares(lines, able, total))
        gain = alone_s[fastest] / split.predicted_s if split.is_split else 1.0
        if gain < MIN_GAIN:
            why = f"a split gains {gain:.2f} times at most by prediction, under {MIN_GAIN}"
            return Sharing(names, axis, alone(fastest), gain, why, alone_s)
        return replace(split, gain=gain)

    def _able(self, alone_s: Sequence[float]) -> list[int]:
        """The backends that can work at once: of those on the same cores or the same device, the fastest."""
        fastest: dict[object, int] = {}
        for number, backend in sorted(enumerate(self.backends), key=lambda one: alone_s[one[0]]):
            fastest.setdefault(_hardware(backend), number)
        return sorted(fastest.values())

    def _at_once(self, problem: Problem, split: Sharing) -> tuple[Line, ...]:
        """The lines at work together, from a slice with the same shares."""
        few = replace(split, shares=tuple(-(-share // MANY) for share in split.shares))
        (block,) = along(split.axis, problem.out.ndim, [sum(few.shares)])
        part = part_of(problem, block)
        trial = Problem(part.a, part.b, np.empty(part.out.shape, part.dtype), threads=problem.threads)
        self._run(trial, few)  # the first time devices get memory, and kernels are built
        found = _corrected(few, self._run(trial, few), 0.0).lines
        # Beside others a backend is no faster; only its slice may be.
        pairs = zip(found, split.lines, strict=True)
        return tuple(max(pair, key=lambda line: line.row_s) for pair in pairs)

    def gemm(self, problem: Problem, **params: Any) -> Handle | None:
        """Fill `problem.out`."""
        plan = self.plan(problem)
        assert plan is not None  # the caller handles empty products
        if not plan.is_split:
            return self.backends[plan.alone].gemm(problem)
        seconds = self._run(problem, plan)
        if plan.corrections < CORRECTIONS:
            self._correct(plan, seconds)
        return None

    def _run(self, problem: Problem, plan: Sharing) -> list[float]:
        """Run all parts at once; returns the seconds of each backend, 0 for one without a part."""
        own = [i for i, share in enumerate(plan.shares) if share]
        # A backend of the host runs in this thread, which has its team of threads already.
        own.sort(key=lambda i: device_of(self.backends[i]) is None)
        blocks = dict(zip(own, along(plan.axis, problem.out.ndim, [plan.shares[i] for i in own]), strict=True))
        parts = {i: self._part(problem, plan, i, blocks[i]) for i in own}
        jobs = [lambda i=i: seconds_of(self.backends[i], parts[i]) for i in own]
        times = dict(zip(own, run_at_once(self._pool, jobs), strict=True))
        problem.copies += sum(part.copies for part in parts.values())
        return [times.get(i, 0.0) for i in range(len(self.backends))]

    def _part(self, problem: Problem, plan: Sharing, number: int, block: Block) -> Problem:
        """The part of one backend; beside a device, one of the host leaves a core to drive it."""
        part, backend = part_of(problem, block), self.backends[number]
        if part.threads is None and device_of(backend) is None:
            usual = backend.threads(part)
            part.threads = max(1, usual - 1) if usual else part.threads
        return part

    def _correct(self, plan: Sharing, seconds: Sequence[float]) -> None:
        """Replace a plan by one that its times suggest."""
        busy = [one for one in seconds if one]
        corrections = CORRECTIONS if max(busy) - min(busy) <= EVEN * max(busy) else plan.corrections + 1
        new = replace(_corrected(plan, seconds, 0.5), corrections=corrections)
        if corrections < CORRECTIONS:
            able = [i for i, share in enumerate(plan.shares) if share]
            new = replace(new, shares=_shares(new.lines, able, sum(plan.shares)))
        if new.predicted_s > min(plan.alone_s):
            fastest = plan.alone_s.index(min(plan.alone_s))
            alone = tuple(sum(plan.shares) * (i == fastest) for i in range(len(plan.shares)))
            new = replace(new, shares=alone, why="the split was slower", corrections=CORRECTIONS)
        with self._lock:
            for key, known in self._plans.items():
                if known is plan:
                    self._plans[key] = new


def _hardware(backend: FullBackend) -> object:
    """What a backend computes on, equal for backends that cannot work at once."""
    device = device_of(backend)
    return "cpu" if device is None or device.kind == "cpu" else (device.runtime, device.index)


def _shares(lines: Sequence[Line], able: Sequence[int], total: int) -> tuple[int, ...]:
    """Shares that end together, for those that are able."""
    found = dict(zip(able, ending_together([lines[i] for i in able], total), strict=True))
    return tuple(found.get(i, 0) for i in range(len(lines)))


def _corrected(plan: Sharing, seconds: Sequence[float], before: float) -> Sharing:
    """A plan whose lines are moved towards measured times; `before` is the weight of what they were."""
    lines = [
        line.times(before + (1 - before) * took / line.seconds(share)) if took else line
        for line, share, took in zip(plan.lines, plan.shares, seconds, strict=True)
    ]
    return replace(plan, lines=tuple(lines))

