"""Records as lines: which belong in one figure, and how many times as fast one is as another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from gemmlab._name import BackendName
from gemmlab.analysis.formatting import threads_text
from gemmlab.analysis.groups import Group, devices
from gemmlab.measure.comparison import is_good
from gemmlab.measure.noise import NOISY_PERCENT
from gemmlab.measure.records import Record, grouped
from gemmlab.studies.study import Curves, Study, X


@dataclass(frozen=True)
class Scenario:
    """The records of one figure: of one runtime on one device and, where a study varies no size, of one size.

    A study that compares runtimes, or has none, is one scenario in all, or one for each size. `products` are the good
    records, `ceilings` those of every device.
    """

    study: Study
    runtime: str
    device: str
    n: int | None
    products: tuple[Record, ...]
    ceilings: tuple[Record, ...]

    @property
    def title(self) -> str:
        """Where this was measured."""
        where = f"{self.runtime} on {self.device}" if self.runtime else "; ".join(self._devices())
        return ", ".join(filter(None, (where, f"N = {self.n}" if self.n else "")))

    @property
    def slug(self) -> str:
        """The scenario in a file's name; two devices of one runtime have the same."""
        return "-".join(filter(None, (self.study.name, self.runtime, f"n{self.n}" if self.n else "")))

    def _devices(self) -> Iterator[str]:
        """Each device, with the lines that were measured on it unless it has all of them."""
        by_device = grouped(self.products, lambda record: str(record["device"]))
        for device, own in by_device.items():
            threads = max(record["threads"] or 0 for record in own)
            where = f"{device}, {threads_text(threads)}" if threads else device
            names = dict.fromkeys(map(self.study.series, own))
            yield f"{', '.join(names)} on {where}" if len(by_device) > 1 else where

    @cached_property
    def curves(self) -> dict[str, dict[X, Record]]:
        """The records by series and x; of several at one x, the fastest."""
        by_series = grouped(self.products, self.study.series).items()
        return {name: {x: min(same, key=itemgetter("median_s")) for x, same in grouped(own, self.study.x).items()}
                for name, own in by_series}  # fmt: skip

    @property
    def times(self) -> Curves:
        """Seconds by series and x."""
        return {name: {x: record["median_s"] for x, record in own.items()} for name, own in self.curves.items()}

    def group_of(self, record: Record) -> Group | None:
        """The group of `gemmlab.analysis` that a record belongs to, with its ceilings."""
        groups = (group for device in devices([*self.products, *self.ceilings]) for group in device.groups)
        return next((group for group in groups if record in group.products), None)


def scenarios(study: Study, records: Iterable[Record]) -> list[Scenario]:
    """Sort a study's good records into scenarios; one that ran on no runtime is in every scenario of its size."""
    records = list(records)
    ceilings = tuple(record for record in records if record["kind"] == "ceiling")
    timed = [record for record in of_study(study, records) if is_good(record)]
    if study.by_kernel:
        timed = list(map(_by_kernel, timed))
    timed += study.derived(timed)
    by_runtime = study.on_runtimes and not study.together and any(map(runtime_of, timed))

    def key(record: Record) -> tuple[str, str, int | None]:
        where = (runtime_of(record), record["device"]) if by_runtime else ("", "")
        return (*where, None if study.joins_sizes else record["problem"]["n"])

    found = []
    for runtime, device, n in dict.fromkeys(key(record) for record in timed if not by_runtime or runtime_of(record)):
        keys = {(runtime, device, n)}
        own = tuple(r for r in timed if key(r) in keys or (by_runtime and not runtime_of(r) and key(r)[2] == n))
        found.append(Scenario(study, runtime, device, n, own, ceilings))
    return found


def _by_kernel(record: Record) -> Record:
    """A record with the times of its kernels alone: starting them takes the host longer than a small product."""
    if not record["kernel_s"]:
        return record
    # Older records have no percentiles of the kernels: those of the whole product are scaled to the kernels' time.
    share = record["kernel_s"] / record["median_s"]
    p20_s, p80_s = (record[f"kernel_{key}"] or share * record[key] for key in ("p20_s", "p80_s"))
    noise_percent = 100 * (p80_s - p20_s) / record["kernel_s"]
    return {
        **record, "median_s": record["kernel_s"], "p20_s": p20_s, "p80_s": p80_s,
        "gflop_per_s": record["gflop"] / record["kernel_s"], "noise_percent": noise_percent,
        "noisy": noise_percent > NOISY_PERCENT, "noisy_because": None,
    }  # fmt: skip


def of_study(study: Study, records: Iterable[Record]) -> list[Record]:
    """The study's products among some records, of any status."""
    return [record for record in records if record["kind"] == "gemm" and record["problem"]["suite"] == study.name]


def speed_ups(study: Study, times: Curves) -> dict[str, dict[X, float]]:
    """How many times as fast each point is as the study's reference; no point where that is missing."""
    found: dict[str, dict[X, float]] = {}
    for series, own in times.items():
        reference = own if study.over_series is None else times.get(study.over_series, {})
        for x, seconds in own.items():
            base = reference.get(study.over_x) if study.over_series is None else reference.get(x, reference.get(None))
            if base is not None:
                found.setdefault(series, {})[x] = base / seconds
    return found


def ordered(xs: Iterable[X]) -> list[X]:
    """Each once: None first, numbers and names with numbers in them by these, other names as they come."""

    def key(x: X) -> list[int]:
        return [] if x is None else [x] if isinstance(x, int) else [int(digits) for digits in re.findall(r"\d+", x)]

    return sorted(dict.fromkeys(xs), key=key)


def on_cpu(record: Record) -> bool:
    """Whether a product of a runtime ran on the machine's CPU."""
    return bool(runtime_of(record)) and str(record["environment"].get("cpu") or "no name") in record["device"]


def runtime_of(record: Record) -> str:
    """The runtime of a backend, or an empty string."""
    return BackendName.of(record["backend"]).runtime
