"""What is asked: one product, checked once and brought into one form.

Whatever a caller passes (vectors, stacks that broadcast, `axes`, other dtypes, an `out` that overlaps an
operand) becomes a `Problem`: `a`, `b` and `out` of one dtype and one leading shape, ready to be multiplied.
Errors are NumPy's own: where something does not fit, NumPy's matmul is asked about stand-ins of the same
shapes and dtypes, and says it in its own words.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from gemmlab._config import check_threads

Array = np.ndarray[Any, Any]


class Problem:
    """One product, or a stack of products, `out = a @ b`.

    Attributes
    ----------
    a, b, out : ndarray
        Of shape (..., m, k), (..., k, n) and (..., m, n) with the same leading shape and the same dtype, in
        native byte order and aligned, with any strides. `out` shares no memory with `a` and `b`.
    m, n, k, batch : int
        The sizes, and the number of products in the stack.
    dtype : dtype
        Of all three arrays.
    threads : int or None
        What the caller asked for; None: as many as the backend sees fit.
    narrow : tuple of ndarray, or None
        `a` and `b` as they were given, where both are of one dtype and `dtype` is another: a backend that multiplies
        such into sums of `dtype` reads these, and need not have `a` and `b` converted.
    copies : int
        Operands that had to be copied so far; a backend that copies more adds to it.
    place : Place or None
        Where the matrices lie if not in host memory: then `a`, `b` and `out` have the shapes and strides, but
        their addresses are those of `gemmlab._gpu.arrays`, and may not be read.
    packed : PackedOperand or None
        The panels of `b` from `gemmlab.pack`: then `b` has its shape, but no numbers.
    target : ndarray or None
        The caller's own `out`, where the product may not be written straight into it.
    """

    __slots__ = (
        "_a", "_answer", "_b", "_is_scalar", "batch", "copies", "dtype", "k", "m", "n", "narrow", "out", "packed",
        "place", "target", "threads",
    )  # fmt: skip

    def __init__(self, a: Array, b: Array, out: Array, *, threads: int | None = None, copies: int = 0) -> None:
        self._a, self._b, self.out = a, b, out
        self.narrow: tuple[Array, Array] | None = None
        self.m, self.k, self.n = a.shape[-2], a.shape[-1], b.shape[-1]
        self.batch = math.prod(out.shape[:-2])
        self.dtype = out.dtype
        self.threads = threads
        self.copies = copies
        self.place: Any = None
        self.packed: Any = None
        self.target: Array | None = None
        self._answer: Array = out
        self._is_scalar = False

    @classmethod
    def from_call(
        cls,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        out: Any = None,
        *,
        dtype: Any = None,
        casting: Any = "same_kind",
        axes: Any = None,
        threads: int | None = None,
    ) -> Problem:
        """Check a call of `matmul` and bring it into form; errors as NumPy's matmul raises them."""
        a, b, out = np.asarray(a), np.asarray(b), _single(out)
        a_axes, b_axes, out_axes = _core_axes(a, b, axes)
        wanted = _resolved_dtypes(a, b, out, dtype, casting)
        a_core, b_core = _core_last(a, a_axes, 0), _core_last(b, b_axes, 1)
        vectors = (a.ndim == 1, b.ndim == 1)
        if out is not None and out.ndim < len(out_axes):
            raise _numpys_error(a, b, out, axes)
        view = None if out is None else _out_core_last(out, out_axes, vectors, max(a_core.ndim, b_core.ndim))
        lead = _leading_shape(a_core, b_core, view)
        if lead is None:
            raise _numpys_error(a, b, out, axes)
        widened = a.dtype == b.dtype != wanted[0] == wanted[1] == wanted[2] and _is_plain(a) and _is_plain(b)
        copied_a = copied_b = False
        if not widened:
            a_core, copied_a = _in_dtype(a_core, wanted[0])
            b_core, copied_b = _in_dtype(b_core, wanted[1])
        shape = (*lead, a_core.shape[-2], b_core.shape[-1])
        direct = view is not None and _can_be_written(view, wanted[2], a_core, b_core)
        filled = view if view is not None and direct else np.empty(shape, wanted[2])
        problem = cls(
            _broadcast(a_core, lead),
            _broadcast(b_core, lead),
            filled,
            threads=check_threads(threads),
            copies=copied_a + copied_b + (view is not None and not direct),
        )
        if widened:
            problem.narrow = problem._a, problem._b
        problem.target = None if direct else view
        problem._answer = out if out is not None else _as_result(filled, out_axes, vectors)
        problem._is_scalar = out is None and problem._answer.ndim == 0
        return problem

    @property
    def a(self) -> Array:
        """The left operand, in `dtype`."""
        self._convert()
        return self._a

    @property
    def b(self) -> Array:
        """The right operand, in `dtype`."""
        self._convert()
        return self._b

    def _convert(self) -> None:
        """Bring narrow operands into `dtype`, when somebody asks for them first."""
        if self.narrow is not None and self._a is self.narrow[0]:
            self._a, self._b = (_converted(x, self.dtype) for x in self.narrow)
            self.copies += 2

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of what the caller gets."""
        return tuple(self._answer.shape)

    def result(self) -> Any:
        """What the caller gets, once `out` is filled: his own `out`, a new array, or a scalar."""
        if self.target is not None:
            np.copyto(self.target, self.out, casting="unsafe")  # the casting was checked on the way in
        return self._answer[()] if self._is_scalar else self._answer


def _single(out: Any) -> Array | None:
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        out = out[0]
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError("return arrays must be of ArrayType")
    if out is not None and not out.flags.writeable:
        raise ValueError("output array is read-only")
    return out


def _core_axes(a: Array, b: Array, axes: Any) -> tuple[tuple[int, ...], ...]:
    """The core axes of a, b and out: the last ones, unless the caller says otherwise."""
    if a.ndim == 0 or b.ndim == 0:
        raise _numpys_error(a, b, None, axes)
    counts = (min(a.ndim, 2), min(b.ndim, 2), min(a.ndim, 2) + min(b.ndim, 2) - 2)
    last = ((), (-1,), (-2, -1))
    if axes is None:
        return tuple(last[count] for count in counts)
    if not isinstance(axes, list) or len(axes) != 3:
        raise _numpys_error(a, b, None, axes)
    tuples = [entry if isinstance(entry, tuple) else (entry,) for entry in axes]
    try:
        found = tuple(tuple(operator.index(axis) for axis in entry) for entry in tuples)
        fits = [len(entry) for entry in found] == list(counts)
    except TypeError:
        fits = False
    ndims = (a.ndim, b.ndim, max(a.ndim - counts[0], b.ndim - counts[1]) + counts[2])
    if not fits or not all(map(_distinct_axes, found, ndims)):
        raise _numpys_error(a, b, None, axes)
    return found


def _distinct_axes(axes: tuple[int, ...], ndim: int) -> bool:
    return all(-ndim <= axis < ndim for axis in axes) and len({axis % ndim for axis in axes if ndim}) == len(axes)


def _core_last(x: Array, axes: tuple[int, ...], place: int) -> Array:
    """A view with the core axes last; a vector becomes a row (a) or a column (b)."""
    moved = _moved(x, axes)
    if len(axes) == 2:
        return moved
    return moved[..., None, :] if place == 0 else moved[..., :, None]


def _out_core_last(out: Array, axes: tuple[int, ...], vectors: tuple[bool, bool], ndim: int) -> Array:
    """`out` as (..., m, n) with at least `ndim` axes."""
    moved = _moved(out, axes)
    if vectors[0]:
        moved = moved[..., None, :] if len(axes) else moved[..., None]
    if vectors[1]:
        moved = moved[..., None]
    return moved[(None,) * (ndim - moved.ndim)] if ndim > moved.ndim else moved


def _moved(x: Array, axes: tuple[int, ...]) -> Array:
    """A view with these axes last."""
    last = tuple(range(-len(axes), 0))
    return x if axes == last else np.moveaxis(x, axes, last)


def _broadcast(x: Array, lead: tuple[int, ...]) -> Array:
    """A view with these leading axes."""
    return x if x.shape[:-2] == lead else np.broadcast_to(x, (*lead, *x.shape[-2:]))


def _as_result(filled: Array, axes: tuple[int, ...], vectors: tuple[bool, bool]) -> Array:
    """A new result without the axes that stood for vectors, its core axes where the caller wants them."""
    if vectors[1]:
        filled = filled[..., 0]
    if vectors[0]:
        filled = filled[..., 0] if vectors[1] else filled[..., 0, :]
    last = tuple(range(-len(axes), 0))
    return filled if axes == last else np.moveaxis(filled, last, axes)


def _leading_shape(a: Array, b: Array, out: Array | None) -> tuple[int, ...] | None:
    """The broadcast leading shape; None where the shapes do not agree."""
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
    """What two shapes broadcast to; ValueError where they do not."""
    return one if one == other else np.broadcast_shapes(one, other)


def _resolved_dtypes(a: Array, b: Array, out: Array | None, dtype: Any, casting: Any) -> tuple[Any, ...]:
    """The dtypes that NumPy's matmul would compute in; raises its errors."""
    signature: dict[str, Any] = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    given = (a.dtype, b.dtype, None if out is None else out.dtype)
    if a.dtype == b.dtype and a.dtype.kind == "V" and a.dtype.name == "bfloat16":
        # ml_dtypes' own loop gives float32, which `dtype` asks for
        if dtype is None and (out is None or np.can_cast(a.dtype, out.dtype, casting)):
            return (a.dtype,) * 3
        given = tuple(np.dtype(np.float32) if x == a.dtype else x for x in given[:2]) + given[2:]
    return np.matmul.resolve_dtypes(given, casting=casting, **signature)


def _is_plain(x: Array) -> bool:
    return x.dtype.isnative and x.flags.aligned


def _in_dtype(x: Array, dtype: Any) -> tuple[Array, bool]:
    """`x` in this dtype, aligned and in native byte order, and whether that took a copy."""
    if x.dtype == dtype and _is_plain(x):
        return x, False
    return np.array(x, dtype=dtype, order="C", copy=True), True


def _converted(x: Array, dtype: Any) -> Array:
    """`x` in another dtype; what is broadcast along a leading axis is converted once, and broadcast again."""
    once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.strides[:-2])]
    return np.broadcast_to(once.astype(dtype, order="C"), x.shape)


def _can_be_written(out: Array, dtype: Any, a: Array, b: Array) -> bool:
    """Whether a kernel may write straight into the caller's `out`."""
    low, high = byte_bounds(out)
    return (
        out.dtype == dtype
        and out.dtype.isnative
        and out.flags.aligned
        and high - low >= out.nbytes  # else its own elements share memory
        and not np.may_share_memory(out, a)
        and not np.may_share_memory(out, b)
    )


def _numpys_error(a: Array, b: Array, out: Array | None, axes: Any) -> Exception:
    """What NumPy's matmul has to say about these shapes, asked with arrays that hold no memory."""
    stand_ins: list[Any] = [np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in (a, b)]
    out_stand_in: Any = None
    if out is not None:
        out_stand_in = np.lib.stride_tricks.as_strided(np.empty(1, out.dtype), out.shape, (0,) * out.ndim)
    try:
        matmul: Any = np.matmul
        matmul(*stand_ins, out=out_stand_in, casting="unsafe", **({} if axes is None else {"axes": axes}))
    except Exception as error:
        return error
    return ValueError(f"matmul: operands of shapes {a.shape} and {b.shape} do not agree")
