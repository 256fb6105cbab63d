"""What a study is: a source's experiment as data.

Who takes part, over which sizes or parameters, what is timed, what the source found, and how that is judged.
`catalogue.py` has them all; `engine.py` carries one out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmlab._gpu import VENDORS
from gemmlab.report.findings import Finding

Record = Mapping[str, Any]
X = int | str | None  # where a record stands along what a study varies; None: it does not vary with it
Curves = Mapping[str, Mapping[X, float]]  # seconds by series and x
ON_RUNTIME, VENDOR = "RT-", "RT-vendor"
COUNTED = "Transfers count: NumPy arrays in and out."
KERNELS = "The kernels alone, by the device's own clock; operands are on the device before, the result stays there."
ON_CPU = "The whole product; a CPU moves nothing."


@dataclass(frozen=True)
class Entry:
    """A backend, with one set of parameters or several that take turns.

    "RT-local" stands for that rung of every runtime asked for, "RT-vendor" for the library that belongs to it.
    Where a backend cannot run, one of `instead` takes its place. A `yardstick` is there to be held against: alone
    it makes no study. The first `brief` sets of parameters are enough for a quick run.
    """

    backend: str
    params: tuple[Mapping[str, int], ...] = ({},)
    brief: int | None = None
    instead: tuple[str, ...] = ()
    yardstick: bool = False

    @property
    def on_runtime(self) -> bool:
        """Whether it is one backend on each runtime."""
        return self.backend.startswith(ON_RUNTIME)

    def names(self, runtime: str) -> list[str]:
        """Its backend on a runtime, such as "cuda" or "opencl:1", and those that may take its place."""
        plain, colon, device = runtime.partition(":")
        names = [self.backend.replace(VENDOR, f"RT-{VENDORS.get(plain, '')}"), *self.instead]
        return [f"{plain}-{name.removeprefix(ON_RUNTIME)}{colon}{device}" if self.on_runtime else name
                for name in names]  # fmt: skip


Judge = Callable[["Study", Any], Sequence[Finding]]  # of a `curves.Part`


def n_of(record: Record) -> X:
    """The edge of a square product: what most studies vary."""
    return int(record["problem"]["n"])


def rung_of(record: Record) -> str:
    """A backend's name without its runtime."""
    return str(record["backend"]).partition("-")[2]


@dataclass(frozen=True)
class Study:
    """One experiment.

    `x` says where a record stands along what is varied, and `series` which line it belongs to. Speed-ups are over
    the line `over_series` at the same x, or over the point `over_x` of the same line. `theirs` are the source's
    times in the same shape, in seconds or, where it gives ratios alone, in a unit of their own.

    Runtimes are measured one after another, unless they are to be compared: then `together`.
    """

    name: str
    source: str
    question: str
    timed: str
    entries: tuple[Entry, ...]
    sizes: tuple[int, ...]
    quick_sizes: tuple[int, ...]
    judges: tuple[Judge, ...]
    x: Callable[[Record], X] = n_of
    x_name: str = "N"
    series: Callable[[Record], str] = rung_of
    over_series: str | None = None
    over_x: X = None
    theirs: Curves = field(default_factory=dict)
    theirs_in_seconds: bool = False
    by_kernel: bool = False  # times are those of the device's own clock, where it tells
    transfers: str = "without"
    together: bool = False
    cap_s: float = 2.0
    ceilings_s: float = 0.0  # over 0 it has a roofline
    measure: Callable[[Any], None] | None = None  # of an `engine.Task`: an experiment that a session cannot do
    details: Callable[[Sequence[Record]], str] | None = None  # a table of its own
    words: Callable[[Sequence[Record]], Iterable[str]] | None = None  # of a study that times nothing, its tables,
    drawings: Callable[[Sequence[Record]], Iterable[tuple[str, Any]]] | None = None  # and figures with ends of names
    tells: Callable[[Record, Record], str] | None = None  # what two of its records say by their parameters alone

    @property
    def over(self) -> str:
        """What speed-ups are over, in words."""
        return self.over_series or f"{self.x_name} = {self.over_x}"

    @property
    def varies_n(self) -> bool:
        """Whether it runs over sizes; else every size is an experiment of its own."""
        return self.x is n_of

    @property
    def on_runtimes(self) -> bool:
        """Whether it is about GPU backends of any runtime."""
        return any(entry.on_runtime for entry in self.entries)
