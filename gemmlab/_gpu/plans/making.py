"""A plan from a product that went the long way."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.lib.array_utils import byte_bounds

from gemmlab._backend import Params
from gemmlab._gpu.batches import GemmSize, launches
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.table import Plan
from gemmlab._gpu.runtime import DeviceArray, HostArray
from gemmlab._problem import Problem

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend

# The modules that launch plans, by runtime. Each has `key_of`, `product`, `suits`, `start_of`, `template`.
_LAUNCHERS = {"opencl": "on_opencl", "cuda": "on_cuda"}


def launcher(runtime: str) -> Any:
    """The module that launches a runtime's plans; None if it has none. The runtime's package must be loaded."""
    return import_module(f"gemmlab._gpu.plans.{_LAUNCHERS[runtime]}") if runtime in _LAUNCHERS else None


def remember(
    way: Any,
    backend: DeviceBackend,
    problem: Problem,
    operands: tuple[DeviceArray, DeviceArray, DeviceArray | None],
    out: DeviceArray,
    name: str,
    params: Params,
) -> None:
    """Keep a plan of this product if it is the second one of its kind. `name` is what the caller asked for."""
    key = way.key_of(*operands, name, params)
    if key is not None and table.is_due(key):
        table.keep(key, _plan(way, backend, problem, (*operands[:2], out), params))


def _plan(
    way: Any, backend: DeviceBackend, problem: Problem, arrays: tuple[DeviceArray, ...], params: Params
) -> Plan | None:
    """The plan of a product that copies nothing and is one launch, or one launch of a stack; None for any other."""
    on_device, sides = problem.device_operands, []
    if on_device is None or not way.suits(*arrays):
        return None
    if problem.caller_out is not None or not problem.out.size or not problem.k:  # copied afterwards, or empty
        return None
    resolved = backend.resolve(problem, params)
    for x in (problem.a, problem.b, problem.out):
        operand = backend.without_copy(on_device, x, x is not problem.out and backend.accepts_transposed(resolved))
        if operand is None:
            return None
        sides.append(operand)
    (batch, views), *more = launches(problem.out.shape[:-2], sides, backend.max_batch(resolved))
    if more or problem.m > backend.max_rows(resolved):
        return None
    size = GemmSize(problem.m, problem.n, problem.k, batch)
    layouts = [replace(x.layout, start=way.start_of(array)) for x, array in zip(views, arrays, strict=True)]
    prepared = backend.prepared(on_device.queue, resolved, problem.dtype.name, size, layouts)
    if prepared is None:
        return None
    bounds = tuple(map(_bounds, (problem.a, problem.b, problem.out)))
    return Plan(on_device.queue, prepared, way.template(arrays[2]), bounds)


def _bounds(x: HostArray) -> tuple[int, int]:
    """The lowest byte and the byte after the highest one, from the first element on."""
    low, high = byte_bounds(x)
    begin = x.__array_interface__["data"][0]
    return low - begin, high - begin
