"""Which backend runs, and what ran: backends, get_backend, use, trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gemmlab import _registry
from gemmlab._api.calls import Call
from gemmlab._backend import Backend, BackendInfo, check_params
from gemmlab._config import Scope, check_threads, config, scope


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


def requested_backend(backend: str | None, active: Scope) -> str:
    """The backend's name: from the call, else from `use`, else from the settings."""
    return next(name for name in (backend, active.backend, config.backend) if name is not None)


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
