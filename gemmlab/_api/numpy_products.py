"""NumPy's products by `gemmlab.matmul`: dot, vdot, inner, tensordot, einsum, matmul, vecdot, matvec, vecmat.

Operands are plain arrays, or what NumPy takes for arrays. A function raises NotAProduct for arguments that are no
product, and for wrong ones: NumPy's function of the same name then does what it does, or raises its error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemmlab import _front
from gemmlab._api.choosing import requested_backend
from gemmlab._api.contraction_path import Step, contract, steps_of
from gemmlab._api.labels import Labelled, Labels, NotAProduct, OnlyInNumPy, from_sublists, parse
from gemmlab._api.sum_of_products import Contraction, check_numbers, einsum_contraction, paired_contraction
from gemmlab._config import Scope, scope
from gemmlab._problem import AnyArray, Array, Casting, DType

# The core axes of operands and result, as in the signatures of NumPy's functions.
CORE_LABELS: dict[str, tuple[Labels, Labels, Labels]] = {
    "vecdot": (("k",), ("k",), ()),
    "matvec": (("m", "k"), ("k",), ("m",)),
    "vecmat": (("k",), ("k", "n"), ("n",)),
}


def dot(a: AnyArray, b: AnyArray, out: AnyArray = None) -> AnyArray:
    """numpy.dot: over the last axis of `a` and the last but one of `b`."""
    a, b = np.asarray(a), np.asarray(b)
    _refuse_scalars(a, b)
    summed = max(b.ndim - 2, 0)
    if out is None and a.ndim <= 2 and b.ndim <= 2 and a.shape[-1] == b.shape[summed]:
        check_numbers(a, b)
        return _front.matmul(a, b)  # the same, and sooner
    product = paired_contraction(a, b, [a.ndim - 1], [summed])
    if out is None:
        return _scalar_or_array(product.multiply())
    if not isinstance(out, np.ndarray) or (out.dtype, out.shape) != (product.dtype, product.shape):
        raise NotAProduct("NumPy's dot does not accept this out")
    if not out.flags.carray:
        raise NotAProduct("NumPy's dot does not accept this out")
    return product.multiply(out)


def inner(a: AnyArray, b: AnyArray, /) -> AnyArray:
    """numpy.inner: over the last axes of both."""
    a, b = np.asarray(a), np.asarray(b)
    _refuse_scalars(a, b)
    return _scalar_or_array(paired_contraction(a, b, [a.ndim - 1], [b.ndim - 1]).multiply())


def vdot(a: AnyArray, b: AnyArray, /) -> AnyArray:
    """numpy.vdot: all elements of both, the first conjugated."""
    a, b = np.asarray(a), np.asarray(b)
    check_numbers(a, b)
    if a.size != b.size:
        raise NotAProduct("the operands' sizes do not agree")
    return _front.matmul(_conjugated(a).ravel(), b.ravel())


def tensordot(a: AnyArray, b: AnyArray, axes: AnyArray = 2, **request: Any) -> AnyArray:
    """numpy.tensordot: over pairs of axes."""
    a, b = np.asarray(a), np.asarray(b)
    return paired_contraction(a, b, *_pairs_of_axes(a, b, axes)).multiply(**request)


def einsum(
    *operands: AnyArray,
    out: AnyArray = None,
    optimize: AnyArray = False,
    dtype: AnyArray = None,
    order: str = "K",
    casting: Casting = "safe",
    **request: Any,
) -> AnyArray:
    """numpy.einsum of two operands that sum over a label of both, or a path of such; `request` is for `matmul`."""
    subscripts, arrays = einsum_arguments(operands)
    if not isinstance(order, str) or order not in ("K", "C", "F"):
        raise OnlyInNumPy(f"order={order!r}")
    if out is not None and (dtype is not None or casting != "safe" or order != "K"):
        raise OnlyInNumPy("out= with dtype=, order= or casting=")
    if dtype is not None:
        arrays = _converted(arrays, np.dtype(dtype), casting)
    if len(arrays) > 2 and optimize is not False:
        labelled, steps = einsum_steps(subscripts, arrays, optimize)
        name = requested_backend(request.get("backend"), scope.get() or Scope())
        if not all(step.is_product for step in steps) and name not in ("auto", "cpu-numpy"):
            raise NotAProduct(
                "its step " + next(step.subscripts for step in steps if not step.is_product) + " is no product"
            )
        filled = contract(labelled, steps, out, **request)
    else:
        product = einsum_contraction(subscripts, arrays)
        filled = product.multiply(out, product.dtype_into(out), **request)
    return _scalar_or_array(np.asarray(filled, order=order)) if out is None else filled  # type: ignore[call-overload]


def einsum_arguments(operands: Sequence[AnyArray]) -> tuple[str, Sequence[AnyArray]]:
    """The subscripts and the operands of einsum, in either of its two forms."""
    if operands and isinstance(operands[0], str):
        return operands[0], operands[1:]
    return from_sublists(operands)


def einsum_steps(
    subscripts: str, operands: Sequence[AnyArray], optimize: AnyArray
) -> tuple[list[Labelled], tuple[Step, ...]]:
    """The operands of an einsum with their labels, and the steps of NumPy's path through them."""
    labelled, labels = parse(subscripts, operands)
    check_numbers(*(x.array for x in labelled))
    shapes, terms = tuple(np.shape(x) for x in operands), tuple(x.labels for x in labelled)
    return labelled, steps_of(subscripts, shapes, optimize, terms, labels)


def _converted(operands: Sequence[AnyArray], dtype: DType, casting: Casting) -> list[Array]:
    arrays = [np.asarray(x) for x in operands]
    if not all(np.can_cast(x.dtype, dtype, casting) for x in arrays):
        raise NotAProduct(f"an operand is not cast to {dtype} by casting={casting!r}")
    return [x.astype(dtype, copy=False) for x in arrays]


def matmul(a: AnyArray, b: AnyArray, out: AnyArray = None, **options: Any) -> AnyArray:
    """numpy.matmul as NumPy's protocol passes it on."""
    for name in options.keys() - {"dtype", "casting", "axes"}:
        raise OnlyInNumPy(f"{name}=")
    return _front.matmul(a, b, out, **options)


def vector_product(name: str) -> Callable[..., AnyArray]:
    """numpy.vecdot, numpy.matvec or numpy.vecmat."""

    def multiply(
        a: AnyArray,
        b: AnyArray,
        out: AnyArray = None,
        *,
        axes: AnyArray = None,
        axis: AnyArray = None,
        dtype: AnyArray = None,
        casting: Casting = "same_kind",
        **others: Any,
    ) -> AnyArray:
        for other in others:
            raise OnlyInNumPy(f"{other}=")
        if axis is not None:
            if axes is not None or name != "vecdot":
                raise NotAProduct("axis= does not go with this")
            axes = [axis, axis, ()]
        a, b = np.asarray(a), np.asarray(b)
        check_numbers(a, b)
        resolved = _resolved(getattr(np, name), a, b, out, dtype, casting)
        product = _vector_contraction(name, a, b, axes)
        if out is not None and out.shape != product.shape:
            raise (OnlyInNumPy if out.ndim > len(product.shape) else NotAProduct)("an out of another shape")
        filled = product.multiply(out, resolved, casting=casting)
        return _scalar_or_array(filled) if out is None else filled

    return multiply


def _resolved(ufunc: np.ufunc, a: Array, b: Array, out: Array | None, dtype: AnyArray, casting: Casting) -> DType:
    """The dtype in which NumPy would compute; raises its errors."""
    given = (a.dtype, b.dtype, None if out is None else out.dtype)
    if dtype is None:
        return ufunc.resolve_dtypes(given, casting=casting)[-1]
    return ufunc.resolve_dtypes(given, casting=casting, signature=(None, None, np.dtype(dtype)))[-1]


def _vector_contraction(name: str, a: Array, b: Array, axes: AnyArray) -> Contraction:
    core = CORE_LABELS[name]
    leading = max(a.ndim - len(core[0]), b.ndim - len(core[1]))
    ndims = (a.ndim, b.ndim, leading + len(core[2]))
    if axes is None:
        axes = [tuple(range(-len(labels), 0)) for labels in core]
    elif isinstance(axes, list) and len(axes) == 2 and not core[2]:
        axes = [*axes, ()]
    if not isinstance(axes, list) or len(axes) != 3:
        raise NotAProduct("axes is no list of three")
    left, right, result = map(_placed, core, axes, ndims)
    if name != "matvec":
        a = _conjugated(a)
    labelled = Labelled(a, left), Labelled(b, right)
    if labelled[0].sizes()["k"] != labelled[1].sizes()["k"]:
        raise NotAProduct("the operands' shapes do not agree")
    return Contraction.of(*labelled, result)


def _placed(core: Labels, entry: AnyArray, ndim: int) -> Labels:
    """Labels for all axes of an array, with the core labels where an entry of `axes` puts them."""
    places = _whole_numbers(entry if isinstance(entry, tuple) else (entry,), ndim)
    if len(places) != len(core):
        raise NotAProduct("axes does not fit the operands")
    named = dict(zip(places, core, strict=True))
    others = iter(range(ndim - len(core), 0, -1))
    return tuple(named[i] if i in named else f".{next(others)}" for i in range(ndim))


def _pairs_of_axes(a: Array, b: Array, axes: AnyArray) -> tuple[list[int], list[int]]:
    """The axes that tensordot sums over."""
    try:
        left, right = axes
    except TypeError:
        count = _whole_numbers((axes,), None)[0]
        left, right = list(range(-count, 0)), list(range(count))
    except ValueError:
        raise NotAProduct("axes is no pair") from None
    axes_a, axes_b = (
        _whole_numbers(given if hasattr(given, "__len__") else (given,), x.ndim) for given, x in ((left, a), (right, b))
    )
    if len(axes_a) != len(axes_b):
        raise NotAProduct("axes has lists of different lengths")
    return axes_a, axes_b


def _whole_numbers(given: Sequence[AnyArray], ndim: int | None) -> list[int]:
    """Numbers of axes, each once and, if `ndim` is given, from 0 to ndim - 1."""
    try:
        axes = [operator.index(axis) for axis in given]
    except TypeError:
        raise NotAProduct("an axis is no whole number") from None
    if ndim is None:
        return axes
    if any(not -ndim <= axis < ndim for axis in axes) or len({axis % ndim for axis in axes}) < len(axes):
        raise NotAProduct("an axis is missing or occurs twice")
    return [axis % ndim for axis in axes]


def _refuse_scalars(a: Array, b: Array) -> None:
    if a.ndim == 0 or b.ndim == 0:
        raise NotAProduct("a number times an array is no matrix product")


def _conjugated(x: Array) -> Array:
    return x.conj() if x.dtype.kind == "c" else x


def _scalar_or_array(x: Array) -> AnyArray:
    return x[()] if x.ndim == 0 else x
