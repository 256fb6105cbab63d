"""A sum of products over axes with labels, brought into the form of one batched `matmul`.

    labels that both operands and the result have    leading axes, a batch of products
    labels that both operands have                   k, summed over
    labels of the first operand alone                m
    labels of the second operand alone               n

Axes of one group become one axis. That is a view where their strides allow it, else the operand is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab import _front
from gemmlab._api.labels import Labelled, Labels, NotAProduct, OnlyInNumPy, as_matmul, parse
from gemmlab._problem import AnyArray, Array, DType, sums_of


@dataclass(frozen=True)
class Contraction:
    """A sum of products over labelled axes, as a batch of matrix products.

    Attributes
    ----------
    a, b : ndarray
        Of shape (*batch, m, k) and (*batch, k, n).
    labels : tuple of str
        The axes of the result.
    groups : tuple of three tuples of str
        The labels of the batch, of m and of n.
    sizes : dict
        The size of each of these labels.
    dtype : dtype
        The dtype of the result.
    """

    a: Array
    b: Array
    labels: Labels
    groups: tuple[Labels, Labels, Labels]
    sizes: dict[str, int]
    dtype: DType

    @classmethod
    def of(cls, a: Labelled, b: Labelled, labels: Labels) -> Contraction:
        """The product of two operands whose labels occur once in each, with these labels in the result."""
        dtype = np.result_type(a.array.dtype, b.array.dtype)
        a, b = _without_broadcast(a, b), _without_broadcast(b, a)
        _check_sizes(a, b)
        a, b = _summed_alone(a, b, labels, dtype), _summed_alone(b, a, labels, dtype)
        batch = tuple(x for x in labels if x in a.labels and x in b.labels)
        as_in_a = tuple(x for x in a.labels if x in b.labels and x not in labels)
        as_in_b = tuple(x for x in b.labels if x in as_in_a)
        k = max((as_in_a, as_in_b), key=lambda order: a.merges(order) + b.merges(order))
        m, n = _own(a, b, labels), _own(b, a, labels)
        sizes = a.sizes() | b.sizes()
        return cls(_matrices(a, batch, m, k), _matrices(b, batch, k, n), labels, (batch, m, n), sizes, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.sizes[label] for label in self.labels)

    @property
    def summary(self) -> str:
        """The product in words."""
        *batch, m, k = self.a.shape
        return f"m={m}, n={self.b.shape[-1]}, k={k}, batch={math.prod(batch)}"

    def dtype_into(self, out: Array | None) -> DType | None:
        """The dtype in which einsum computes into `out`; NotAProduct if it does not take that."""
        if out is None:
            return None
        dtype = np.result_type(self.dtype, out.dtype)
        if not isinstance(out, np.ndarray) or out.shape != self.shape or not np.can_cast(dtype, out.dtype, "safe"):
            raise NotAProduct("NumPy's einsum does not accept this out")
        return dtype

    def multiply(self, out: Array | None = None, dtype: DType | None = None, **options: Any) -> Array:
        """Fill `out`, or a new array, computing in `dtype`; `options` are those of `matmul`."""
        if dtype is not None and dtype != self.dtype:
            options["dtype"] = dtype
        filled = np.empty(self.shape, dtype or self.dtype) if out is None else out
        target = Labelled(filled, self.labels)
        batch, m, n = self.groups
        if target.merges(m) and target.merges(n):
            _front.matmul(self.a, self.b, _matrices(target, batch, m, n), **options)
        else:
            axes = target.ordered((*batch, *m, *n))
            np.copyto(axes, _front.matmul(self.a, self.b, **options).reshape(axes.shape), casting="same_kind")
        return filled


def _without_broadcast(x: Labelled, other: Labelled) -> Labelled:
    """A view without the axes of size 1 that broadcast along an axis of the other operand."""
    if 1 not in x.array.shape:
        return x
    sizes = other.sizes()
    kept = [size != 1 or sizes.get(label, 1) == 1 for label, size in zip(x.labels, x.array.shape, strict=True)]
    index = tuple(slice(None) if keep else 0 for keep in kept)
    return Labelled(x.array[index], tuple(label for label, keep in zip(x.labels, kept, strict=True) if keep))


def _check_sizes(a: Labelled, b: Labelled) -> None:
    sizes = b.sizes()
    for label, size in a.sizes().items():
        if sizes.get(label, size) != size:
            raise NotAProduct("the operands' shapes do not agree")


def _summed_alone(x: Labelled, other: Labelled, labels: Labels, dtype: DType) -> Labelled:
    """The operand, summed over the axes that neither the other operand nor the result has.

    Sums of half precision are kept in float32, as NumPy's einsum keeps them.
    """
    axes = tuple(i for i, label in enumerate(x.labels) if label not in other.labels and label not in labels)
    if not axes:
        return x
    dtype = sums_of(dtype)
    left = tuple(label for i, label in enumerate(x.labels) if i not in axes)
    return Labelled(np.asarray(x.array.sum(axes, dtype=dtype)), left)


def _own(x: Labelled, other: Labelled, labels: Labels) -> Labels:
    """The labels that only this operand has, in an order in which they merge without a copy, if there is one."""
    as_in_result = tuple(label for label in labels if label in x.labels and label not in other.labels)
    as_here = tuple(label for label in x.labels if label in as_in_result)
    return max((as_in_result, as_here), key=x.merges)


def _matrices(x: Labelled, batch: Labels, rows: Labels, columns: Labels) -> Array:
    """The array as (*batch, rows, columns); a copy where the axes of a group do not merge."""
    sizes = x.sizes()
    matrix = (math.prod(sizes[label] for label in rows), math.prod(sizes[label] for label in columns))
    return x.ordered((*batch, *rows, *columns)).reshape(*(sizes[label] for label in batch), *matrix)


def check_numbers(*operands: Array) -> None:
    """OnlyInNumPy for dtypes that are no numbers: NumPy's functions treat each of them differently."""
    for x in operands:
        if x.dtype.kind not in "biufc" and x.dtype.name != "bfloat16":
            raise OnlyInNumPy(f"operands of {x.dtype}")


def quick_einsum(subscripts: str, a: Array, b: Array, **options: Any) -> AnyArray:
    """An einsum of two arrays that is `matmul` of views of them; None: it has to be looked at more closely."""
    swaps = as_matmul(subscripts, (a.ndim, b.ndim))
    if swaps is None or a.dtype != b.dtype or a.dtype.kind not in "biufc":
        return None
    swap_a, swap_b, swap_c = swaps
    a, b = a.swapaxes(-1, -2) if swap_a else a, b.swapaxes(-1, -2) if swap_b else b
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        return None
    if swap_c:  # C' = B' A'
        return _front.matmul(b.swapaxes(-1, -2), a.swapaxes(-1, -2), **options)
    return _front.matmul(a, b, **options)


def einsum_contraction(subscripts: str, operands: Sequence[AnyArray]) -> Contraction:
    """The product that an einsum asks for; NotAProduct if it asks for something else."""
    if len(operands) != 2:
        raise NotAProduct(f"a product has two operands, not {len(operands)}")
    (a, b), labels = parse(subscripts, operands)
    if not any(label in b.labels and label not in labels for label in a.labels):
        raise NotAProduct("no label is summed over in both operands")
    check_numbers(a.array, b.array)
    return Contraction.of(a, b, labels)


def paired_contraction(a: Array, b: Array, axes_a: Sequence[int], axes_b: Sequence[int]) -> Contraction:
    """The sum over pairs of axes; the result has the other axes of `a`, then those of `b`."""
    check_numbers(a, b)
    if [a.shape[axis] for axis in axes_a] != [b.shape[axis] for axis in axes_b]:
        raise NotAProduct("the operands' shapes do not agree")
    labels_a, labels_b = [f"a{i}" for i in range(a.ndim)], [f"b{i}" for i in range(b.ndim)]
    for i, j in zip(axes_a, axes_b, strict=True):
        labels_b[j] = labels_a[i]
    result = [x for x in labels_a if x not in labels_b] + [x for x in labels_b if x not in labels_a]
    return Contraction.of(Labelled(a, tuple(labels_a)), Labelled(b, tuple(labels_b)), tuple(result))
