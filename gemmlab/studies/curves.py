"""From records to lines: what may be held against each other, and how many times as fast one is as another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gemmlab._gpu import RUNTIMES
from gemmlab.measure.noise import NOISY_PERCENT
from gemmlab.report.groups import Group, devices, is_good, threads_text
from gemmlab.studies.study import Curves, Record, Study, X


@dataclass(frozen=True)
class Part:
    """Records that make one figure: of one runtime on one device and, where a study varies no size, of one size.

    A study that compares runtimes, or has none, is one part for each size or in all. `products` are the good
    records, ceilings those of every device.
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
        place = f"{self.runtime} on {self.device}" if self.runtime else "; ".join(self._places())
        return ", ".join(filter(None, (place, f"N = {self.n}" if self.n else "")))

    @property
    def slug(self) -> str:
        """The part as a file's name; two devices of one runtime share it."""
        return "-".join(filter(None, (self.study.name, self.runtime, f"n{self.n}" if self.n else "")))

    def _places(self) -> Iterator[str]:
        """Each device with the lines that were measured on it, unless it has all of them."""
        lines: dict[str, dict[str, None]] = {}
        threads: dict[str, int] = {}
        for record in self.products:
            lines.setdefault(record["device"], {})[self.study.series(record)] = None
            threads[record["device"]] = max(threads.get(record["device"], 0), record["threads"] or 0)
        for device, names in lines.items():
            place = f"{device}, {threads_text(threads[device])}" if threads[device] else device
            yield f"{', '.join(names)} on {place}" if len(lines) > 1 else place

    @cached_property
    def curves(self) -> dict[str, dict[X, Record]]:
        """The records by series and x; of several at one place, the fastest."""
        found: dict[str, dict[X, Record]] = {}
        for record in self.products:
            own, x = found.setdefault(self.study.series(record), {}), self.study.x(record)
            if x not in own or record["median_s"] < own[x]["median_s"]:
                own[x] = record
        return found

    @property
    def times(self) -> Curves:
        """Seconds by series and x."""
        return {name: {x: record["median_s"] for x, record in own.items()} for name, own in self.curves.items()}

    def group_of(self, record: Record) -> Group | None:
        """The group of the report that a record belongs to, with its roofs."""
        for device in devices([*self.products, *self.ceilings]):
            for group in device.groups:
                if record in group.products:
                    return group
        return None


def parts(study: Study, records: Iterable[Record]) -> list[Part]:
    """Sort a study's good records into parts; what belongs to no runtime is in every one of its size."""
    records = list(records)
    ceilings = tuple(record for record in records if record["kind"] == "ceiling")
    timed = [record for record in of_study(study, records) if is_good(record)]
    if study.by_kernel:
        timed = [_by_kernel(record) for record in timed]
    apart = study.on_runtimes and not study.together

    def key(record: Record) -> tuple[str, str, int | None]:
        place = (_runtime(record), record["device"]) if apart else ("", "")
        return (*place, None if study.varies_n else record["problem"]["n"])

    def own(runtime: str, device: str, n: int | None) -> Iterator[Record]:
        for record in timed:
            if key(record) == (runtime, device, n) or (apart and not _runtime(record) and key(record)[2] == n):
                yield record

    keys = dict.fromkeys(key(record) for record in timed if not apart or _runtime(record))
    return [Part(study, *place, tuple(own(*place)), ceilings) for place in keys]


def _by_kernel(record: Record) -> Record:
    """A record whose time is that of its kernels alone: starting them takes the host longer than a small product."""
    if not record["kernel_s"]:
        return record
    # Records of before the kernels' spread was kept: that of the whole product stands in for it.
    share = record["kernel_s"] / record["median_s"]
    median_s = record["kernel_s"]
    p20_s, p80_s = (record[f"kernel_{key}"] or share * record[key] for key in ("p20_s", "p80_s"))
    noise_percent = 100 * (p80_s - p20_s) / median_s
    return {
        **record, "median_s": median_s, "p20_s": p20_s, "p80_s": p80_s, "gflop_per_s": record["gflop"] / median_s,
        "noise_percent": noise_percent, "noisy": noise_percent > NOISY_PERCENT,
    }  # fmt: skip


def of_study(study: Study, records: Iterable[Record]) -> list[Record]:
    """The study's products among some records, whatever their status."""
    return [record for record in records if record["kind"] == "gemm" and record["problem"]["suite"] == study.name]


def speed_ups(study: Study, times: Curves) -> dict[str, dict[X, float]]:
    """How many times as fast each point is as what the study holds it against; no point where that is missing."""
    found: dict[str, dict[X, float]] = {}
    for series, own in times.items():
        for x, seconds in own.items():
            if (reference := _reference(study, times, series, x)) is not None:
                found.setdefault(series, {})[x] = reference / seconds
    return found


def _reference(study: Study, times: Curves, series: str, x: X) -> float | None:
    if study.over_series is None:
        return times[series].get(study.over_x)
    own = times.get(study.over_series, {})
    return own.get(x, own.get(None))


def ordered(xs: Iterable[X]) -> list[X]:
    """Each once: None first, numbers and names with numbers in them by these, other names as they come."""

    def key(x: X) -> list[Any]:
        return [] if x is None else [x] if isinstance(x, int) else [int(digits) for digits in re.findall(r"\d+", x)]

    return sorted(dict.fromkeys(xs), key=key)


def on_cpu(record: Record) -> bool:
    """Whether a product of a runtime ran on the machine's own CPU."""
    return bool(_runtime(record)) and str(record["environment"].get("cpu") or "no name") in record["device"]


def _runtime(record: Record) -> str:
    before = str(record["backend"]).partition("-")[0]
    return before if before in RUNTIMES else ""

