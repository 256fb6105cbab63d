"""Operands that are not plain NumPy arrays: on a device, exchanged by DLPack, or classes with a dispatch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
import numpy.typing as npt

from gemmlab import _front, _registry
from gemmlab._api.calls import Call, report, require
from gemmlab._backend import FullBackend, Params, check_params
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, Casting

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend


class Options(TypedDict):
    """The arguments of `matmul` besides the operands and the backend."""

    dtype: npt.DTypeLike | None
    casting: Casting
    axes: object
    threads: int | None
    accumulate: bool


def array_owner(*operands: AnyArray) -> str | None:
    """The runtime of device arrays, "dlpack" for arrays of other libraries, None for host arrays. An `out`, the last of
    three operands, may be None."""
    given = operands[:2] if len(operands) == 3 and operands[2] is None else operands
    operands = tuple(x[0] if isinstance(x, tuple) and len(x) == 1 else x for x in given)
    if all(type(x).__module__.partition(".")[0] in ("numpy", "builtins") for x in operands):
        return None
    from gemmlab._gpu.device_arrays import common_owner

    return common_owner(operands)


def multiply_exchanged(
    name: str, a: AnyArray, b: AnyArray, out: AnyArray, options: Options, params: Params
) -> AnyArray:
    """The product of another library's arrays, exchanged by DLPack; the result is an array of that library."""
    from gemmlab._gpu.device_arrays import exchanged
    from gemmlab._gpu.transfers.dlpack import converter

    out = _without_tuple(out)
    if out is not None:
        _front.matmul(exchanged(a), exchanged(b), exchanged(out), backend=name, **options, **params)
        return out
    convert_back = converter(a)
    result = _front.matmul(exchanged(a), exchanged(b), backend=name, **options, **params)
    return convert_back(np.asarray(result) if isinstance(result, np.generic) else result)


def multiply_device_arrays(
    runtime: str,
    name: str,
    operands: tuple[AnyArray, AnyArray, AnyArray],
    options: Options,
    params: Params,
    traces: tuple[list[Call], ...],
) -> AnyArray:
    """The product of device arrays, on their device. It is started; the call does not wait for it."""
    from gemmlab._gpu.device_arrays import problem_of
    from gemmlab._gpu.plans import table

    a, b, out = operands
    wanted = _registry.AUTO_ON[runtime] if name == "auto" else name
    chosen = cast("DeviceBackend", _registry.get(wanted))
    if not takes_arrays_of(chosen, runtime):
        what = f"{type(a).__module__}.{type(a).__qualname__}"
        raise UnsupportedProblem(f"{chosen.name} cannot take {what}: name a backend of {runtime}, or pass host arrays")
    if options["accumulate"]:
        raise UnsupportedProblem(f"{chosen.name} does not add to out (accumulate=True): compute out += a @ b")
    given, executor, asked = _without_tuple(out), chosen.runtime.plans, params
    if options["dtype"] is not None:
        asked = {**params, "dtype": np.dtype(options["dtype"]).name}  # a part of the key
        if options["axes"] is None and not traces and (done := executor.product(a, b, given, name, asked)) is not None:
            return done
    problem = problem_of(chosen, a, b, given, options["axes"], options["dtype"])
    backend = cast("DeviceBackend", _registry.get(_registry.choice(wanted, problem, params)[0]))
    require(backend, problem, params)
    start = time.perf_counter()
    plan = table.Plan(problem, backend.planned(problem, backend.resolve(problem, params)))
    if options["axes"] is None:  # which no key has
        table.keep(executor.key_of(a, b, given, name, asked), plan)
        _front.register_plans(type(a), executor.product)
    if not traces:
        return executor.execute(plan, a, b, given, None)
    events: list[Any] = []
    result = executor.execute(plan, a, b, given, events)
    for event in events:
        event.wait()
    seconds = time.perf_counter() - start
    report(traces, backend, problem, params, seconds, sum(event.kernel_s for event in events))
    return result


def takes_arrays_of(backend: FullBackend, runtime: str) -> bool:
    """Whether a backend multiplies the arrays of a runtime."""
    return backend.runtime is not None and backend.runtime.name == runtime


def _without_tuple(out: AnyArray) -> AnyArray:
    """`out`, which NumPy also accepts in a tuple of one."""
    return out[0] if isinstance(out, tuple) else out


def foreign_operand(a: AnyArray, b: AnyArray, out: AnyArray) -> AnyArray:
    """An operand that NumPy's dispatch must handle, or None: a subclass of ndarray, or a type with its ufuncs."""
    outs = out if isinstance(out, tuple) else (out,)
    for x in (a, b, *outs):
        if type(x) in (np.ndarray, np.memmap) or x is None:
            continue
        if isinstance(x, np.ndarray) or (hasattr(type(x), "__array_ufunc__") and not isinstance(x, np.generic)):
            return x
    return None


def numpys_dispatch(
    name: str,
    foreign: AnyArray,
    operands: tuple[AnyArray, AnyArray, AnyArray],
    options: Options,
    params: Params,
) -> AnyArray:
    """Under auto, pass an operand with a dispatch to NumPy; refuse it for a backend that the caller named."""
    if name not in ("auto", "cpu-numpy"):
        raise UnsupportedProblem(
            f"{name} takes plain arrays, not {type(foreign).__name__}: pass numpy.asarray(...) of it, or use "
            "backend='auto'"
        )
    if options["accumulate"]:
        raise UnsupportedProblem("cpu-numpy does not add to out (accumulate=True): compute out += a @ b")
    check_params(_registry.get(name), params)
    a, b, out = operands
    given = {"out": out, "axes": options["axes"], "dtype": options["dtype"]}
    if options["casting"] != "same_kind":  # pandas goes another way for any option
        given["casting"] = options["casting"]
    return np.matmul(a, b, **{name: value for name, value in given.items() if value is not None})
