"""The search for the fastest configurations of a rung: what is built, tried, logged and kept.

Builds run ahead of the trials on a GPU. On a CPU device they would take its cores, so a few are built, then tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

from gemmlab import _profile
from gemmlab._api import get_backend
from gemmlab._cpu.machine import usable_cpus
from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu import configurations
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.runtime import Device
from gemmlab._name import BackendName
from gemmlab._process.children import Answer
from gemmlab._version import __version__
from gemmlab.tune.devices import workers
from gemmlab.tune.devices.space import RungSpace
from gemmlab.tune.search import log as logs
from gemmlab.tune.search.clock import Clock
from gemmlab.tune.search.log import Log
from gemmlab.tune.search.ranking import COSTED, TIMED, Fastest, Ranking, Values
from gemmlab.tune.search.strategy import Strategy

Shape = tuple[int, int, int]
Progress = Callable[[int, int, str], None]
SHAPES: dict[str, tuple[Shape, ...]] = {  # m, n and k, by kind of device
    "gpu": ((1024, 1024, 1024), (4096, 4096, 4096)),
    "cpu": ((256, 256, 256), (1024, 1024, 1024)),
}
DTYPES = ("float32", "float64")
MINUTES = 5.0
MAX_BUILDERS = 8
AHEAD = 2  # builds that are begun, for each builder
LEAST_WAIT_S = 0.5


class DeviceSearch:
    """A search on one device.

    Parameters
    ----------
    backend : str
        A rung of the GPU ladder, such as "opencl-register" or "cuda-local4:1".
    dtypes : sequence of str
        By default float32, and float64 where the device has it.
    shapes : sequence of (int, int, int)
        m, n and k; each has its fastest configuration. By default SHAPES.
    minutes : float
        How long it searches; a small space may be searched as a whole before that.
    log : Path, optional
        A file to go on from, or a new one. By default one in `config.cache_dir`, the same for the same kernel, device
        and driver.

    Raises
    ------
    UnsupportedProblem
        For a backend that is no rung of the GPU ladder.
    ValueError
        For a dtype that the device does not multiply.
    """

    def __init__(
        self, backend: str, dtypes: Sequence[str] = (), shapes: Sequence[Shape] = (), minutes: float = MINUTES,
        log: Path | None = None,
    ) -> None:  # fmt: skip
        rung_backend = get_backend(backend)
        if not isinstance(rung_backend, RungBackend):
            raise UnsupportedProblem(f"{backend} is no rung of the GPU ladder, such as opencl-register")
        self.backend: RungBackend = rung_backend
        here = self.backend.device
        self.dtypes = tuple(dtypes) or tuple(dtype for dtype in DTYPES if dtype != "float64" or here.float64)
        for dtype in self.dtypes:
            if dtype not in self.backend.dtypes or (dtype == "float64" and not here.float64):
                raise ValueError(f"{here.label} does not multiply {dtype} with {backend}: give another --dtype")
        given = tuple(dict.fromkeys(shapes)) or SHAPES["cpu" if here.kind == "cpu" else "gpu"]
        self.shapes = tuple(sorted(given, key=lambda shape: (np.prod(shape, dtype=float), shape)))
        self.seconds = 60 * minutes
        self.log_path: Path | None = None  # known once it is open
        self._log = log
        self._rankings: dict[tuple[str, Shape], Ranking] = {}
        self._defaults: Values = ()
        self._names: list[str] = []

    @property
    def found(self) -> list[Fastest]:
        """The fastest configurations so far, by dtype and shape."""
        return [one for dtype in self.dtypes for shape in self.shapes
                if (ranking := self._rankings.get((dtype, shape)))
                and (one := ranking.fastest(self._names, self._defaults)) is not None]  # fmt: skip

    def values_of(self, one: Fastest) -> Values:
        """The values of its parameters, in their order in the log."""
        return tuple(one.parameters[name] for name in self._names)

    def run(self, progress: Progress | None = None) -> list[Fastest]:
        """Search, and store what was found in this machine's profile, also after Ctrl-C.

        Raises
        ------
        BackendUnavailable, DeviceError
            If the device cannot be opened, or not again after a fault.
        CannotGoOn, CannotWrite
            If the log is of another search, or cannot be written.
        """
        with TemporaryDirectory(prefix="gemmlab-tune-") as folder:
            trials = workers.Trials(self.backend.name, folder, workers.COMMAND)
            builders: workers.Builders | None = None
            try:
                described = trials.describe()
                count = min(MAX_BUILDERS, usable_cpus()) if described["caches_programs"] else 0
                builders = workers.Builders(count, self.backend.name, folder, workers.COMMAND)
                self._search(described, trials, builders, progress or (lambda done, total, doing: None))
            finally:
                trials.close()
                if builders is not None:
                    builders.close()
        return self.found

    def _search(
        self, described: Answer, trials: workers.Trials, builders: workers.Builders, progress: Progress
    ) -> None:
        device, seed = Device(**described["device"]), int(np.random.SeedSequence().generate_state(1)[0])
        header = self._header(device, described, seed)
        with Log(self._log or logs.usual_path(header), header) as log:
            self.log_path = log.path
            self._rankings = logs.rankings_of(log.header, log.entries)
            for pair in ((dtype, shape) for dtype in self.dtypes for shape in self.shapes):
                self._rankings.setdefault(pair, logs.ranking_of(pair, log.entries))
            rng = np.random.default_rng([log.header["seed"], len(log.entries)])
            clock = Clock(self.seconds, self.dtypes, progress)
            try:
                for dtype in self.dtypes:
                    clock.begin(dtype)
                    _OneDtype(self, dtype, device, described["key"], trials, builders, log, clock, rng).search()
                clock.end()
            finally:
                self._keep(described["key"], device, logs.costs_of(log.entries))

    def _header(self, device: Device, described: Answer, seed: int) -> dict[str, Any]:
        rung = self.backend.rung.on(device.kind)
        defaults = rung.resolve({}, device.kind)
        names = self._names = [param.name for param in rung.params]
        self._defaults = tuple(defaults[name] for name in names)
        return {
            "gemmlab_tune": logs.VERSION, "backend": BackendName.of(self.backend.name).plain,
            "device": described["key"],
            "driver": device.driver, "text_sha256": described["text_sha256"], "names": names,
            "defaults": self._defaults, "seed": seed, "dtypes": self.dtypes, "shapes": self.shapes,
            "label": device.label, "gemmlab": __version__,
            "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip

    def _keep(self, key: str, device: Device, costs: Mapping[tuple[str, Values], _profile.Cost | None]) -> None:
        """Store the fastest configurations in the profile, with what they cost."""
        kept: dict[str, list[_profile.Configuration]] = {}
        for one in self.found:
            rate, cost = round(one.gflop_per_s, 3), costs.get((one.dtype, self.values_of(one)))
            kept.setdefault(one.dtype, []).append(_profile.Configuration(
                one.parameters, one.shape, rate, device.driver, device.compute_units, cost, device.clock_mhz
            ))  # fmt: skip
        if kept:
            _profile.store_configurations(key, BackendName.of(self.backend.name).plain, kept)
            configurations.forget()


class _OneDtype:
    """The search for one dtype: each configuration is built once, and tried on every shape."""

    def __init__(
        self, search: DeviceSearch, dtype: str, device: Device, key: str, trials: workers.Trials,
        builders: workers.Builders, log: Log, clock: Clock, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.whole = search
        self.dtype, self.shapes, self.trials, self.builders = dtype, search.shapes, trials, builders
        self.log, self.clock, self.defaults = log, clock, search._defaults
        self.rankings = [search._rankings[dtype, shape] for shape in search.shapes]
        self.space = RungSpace(search.backend.rung.on(device.kind), dtype, device)
        backend = search.backend
        known = _profile.configurations(
            key, BackendName.of(backend.name).plain, dtype,
            lambda one: configurations.understood(one, backend, device.kind),
        )
        first = [tuple(backend.rung.resolve(one.parameters, device.kind)[name] for name in self.space.names)
                 for one in known]  # fmt: skip
        self.tried = set.intersection(*(set(ranking.outcomes) for ranking in self.rankings))
        self.strategy = Strategy(self.space, self.rankings, self.tried, [search._defaults, *first], rng)
        self.overlaps = device.kind != "cpu"
        self.has_tried = False

    def search(self) -> None:
        """Until the time is over, nothing is left to try, or the log is full."""
        building: dict[Future[Answer], Values] = {}
        while self._goes_on:
            self.clock.tell(self._doing())
            if self.overlaps or not building:
                self._begin_builds(building)
            if not building:
                break
            until = FIRST_COMPLETED if self.overlaps else ALL_COMPLETED
            done, _ = wait(building, max(self.clock.left_s, LEAST_WAIT_S), until)
            for future in [future for future in building if future in done]:
                if self._goes_on:
                    self._try(building.pop(future), future.result())
        for future in building:
            future.cancel()
        self._compare_with_defaults()
        if self.overlaps:
            self._measure_costs()

    @property
    def _goes_on(self) -> bool:
        """Whether there is time and room in the log; one configuration is tried however little time there is."""
        return not self.log.is_full and (self.clock.left_s > 0 or not self.has_tried)

    def _compare_with_defaults(self) -> None:
        for ranking in self.rankings:
            best = ranking.best
            if best is None or best in (self.defaults, *ranking.speedups) or self.defaults not in ranking.rates:
                continue
            answer = self._tried(ranking, best, self.defaults, False)
            shape = ranking.shape if answer["outcome"] in TIMED else None
            self._note(best, shape, {**answer, "against_defaults": True})

    def _measure_costs(self) -> None:
        """What the fastest cost, for predictions of what a GPU takes."""
        known = logs.costs_of(self.log.entries)
        fastest = dict.fromkeys(self.whole.values_of(one) for one in self.whole.found if one.dtype == self.dtype)
        for values in fastest:
            if (self.dtype, values) not in known and not self.log.is_full:
                parameters = self.space.parameters(values)
                answer = self.trials.ask("cost", workers.FIRST_S, dtype=self.dtype, parameters=parameters)
                if answer["outcome"] == COSTED:
                    self._note(values, None, answer)

    def _begin_builds(self, building: dict[Future[Answer], Values]) -> None:
        count = max(1, AHEAD * self.builders.count)
        while len(building) < count and (values := self.strategy.next(self.clock.share)) is not None:
            building[self.builders.start(self.dtype, self.space.parameters(values))] = values

    def _try(self, values: Values, built: Answer) -> None:
        """Try a configuration on every shape on which it was not tried before; a fault on one is one on all."""
        self.has_tried = True
        if built.get("outcome") == "failed":
            self._note(values, None, built)
            return
        for ranking in self.rankings:
            if values in ranking.outcomes:
                continue
            answer = self._tried(ranking, values, ranking.best, "build_s" in built)
            is_timed = answer["outcome"] in TIMED
            self._note(values, ranking.shape if is_timed else None, {**built, **answer})
            if not is_timed:
                return

    def _tried(self, ranking: Ranking, values: Values, rival: Values | None, is_built: bool) -> Answer:
        """A trial of a configuration, in turns with a rival."""
        return self.trials.trial(
            ranking.best_s(), is_built, dtype=self.dtype, shape=ranking.shape,
            parameters=self.space.parameters(values), best=None if rival is None else self.space.parameters(rival),
        )  # fmt: skip

    def _note(self, values: Values, shape: Shape | None, answer: Answer) -> None:
        """Write an entry to the log, and to the rankings that it is about."""
        seconds = round(self.log.before_s + monotonic() - self.clock.start_s, 3)
        entry = {"seconds": seconds, "dtype": self.dtype, "shape": shape, "values": values, **_rounded(answer)}
        self.log.append(entry)
        for ranking in self.rankings:
            if shape in (None, ranking.shape):
                ranking.add(values, entry)

    def _doing(self) -> str:
        best = max((ranking.rates[ranking.best] for ranking in self.rankings if ranking.best), default=0.0)
        return f"{self.dtype}: {len(self.rankings[0].outcomes)} tried, {best:.4g} GFLOP/s"


def _rounded(answer: Answer) -> Answer:
    """An answer with times of five digits, more than any clock is good for."""
    return {name: [float(f"{x:.5g}") for x in value] if isinstance(value, list) else
            float(f"{value:.4g}") if isinstance(value, float) else value for name, value in answer.items()}  # fmt: skip
