"""`matmul` for everything that the compiled way of `_front` does not accept.

_front.matmul -> general_matmul -> Problem (everything checked) -> a backend, by name or by auto -> gemm -> out
"""

from __future__ import annotations

from gemmlab import _auto, _front, _registry
from gemmlab._api.array import GemmArray, multiply_wrapped
from gemmlab._api.calls import run
from gemmlab._api.choosing import requested_backend
from gemmlab._api.foreign import (
    Options,
    array_owner,
    foreign_operand,
    multiply_device_arrays,
    multiply_exchanged,
    numpys_dispatch,
)
from gemmlab._api.packing import PACKED, with_packed
from gemmlab._backend import FullBackend, Params
from gemmlab._config import Scope, check_threads, config, scope
from gemmlab._cpu.threads.threadpool import follow_threadpoolctl
from gemmlab._problem import AnyArray, Problem


def general_matmul(
    a: AnyArray, b: AnyArray, out: AnyArray, backend: str | None, options: Options, params: Params
) -> AnyArray:
    """`matmul` for everything that the compiled way of `_front` does not accept."""
    if any(isinstance(x, GemmArray) for x in (a, b, *(out if isinstance(out, tuple) else (out,)))):
        return multiply_wrapped(a, b, out, backend, options, params)
    follow_threadpoolctl()
    active = scope.get() or Scope()
    name = requested_backend(backend, active)
    options["threads"] = check_threads(options["threads"]) or active.threads
    call_params = params
    if backend is None:  # the parameters of a `use` block belong to its backend
        params = {**active.params, **params}
    if (function := _registry.array_function(a, b, *(out if isinstance(out, tuple) else (out,)))) is not None:
        return function(a, b, out, name, options, params)
    if (owner := array_owner(a, b, out)) == "dlpack":
        return multiply_exchanged(name, a, b, out, options, params)
    if owner is not None:
        return multiply_device_arrays(owner, name, (a, b, out), options, params, active.traces)
    if isinstance(b, PACKED):
        chosen, problem = with_packed(name, a, b, out, options)
        _register_kernel(name, chosen)
        return run(chosen, problem, params, active.traces)
    if (foreign := foreign_operand(a, b, out)) is not None:
        return numpys_dispatch(name, foreign, (a, b, out), options, call_params)
    problem = Problem.from_call(a, b, out, **options)
    if name == "auto":
        chosen = _registry.choose(problem, params)
    else:
        chosen = _registry.get(_registry.choice(name, problem, params)[0])
    _register_kernel(name, chosen)
    if problem.threads is None and chosen.kind != "rung":
        problem.threads = config.threads  # a rung uses fewer for a small product
    return run(chosen, problem, params, active.traces)


def _register_kernel(name: str, backend: FullBackend) -> None:
    """Let plain products of this backend take the compiled way from now on."""
    if _front.is_registered(name):
        return
    if name == "auto":  # whatever it chose for this product
        if not _registry.availability(_registry.AUTO[0]).ok:
            return
        backend = _registry.get(_registry.AUTO[0])
    limits_a_library = backend.kind == "baseline" and config.threads is not None
    if backend.name in _registry.BUILT_IN and backend.is_compiled and not limits_a_library:
        _front.register_kernel(name, _auto.compiled_way(backend.kernel) if name == "auto" else backend.kernel)
