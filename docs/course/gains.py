"""Compares the speed of a rung with that of the previous rung, from records.

On a device, the times are those of the kernels alone, by the device's own clock: for small products, starting a kernel
takes longer than running it. Only times of the same run are compared. If their p20 to p80 intervals overlap, the result
is "no difference seen", without a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from course.rungs import Rung, settings
from gemmlab.analysis.formatting import number
from gemmlab.measure import read
from gemmlab.measure.comparison import NO_DIFFERENCE, ratio
from gemmlab.measure.records import Record
from gemmlab.report import draw_rooflines
from gemmlab.roofline.model import Roof

DOCS = Path(__file__).parents[1]
LEVELS = {"local": "local memory", "l1": "L1", "l2": "L2", "l3": "L3", "dram": "memory"}


@dataclass(frozen=True)
class Step:
    """A rung at one size: its record, the previous rung's record of the same run, its share of the measured peak."""

    after: Record
    before: Record | None
    share_of_peak: float | None

    @property
    def n(self) -> int:
        """N of the square matrices."""
        return int(self.after["problem"]["n"])

    @property
    def gain(self) -> str:
        """How many times as fast as the previous rung, with the interval; empty if that rung has no record."""
        if self.before is None:
            return ""
        pair = ratio(self.before, self.after)
        return f"{number(pair.ratio)} ({number(pair.low)} to {number(pair.high)})" if pair.seen else NO_DIFFERENCE


@dataclass(frozen=True)
class Run:
    """A rung at all sizes of one run, from small to large. `file` is the path of the records below docs/."""

    machine: str
    file: str
    steps: tuple[Step, ...]
    ceilings: tuple[Record, ...]

    @property
    def has_previous(self) -> bool:
        """Whether the previous rung was measured in this run."""
        return any(step.before for step in self.steps)


def runs(rung: Rung) -> list[Run]:
    """The runs of a rung in the order of `course.toml`, those that also measured the previous rung first."""
    rung_runs = [
        run
        for entry in settings()["records"]
        if entry["ladder"] == rung.ladder
        for runtime, name in rung.backends.items()
        if (run := _run(rung, entry, runtime, name)) is not None
    ]
    return sorted(rung_runs, key=lambda run: not run.has_previous)


def _run(rung: Rung, entry: Mapping[str, str], runtime: str, name: str) -> Run | None:
    records = _records(entry["file"])
    previous_name = rung.before.backends[runtime] if rung.before else None
    previous_records = _squares(records, previous_name) if previous_name else []
    previous = {record["problem"]["n"]: record for record in reversed(previous_records)}  # of several, the first counts
    steps = [
        Step(record, previous.get(record["problem"]["n"]), _share_of_peak(records, record))
        for record in _squares(records, name)
    ]
    if not steps:
        return None
    device = steps[0].after["device"]
    ceilings = tuple(record for record in records if record["kind"] == "ceiling" and record["device"] == device)
    steps.sort(key=lambda step: step.n)
    return Run(entry["machine"], entry["file"], tuple(steps), ceilings)


@cache
def _records(file: str) -> tuple[Record, ...]:
    return tuple(_with_kernel_times(record) for record in read(DOCS / file))


def _with_kernel_times(record: Record) -> Record:
    """The record of a product without transfers, with the times of its kernels instead of the whole call's."""
    if record["kind"] != "gemm" or record["transfers_counted"] is not False or record["kernel_s"] is None:
        return record
    times = {key: record[f"kernel_{key}"] for key in ("p20_s", "p80_s")}
    return {**record, **times, "median_s": record["kernel_s"], "gflop_per_s": record["gflop"] / record["kernel_s"]}


def _squares(records: tuple[Record, ...], name: str) -> list[Record]:
    """The successful products of square matrices by a backend; on a device, those without transfers."""
    return [
        record
        for record in records
        if record["kind"] == "gemm"
        and record["backend"] == name
        and record["status"] == "ok"
        and not record["transfers_counted"]
        and len({record["problem"][side] for side in "mnk"}) == 1
    ]


def _share_of_peak(records: tuple[Record, ...], record: Record) -> float | None:
    with suppress(ValueError):  # this file has no ceilings for its device, dtype and number of threads
        return Roof(records, record["device"]).share_of_peak(record)
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


def first_entry(ladder: str) -> Mapping[str, str]:
    """The first entry of a ladder in `course.toml`: its `file` and its `machine`."""
    return next(entry for entry in settings()["records"] if entry["ladder"] == ladder)


def roofline_of_all(ladder: str, runtime: str) -> str:
    """The roofline of all backends on one runtime, from the first entry of a ladder in `course.toml`, as SVG."""
    records = _records(first_entry(ladder)["file"])
    products = [r for r in records if r["kind"] == "gemm" and r["backend"].startswith(runtime) and r["status"] == "ok"]
    devices = {record["device"] for record in products}
    return _roofline_svg([*products, *(r for r in records if r["kind"] == "ceiling" and r["device"] in devices)])


def _roofline_svg(records: Sequence[Record]) -> str:
    with TemporaryDirectory() as folder:
        files = draw_rooflines(records, Path(folder))
        return next(path for path in files if path.suffix == ".svg").read_text(encoding="utf-8")
