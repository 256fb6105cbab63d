"""One product, checked once and brought into one form.

The arguments of `matmul` (vectors, batches that broadcast, `axes`, other dtypes, an `out` that overlaps an operand)
become a `Problem`: `a`, `b` and `out` with one dtype and one leading shape, ready to be multiplied.
Errors are NumPy's: if the arguments do not fit together, NumPy's matmul is called with arrays of the same shapes and
dtypes that hold no memory, and its exception is raised.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from gemmlab._config import check_threads

if TYPE_CHECKING:
    from gemmlab._cpu.packed_backend._packed import PackedOperand
    from gemmlab._gpu.device_arrays import DeviceOperands

Array: TypeAlias = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]
AnyArray: TypeAlias = Any  # an array of NumPy, of a device library, or anything that NumPy converts to an array
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Axes: TypeAlias = tuple[int, ...]


class Problem:
    """One product, or a batch of products, `out = a @ b`.

    Attributes
    ----------
    a, b, out : ndarray
        Of shape (..., m, k), (..., k, n) and (..., m, n) with the same leading shape and the same dtype, in
        native byte order and aligned, with any strides. `out` shares no memory with `a` and `b`.
    m, n, k, batch : int
        The sizes, and the number of products in the batch.
    dtype : dtype
        The dtype of all three arrays.
    threads : int or None
        The number of threads that the caller requested; None: the backend chooses.
    unconverted : tuple of ndarray, or None
        `a` and `b` as the caller passed them, if both have one dtype and `dtype` is another. A backend that multiplies
        this dtype and accumulates in `dtype` reads these; then `a` and `b` are never converted.
    copies : int
        The number of operands that had to be copied so far; a backend that copies more adds to it.
    device_operands : DeviceOperands or None
        The operands' memory if they are on a device. Then `a`, `b` and `out` have the right shapes and strides, but
        their addresses stand for device memory and must not be read.
    packed : PackedOperand or None
        The packed panels of `b` from `gemmlab.pack`. Then `b` has the right shape, but not the values.
    caller_out : ndarray or None
        The caller's `out`, if a kernel must not write into it directly.
    """

    __slots__ = (
        "_a", "_b", "_is_scalar", "_result", "batch", "caller_out", "copies", "device_operands", "dtype", "k", "m", "n",
        "out", "packed", "threads", "unconverted",
    )  # fmt: skip

    def __init__(self, a: Array, b: Array, out: Array, *, threads: int | None = None, copies: int = 0) -> None:
        self._a, self._b, self.out = a, b, out
        self.unconverted: tuple[Array, Array] | None = None
        self.m, self.k, self.n = a.shape[-2], a.shape[-1], b.shape[-1]
        self.batch = math.prod(out.shape[:-2])
        self.dtype = out.dtype
        self.threads = threads
        self.copies = copies
        self.device_operands: DeviceOperands | None = None
        self.packed: PackedOperand | None = None
        self.caller_out: Array | None = None
        self._result: Array = out
        self._is_scalar = False

    @classmethod
    def from_call(
        cls,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        out: object = None,
        *,
        dtype: npt.DTypeLike | None = None,
        casting: Casting = "same_kind",
        axes: object = None,
        threads: int | None = None,
    ) -> Problem:
        """Check the arguments of `matmul` and make a problem of them; the errors are those of NumPy's matmul."""
        a, b, caller_out = np.asarray(a), np.asarray(b), _single_out(out)
        a_axes, b_axes, out_axes = _core_axes(a, b, axes)
        dtypes = _resolved_dtypes(a, b, caller_out, dtype, casting)
        a_core, b_core = _core_last(a, a_axes, 0), _core_last(b, b_axes, 1)
        vectors = (a.ndim == 1, b.ndim == 1)
        if caller_out is not None and caller_out.ndim < len(out_axes):
            raise _numpys_error(a, b, caller_out, axes)
        view = None
        if caller_out is not None:
            view = _out_core_last(caller_out, out_axes, vectors, max(a_core.ndim, b_core.ndim))
        lead = _leading_shape(a_core, b_core, view)
        if lead is None:
            raise _numpys_error(a, b, caller_out, axes)
        widened = a.dtype == b.dtype != dtypes[0] == dtypes[1] == dtypes[2] and _is_plain(a) and _is_plain(b)
        copied_a = copied_b = False
        if not widened:
            a_core, copied_a = _in_dtype(a_core, dtypes[0])
            b_core, copied_b = _in_dtype(b_core, dtypes[1])
        shape = (*lead, a_core.shape[-2], b_core.shape[-1])
        direct = view is not None and _can_be_written(view, dtypes[2], a_core, b_core)
        filled = view if view is not None and direct else np.empty(shape, dtypes[2])
        problem = cls(
            _broadcast(a_core, lead),
            _broadcast(b_core, lead),
            filled,
            threads=check_threads(threads),
            copies=copied_a + copied_b + (view is not None and not direct),
        )
        if widened:
            problem.unconverted = problem._a, problem._b
        problem.caller_out = None if direct else view
        problem._result = caller_out if caller_out is not None else _as_result(filled, out_axes, vectors)
        problem._is_scalar = caller_out is None and problem._result.ndim == 0
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
        """Convert the operands to `dtype` when they are first read."""
        if self.unconverted is not None and self._a is self.unconverted[0]:
            self._a, self._b = (_converted(x, self.dtype) for x in self.unconverted)
            self.copies += 2

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self._result.shape)

    def result(self) -> AnyArray:
        """What `matmul` returns once `out` is filled: the caller's `out`, a new array, or a scalar."""
        if self.caller_out is not None:
            np.copyto(self.caller_out, self.out, casting="unsafe")  # `from_call` has checked the casting
        return self._result[()] if self._is_scalar else self._result


def _single_out(out: object) -> Array | None:
    """The caller's `out`, which may be in a tuple of one."""
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        out = out[0]
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError("return arrays must be of ArrayType")
    if out is not None and not out.flags.writeable:
        raise ValueError("output array is read-only")
    return out


def _core_axes(a: Array, b: Array, axes: object) -> tuple[Axes, ...]:
    """The core axes of a, b and out: the last ones, unless `axes` names others."""
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


def _distinct_axes(axes: Axes, ndim: int) -> bool:
    return all(-ndim <= axis < ndim for axis in axes) and len({axis % ndim for axis in axes if ndim}) == len(axes)


def _core_last(x: Array, axes: Axes, side: int) -> Array:
    """A view with the core axes last; a vector becomes a row (a) or a column (b)."""
    moved = _moved(x, axes)
    if len(axes) == 2:
        return moved
    return moved[..., None, :] if side == 0 else moved[..., :, None]


def _out_core_last(out: Array, axes: Axes, vectors: tuple[bool, bool], ndim: int) -> Array:
    """`out` as (..., m, n) with at least `ndim` axes."""
    moved = _moved(out, axes)
    if vectors[0]:
        moved = moved[..., None, :] if len(axes) else moved[..., None]
    if vectors[1]:
        moved = moved[..., None]
    return moved[(None,) * (ndim - moved.ndim)] if ndim > moved.ndim else moved


def _moved(x: Array, axes: Axes) -> Array:
    """A view with these axes last."""
    last = tuple(range(-len(axes), 0))
    return x if axes == last else np.moveaxis(x, axes, last)


def _broadcast(x: Array, lead: tuple[int, ...]) -> Array:
    """A view with these leading axes."""
    return x if x.shape[:-2] == lead else np.broadcast_to(x, (*lead, *x.shape[-2:]))


def _as_result(filled: Array, axes: Axes, vectors: tuple[bool, bool]) -> Array:
    """A new result without the axes that were added for vectors, with its core axes where `axes` puts them."""
    if vectors[1]:
        filled = filled[..., 0]
    if vectors[0]:
        filled = filled[..., 0] if vectors[1] else filled[..., 0, :]
    last = tuple(range(-len(axes), 0))
    return filled if axes == last else np.moveaxis(filled, last, axes)


def _leading_shape(a: Array, b: Array, out: Array | None) -> tuple[int, ...] | None:
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
    """The shape that two shapes broadcast to; ValueError if they do not."""
    return one if one == other else np.broadcast_shapes(one, other)


def _resolved_dtypes(
    a: Array, b: Array, out: Array | None, dtype: npt.DTypeLike | None, casting: Casting
) -> tuple[DType, ...]:
    """The dtypes of a, b and out in which NumPy's matmul would compute; raises its errors."""
    given: tuple[DType | None, ...]
    given = (a.dtype, b.dtype, None if out is None else out.dtype)
    if a.dtype == b.dtype and a.dtype.kind == "V" and a.dtype.name == "bfloat16":
        # ml_dtypes' matmul returns float32; here that takes dtype="float32"
        if dtype is None and (out is None or np.can_cast(a.dtype, out.dtype, casting)):
            return (a.dtype,) * 3
        given = tuple(np.dtype(np.float32) if x == a.dtype else x for x in given[:2]) + given[2:]
    if dtype is None:
        return np.matmul.resolve_dtypes(given, casting=casting)
    return np.matmul.resolve_dtypes(given, casting=casting, signature=(None, None, np.dtype(dtype)))


def _is_plain(x: Array) -> bool:
    return x.dtype.isnative and x.flags.aligned


def _in_dtype(x: Array, dtype: DType) -> tuple[Array, bool]:
    """`x` in this dtype, aligned and in native byte order, and whether it had to be copied."""
    if x.dtype == dtype and _is_plain(x):
        return x, False
    return np.array(x, dtype=dtype, order="C", copy=True), True


def _converted(x: Array, dtype: DType) -> Array:
    """`x` in another dtype; an array that is broadcast along a leading axis is converted once and broadcast again."""
    once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.strides[:-2])]
    return np.broadcast_to(once.astype(dtype, order="C"), x.shape)


def _can_be_written(out: Array, dtype: DType, a: Array, b: Array) -> bool:
    """Whether a kernel may write directly into the caller's `out`."""
    low, high = byte_bounds(out)
    return (
        out.dtype == dtype
        and out.dtype.isnative
        and out.flags.aligned
        and high - low >= out.nbytes  # else its elements share memory with each other
        and not np.may_share_memory(out, a)
        and not np.may_share_memory(out, b)
    )


def _numpys_error(a: Array, b: Array, out: Array | None, axes: object) -> Exception:
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
