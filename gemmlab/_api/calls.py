"""Run one checked problem on one backend, and report it to traces."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gemmlab import _registry
from gemmlab._backend import FullBackend, Handle, Params, check_params
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import DType, Problem


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


def run(backend: FullBackend, problem: Problem, params: Params, traces: tuple[list[Call], ...] = ()) -> Handle | None:
    """Fill `problem.out` by a backend, or raise UnsupportedProblem; returns the backend's handle.

    Work on device arrays may still be running when this returns, unless a trace needs its time.
    """
    check_params(backend, params)
    if (why_not := _registry.refusal(backend, problem)) is not None:
        raise UnsupportedProblem(why_not)
    start = time.perf_counter()
    handle: Handle | None = None
    if problem.out.size and (problem.k or problem.device_operands is not None):
        handle = backend.gemm(problem, **params)
        if handle is not None and (traces or problem.device_operands is None):
            handle.wait()
    elif problem.device_operands is None and not problem.accumulate:
        problem.out[...] = 0  # an empty sum
    seconds = time.perf_counter() - start
    if traces:
        call = _call(backend, problem, params, seconds, getattr(handle, "kernel_s", None))
        for calls in traces:
            calls.append(call)
    return handle


def _call(backend: FullBackend, problem: Problem, params: Params, seconds: float, kernel_s: float | None) -> Call:
    on_device = problem.device_operands
    return Call(
        backend.name,
        backend.resolve(problem, params),
        backend.threads(problem) or problem.threads or 1,
        on_device.queue.device.label if on_device else _registry.availability(backend.name).device,
        problem.copies,
        seconds,
        kernel_s,
        problem.m,
        problem.n,
        problem.k,
        problem.batch,
        problem.dtype,
    )
