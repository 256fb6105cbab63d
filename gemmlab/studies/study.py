"""What a study is: an experiment of a source as data. `catalogue.py` has them all; `engine.py` runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gemmlab._gpu import VENDORS
from gemmlab._name import BackendName
from gemmlab.analysis.findings import Finding
from gemmlab.measure.records import Record

if TYPE_CHECKING:
    from gemmlab.studies.curves import Scenario
    from gemmlab.studies.engine import Task

X = int | str | None  # the position of a record along what a study varies; None: it does not vary with it
Curves = Mapping[str, Mapping[X, float]]  # seconds by series and x
Judge = Callable[["Study", "Scenario"], Sequence[Finding]]
ON_RUNTIME, VENDOR = "RT-", "RT-vendor"
COUNTED = "Transfers count: NumPy arrays in and out."
KERNELS = "The kernels alone, by the device's own clock; operands and result stay on the device."
ON_CPU = "The whole product; a CPU moves nothing."


@dataclass(frozen=True)
class Entry:
    """A backend with one set of parameters or several.

    "RT-local" stands for that rung of every runtime asked for, "RT-vendor" for the library that belongs to it. Where
    a backend cannot run, the first of `fallbacks` that can takes its place. A `reference` is only there for
    comparison: alone it makes no study. A quick run takes the first `quick_count` sets of parameters.
    """

    backend: str
    params: tuple[Mapping[str, int], ...] = ({},)
    quick_count: int | None = None
    fallbacks: tuple[str, ...] = ()
    reference: bool = False

    @property
    def on_runtime(self) -> bool:
        """Whether it is one backend on each runtime."""
        return self.backend.startswith(ON_RUNTIME)

    def names(self, runtime: str) -> list[str]:
        """Its backend on a runtime, such as "cuda" or "opencl:1", and then its fallbacks."""
        where = BackendName.of(runtime)
        names = [self.backend.replace(VENDOR, f"RT-{VENDORS.get(where.runtime, '')}"), *self.fallbacks]
        return [where.of_rung(name.removeprefix(ON_RUNTIME)) if self.on_runtime else name for name in names]


def n_of(record: Record) -> X:
    """The edge of a square product: what most studies vary."""
    return int(record["problem"]["n"])


def label_of(record: Record) -> X:
    """The label of a product: what studies that measure by themselves vary."""
    return str(record["problem"]["label"])


def rung_of(record: Record) -> str:
    """A backend's name without its runtime."""
    return BackendName.of(record["backend"]).rung


@dataclass(frozen=True)
class Study:
    """One experiment.

    `x` gives a record's position along what is varied, and `series` the line it belongs to. Speed-ups are over the
    line `over_series` at the same x, or over the point `over_x` of the same line. `theirs` are the source's times in
    the same form, in seconds or, where it gives ratios alone, in any unit. With `by_kernel`, times are those of the
    device's clock. Runtimes are measured one after another, or `together` where they are compared. Where x is not
    the size, each size has a separate figure, if `sizes_apart`; else sizes are lines of one.

    `derived` makes further lines of the measured ones, for the figure and the tables.

    Without `ceilings_s` there is no roofline. A study that a session cannot do has a function `measure`, and one
    that has more to show than curves yields further blocks of text from `blocks`.
    """

    name: str
    source: str
    question: str
    timed: str
    entries: tuple[Entry, ...]
    sizes: tuple[int, ...]
    quick_sizes: tuple[int, ...]
    judges: tuple[Judge, ...]
    dtype: str = "float32"
    x: Callable[[Record], X] = n_of
    x_name: str = "N"
    series: Callable[[Record], str] = rung_of
    over_series: str | None = None
    over_x: X = None
    theirs: Curves = field(default_factory=dict)
    theirs_in_seconds: bool = False
    by_kernel: bool = False
    transfers: str = "without"
    together: bool = False
    sizes_apart: bool = True
    cap_s: float = 2.0
    ceilings_s: float = 0.0
    measure: Callable[[Task], None] | None = None
    blocks: Callable[[Sequence[Record]], Iterable[str]] = lambda records: ()
    derived: Callable[[Sequence[Record]], Sequence[Record]] = lambda records: ()

    @property
    def over(self) -> str:
        """What speed-ups are over, as text."""
        return self.over_series or f"{self.x_name} = {self.over_x}"

    @property
    def joins_sizes(self) -> bool:
        """Whether all sizes are in one figure; else every size is a separate experiment."""
        return self.x is n_of or not self.sizes_apart

    @property
    def on_runtimes(self) -> bool:
        """Whether it is about GPU backends of any runtime."""
        return any(entry.on_runtime for entry in self.entries)
