"""Run one checked problem on one backend, and report it to traces."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from gemmlab import _registry
from gemmlab._backend import FullBackend, Handle, Params, check_params
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, DType, Problem


@dataclass(frozen=True)
class Call:
    """What one product ran as.

    `copies` counts the operands that were copied (for another dtype or layout, or an overlapping `out`). `seconds` is
    the time of the product without the checks before it, `kernel_s` the time measured by the device, if it has a clock.
    `batch` products of (m, k) by (k, n) matrices were computed; `dtype` is that of the result.
    """

    backend: str
    params: Params
    threads: int
    device: str
    copies: int
    seconds: float
    kernel_s: float | None
    m: int
    n: int
    k: int
    batch: int
    dtype: DType


def require(backend: FullBackend, problem: Problem, params: Params) -> None:
    """TypeError, ValueError or UnsupportedProblem if a backend cannot compute a problem with these parameters."""
    check_params(backend, params)
    if (why_not := _registry.refusal(backend, problem)) is not None:
        raise UnsupportedProblem(why_not)


def run(backend: FullBackend, problem: Problem, params: Params, traces: tuple[list[Call], ...] = ()) -> AnyArray:
    """The product of host arrays by a backend; UnsupportedProblem if it cannot compute it."""
    require(backend, problem, params)
    start = time.perf_counter()
    handle: Handle | None = None
    if problem.out.size and problem.k:
        handle = backend.gemm(problem, **params)
        if handle is not None:
            handle.wait()
    elif not problem.accumulate:
        problem.out[...] = 0  # an empty sum
    if traces:
        seconds = time.perf_counter() - start
        report(traces, backend, problem, params, seconds, None if handle is None else handle.kernel_s)
    if backend.reports_errors or problem.caller_out is None:
        return problem.result()
    with np.errstate(all="ignore"):  # a conversion
        return problem.result()


def report(
    traces: tuple[list[Call], ...], backend: FullBackend, problem: Problem, params: Params, seconds: float,
    kernel_s: float | None,
) -> None:  # fmt: skip
    """Tell traces of a product."""
    call = Call(
        backend.name,
        backend.resolve(problem, params),
        backend.threads(problem) or problem.threads or 1,
        _registry.availability(backend.name).device if problem.queue is None else problem.queue.device.label,
        problem.copies,
        seconds,
        kernel_s,
        problem.m,
        problem.n,
        problem.k,
        problem.batch,
        problem.dtype,
    )
    for calls in traces:
        calls.append(call)
