"""The public functions around `matmul`: pack, use, trace, backends; and `matmul` itself beyond the fast path.

    _front.matmul -> general_matmul -> Problem (everything checked) -> a backend, by name or by auto -> gemm -> out
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np
import numpy.typing as npt

from gemmlab import _front, _registry
from gemmlab._backend import Backend, BackendInfo, Handle, Params, check_params
from gemmlab._config import Scope, check_threads, config, scope
from gemmlab._cpu import _driver
from gemmlab._cpu.packed_backend._packed import PackedOperand
from gemmlab._cpu.threadpool import follow_threadpoolctl
from gemmlab._errors import UnsupportedProblem
from gemmlab._front import matmul
from gemmlab._problem import AnyArray, Casting, Problem

if TYPE_CHECKING:
    from gemmlab._cpu.packed_backend.backend import Packed
    from gemmlab._gpu.backend import DeviceBackend

__all__ = ["Call", "backends", "get_backend", "matmul", "pack", "trace", "use"]


@dataclass(frozen=True)
class Call:
    """What one product ran as.

    `copies` counts the operands that were copied (for another dtype or layout, or an overlapping `out`). `seconds` is
    the time of the product without the checks before it, `kernel_s` the time measured by the device, if it has a clock.
    """

    backend: str
    params: Params
    threads: int
    device: str
    copies: int
    seconds: float
    kernel_s: float | None = None


class Options(TypedDict):
    """The arguments of `matmul` besides the operands and the backend."""

    dtype: npt.DTypeLike | None
    casting: Casting
    axes: object
    threads: int | None


def general_matmul(
    a: AnyArray, b: AnyArray, out: AnyArray, backend: str | None, options: Options, params: Params
) -> AnyArray:
    """`matmul` for everything that the fast path of `_front` does not accept."""
    follow_threadpoolctl()
    active = scope.get() or Scope()
    name = requested_backend(backend, active)
    options["threads"] = check_threads(options["threads"]) or active.threads
    call_params = params
    if backend is None:  # the parameters of a `use` block belong to its backend
        params = {**active.params, **params}
    if (owner := array_owner(a, b, out)) == "dlpack":
        return _multiply_exchanged(name, a, b, out, options, params)
    if owner is not None:
        return _multiply_device_arrays(owner, name, (a, b, out), options, params, active.traces)
    if isinstance(b, PackedOperand):
        chosen, problem = _with_packed(name, a, b, out, options)
        run(chosen, problem, params, active.traces)
        return problem.result()
    if (foreign := foreign_operand(a, b, out)) is not None:
        return _numpys_dispatch(name, foreign, (a, b, out), options, call_params)
    problem = Problem.from_call(a, b, out, **options)
    if name == "auto":
        chosen = _registry.choose(problem, params)
    else:
        chosen = _registry.get(name)
    _register_kernel(name, chosen)
    if problem.threads is None and chosen.kind != "rung":
        problem.threads = config.threads  # a rung uses fewer for a small product
    run(chosen, problem, params, active.traces)
    return problem.result()


def array_owner(*operands: AnyArray) -> str | None:
    """The runtime of device arrays, "dlpack" for arrays of other libraries, None for host arrays."""
    operands = tuple(x[0] if isinstance(x, tuple) and len(x) == 1 else x for x in operands if x is not None)
    if all(type(x).__module__.partition(".")[0] in ("numpy", "builtins") for x in operands):
        return None
    from gemmlab._gpu.device_arrays import common_owner

    return common_owner(operands)


def _multiply_exchanged(
    name: str, a: AnyArray, b: AnyArray, out: AnyArray, options: Options, params: Params
) -> AnyArray:
    """The product of another library's arrays, exchanged by DLPack; the result is an array of that library."""
    from gemmlab._gpu.device_arrays import exchanged

    out = _without_tuple(out)
    (a, convert_back), (b, _) = exchanged(a), exchanged(b)
    if out is not None:
        matmul(a, b, exchanged(out)[0], backend=name, **options, **params)
        return out
    result = matmul(a, b, backend=name, **options, **params)
    return convert_back(np.asarray(result) if isinstance(result, np.generic) else result)


def _multiply_device_arrays(
    runtime: str,
    name: str,
    operands: tuple[AnyArray, AnyArray, AnyArray],
    options: Options,
    params: Params,
    traces: tuple[list[Call], ...],
) -> AnyArray:
    """The product of device arrays, on their device. It is started; the call does not wait for it."""
    from gemmlab._gpu.device_arrays import problem_of

    a, b, out = operands
    chosen = _registry.get(_registry.AUTO_ON[runtime] if name == "auto" else name)
    if getattr(getattr(chosen, "runtime", None), "name", None) != runtime:
        what = f"{type(a).__module__}.{type(a).__qualname__}"
        raise UnsupportedProblem(f"{chosen.name} cannot take {what}: name a backend of {runtime}, or pass host arrays")
    if options["dtype"] is not None:
        raise UnsupportedProblem("arrays on a device are multiplied in their own dtype: convert them with astype")
    backend = cast("DeviceBackend", chosen)
    problem, out = problem_of(backend, a, b, _without_tuple(out), options["axes"])
    handle = run(chosen, problem, params, traces)
    if events := getattr(handle, "events", None):
        backend.runtime.add_dependency(out, events[-1])
    return out


def _without_tuple(out: AnyArray) -> AnyArray:
    """`out`, which NumPy also accepts in a tuple of one."""
    return out[0] if isinstance(out, tuple) else out


def pack(b: npt.ArrayLike) -> PackedOperand:
    """Pack a matrix into the panels that `cpu-packed` reads, for many products with it as the right operand.

    Parameters
    ----------
    b : array_like
        A matrix of shape (k, n), of any dtype that `cpu-packed` multiplies and with any strides. Later changes to it
        have no effect.

    Returns
    -------
    PackedOperand
        Pass it to `matmul` instead of `b`; the product has the same bits. It has `shape`, `dtype` and `nbytes`, and
        holds a copy of the elements: 4 bytes for each float16 and float32, 8 for each float64, 2 or 4 for each
        bfloat16.

    Raises
    ------
    ValueError
        If `b` does not have two dimensions.
    UnsupportedProblem
        If `cpu-packed` does not multiply its dtype.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> weights = gemmlab.pack(np.ones((3, 2)))
    >>> gemmlab.matmul(np.eye(3)[:1], weights)
    array([[1., 1.]])
    """
    b = np.asarray(b)
    if b.ndim != 2:
        raise ValueError(f"pack takes a matrix, not an array of {b.ndim} dimensions")
    backend = cast("Packed", _registry.get("cpu-packed"))
    if (why_not := _registry.refusal(backend, Problem(b[:0], b, b[:0]))) is not None:
        raise UnsupportedProblem(why_not)
    return backend.pack(np.require(b, b.dtype.newbyteorder("="), "A"))


def _with_packed(
    name: str, a: AnyArray, b: PackedOperand, out: AnyArray, options: Options
) -> tuple[Backend, Problem]:
    """The backend and the problem of a product with a packed operand."""
    chosen = _registry.get("cpu-packed" if name == "auto" else name)
    if chosen.name != "cpu-packed":
        raise UnsupportedProblem(f"{chosen.name} takes no packed operand: pass the matrix itself, or use cpu-packed")
    problem = Problem.from_call(a, np.broadcast_to(np.zeros((), b.dtype), b.shape), out, **options)
    if problem.dtype != b.dtype:
        what = f"this product is one of {problem.dtype}, and b was packed as {b.dtype}"
        raise UnsupportedProblem(f"{what}: pack(b.astype({str(problem.dtype)!r}))")
    problem.packed = b
    return chosen, problem


def requested_backend(backend: str | None, active: Scope) -> str:
    """The backend's name: from the call, else from `use`, else from the settings."""
    return next(name for name in (backend, active.backend, config.backend) if name is not None)


def run(
    backend: Backend, problem: Problem, params: Params, traces: tuple[list[Call], ...] = ()
) -> Handle | None:
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
    elif problem.device_operands is None:
        problem.out[...] = 0  # an empty sum
    seconds = time.perf_counter() - start
    if traces:
        call = _call(backend, problem, params, seconds, getattr(handle, "kernel_s", None))
        for calls in traces:
            calls.append(call)
    return handle


def _call(backend: Backend, problem: Problem, params: Params, seconds: float, kernel_s: float | None) -> Call:
    resolve = getattr(backend, "resolve", None)
    threads = getattr(backend, "threads", None)
    on_device = problem.device_operands
    return Call(
        backend.name,
        resolve(problem, params) if resolve else dict(params),
        threads(problem) if threads else problem.threads or 1,
        on_device.queue.device.label if on_device else _registry.availability(backend.name).device,
        problem.copies,
        seconds,
        kernel_s,
    )


def _register_kernel(name: str, backend: Backend) -> None:
    """Let plain products of this backend take the fast path from now on."""
    if name == "auto" and backend.name != _registry.resolve_name("auto"):
        return  # auto chose it for this product only
    limits_a_library = backend.kind == "baseline" and config.threads is not None
    if backend.name in _registry.BUILT_IN and hasattr(backend, "kernel") and not limits_a_library:
        kernel = getattr(backend, "kernel_for_auto", backend.kernel) if name == "auto" else backend.kernel
        _front.register_kernel(name, kernel)


def foreign_operand(a: AnyArray, b: AnyArray, out: AnyArray) -> AnyArray:
    """An operand that NumPy's dispatch must handle, or None: a subclass of ndarray, or a type with its own ufuncs."""
    outs = out if isinstance(out, tuple) else (out,)
    for x in (a, b, *outs):
        if type(x) in (np.ndarray, np.memmap) or x is None:
            continue
        if isinstance(x, np.ndarray) or (hasattr(type(x), "__array_ufunc__") and not isinstance(x, np.generic)):
            return x
    return None


def _numpys_dispatch(
    name: str,
    foreign: AnyArray,
    operands: tuple[AnyArray, AnyArray, AnyArray],
    options: Options,
    params: Params,
) -> AnyArray:
    """Under auto, pass an operand with its own dispatch to NumPy; refuse it for a backend that the caller named."""
    if name not in ("auto", "cpu-numpy"):
        raise UnsupportedProblem(
            f"{name} takes plain arrays, not {type(foreign).__name__}: pass numpy.asarray(...) of it, or use "
            "backend='auto'"
        )
    check_params(_registry.get(name), params)
    a, b, out = operands
    given = {"out": out, "axes": options["axes"], "dtype": options["dtype"]}
    return np.matmul(
        a, b, casting=options["casting"], **{name: value for name, value in given.items() if value is not None}
    )


def backends() -> Mapping[str, BackendInfo]:
    """Every known backend, available or not.

    Returns
    -------
    mapping of str to BackendInfo
        `available` and, if that is False, `reason` and `fix`.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.backends()["cpu-ikj"].available
    True
    """
    return {name: _registry.info(name) for name in _registry.names()}


def get_backend(name: str) -> Backend:
    """The backend with a name, or the best one of a family.

    Raises
    ------
    UnknownBackend
        No backend has this name; the message lists near ones.
    BackendUnavailable
        It cannot run here; the message has the reason and a fix.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.get_backend("cpu-blocked").kind
    'rung'
    """
    return _registry.get(name)


@contextmanager
def use(backend: str | None = None, *, threads: int | None = None, **params: Any) -> Iterator[None]:
    """Within the block, calls that name no backend use this one, with this number of threads and these parameters.

    The setting is a context variable: other threads and other asyncio tasks do not see it. Blocks nest; what an inner
    block does not set stays as in the outer one.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> with gemmlab.use("cpu-blocked", threads=1, bs_c=32):
    ...     gemmlab.matmul(np.eye(2), np.ones((2, 1)))
    array([[1.],
           [1.]])
    """
    outer = scope.get() or Scope()
    if backend is not None:
        check_params(_registry.get(backend), params)  # a wrong name fails here, not at the first product
        outer = replace(outer, params={})
    elif params:
        check_params(_registry.get(outer.backend or config.backend), params)
    threads = check_threads(threads)
    inner = replace(
        outer,
        backend=backend or outer.backend,
        threads=threads or outer.threads,
        params={**outer.params, **params},
    )
    token = scope.set(inner)
    try:
        yield
    finally:
        scope.reset(token)


@contextmanager
def trace() -> Iterator[list[Call]]:
    """Within the block, record how each product was computed.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> with gemmlab.trace() as calls:
    ...     _ = gemmlab.matmul(np.eye(3), np.eye(3), backend="cpu-ikj")
    >>> calls[0].backend, calls[0].copies
    ('cpu-ikj', 0)
    """
    calls: list[Call] = []
    outer = scope.get() or Scope()
    token = scope.set(replace(outer, traces=(*outer.traces, calls)))
    try:
        yield calls
    finally:
        scope.reset(token)


follow_threadpoolctl()
_front.set_general(general_matmul)
config.listen(_front.settings_changed)
config.listen(lambda: _driver.limit_threads(config.threads))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_driver.forked)
