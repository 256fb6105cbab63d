"""What a check sees: one backend and one dtype, and a way to try things on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmlab._backend import Param
from gemmlab._errors import UnsupportedProblem
from gemmlab.verify.bounds import element_ratios
from gemmlab.verify.cases import EDGES, Array, around, integers


class Fault(Exception):
    """The backend broke a promise; the message says how."""


@dataclass
class Subject:
    """A backend and a dtype under one check, and what the check has seen.

    `blocks` are the block sizes in force, `any_thread_count` says that threads must not change a bit.
    """

    multiply: Callable[..., Any]
    dtype: np.dtype[Any]
    params: Mapping[str, Param]
    blocks: list[int]
    any_thread_count: bool
    thorough: bool
    rng: np.random.Generator
    cases: int = 0
    refused: list[str] = field(default_factory=list)
    worst: float | None = None

    @property
    def sizes(self) -> list[int]:
        """Sizes at, below and above the widths of usual kernels and this backend's own blocks."""
        return sorted({*EDGES, *around(self.blocks)})

    @contextmanager
    def case(self, description: str) -> Iterator[None]:
        """One thing tried: a refusal is noted, anything else that is raised is a fault."""
        self.cases += 1
        try:
            yield
        except UnsupportedProblem:
            self.refused.append(description)
        except Fault as fault:
            raise Fault(f"{description}: {fault}") from None
        except Exception as error:
            raise Fault(f"{description}: {type(error).__name__}: {error}") from error

    def product(self, a: Array, b: Array, out: Array | None = None, **options: Any) -> Any:
        if out is None:
            return self.multiply(a, b, **options)
        result = self.multiply(a, b, out=out, **options)
        if result is not out:
            raise Fault("did not return out")
        return result

    def integers(self, *shape: int) -> Array:
        return integers(self.rng, shape, self.dtype)

    def expect_exact(self, a: Array, b: Array, out: Array | None = None, **options: Any) -> None:
        """Multiply whole numbers and compare with the product in int64."""
        expected = np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(self.dtype)
        _compare(self.product(a, b, out, **options), expected)

    def expect_within_bound(self, a: Array, b: Array) -> None:
        result = self.product(a, b)
        ratios = element_ratios(a, b, result)
        worst = float(ratios.max(initial=0.0))
        self.worst = max(worst, self.worst or 0.0)
        if worst > 1:
            i, j = np.unravel_index(ratios.argmax(), ratios.shape)
            raise Fault(f"C[{i}, {j}] is {result[i, j]}, {worst:.3g} times its error bound")


def _compare(result: Any, expected: Any) -> None:
    if result.shape != expected.shape or result.dtype.newbyteorder("=") != expected.dtype:
        raise Fault(f"gave {result.dtype} of shape {result.shape}, not {expected.dtype} of shape {expected.shape}")
    wrong = np.argwhere(np.asarray(result != expected))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        count = f"{len(wrong)} of {expected.size} elements are wrong"
        raise Fault(f"C{list(at)} is {result[at]}, not {expected[at]}; {count}")
