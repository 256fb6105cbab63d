"""Which backend runs, and what ran: backends, get_backend, use, trace."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from dataclasses import replace
from functools import wraps
from inspect import iscoroutinefunction
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast

from gemmlab import _registry
from gemmlab._api.calls import Call
from gemmlab._backend import Backend, BackendInfo, Params, check_params
from gemmlab._config import Scope, check_threads, scope

P = ParamSpec("P")
R = TypeVar("R")


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
    """The backend with a name, or the best of a family.

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
    return _registry.as_made(_registry.get(name))


def requested_backend(backend: str | None, active: Scope) -> str:
    """The backend's name: from the call, else from `use`, else from the settings."""
    if backend is None:
        backend = active.backend
    return _registry.default_name() if backend is None else backend


def use(backend: str | None = None, *, threads: int | None = None, **params: Any) -> Use:
    """Within the block, calls that name no backend use this, with this number of threads and these parameters.

    The setting is a context variable: other threads and other asyncio tasks do not see it. Blocks nest; what an inner
    block does not set stays as in the outer. As a decorator, `use` holds during each call of the function (of a
    generator function: until it returns the generator). One that is neither entered by `with` nor decorates anything
    has no effect, and warns.

    Raises
    ------
    UnknownBackend, BackendUnavailable
        At `with`, if the backend does not exist or cannot run here.
    TypeError, ValueError
        At `with`, for a parameter that the backend does not have, or a value that it does not accept.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> with gemmlab.use("cpu-blocked", threads=1, bs_c=32):
    ...     gemmlab.matmul(np.eye(2), np.ones((2, 1)))
    array([[1.],
           [1.]])
    """
    return Use(backend, threads, params, sys._getframe(1))


class Use:
    """What `use` returns: a context manager, and a decorator of functions."""

    _used = True

    def __init__(
        self, backend: str | None, threads: int | None, params: Params, caller: FrameType | None = None
    ) -> None:
        self._backend, self._threads, self._params = backend, threads, params
        self._token: Token[Scope | None] | None = None
        if caller is not None:
            self._written_at = (caller.f_code.co_filename, caller.f_lineno, caller.f_globals)
            self._used = False

    def __repr__(self) -> str:
        options = {"threads": self._threads, **self._params}
        given = [] if self._backend is None else [repr(self._backend)]
        return f"use({', '.join([*given, *(f'{name}={x!r}' for name, x in options.items() if x is not None)])})"

    def __enter__(self) -> None:
        self._used = True
        if self._token is not None:
            raise RuntimeError(f"{self} is entered already: call gemmlab.use again for another block")
        self._token = scope.set(self._within(scope.get() or Scope()))

    def _within(self, outer: Scope) -> Scope:
        """The settings of the block, checked."""
        if self._backend is not None:
            check_params(_registry.get(self._backend), self._params)  # a wrong name fails at the `with`
            outer = replace(outer, params={})
        elif self._params:
            check_params(_registry.get(outer.backend or _registry.default_name()), self._params)
        return replace(
            outer,
            backend=self._backend or outer.backend,
            threads=check_threads(self._threads) or outer.threads,
            params={**outer.params, **self._params},
        )

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            scope.reset(self._token)
            self._token = None

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """`function`, with a block around each of its calls."""
        self._used = True
        backend, threads, params = self._backend, self._threads, self._params
        if iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: P.args, **options: P.kwargs) -> object:
                with Use(backend, threads, params):
                    return await function(*args, **options)

            return cast("Callable[P, R]", awaited)

        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            with Use(backend, threads, params):
                return function(*args, **options)

        return called

    def __del__(self) -> None:
        if not self._used:
            file, line, names = self._written_at
            text = f"{self} has no effect: write `with`, or set gemmlab.config.backend"
            seen = names.setdefault("__warningregistry__", {})
            warnings.warn_explicit(text, RuntimeWarning, file, line, names.get("__name__"), seen)


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
