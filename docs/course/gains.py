"""What the records say of a rung beside the step before it.

On a device the times are those of the kernels alone, by its own clock: starting a kernel takes longer than running it
where products are small. A comparison is made inside one run only, and where the p20 to p80 intervals of two times
overlap it says so and no more.
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
    """A rung at one size, with the step before it in the same run, and its share of the measured peak."""

    after: Record
    before: Record | None
    share_of_peak: float | None

    @property
    def n(self) -> int:
        """The edge of the squares."""
        return int(self.after["problem"]["n"])

    @property
    def gain(self) -> str:
        """How many times as fast as the step before, with the interval; nothing without one."""
        if self.before is None:
            return ""
        pair = ratio(self.before, self.after)
        return f"{number(pair.ratio)} ({number(pair.low)} to {number(pair.high)})" if pair.seen else NO_DIFFERENCE


@dataclass(frozen=True)
class Run:
    """A rung through the sizes of one run, from small to large; `file` has the records, below docs/."""

    machine: str
    file: str
    steps: tuple[Step, ...]
    ceilings: tuple[Record, ...]

    @property
    def beside(self) -> bool:
        """Whether the step before was measured in it."""
        return any(step.before for step in self.steps)


def runs(rung: Rung) -> list[Run]:
    """Every run that the course shows of a rung: those beside the step before first, as `course.toml` orders them."""
    found = [
        run
        for shown in settings()["records"]
        if shown["ladder"] == rung.ladder
        for runtime, name in rung.backends.items()
        if (run := _run(rung, shown, runtime, name)) is not None
    ]
    return sorted(found, key=lambda run: not run.beside)


def _run(rung: Rung, shown: Mapping[str, str], runtime: str, name: str) -> Run | None:
    records = _records(shown["file"])
    before = rung.before.backends[runtime] if rung.before else None
    steps = []
    for own in _squares(records, name):
        others = _squares(records, before) if before else []
        other = next((record for record in others if record["problem"]["n"] == own["problem"]["n"]), None)
        steps.append(Step(own, other, _share(records, own)))
    if not steps:
        return None
    device = steps[0].after["device"]
    ceilings = tuple(record for record in records if record["kind"] == "ceiling" and record["device"] == device)
    steps.sort(key=lambda step: step.n)
    return Run(shown["machine"], shown["file"], tuple(steps), ceilings)


@cache
def _records(file: str) -> tuple[Record, ...]:
    return tuple(_by_the_devices_clock(record) for record in read(DOCS / file))


def _by_the_devices_clock(record: Record) -> Record:
    if record["kind"] != "gemm" or record["transfers_counted"] is not False or record["kernel_s"] is None:
        return record
    times = {key: record[f"kernel_{key}"] for key in ("p20_s", "p80_s")}
    return {**record, **times, "median_s": record["kernel_s"], "gflop_per_s": record["gflop"] / record["kernel_s"]}


def _squares(records: tuple[Record, ...], name: str) -> list[Record]:
    """A backend's good products of squares; on a device, those whose operands stay there."""
    return [
        record
        for record in records
        if record["kind"] == "gemm"
        and record["backend"] == name
        and record["status"] == "ok"
        and not record["transfers_counted"]
        and len({record["problem"][side] for side in "mnk"}) == 1
    ]


def _share(records: tuple[Record, ...], record: Record) -> float | None:
    with suppress(ValueError):  # no ceilings of its device, dtype and threads in this file
        return Roof(records, record["device"]).share_of_peak(record)
    return None


def bytes_a_multiply_add(record: Record) -> dict[str, float]:
    """What the rung's own model says it moves from each memory level, for each multiply-add."""
    count = record["gflop"] * 1e9 / 2
    found = {text: record.get(f"bytes_model_{level}") for level, text in LEVELS.items()}
    return {text: moved / count for text, moved in found.items() if moved is not None}


def roofline(run: Run) -> str:
    """The figure of a rung's path over N beside the step before's, as SVG."""
    products = [record for step in run.steps for record in (step.before, step.after) if record]
    return _drawn([*products, *run.ceilings])


def first_shown(ladder: str) -> Mapping[str, str]:
    """The run that `course.toml` names first of a ladder: its `file` and its `machine`."""
    return next(shown for shown in settings()["records"] if shown["ladder"] == ladder)


def roofline_of_all(ladder: str, runtime: str) -> str:
    """The figure of every backend of the first run that the course shows of a ladder, on one runtime, as SVG."""
    records = _records(first_shown(ladder)["file"])
    products = [r for r in records if r["kind"] == "gemm" and r["backend"].startswith(runtime) and r["status"] == "ok"]
    devices = {record["device"] for record in products}
    return _drawn([*products, *(r for r in records if r["kind"] == "ceiling" and r["device"] in devices)])


def _drawn(records: Sequence[Record]) -> str:
    with TemporaryDirectory() as folder:
        drawn = draw_rooflines(records, Path(folder))
        return next(path for path in drawn if path.suffix == ".svg").read_text(encoding="utf-8")
