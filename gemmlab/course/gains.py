"""Compares the speed of a rung with that of the previous, the first and the last rung, from records.

On a device, the times are those of the kernels alone, by the device's own clock: for small products, starting a kernel
takes longer than running it. Only times of the same run and the same number of threads are compared. If their p20 to
p80 intervals overlap, the result is "no difference seen", without a ratio.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from gemmlab._words import number
from gemmlab.analysis.attainable import Limit, lowest_limit
from gemmlab.analysis.groups import devices
from gemmlab.course.rungs import Rung, settings
from gemmlab.course.shipped import shipped_records
from gemmlab.measure.comparison import NO_DIFFERENCE, ratio
from gemmlab.measure.records import Record, grouped
from gemmlab.report import draw_rooflines
from gemmlab.roofline.model import Roof

OWN = "records.jsonl"  # the file of the user's records, beside the pages
LEVELS = {"local": "local memory", "l1": "L1", "l2": "L2", "l3": "L3", "dram": "memory"}


@dataclass(frozen=True)
class Step:
    """A rung at one size: its record, those of other rungs in the same run, its share of the measured peak.

    `before` is the previous rung's record on as many threads. `first` and `last` are the records of the ladder's first
    rung and of its last one in the run, whatever their threads. `peak` is on as many threads as `after`; None without
    such a ceiling. `previous` names the previous rung.
    """

    after: Record
    before: Record | None
    peak: float | None
    first: Record | None = None
    last: Record | None = None
    previous: str = ""

    @property
    def n(self) -> int:
        """N of the square matrices."""
        return int(self.after["problem"]["n"])

    @property
    def threads(self) -> int | None:
        """The threads of the rung; None on a device."""
        return self.after["threads"]  # type: ignore[no-any-return]

    @property
    def share_of_peak(self) -> float | None:
        """The rung's speed divided by the peak of its number of threads."""
        return self.after["gflop_per_s"] / self.peak if self.peak else None

    @property
    def first_is_before(self) -> bool:
        """Whether the previous rung is the ladder's first, and ran on another number of threads."""
        return self.before is None and self.first is not None and self.previous == self.first["backend"]

    @property
    def gain(self) -> str:
        """How many times as fast as the previous rung, with the interval; empty if that rung has no record."""
        if self.before is None:
            return ""
        pair = ratio(self.before, self.after)
        return f"{number(pair.ratio)} ({number(pair.low)} to {number(pair.high)})" if pair.seen else NO_DIFFERENCE


@dataclass(frozen=True)
class Run:
    """A rung on one number of threads at all sizes of one run, from small to large.

    `machine` says where, without the threads. `file` is the path of the records below docs/. `last` is the ladder's
    last rung in this run, its fastest; None if it is this one.
    """

    machine: str
    file: str
    steps: tuple[Step, ...]
    ceilings: tuple[Record, ...]
    last: Rung | None = None

    @property
    def has_previous(self) -> bool:
        """Whether the previous rung was measured in this run."""
        return any(step.before for step in self.steps)


@dataclass(frozen=True)
class Source:
    """The records of one ladder from one machine: `file` names them, and `machine` is how pages speak of it."""

    ladder: str
    file: str
    machine: str
    records: tuple[Record, ...]


class Measured:
    """All that the course shows: the records of the user's machine, if there are any, and then those that ship."""

    def __init__(self, own: Sequence[Record] = ()) -> None:
        self._own = own

    @cached_property
    def sources(self) -> list[Source]:
        """The sources in the order in which pages show them."""
        shipped = [Source(**entry, records=_with_kernel_times(shipped_records(entry["file"])))
                   for entry in settings()["records"]]  # fmt: skip
        return [*_own_sources(self._own), *shipped]

    def first(self, ladder: str) -> Source:
        """The first source of a ladder."""
        return next(source for source in self.sources if source.ladder == ladder)

    def runs(self, rung: Rung) -> list[Run]:
        """The runs of a rung: the user's machine first, then those that also measured the previous rung.

        Of several runs on one machine and as many threads, the first counts.
        """
        rung_runs = [
            run
            for source in self.sources
            if source.ladder == rung.ladder
            for runtime in rung.backends
            for run in _runs(rung, source, runtime)
        ]
        once: dict[object, Run] = {}
        for run in rung_runs:
            once.setdefault((run.machine, run.steps[0].threads, run.steps[0].after["backend"]), run)
        return sorted(once.values(), key=lambda run: (run.file != OWN, not run.has_previous))


def _own_sources(records: Sequence[Record]) -> Iterator[Source]:
    """The user's records of each ladder, by device: the GPU ladder may have run on a GPU, or on the CPU."""
    of_devices = grouped(records, lambda record: str(record["device"]))
    for device, own in of_devices.items():
        products = [record for record in own if record["kind"] == "gemm" and record["status"] == "ok"]
        for ladder, on_cpu in (("CPU", True), ("GPU", False)):
            if any((record["threads"] is not None) == on_cpu for record in products):
                yield Source(ladder, OWN, f"your machine ({_literal(device)})", _with_kernel_times(own))


def _literal(text: str) -> str:
    """Text of a record as it is, in Markdown."""
    return re.sub(r"([\\`*_{}\[\]()#+.!|<>&~-])", r"\\\1", " ".join(text.split()))


def _runs(rung: Rung, source: Source, runtime: str) -> Iterator[Run]:
    """The runs of a rung in one source: one for each number of threads."""
    records = source.records
    own = _squares(records, rung.backends[runtime])
    previous = rung.before.backends[runtime] if rung.before else ""
    last = next((one for one in rung.onwards if _squares(records, one.backends[runtime])), None)
    others = {
        role: _by_size(_squares(records, other.backends[runtime]))
        for role, other in {"first": rung.first, "before": rung.before, "last": last}.items()
        if other is not None
    }
    for threads in dict.fromkeys(record["threads"] for record in own):
        steps = [_step(records, record, others, previous) for record in own if record["threads"] == threads]
        device = steps[0].after["device"]
        ceilings = tuple(record for record in records if record["kind"] == "ceiling" and record["device"] == device)
        steps.sort(key=lambda step: step.n)
        yield Run(source.machine, source.file, tuple(steps), ceilings, last)


def _step(
    records: tuple[Record, ...], after: Record, others: Mapping[str, Mapping[int, list[Record]]], previous: str
) -> Step:
    at_size = {role: found.get(after["problem"]["n"], []) for role, found in others.items()}
    alike = [record for record in at_size.get("before", []) if record["threads"] == after["threads"]]
    first, last = (next(iter(at_size.get(role, [])), None) for role in ("first", "last"))
    return Step(after, next(iter(alike), None), _peak(records, after), first, last, previous)


def _by_size(records: Iterable[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record["problem"]["n"], []).append(record)
    return found


def _with_kernel_times(records: Iterable[Record]) -> tuple[Record, ...]:
    """The records; products without transfers with the times of their kernels instead of the whole call's."""
    return tuple(map(_with_kernel_time, records))


def _with_kernel_time(record: Record) -> Record:
    if record["kind"] != "gemm" or record["transfers_counted"] is not False or record["kernel_s"] is None:
        return record
    times = {key: record[f"kernel_{key}"] for key in ("p20_s", "p80_s")}
    return {**record, **times, "median_s": record["kernel_s"], "gflop_per_s": record["gflop"] / record["kernel_s"]}


def _squares(records: tuple[Record, ...], name: str) -> list[Record]:
    """The float32 products of square matrices that a backend did right; on a device, those without transfers."""
    return [
        record
        for record in records
        if record["kind"] == "gemm"
        and record["backend"] == name
        and record["status"] == "ok"
        and record["problem"]["dtype"] == "float32"
        and not record["transfers_counted"]
        and len({record["problem"][side] for side in "mnk"}) == 1
    ]


def _peak(records: tuple[Record, ...], record: Record) -> float | None:
    """The measured peak on the record's device, for its dtype and its number of threads; None without one."""
    alike = [one for one in records if one["kind"] == "ceiling" and one["threads"] == record["threads"]]
    with suppress(ValueError):  # no such ceilings in this file
        return Roof(alike, record["device"]).peak_gflop_per_s(record["problem"]["dtype"], record["threads"])
    return None


def most_by_model(run: Run, record: Record) -> Limit | None:
    """What the rung's traffic model and the ceilings measured in the run allow a product; None without these."""
    groups = (group for device in devices([record, *run.ceilings]) for group in device.groups)
    return next((lowest_limit(group, record) for group in groups if record in group.products), None)


def over_threads(step: Step, rung_runs: Sequence[Run]) -> tuple[Step, float] | None:
    """The same rung at the same size and on the same machine with more threads, and how many times as fast it is."""
    file = next(run.file for run in rung_runs if step in run.steps)
    machine = next(run.machine for run in rung_runs if step in run.steps)
    for run in rung_runs:
        for other in run.steps:
            if run.machine == machine and run.file != file and other.n == step.n and step.threads == 1 != other.threads:
                return other, other.after["gflop_per_s"] / step.after["gflop_per_s"]
    return None


def bytes_per_multiply_add(record: Record) -> dict[str, float]:
    """Bytes per multiply-add from each memory level, by the rung's own traffic model."""
    count = record["gflop"] * 1e9 / 2
    moved = {text: record.get(f"bytes_model_{level}") for level, text in LEVELS.items()}
    return {text: value / count for text, value in moved.items() if value is not None}


def roofline(run: Run) -> str:
    """The roofline of a rung and of the previous rung over N, as SVG."""
    products = [record for step in run.steps for record in (step.before, step.after) if record]
    return _roofline_svg([*products, *run.ceilings])


def roofline_of_all(source: Source, runtime: str) -> str:
    """The roofline of all backends on one runtime, as SVG."""
    records = source.records
    products = [r for r in records if r["kind"] == "gemm" and r["backend"].startswith(runtime) and r["status"] == "ok"]
    devices = {record["device"] for record in products}
    return _roofline_svg([*products, *(r for r in records if r["kind"] == "ceiling" and r["device"] in devices)])


def _roofline_svg(records: Sequence[Record]) -> str:
    with TemporaryDirectory() as folder:
        files = draw_rooflines(records, Path(folder))
        return next(path for path in files if path.suffix == ".svg").read_text(encoding="utf-8")
