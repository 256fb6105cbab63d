"""Shapes of a product's operands, as NumPy's matmul reads them: brought into the form of matrices, or refused.

The operands are arrays of NumPy, or on a device (`_gpu.operands`): only their shapes and dtypes are read.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

AnyArray: TypeAlias = Any  # an array of NumPy, of a device library, or anything that NumPy converts to an array
Axes: TypeAlias = tuple[int, ...]


class Agreed(NamedTuple):
    """Operands whose shapes fit together, of NumPy or on a device: as matrices with the same leading axes.

    `out` is None if there is none yet; `shape` is what it has as matrices.
    """

    a: AnyArray
    b: AnyArray
    out: AnyArray
    shape: tuple[int, ...]
    out_axes: Axes
    vectors: tuple[bool, bool]

    def as_matrices(self, result: AnyArray) -> AnyArray:
        """A new result as (..., m, n)."""
        return _out_core_last(result, self.out_axes, self.vectors, len(self.shape))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of a new result: without the axes of vectors, and with its core axes where they were asked for."""
        shape = self.memory_shape
        return tuple(shape[axis] for axis in axes_order(len(shape), self.out_axes))

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The same with its core axes last."""
        core = (extent for is_vector, extent in zip(self.vectors, self.shape[-2:], strict=True) if not is_vector)
        return *self.shape[:-2], *core


def agreed(a: AnyArray, b: AnyArray, out: AnyArray, axes: object) -> Agreed:
    """Bring operands into the form of matrices; the errors are those of NumPy's matmul."""
    vectors = _vectors(a, b, out)
    a_axes, b_axes, out_axes = _core_axes(a, b, out, vectors, axes)
    a_core, b_core = _core_last(a, a_axes, 0), _core_last(b, b_axes, 1)
    view = None if out is None else _out_core_last(out, out_axes, vectors, max(a_core.ndim, b_core.ndim))
    lead = _leading_shape(a_core, b_core, view)
    if lead is None:
        raise _numpys_error(a, b, out, axes)
    shape = (*lead, a_core.shape[-2], b_core.shape[-1])
    return Agreed(_broadcast(a_core, lead), _broadcast(b_core, lead), view, shape, out_axes, vectors)


def _vectors(a: AnyArray, b: AnyArray, out: AnyArray) -> tuple[bool, bool]:
    """Whether a and b count as (batches of) vectors: those of one axis, and those whose axis `out` lacks.

    That is the meaning of NumPy's signature (n?,k),(k,m?)->(n?,m?): an `out` of one axis has no rows.
    """
    rows, columns = a.ndim > 1, b.ndim > 1
    missing = rows + columns - (2 if out is None else out.ndim)
    if rows and missing > 0:
        rows, missing = False, missing - 1
    return not rows, not columns or missing > 0


def _core_axes(a: AnyArray, b: AnyArray, out: AnyArray, vectors: tuple[bool, bool], axes: object) -> tuple[Axes, ...]:
    """The core axes of a, b and out: the last, unless `axes` names others."""
    if a.ndim == 0 or b.ndim == 0:
        raise _numpys_error(a, b, out, axes)
    counts = (2 - vectors[0], 2 - vectors[1], 2 - sum(vectors))
    if axes is None:
        return tuple(last_axes(count) for count in counts)
    found = _axes_of_entries(axes)
    ndim = out.ndim if out is not None else max(a.ndim - counts[0], b.ndim - counts[1]) + counts[2]
    if [len(entry) for entry in found] != list(counts) or not all(map(_distinct_axes, found, (a.ndim, b.ndim, ndim))):
        raise _numpys_error(a, b, out, axes)
    return found


def last_axes(count: int) -> Axes:
    """The last 0, 1 or 2 axes."""
    return ((), (-1,), (-2, -1))[count]


def _axes_of_entries(axes: object) -> tuple[Axes, ...]:
    """The argument `axes` as tuples of integers; empty if it is anything else than a list of them."""
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in axes] if isinstance(axes, list) else []
    try:
        if any(isinstance(axis, bool) for entry in entries for axis in entry):
            return ()
        return tuple(tuple(operator.index(axis) for axis in entry) for entry in entries)
    except TypeError:
        return ()


def _distinct_axes(axes: Axes, ndim: int) -> bool:
    return all(-ndim <= axis < ndim for axis in axes) and len({axis % ndim for axis in axes}) == len(axes)


def _core_last(x: AnyArray, axes: Axes, side: int) -> AnyArray:
    """A view with the core axes last; a vector becomes a row (a) or a column (b)."""
    moved = _moved(x, axes)
    if len(axes) == 2:
        return moved
    return moved[..., None, :] if side == 0 else moved[..., :, None]


def _out_core_last(out: AnyArray, axes: Axes, vectors: tuple[bool, bool], ndim: int) -> AnyArray:
    """`out` as (..., m, n) with at least `ndim` axes."""
    moved = _moved(out, axes)
    if vectors[0]:
        moved = moved[..., None, :] if len(axes) else moved[..., None]
    if vectors[1]:
        moved = moved[..., None]
    return moved[(None,) * (ndim - moved.ndim)] if ndim > moved.ndim else moved


def _moved(x: AnyArray, axes: Axes) -> AnyArray:
    """A view with these axes last."""
    if axes == last_axes(len(axes)):
        return x
    core = [axis % x.ndim for axis in axes]
    return x.transpose([axis for axis in range(x.ndim) if axis not in core] + core)


def _broadcast(x: AnyArray, lead: tuple[int, ...]) -> AnyArray:
    """A view with these leading axes."""
    if x.shape[:-2] == lead:
        return x
    shape = (*lead, *x.shape[-2:])
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.broadcast_to(shape)


def axes_order(ndim: int, axes: Axes) -> list[int]:
    """The axes of an array whose last ones shall come at `axes`, in their new order."""
    order = list(range(ndim - len(axes)))
    for place, axis in sorted((axis % ndim, ndim - len(axes) + i) for i, axis in enumerate(axes)):
        order.insert(place, axis)
    return order


def _leading_shape(a: AnyArray, b: AnyArray, out: AnyArray) -> tuple[int, ...] | None:
    """The broadcast leading shape; None if the shapes do not agree."""
    if a.shape[-1] != b.shape[-2]:
        return None
    try:
        lead = _common_shape(a.shape[:-2], b.shape[:-2])
        if out is None:
            return lead
        outer: tuple[int, ...] = out.shape[:-2]
        fits = out.shape[-2:] == (a.shape[-2], b.shape[-1]) and _common_shape(lead, outer) == outer
        return outer if fits else None
    except ValueError:
        return None


def _common_shape(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to; ValueError if they do not. (NumPy's function stops at 32 axes.)"""
    if one == other:
        return one
    ndim = max(len(one), len(other))
    one, other = ((1,) * (ndim - len(shape)) + shape for shape in (one, other))
    if any(x != y and 1 not in (x, y) for x, y in zip(one, other, strict=True)):
        raise ValueError(f"shapes {one} and {other} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(one, other, strict=True))


def _numpys_error(a: AnyArray, b: AnyArray, out: AnyArray, axes: object) -> Exception:
    """The exception that NumPy's matmul raises for these shapes. It is called with arrays that hold no memory."""
    options: dict[str, AnyArray] = {} if axes is None else {"axes": axes}
    empty_a, empty_b = (np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in (a, b))
    if out is not None:
        options["out"] = np.lib.stride_tricks.as_strided(np.empty(1, out.dtype), out.shape, (0,) * out.ndim)
    try:
        np.matmul(empty_a, empty_b, casting="unsafe", **options)
    except Exception as error:
        return error
    return ValueError(f"matmul: operands of shapes {a.shape} and {b.shape} do not agree")
