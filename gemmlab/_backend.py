"""The protocol of a backend, and the dataclasses that describe one.

A plugin needs nothing else from gemmlab. `docs/adding-a-backend.md` shows how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from gemmlab._errors import UnsupportedProblem

if TYPE_CHECKING:
    from gemmlab._problem import Problem

Params: TypeAlias = Mapping[str, Any]  # parameters of a backend, by name; None: the default


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here; if not, the reason and a command that fixes it."""

    ok: bool
    reason: str = ""
    fix: str = ""
    device: str = ""


@dataclass(frozen=True)
class Param:
    """One tunable parameter, as data for the tuner, the studies, the command line and the docs.

    A `default` of None means that the backend chooses a value for each problem. `choices` are the values worth trying.
    `constraint` decides whether a value is accepted; `rule` describes it in words.
    """

    name: str
    default: int | str | None
    choices: tuple[int | str, ...]
    meaning: str
    rule: str = ""
    constraint: Callable[[Any], bool] = field(default=lambda value: True, repr=False, compare=False)


# Names that parameters had in an older gemmlab, as profiles, logs and records may have them.
OLD_NAMES = {"panel": "group_m", "split_k": "shares"}  # of both, 0 chooses and 1 shares nothing


def by_todays_names(params: Params) -> dict[str, Any]:
    """Parameters that an older gemmlab wrote, by the names of this."""
    return {OLD_NAMES.get(name, name): value for name, value in params.items()}


@dataclass(frozen=True)
class ErrorBound:
    """What a product's error is at most.

    Attributes
    ----------
    kind : str
        "componentwise": the error of each element by |A||B|; "norms": by the 2-norms of its row of A and column of B.
    bound : float or None
        The error is at most so many times that; None: gamma_k of `gemmlab.verify`, as for any sum of products.
    lost : float
        What each number of A and B may lose besides, as small as it is.
    underflow : int
        So many times the smallest normal number may each product lose.
    """

    kind: str = "componentwise"
    bound: float | None = None
    lost: float = 0.0
    underflow: int = 1


class Handle(Protocol):
    """A product that is still running on a device."""

    @property
    def kernel_s(self) -> float:
        """Seconds of its kernels, measured by the device's clock; NaN if it does not measure them."""

    def wait(self) -> None:
        """Block until the product is done."""


@runtime_checkable
class Backend(Protocol):
    """What every backend has: it fills `problem.out`. See `docs/adding-a-backend.md`.

    What it may have besides is in `FullBackend`, with what gemmlab takes where a backend lacks it.
    """

    name: str
    kind: str
    source: str
    params: Mapping[str, Param]

    @property
    def summary(self) -> str:
        """A description in half a line."""

    def probe(self) -> Availability:
        """Whether this backend can run here. Never raises."""

    def supports(self, problem: Problem) -> bool | str:
        """True, or a sentence that says why this backend cannot multiply this problem."""

    def gemm(self, problem: Problem, **params: Any) -> Handle | None:
        """Fill `problem.out`; return None, or a handle for work that is still running."""


class FullBackend(Backend, Protocol):
    """A backend with all that it may have, and what is so where it says nothing. gemmlab's derive from it.

    Attributes
    ----------
    accumulates : bool
        Whether it adds to `problem.out` where `problem.accumulate` is set; no other is given such a problem.
    is_compiled : bool
        Whether plain products go straight to its `kernel`: a `CompiledWay`, or None for NumPy's matmul.
    reports_errors : bool
        Whether conversions of operands and result obey `numpy.errstate`; our kernels report no floating-point errors.
    for_parts : mapping of str to int
        Parameters for blocks of a larger product, with which their bits do not depend on how it is cut.
    sums : mapping of str to str
        Dtypes of A and B whose sums a device gives as they are, in this dtype, where `dtype=` asks for it.
    runtime, device : Runtime, Device or None
        The runtime whose arrays it takes, and the device that host arrays go to; None on the host.
    """

    accumulates: bool = False
    for_parts: Params = {}  # noqa: RUF012 - never changed
    is_compiled: bool = False
    kernel: Any = None
    reports_errors: bool = False
    sums: Mapping[str, str] = {}
    runtime: Any = None

    @property
    def device(self) -> Any:
        """The device that host arrays go to."""
        return None

    def resolve(self, problem: Problem, params: Params) -> Params:
        """The parameters in force for a problem, defaults filled in."""
        return dict(params)

    def threads(self, problem: Problem) -> int | None:
        """Threads that a product runs on; None if the backend does not tell."""
        return None

    def plan(self, problem: Problem, **params: Any) -> Any:
        """How the product is cut, with a `summary` and its `loops` in words; None if there is nothing to tell."""
        return None

    def pack(self, b: Any, params: Params) -> Any:
        """A matrix as `matmul` takes it for many products by this backend; UnsupportedProblem if it packs none."""
        raise UnsupportedProblem(f"{self.name} packs no operand: pass the matrix itself, or use cpu-packed")

    def block_of_k(self, problem: Problem) -> int | None:
        """k may be cut at multiples of this, into products with `whole_k` that are added in order: the sums have the
        bits of the whole product. None if there is no such cut."""
        return None

    def error(self, problem: Problem, **params: Any) -> ErrorBound:
        """How large the error of a product may be; `gemmlab verify` holds the backend to it."""
        return ErrorBound()

    def forecast(self, problem: Problem, **params: Any) -> str:
        """What it says of how it will compute the product."""
        return ""

    def predicted_s(self, problem: Problem) -> float | None:
        """Seconds that a model predicts; None without one."""
        return None

    def traffic(self, problem: Problem, machine: Any, **params: Any) -> dict[str, float]:
        """Modelled bytes that pass from each memory level towards the core; `machine`: bytes of its caches."""
        return {}

    def packing_share(self, problem: Problem, **params: Any) -> float | None:
        """The measured share of its threads' time that a product spends packing; None if it does not pack."""
        return None


class Adapted(FullBackend):
    """A plugin that follows the protocol alone, with the defaults for what it lacks."""

    OPTIONAL = (
        "accumulates", "reports_errors", "sums", "runtime", "resolve", "threads", "plan", "forecast", "predicted_s",
        "traffic", "packing_share", "pack", "block_of_k", "error",
    )  # fmt: skip

    def __init__(self, plugin: Backend) -> None:
        self.plugin = plugin
        self.name, self.kind, self.source, self.params = plugin.name, plugin.kind, plugin.source, plugin.params
        for name in self.OPTIONAL:
            if hasattr(plugin, name):
                setattr(self, name, getattr(plugin, name))

    @property
    def summary(self) -> str:
        """As the plugin says."""
        return self.plugin.summary

    @property
    def device(self) -> Any:
        """As the plugin says, if it does."""
        return getattr(self.plugin, "device", None)

    def probe(self) -> Availability:
        """As the plugin says."""
        return self.plugin.probe()

    def supports(self, problem: Problem) -> bool | str:
        """As the plugin says."""
        return self.plugin.supports(problem)

    def gemm(self, problem: Problem, **params: Any) -> Handle | None:
        """By the plugin."""
        return self.plugin.gemm(problem, **params)


def complete(backend: Backend) -> FullBackend:
    """A backend with all that it may have: itself if it is one of gemmlab's kind, else adapted."""
    return backend if FullBackend in type(backend).__mro__ else Adapted(backend)  # type: ignore[return-value]


@dataclass(frozen=True)
class BackendInfo:
    """An entry of `gemmlab.backends()`."""

    name: str
    kind: str
    summary: str
    available: bool
    reason: str
    fix: str
    device: str
    params: Mapping[str, Param]


# Parameters of `matmul` elsewhere, and what gives the same here.
ELSEWHERE = {
    "subok": "NumPy's matmul has it; leave it out, or call numpy.matmul",
    "order": "NumPy's matmul has it; pass out=numpy.empty(shape, dtype, order)",
    "signature": "NumPy's matmul has it; pass dtype=",
    "where": "NumPy's element-wise functions have it; select from the result by numpy.where",
    "axis": "NumPy's other functions have it; pass axes=",
    "keepdims": "NumPy's other functions have it; multiply matrices of one row or one column",
    "alpha": "BLAS has it; scale an operand or the result",
    "beta": "BLAS has it; scale what C holds, and add it to the result",
    "trans_a": "BLAS has it; pass a.T",
    "trans_b": "BLAS has it; pass b.T",
}


def check_params(backend: Backend, given: Params) -> None:
    """TypeError for a parameter that the backend does not have, ValueError for a value that it does not accept."""
    for name, value in given.items():
        param = backend.params.get(name)
        if param is None and name in ELSEWHERE:
            raise TypeError(f"gemmlab.matmul has no parameter {name!r}: {ELSEWHERE[name]}")
        if param is None:
            own = ", ".join(backend.params) or "none"
            raise TypeError(f"{backend.name} has no parameter {name!r}; its parameters: {own}")
        if value is not None and not param.constraint(value):
            raise ValueError(f"{backend.name}: {name} must be {param.rule}, not {value!r}")
