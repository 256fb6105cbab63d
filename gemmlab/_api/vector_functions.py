"""matvec, vecmat and vecdot with a choice of backend: `matmul` with an axis more, also where NumPy lacks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab import _front
from gemmlab._api.array import GemmArray, refuse_foreign, unwrapped, wrapped
from gemmlab._api.foreign import array_owner
from gemmlab._api.labels import OnlyInNumPy
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, Array, Casting, as_array

Core = tuple[str, ...]


def matvec(
    a: AnyArray,
    b: AnyArray,
    /,
    out: AnyArray = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    threads: int | None = None,
    **params: Any,
) -> AnyArray:
    """Matrices by vectors, with the semantics of `numpy.matvec` and a backend of your choice.

    Parameters
    ----------
    a : array_like
        Of shape (..., m, k), an array of the host.
    b : array_like
        Of shape (..., k). The leading axes of both broadcast.
    out, backend, dtype, casting, threads, **params
        As for `matmul`.

    Returns
    -------
    ndarray
        Of shape (..., m).

    Raises
    ------
    ValueError
        Shapes that do not agree.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `matmul`. Arrays on a device are not taken.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> gemmlab.matvec(np.ones((5, 2, 3)), np.arange(15.0).reshape(5, 3)).shape
    (5, 2)
    """
    plain = _front.vector_product(a, b, out, 2, 1, backend, dtype, casting, threads, params)
    if plain is not None:
        return plain
    options = {"backend": backend, "dtype": dtype, "casting": casting, "threads": threads, **params}
    x, y, ours = _operands("matvec", a, b, (2, 1))
    if y.ndim == 1:
        return _result(x, y, out, ("m",), options, ours)
    return _result(x, y[..., None], out, ("m", "added"), options, ours)


def vecmat(
    a: AnyArray,
    b: AnyArray,
    /,
    out: AnyArray = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    threads: int | None = None,
    **params: Any,
) -> AnyArray:
    """Conjugated vectors by matrices, with the semantics of `numpy.vecmat` and a backend of your choice.

    Parameters
    ----------
    a : array_like
        Of shape (..., k), an array of the host; complex numbers are conjugated.
    b : array_like
        Of shape (..., k, n). The leading axes of both broadcast.
    out, backend, dtype, casting, threads, **params
        As for `matmul`.

    Returns
    -------
    ndarray
        Of shape (..., n).

    Raises
    ------
    ValueError
        Shapes that do not agree.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `matmul`. Arrays on a device are not taken.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> gemmlab.vecmat(np.array([1j, 1]), np.eye(2))
    array([0.-1.j, 1.+0.j])
    """
    plain = _front.vector_product(a, b, out, 1, 2, backend, dtype, casting, threads, params)
    if plain is not None:
        return plain
    options = {"backend": backend, "dtype": dtype, "casting": casting, "threads": threads, **params}
    x, y, ours = _operands("vecmat", a, b, (1, 2))
    x = _conjugated(x)
    if x.ndim == 1:
        return _result(x, y, out, ("n",), options, ours)
    return _result(x[..., None, :], y, out, ("added", "n"), options, ours)


def vecdot(
    a: AnyArray,
    b: AnyArray,
    /,
    out: AnyArray = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    threads: int | None = None,
    **params: Any,
) -> AnyArray:
    """Dot products of vectors, the first conjugated, with the semantics of `numpy.vecdot` and a backend of your choice.

    Parameters
    ----------
    a, b : array_like
        Of shape (..., k), arrays of the host. The leading axes of both broadcast.
    out, backend, dtype, casting, threads, **params
        As for `matmul`.

    Returns
    -------
    ndarray or scalar
        Of shape (...); a NumPy scalar for two vectors.

    Raises
    ------
    ValueError
        Shapes that do not agree.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `matmul`. Arrays on a device are not taken.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> gemmlab.vecdot(np.ones((4, 3)), np.arange(3.0))
    array([3., 3., 3., 3.])
    """
    plain = _front.vector_product(a, b, out, 1, 1, backend, dtype, casting, threads, params)
    if plain is not None:
        return plain
    options = {"backend": backend, "dtype": dtype, "casting": casting, "threads": threads, **params}
    x, y, ours = _operands("vecdot", a, b, (1, 1))
    x = _conjugated(x)
    if x.ndim == 1 and y.ndim == 1:
        return _result(x, y, out, (), options, ours)
    return _result(x[..., None, :], y[..., None], out, ("added", "added"), options, ours)


def _operands(name: str, a: AnyArray, b: AnyArray, least: tuple[int, int]) -> tuple[Array, Array, bool]:
    """Plain arrays, and whether one was of the class of `gemmlab.asarray`."""
    ours = False
    if type(a) is np.ndarray and type(b) is np.ndarray:
        x, y = a, b
    else:
        ours = isinstance(a, GemmArray) or isinstance(b, GemmArray)
        x, y = _plain(name, a), _plain(name, b)
    if x.ndim < least[0] or y.ndim < least[1]:
        i = int(x.ndim >= least[0])
        raise ValueError(f"{name}: operand {i} has {(x, y)[i].ndim} dimensions, and at least {least[i]} are needed")
    if x.shape[-1] != y.shape[-least[1]]:
        raise ValueError(f"{name}: the operands have {x.shape[-1]} and {y.shape[-least[1]]} numbers to sum over")
    return x, y, ours


def _plain(name: str, x: AnyArray) -> Array:
    if array_owner(x) is not None:
        raise UnsupportedProblem(f"gemmlab.{name} takes NumPy's arrays; gemmlab.matmul takes those of a device too")
    plain = unwrapped(x)
    try:
        refuse_foreign(plain)
    except OnlyInNumPy as why:
        raise UnsupportedProblem(f"gemmlab.{name} does not take {why}: use NumPy's function") from None
    return as_array(plain)


def _conjugated(x: Array) -> Array:
    return x.conj() if x.dtype.kind == "c" else x


def _result(x: Array, y: Array, out: AnyArray, core: Core, options: dict[str, Any], ours: bool) -> AnyArray:
    """The product, without the axes that were added to its vectors: those that `core` has as "added"."""
    (given,) = out if isinstance(out, tuple) else (out,)
    if given is None:
        result = _front.matmul(x, y, **options)
        result = result[(..., *(0 if axis == "added" else slice(None) for axis in core))] if "added" in core else result
        return wrapped(result) if ours else result
    ndim = len(np.broadcast_shapes(x.shape[:-2], y.shape[:-2])) + len(core) - core.count("added")
    if not isinstance(given, np.ndarray) or given.ndim != ndim:
        raise ValueError(f"out must be an array of {ndim} dimensions, as the result is")
    target = unwrapped(given)[(..., *(None if axis == "added" else slice(None) for axis in core))]
    _front.matmul(x, y, target, **options)
    return given
