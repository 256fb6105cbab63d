"""Runs one check of a backend in one dtype."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from gemmlab import _registry
from gemmlab._api import matmul, trace
from gemmlab._backend import Backend
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import DType, Problem
from gemmlab.verify.checks import CHECKS, Check
from gemmlab.verify.context import CheckContext, Fault
from gemmlab.verify.dtypes import DTYPES, dtype_of

TWO = ("float32", "float64")
Status = Literal["passed", "failed", "not supported"]


@dataclass(frozen=True)
class Result:
    """The result of one check for one dtype.

    `error_over_bound` is the largest error divided by its bound; None if the check does not measure errors.
    `detail` says what failed, or which cases the backend does not support.
    """

    check: str
    dtype: str
    status: Status
    detail: str
    error_over_bound: float | None
    cases: int


def supported(backend: str) -> list[str]:
    """The names of the dtypes that a backend does not refuse; bfloat16 only where ml_dtypes is installed."""
    found = []
    for name in DTYPES:
        try:
            ones = np.ones((2, 2), dtype_of(name))
        except ValueError:
            continue
        try:
            matmul(ones, ones, backend=backend)
        except UnsupportedProblem:
            continue
        except Exception:  # the checks report it
            pass
        found.append(name)
    return found or list(TWO)


def run_check(backend: str, number: int, dtype: str, seed: int, thorough: bool) -> Result:
    """The result of a check, by its number in `CHECKS`."""
    check = CHECKS[number]
    return _run(check, _context(backend, dtype_of(dtype), check, seed, thorough))


def _context(backend: str, dtype: DType, check: Check, seed: int, thorough: bool) -> CheckContext:
    chosen = _registry.get(backend)
    return CheckContext(
        multiply=partial(matmul, backend=backend),
        dtype=dtype,
        params=chosen.params,
        blocks=_blocks(chosen, dtype),
        any_thread_count=chosen.kind in ("rung", "emulated") and backend != "auto",  # which may take NumPy
        accumulates=chosen.accumulates,
        error=lambda a, b: chosen.error(Problem.from_call(a, b)),
        thorough=thorough,
        # Each check has a separate random generator, so that a check can be repeated without the ones before it.
        rng=np.random.default_rng([seed, zlib.crc32(f"{check.name}, {dtype.name}".encode())]),
    )


def _blocks(backend: Backend, dtype: DType) -> list[int]:
    """The integer parameters: the defaults, and the values that the backend chooses for a product."""
    values: dict[str, int | str | None] = {name: param.default for name, param in backend.params.items()}
    ones = np.ones((64, 64), dtype)
    with trace() as calls, suppress(Exception):  # the checks report what is wrong with this product
        matmul(ones, ones, backend=backend.name)
    for call in calls:
        values |= call.params
    return [value for value in values.values() if isinstance(value, int)]


def _run(check: Check, context: CheckContext) -> Result:
    status: Status = "passed"
    detail = _refusal(context)
    if detail:
        return Result(check.name, context.dtype.name, "not supported", detail, None, 0)
    try:
        check.run(context)
    except Fault as fault:
        status, detail = "failed", str(fault)
    else:
        if context.refused:
            some = "; ".join(context.refused[:3]) + ("; ..." if len(context.refused) > 3 else "")
            detail = f"{len(context.refused)} of {context.cases} cases not supported: {some}"
            status = "not supported" if len(context.refused) == context.cases else "passed"
    return Result(check.name, context.dtype.name, status, detail, context.worst, context.cases)


def _refusal(context: CheckContext) -> str:
    """Why the backend does not support this dtype; empty if it does."""
    ones = np.ones((2, 2), context.dtype)
    with suppress(Exception):  # the checks report any other error
        try:
            context.multiply(ones, ones)
        except UnsupportedProblem as error:
            return str(error)
    return ""
