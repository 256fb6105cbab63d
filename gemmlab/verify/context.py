"""What a check is given: one backend and one dtype, and methods to test products on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmlab._backend import ErrorBound, Param
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import Array, DType
from gemmlab.verify.bounds import GAMMA, element_ratios
from gemmlab.verify.dtypes import poison
from gemmlab.verify.inputs import EDGES, around, integers


class Fault(Exception):
    """The backend broke a promise; the message says how."""


@dataclass
class CheckContext:
    """A backend and a dtype for one check, and the results so far.

    `blocks` are the backend's block sizes. With `any_thread_count`, the number of threads must not change any bit. With
    `accumulates`, the backend says that it adds to `out`. `error` is its bound for a product.
    """

    multiply: Callable[..., Array]
    dtype: DType
    params: Mapping[str, Param]
    blocks: list[int]
    any_thread_count: bool
    thorough: bool
    rng: np.random.Generator
    cases: int = 0
    refused: list[str] = field(default_factory=list)
    worst: float | None = None
    accumulates: bool = False
    error: Callable[[Array, Array], ErrorBound] = lambda a, b: GAMMA

    @property
    def sizes(self) -> list[int]:
        """Sizes at, just below and just above the tile sizes of common kernels and the backend's block sizes."""
        return sorted({*EDGES, *around(self.blocks)})

    @contextmanager
    def case(self, description: str) -> Iterator[None]:
        """One test: UnsupportedProblem is counted as a refusal, any other exception is a fault."""
        self.cases += 1
        try:
            with np.errstate(all="ignore"):
                yield
        except UnsupportedProblem:
            self.refused.append(description)
        except Fault as fault:
            raise Fault(f"{description}: {fault}") from None
        except Exception as error:
            raise Fault(f"{description}: {type(error).__name__}: {error}") from error

    def product(self, a: Array, b: Array, out: Array | None = None, **options: Any) -> Array:
        """The product; with `out`, a fault unless `out` is returned."""
        if out is None:
            return self.multiply(a, b, **options)
        result = self.multiply(a, b, out=out, **options)
        if result is not out:
            raise Fault("did not return out")
        return result

    def integers(self, *shape: int) -> Array:
        """A random array of integers from -8 to 8."""
        return integers(self.rng, shape, self.dtype)

    @property
    def _exact(self) -> DType:
        """A dtype in which the products of `integers` are exact."""
        return np.dtype(np.complex128 if self.dtype.kind == "c" else np.int64)

    def expect_exact(self, a: Array, b: Array, out: Array | None = None, **options: Any) -> None:
        """Multiply arrays of integers and compare with the exact product."""
        expected = np.matmul(a.astype(self._exact), b.astype(self._exact)).astype(self.dtype)
        _compare(self.product(a, b, out, **options), expected)

    def expect_added(self, a: Array, b: Array, out: Array) -> None:
        """Add a product of arrays of integers to `out`, and compare with the exact sum."""
        added = np.matmul(a.astype(self._exact), b.astype(self._exact))
        expected = (out.astype(self._exact) + added).astype(self.dtype)
        _compare(self.product(a, b, out, accumulate=True), expected)

    def unwritten(self, shape: tuple[int, ...]) -> Array:
        """An array full of NaN, or of one odd integer."""
        return np.full(shape, poison(self.dtype), self.dtype)

    def expect_within_bound(self, a: Array, b: Array) -> None:
        """Multiply and compare each element's error with its bound."""
        result = self.product(a, b)
        ratios = element_ratios(a, b, result, self.error(a, b))
        worst = float(ratios.max(initial=0.0))
        self.worst = max(worst, self.worst or 0.0)
        if worst > 1:
            i, j = np.unravel_index(ratios.argmax(), ratios.shape)
            raise Fault(f"C[{i}, {j}] is {result[i, j]}, {worst:.3g} times its error bound")


def _compare(result: Array, expected: Array) -> None:
    if result.shape != expected.shape or result.dtype.newbyteorder("=") != expected.dtype:
        raise Fault(f"returned {result.dtype} of shape {result.shape}, not {expected.dtype} of shape {expected.shape}")
    wrong = np.argwhere(np.asarray(result != expected))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        count = f"{len(wrong)} of {expected.size} elements are wrong"
        raise Fault(f"C{list(at)} is {result[at]}, not {expected[at]}; {count}")
