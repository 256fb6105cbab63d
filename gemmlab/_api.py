"""The one call, the general way: matmul, and what goes with it: pack, use, trace.

    matmul -> Problem (everything checked) -> a backend, by name or by auto -> backend.gemm(problem) -> out
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab import _front, _registry
from gemmlab._backend import Backend, BackendInfo, check_params
from gemmlab._config import Scope, check_threads, config, scope
from gemmlab._cpu import _driver
from gemmlab._cpu.packed_backend._packed import PackedOperand
from gemmlab._cpu.threadpool import follow_threadpoolctl
from gemmlab._errors import UnsupportedProblem
from gemmlab._front import matmul
from gemmlab._problem import Problem

__all__ = ["Call", "backends", "get_backend", "matmul", "pack", "trace", "use"]


@dataclass(frozen=True)
class Call:
    """What one product really ran as.

    `copies` counts operands that were copied (another dtype or layout, an overlapping `out`), `seconds` is the
    product without the checks before it, `kernel_s` the device's own time where a device tells it.
    """

    backend: str
    params: Mapping[str, Any]
    threads: int
    device: str
    copies: int
    seconds: float
    kernel_s: float | None = None


def general_matmul(
    a: Any, b: Any, out: Any, backend: str | None, dtype: Any, casting: Any, axes: Any, threads: Any, params: Any
) -> Any:
    """`matmul` for everything that `_front` does not recognise as plain."""
    follow_threadpoolctl()
    within = scope.get() or Scope()
    name = asked_for(backend, within)
    threads = check_threads(threads) or within.threads
    own = {**within.params, **params} if backend is None else params  # of a `use` block: they belong to its backend
    if (kind := kind_of_arrays(a, b, out)) is not None:
        options = {"dtype": dtype, "casting": casting, "axes": axes, "threads": threads}
        return _of_others(kind, name, a, b, out, options, own, within.traces)
    if isinstance(b, PackedOperand):
        chosen, problem = _with_packed(name, a, b, out, dtype=dtype, casting=casting, axes=axes, threads=threads)
        run(chosen, problem, own, within.traces)
        return problem.result()
    if (foreign := foreign_operand(a, b, out)) is not None:
        return _numpys_dispatch(name, foreign, a, b, out, dtype, casting, axes, params)
    problem = Problem.from_call(a, b, out, dtype=dtype, casting=casting, axes=axes, threads=threads)
    if name == "auto":
        chosen = _registry.choose(problem, own)
    else:
        chosen = _registry.get(name)
    _make_ready(name, chosen)
    if problem.threads is None and chosen.kind != "rung":
        problem.threads = config.threads  # a rung takes fewer for a small product
    run(chosen, problem, own, within.traces)
    return problem.result()


def kind_of_arrays(*operands: Any) -> str | None:
    """Whose arrays these are if they are not the host's: a runtime's name, or "dlpack"."""
    operands = tuple(x[0] if isinstance(x, tuple) and len(x) == 1 else x for x in operands if x is not None)
    if all(type(x).__module__.partition(".")[0] in ("numpy", "builtins") for x in operands):
        return None
    from gemmlab._gpu.arrays import common_owner

    return common_owner(operands)


def _of_others(
    kind: str, name: str, a: Any, b: Any, out: Any, options: dict[str, Any], params: Any, traces: tuple[list[Call], ...]
) -> Any:
    """The product of arrays that are not NumPy's: theirs comes back. Work on a device is started, not awaited."""
    from gemmlab._gpu import arrays

    out = out[0] if isinstance(out, tuple) else out
    if kind == "dlpack":
        (a, back), b = arrays.exchanged(a), arrays.exchanged(b)[0]
        given = {} if out is None else {"out": arrays.exchanged(out)[0]}
        result = matmul(a, b, backend=name, **{**options, **given}, **params)
        return back(np.asarray(result) if isinstance(result, np.generic) else result) if out is None else out
    chosen: Any = _registry.get(_registry.AUTO_ON[kind] if name == "auto" else name)
    if getattr(getattr(chosen, "runtime", None), "name", None) != kind:
        what = f"{type(a).__module__}.{type(a).__qualname__}"
        raise UnsupportedProblem(f"{chosen.name} cannot take {what}: name a backend of {kind}, or pass host arrays")
    if options["dtype"] is not None:
        raise UnsupportedProblem("arrays on a device are multiplied in their own dtype: convert them with astype")
    problem, out = arrays.problem_of(chosen, a, b, out, options["axes"])
    handle = run(chosen, problem, params, traces)
    if handle is not None and handle.events:
        chosen.runtime.finish(out, handle.events[-1])
    return out


def pack(b: npt.ArrayLike) -> PackedOperand:
    """Pack a matrix once, as `cpu-packed` reads it, for many products with it on the right.

    Parameters
    ----------
    b : array_like
        A matrix of shape (k, n), of any number type that `cpu-packed` multiplies and any strides. What becomes of it
        afterwards changes nothing.

    Returns
    -------
    PackedOperand
        To be passed to `matmul` in place of `b`; the product is the same, to the bit. It has `shape`, `dtype` and
        `nbytes`, and holds a copy of the numbers: 4 bytes for each float16 and float32, 8 for each float64, 2 or 4 for
        each bfloat16.

    Raises
    ------
    ValueError
        For anything but a matrix.
    UnsupportedProblem
        For a dtype that `cpu-packed` does not have.

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
    backend: Any = _registry.get("cpu-packed")
    if (why_not := _registry.refusal(backend, Problem(b[:0], b, b[:0]))) is not None:
        raise UnsupportedProblem(why_not)
    packed: PackedOperand = backend.pack(np.require(b, b.dtype.newbyteorder("="), "A"))
    return packed


def _with_packed(name: str, a: Any, b: PackedOperand, out: Any, **options: Any) -> tuple[Backend, Problem]:
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


def asked_for(backend: str | None, within: Scope) -> str:
    """The backend's name: from the call, else from `use`, else from the settings."""
    return next(name for name in (backend, within.backend, config.backend) if name is not None)


def run(backend: Backend, problem: Problem, params: Mapping[str, Any], traces: tuple[list[Call], ...] = ()) -> Any:
    """Fill `problem.out` by a backend, or raise UnsupportedProblem; returns the backend's handle.

    Work on arrays that are on a device goes on when this returns, unless a trace wants to know how long it took.
    """
    check_params(backend, params)
    if (why_not := _registry.refusal(backend, problem)) is not None:
        raise UnsupportedProblem(why_not)
    start = time.perf_counter()
    handle = None
    if problem.out.size and (problem.k or problem.place is not None):
        handle = backend.gemm(problem, **params)
        if handle is not None and (traces or problem.place is None):
            handle.wait()
    elif problem.place is None:
        problem.out[...] = 0  # an empty sum
    seconds = time.perf_counter() - start
    if traces:
        call = _call(backend, problem, params, seconds, getattr(handle, "kernel_s", None))
        for calls in traces:
            calls.append(call)
    return handle


def _call(backend: Any, problem: Problem, params: Mapping[str, Any], seconds: float, kernel_s: float | None) -> Call:
    resolve = getattr(backend, "resolve", None)
    threads = getattr(backend, "threads", None)
    return Call(
        backend.name,
        resolve(problem, params) if resolve else dict(params),
        threads(problem) if threads else problem.threads or 1,
        _registry.availability(backend.name).device if problem.place is None else problem.place.queue.device.label,
        problem.copies,
        seconds,
        kernel_s,
    )


def _make_ready(name: str, backend: Any) -> None:
    """Let plain products of this backend take the compiled way from now on."""
    if name == "auto" and backend.name != _registry.resolve_name("auto"):
        return  # it took this one product only
    limits_a_library = backend.kind == "baseline" and config.threads is not None
    if backend.name in _registry.BUILT_IN and hasattr(backend, "kernel") and not limits_a_library:
        kernel = getattr(backend, "kernel_for_auto", backend.kernel) if name == "auto" else backend.kernel
        _front.make_ready(name, kernel)


def foreign_operand(a: Any, b: Any, out: Any) -> Any:
    """An operand that is not ours to multiply: a subclass of ndarray, or a type with its own ufuncs."""
    outs = out if isinstance(out, tuple) else (out,)
    for x in (a, b, *outs):
        if type(x) in (np.ndarray, np.memmap) or x is None:
            continue
        if isinstance(x, np.ndarray) or (
            hasattr(type(x), "__array_ufunc__") and not isinstance(x, np.generic)
        ):
            return x
    return None


def _numpys_dispatch(
    name: str, foreign: Any, a: Any, b: Any, out: Any, dtype: Any, casting: Any, axes: Any, params: Mapping[str, Any]
) -> Any:
    """Leave an operand with rules of its own to NumPy, under auto; refuse it for a backend asked for by name."""
    if name not in ("auto", "cpu-numpy"):
        kind = type(foreign).__name__
        raise UnsupportedProblem(
            f"{name} takes plain arrays, not {kind}: pass numpy.asarray(...) of it, or use backend='auto'"
        )
    check_params(_registry.get(name), params)
    given = {"out": out, "axes": axes, "dtype": dtype}
    options = {"casting": casting} | {name: value for name, value in given.items() if value is not None}
    return np.matmul(a, b, **options)


def backends() -> Mapping[str, BackendInfo]:
    """Every known backend, available or not.

    Returns
    -------
    mapping of str to BackendInfo
        `available`, and where that is False `reason` and `fix`.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.backends()["cpu-ikj"].available
    True
    """
    return {name: _registry.info(name) for name in _registry.names()}


def get_backend(name: str) -> Backend:
    """The backend of a name or family.

    Raises
    ------
    UnknownBackend
        No backend has this name; the message lists near ones.
    BackendUnavailable
        It cannot run here; the message gives reason and fix.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.get_backend("cpu-blocked").kind
    'rung'
    """
    return _registry.get(name)


@contextmanager
def use(backend: str | None = None, *, threads: int | None = None, **params: Any) -> Iterator[None]:
    """Within the block, products that name no backend use this one, with these threads and parameters.

    A context variable: other threads and other asyncio tasks do not see it. Blocks nest; an inner one keeps
    what it does not set.

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
    """Within the block, collect what each product really ran as.

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
_front.install(general_matmul)
config.listen(_front.settings_changed)
config.listen(lambda: _driver.limit_threads(config.threads))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_driver.forked)
