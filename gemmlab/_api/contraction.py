"""einsum and tensordot with a choice of backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmlab import _registry
from gemmlab._api import numpy_products
from gemmlab._api.array import (
    FUNCTIONS,
    Function,
    GemmArray,
    name_of,
    refuse_foreign,
    refuse_if_named,
    unwrapped,
    wrapped,
)
from gemmlab._api.choosing import requested_backend
from gemmlab._api.contraction_path import Step
from gemmlab._api.foreign import array_owner
from gemmlab._api.labels import NotAProduct, OnlyInNumPy
from gemmlab._api.sum_of_products import Contraction, einsum_contraction, quick_einsum
from gemmlab._backend import check_params
from gemmlab._config import Scope, check_threads, scope
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, Casting, as_array

TENSORDOT = {(2, 2): "ij,jk->ik", (2, 1): "ij,j->i", (1, 2): "j,jk->k"}  # over one axis, by the numbers of axes
NOT_HERE = {"accumulate", "axes", "casting", "dtype", "optimize", "order", "out"}  # of matmul, or of NumPy's functions


def tensordot(
    a: AnyArray,
    b: AnyArray,
    axes: AnyArray = 2,
    *,
    backend: str | None = None,
    threads: int | None = None,
    **params: Any,
) -> AnyArray:
    """Sum of products over pairs of axes, with the semantics of `numpy.tensordot` and a backend of your choice.

    The axes are brought together as one `gemmlab.matmul`, without a copy where the strides allow it.

    Parameters
    ----------
    a, b : array_like
        Arrays of the host.
    axes : int, or pair of (sequences of) int
        The last `axes` axes of `a` and the first of `b`, or the axes of each.
    backend, threads, **params
        As for `matmul`.

    Returns
    -------
    ndarray
        The axes of `a` that are left, then those of `b`.

    Raises
    ------
    ValueError
        Shapes that do not agree.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `matmul`. Arrays on a device are not taken.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> gemmlab.tensordot(np.ones((2, 3, 4)), np.ones((4, 3)), axes=([1, 2], [1, 0]), backend="cpu-blocked")
    array([12., 12.])
    """
    if type(a) is np.ndarray and type(b) is np.ndarray and type(axes) is int and axes == 1 and not params:
        letters = TENSORDOT.get((a.ndim, b.ndim))
        result = letters and quick_einsum(letters, a, b, backend=backend, threads=threads)
        if result is not None:
            return result
    return _computed(np.tensordot, (a, b, axes), None, {}, {"backend": backend, "threads": threads, **params})


def einsum(
    *operands: AnyArray,
    out: AnyArray = None,
    optimize: AnyArray = True,
    dtype: AnyArray = None,
    order: str = "K",
    casting: Casting = "safe",
    backend: str | None = None,
    threads: int | None = None,
    **params: Any,
) -> AnyArray:
    """Sum of products over axes with labels, with the semantics of `numpy.einsum` and a backend of your choice.

    Two operands that share a label which the result does not have are a product: their axes are brought together as one
    `gemmlab.matmul`, without a copy where the strides allow it. Three and more operands are contracted in the steps of
    `numpy.einsum_path`, each of which may be such a product. Under "auto" every other einsum, and every other step, is
    NumPy's; a backend that you name refuses it. `gemmlab.explain("ij,jk->ik", a, b)` says which product it is, and has
    the path.

    Parameters
    ----------
    *operands
        The subscripts and then the arrays of the host, or the other form that `numpy.einsum` has.
    out : ndarray, optional
        The array to write the result to.
    optimize : bool, str, tuple or list
        As in `numpy.einsum`, but for the default: three and more operands take the greedy path. With False all of them
        are NumPy's.
    dtype, order, casting
        As in `numpy.einsum`. Operands are converted to `dtype` before they are multiplied.
    backend, threads, **params
        As for `matmul`.

    Returns
    -------
    ndarray or scalar
        `out` if given; a NumPy scalar if the result has no axes.

    Raises
    ------
    ValueError
        Subscripts and shapes that do not agree.
    TypeError
        Operands that `casting` does not convert to `dtype`.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `matmul`. Arrays on a device are not taken.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> queries, keys = np.ones((2, 5, 8, 4)), np.ones((2, 6, 8, 4))
    >>> gemmlab.einsum("bqhd,bkhd->bhqk", queries, keys, backend="cpu-packed").shape
    (2, 8, 5, 6)
    """
    is_default = optimize is True and dtype is None and order == "K" and casting == "safe"
    if len(operands) == 3 and out is None and not params and is_default:
        subscripts, a, b = operands
        if type(a) is np.ndarray and type(b) is np.ndarray and type(subscripts) is str:
            result = quick_einsum(subscripts, a, b, backend=backend, threads=threads)
            if result is not None:
                return result
    given = {"optimize": optimize, "dtype": dtype, "order": order, "casting": casting}
    if operands and isinstance(operands[0], bytes):
        operands = (operands[0].decode("latin-1"), *operands[1:])
    if optimize is True and (len(operands) < 4 if operands and isinstance(operands[0], str) else len(operands) < 6):
        given["optimize"] = False  # one or two: there is no path
    return _computed(np.einsum, operands, out, given, {"backend": backend, "threads": threads, **params})


def einsum_product(operands: tuple[AnyArray, ...]) -> Contraction | tuple[Step, ...] | str:
    """The product that the arguments of `einsum` mean, or the steps of its path; if it is NumPy's alone, why.

    Raises the errors of einsum."""
    _refuse_device_and_sparse_arrays(np.einsum, operands)
    plain = unwrapped(operands)
    try:
        refuse_foreign(*plain)
        subscripts, arrays = numpy_products.einsum_arguments(plain)
        if len(arrays) > 2:
            return numpy_products.einsum_steps(subscripts, arrays, True)[1]
        return einsum_contraction(subscripts, arrays)
    except (NotAProduct, OnlyInNumPy) as why:
        reason = str(why)
    _raise_errors_of_einsum(plain, False)
    return reason


def _computed(
    function: Function, operands: tuple[AnyArray, ...], out: AnyArray, options: dict[str, Any], request: dict[str, Any]
) -> AnyArray:
    """By a backend if this is a product; else by NumPy's function with its options, unless a backend is named."""
    if elsewhere := sorted(request.keys() & NOT_HERE):
        raise TypeError(f"gemmlab.{function.__name__} has no parameter {elsewhere[0]!r}")
    given = operands if out is None else (*operands, out)
    _refuse_device_and_sparse_arrays(function, given)
    args, plain = unwrapped(operands), options if out is None else options | {"out": unwrapped(out)}
    refusal: Exception | None = None
    try:
        refuse_foreign(*args, *([] if out is None else [plain["out"]]))
        result = FUNCTIONS[function](*args, **plain, **request)
    except (NotAProduct, OnlyInNumPy) as why:
        refusal = why
    if refusal is not None:
        if function is np.einsum:
            _raise_errors_of_einsum(args, options["optimize"])
        if function is np.einsum or isinstance(refusal, OnlyInNumPy):
            refuse_if_named(f"numpy.{function.__name__} here ({refusal})", request["backend"])
        _check_params(request)
        result = function(*args, **plain)
    if out is not None:
        return out
    return wrapped(result) if any(isinstance(x, GemmArray) for x in given) else result


def _raise_errors_of_einsum(args: tuple[AnyArray, ...], optimize: AnyArray) -> None:
    try:
        np.einsum_path(*args, optimize=optimize)
    except IndexError:  # of subscripts that name no axis
        np.einsum(*args)


def _refuse_device_and_sparse_arrays(function: Function, given: tuple[AnyArray, ...]) -> None:
    for x in given:
        if type(x) is np.ndarray:
            continue
        if hasattr(x, "toarray"):
            as_array(x)  # UnsupportedProblem for a sparse matrix, which NumPy takes for a scalar
        if array_owner(x) is not None:
            what = f"{function.__name__} takes NumPy's arrays, not {name_of(x)}"
            raise UnsupportedProblem(f"{what}: gemmlab.matmul takes them, and gemmlab.asarray those of the host")


def _check_params(request: dict[str, Any]) -> None:
    """The errors of `matmul` about threads and parameters, where NumPy uses neither."""
    check_threads(request["threads"])
    backend = _registry.get(requested_backend(request["backend"], scope.get() or Scope()))
    check_params(backend, {name: request[name] for name in request.keys() - {"backend", "threads"}})
