"""What a backend is: the protocol, and the small records that describe one.

A plugin needs nothing else from gemmlab. `docs/adding-a-backend.md` walks through one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from gemmlab._problem import Problem


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here; if not, why, and the command that changes it."""

    ok: bool
    reason: str = ""
    fix: str = ""
    device: str = ""


@dataclass(frozen=True)
class Param:
    """One tunable parameter, as data: the tuner, the command line and the docs all read it.

    `default` may be None, "worked out for each problem"; `choices` lists what makes sense to try;
    `constraint` is a predicate with `rule` as its sentence, and decides what is accepted.
    """

    name: str
    default: int | str | None
    choices: tuple[int | str, ...]
    meaning: str
    rule: str = ""
    constraint: Callable[[Any], bool] = field(default=lambda value: True, repr=False, compare=False)


@runtime_checkable
class Backend(Protocol):
    """Something that can fill `problem.out`. See `docs/adding-a-backend.md`."""

    name: str
    kind: str
    source: str
    params: Mapping[str, Param]

    @property
    def summary(self) -> str:
        """What it is, in half a line."""

    def probe(self) -> Availability:
        """Say whether this backend can run here. Never raises."""

    def supports(self, problem: Problem) -> bool | str:
        """True, or a sentence saying why this problem is not done."""

    def gemm(self, problem: Problem, **params: Any) -> Any:
        """Fill `problem.out`; return None, or a handle with `wait()` and `kernel_s`."""


@dataclass(frozen=True)
class BackendInfo:
    """A row of `gemmlab.backends()`."""

    name: str
    kind: str
    summary: str
    available: bool
    reason: str
    fix: str
    device: str
    params: Mapping[str, Param]


def check_params(backend: Backend, given: Mapping[str, Any]) -> None:
    """Raise for a parameter that the backend does not have, or a value that it does not take."""
    for name, value in given.items():
        param = backend.params.get(name)
        if param is None:
            own = ", ".join(backend.params) or "none"
            raise TypeError(f"{backend.name} has no parameter {name!r}; its parameters: {own}")
        if value is not None and not param.constraint(value):
            raise ValueError(f"{backend.name}: {name} must be {param.rule}, not {value!r}")
