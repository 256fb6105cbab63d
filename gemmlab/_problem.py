"""One product, checked once and brought into one form.

The arguments of `matmul` (vectors, batches that broadcast, `axes`, other dtypes, an `out` that overlaps an operand)
become a `Problem`: `a`, `b` and `out` with one dtype and one leading shape, ready to be multiplied.
Errors are NumPy's: if the arguments do not fit together, NumPy's matmul is called with arrays of the same shapes and
dtypes that hold no memory, and its exception is raised.
"""

from __future__ import annotations

import math
import operator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gemmlab._config import check_threads
from gemmlab._errors import UnsupportedProblem
from gemmlab._memory import can_be_written, shares_memory_with_itself

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
        this dtype and accumulates in `dtype` reads these; then `a` and `b` are never converted. (Other operands too
        are converted when they are first read.)
    copies : int
        The number of operands that had to be copied so far; a backend that copies more adds to it.
    device_operands : DeviceOperands or None
        The operands' memory if they are on a device. Then `a`, `b` and `out` have the right shapes and strides, but
        their addresses stand for device memory and must not be read.
    packed : PackedOperand or None
        The packed panels of `b` from `gemmlab.pack`. Then `b` has the right shape, but not the values.
    caller_out : ndarray or None
        The caller's `out`, if a kernel must not write into it directly.
    warns : bool
        Whether conversions of operands and result obey `numpy.errstate`. Only `cpu-numpy` sets this, before it reads
        the operands; our kernels report no floating-point errors.
    accumulate : bool
        Whether the product is added to what `out` holds.
    """

    __slots__ = (
        "_a", "_b", "_is_scalar", "_result", "accumulate", "batch", "caller_out", "copies", "device_operands", "dtype",
        "k", "m", "n", "out", "packed", "threads", "unconverted", "warns",
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
        self.warns = False
        self.accumulate = False
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
        accumulate: bool = False,
    ) -> Problem:
        """Check the arguments of `matmul` and make a problem of them; the errors are those of NumPy's matmul."""
        a, b, caller_out = as_array(a), as_array(b), _single_out(out)
        dtypes = _resolved_dtypes(a, b, caller_out, dtype, casting)
        if accumulate is not False:
            dtypes = _dtypes_to_add(accumulate, dtypes, a, b, caller_out, dtype, casting)
        vectors = _vectors(a, b, caller_out)
        a_axes, b_axes, out_axes = _core_axes(a, b, caller_out, vectors, axes)
        a_core, b_core = _core_last(a, a_axes, 0), _core_last(b, b_axes, 1)
        view = None
        if caller_out is not None:
            view = _out_core_last(caller_out, out_axes, vectors, max(a_core.ndim, b_core.ndim))
        lead = _leading_shape(a_core, b_core, view)
        if lead is None:
            raise _numpys_error(a, b, caller_out, axes)
        shape = (*lead, a_core.shape[-2], b_core.shape[-1])
        direct = view is None or can_be_written(view, dtypes[2], a_core, b_core)
        result = caller_out if caller_out is not None else _new_result(shape, dtypes[2], out_axes, vectors)
        if view is None:
            view = _out_core_last(result, out_axes, vectors, len(shape))
        problem = cls(
            _broadcast(a_core, lead),
            _broadcast(b_core, lead),
            view if direct else np.empty(shape, dtypes[2]),
            threads=check_threads(threads),
            copies=int(not direct),
        )
        if a.dtype == b.dtype != dtypes[0] == dtypes[1] == dtypes[2] and _is_plain(a) and _is_plain(b):
            problem.unconverted = problem._a, problem._b
        problem.caller_out = None if direct else view
        problem._result = result
        problem._is_scalar = caller_out is None and result.ndim == 0
        if accumulate:
            problem._begin_with_out()
        return problem

    def _begin_with_out(self) -> None:
        """Make what the caller's `out` holds the first addend."""
        self.accumulate = True
        if self.caller_out is not None:
            with self._floating_point_errors():
                np.copyto(self.out, self.caller_out, casting="unsafe")  # `_dtypes_to_add` has checked the casting

    @property
    def a(self) -> Array:
        """The left operand, in `dtype`."""
        if self._a.dtype != self.dtype or not _is_plain(self._a):
            self._a = self._converted(self._a)
        return self._a

    @property
    def b(self) -> Array:
        """The right operand, in `dtype`."""
        if self._b.dtype != self.dtype or not _is_plain(self._b):
            self._b = self._converted(self._b)
        return self._b

    @property
    def needs_conversion(self) -> bool:
        """Whether `a` or `b` is stored in another dtype or byte order than `dtype`, or not aligned."""
        return any(x.dtype != self.dtype or not _is_plain(x) for x in (self._a, self._b))

    def _converted(self, x: Array) -> Array:
        """A copy in `dtype`; what is broadcast along a leading axis is converted once and broadcast again."""
        self.copies += 1
        once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.strides[:-2])]
        with self._floating_point_errors():
            return np.broadcast_to(once.astype(self.dtype, order="C"), x.shape)

    def _floating_point_errors(self) -> AbstractContextManager[object]:
        """Conversions report overflow and the like as NumPy does, or not at all."""
        return nullcontext() if self.warns else np.errstate(all="ignore")

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self._result.shape)

    def result(self) -> AnyArray:
        """What `matmul` returns once `out` is filled: the caller's `out`, a new array, or a scalar."""
        if self.caller_out is not None:
            with self._floating_point_errors():
                np.copyto(self.caller_out, self.out, casting="unsafe")  # `from_call` has checked the casting
        return self._result[()] if self._is_scalar else self._result


def as_array(x: npt.ArrayLike) -> Array:
    """`x` as NumPy's array; UnsupportedProblem for a matrix that NumPy takes for a scalar, such as a sparse one."""
    array: Array = np.asarray(x)
    if array.ndim == 0 and getattr(x, "shape", None):
        kind = type(x).__name__
        if hasattr(x, "toarray"):
            instead = "use its own product `a @ b`, or pass x.toarray()"
            raise UnsupportedProblem(f"{kind} is sparse, and gemmlab multiplies dense arrays: {instead}")
        raise UnsupportedProblem(f"NumPy cannot make an array of {kind}: convert it to a numpy.ndarray first")
    return array


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


def _dtypes_to_add(
    accumulate: object, dtypes: tuple[DType, ...], a: Array, b: Array, out: Array | None, dtype: npt.DTypeLike | None,
    casting: Casting,
) -> tuple[DType, ...]:  # fmt: skip
    """The dtypes of a product that is added to `out`: that of `out` where it is the wider one, and none is given.

    TypeError or ValueError where the product cannot be added.
    """
    if not isinstance(accumulate, bool | np.bool_):
        raise TypeError(f"accumulate must be True or False, not {accumulate!r}")
    if not accumulate:
        return dtypes
    if out is None:
        raise TypeError("accumulate=True adds the product to an array: pass it as out=")
    wider = np.promote_types(dtypes[2], out.dtype) if np.can_cast(dtypes[2], out.dtype, "safe") else dtypes[2]
    if dtype is None and wider != dtypes[2]:
        dtypes = (wider,) * 3 if _is_bfloat16(wider) else _resolved_dtypes(a, b, out, wider, casting)
    if casting != "unsafe" and not np.can_cast(out.dtype, dtypes[2], "safe"):
        raise TypeError(
            f"accumulate=True adds out, of {out.dtype}, to a product of {dtypes[2]}, which does not hold all values of "
            f"{out.dtype}: pass dtype={str(out.dtype)!r}, or operands of that dtype"
        )
    if shares_memory_with_itself(out):
        raise ValueError("accumulate=True needs an out whose elements share no memory with each other: pass a copy")
    return dtypes


def _vectors(a: Array, b: Array, out: Array | None) -> tuple[bool, bool]:
    """Whether a and b count as (batches of) vectors: those of one axis, and those whose axis `out` lacks.

    That is the meaning of NumPy's signature (n?,k),(k,m?)->(n?,m?): an `out` of one axis has no rows.
    """
    rows, columns = a.ndim > 1, b.ndim > 1
    missing = rows + columns - (2 if out is None else out.ndim)
    if rows and missing > 0:
        rows, missing = False, missing - 1
    return not rows, not columns or missing > 0


def _core_axes(a: Array, b: Array, out: Array | None, vectors: tuple[bool, bool], axes: object) -> tuple[Axes, ...]:
    """The core axes of a, b and out: the last ones, unless `axes` names others."""
    if a.ndim == 0 or b.ndim == 0:
        raise _numpys_error(a, b, out, axes)
    counts = (2 - vectors[0], 2 - vectors[1], 2 - sum(vectors))
    if axes is None:
        return tuple(_last_axes(count) for count in counts)
    found = _axes_of_entries(axes)
    ndim = out.ndim if out is not None else max(a.ndim - counts[0], b.ndim - counts[1]) + counts[2]
    if [len(entry) for entry in found] != list(counts) or not all(map(_distinct_axes, found, (a.ndim, b.ndim, ndim))):
        raise _numpys_error(a, b, out, axes)
    return found


def _last_axes(count: int) -> Axes:
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
    last = _last_axes(len(axes))
    return x if axes == last else np.moveaxis(x, axes, last)


def _broadcast(x: Array, lead: tuple[int, ...]) -> Array:
    """A view with these leading axes."""
    return x if x.shape[:-2] == lead else np.broadcast_to(x, (*lead, *x.shape[-2:]))


def _new_result(shape: tuple[int, ...], dtype: DType, axes: Axes, vectors: tuple[bool, bool]) -> Array:
    """A new array for a result of shape (..., m, n), without the axes of vectors and with its core axes at `axes`.

    It owns its data, and in memory the core axes come last, as in NumPy's results.
    """
    rows, columns = (() if is_vector else (extent,) for is_vector, extent in zip(vectors, shape[-2:], strict=True))
    shape = (*shape[:-2], *rows, *columns)
    if axes == _last_axes(len(axes)):
        return np.empty(shape, dtype)
    ndim = len(shape)
    strides = [math.prod(shape[axis + 1 :], start=dtype.itemsize) for axis in range(ndim)]
    order = list(range(ndim - len(axes)))
    for place, axis in sorted((axis % ndim, ndim - len(axes) + i) for i, axis in enumerate(axes)):
        order.insert(place, axis)
    return np.ndarray([shape[axis] for axis in order], dtype, strides=[strides[axis] for axis in order])


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
    """The shape that two shapes broadcast to; ValueError if they do not. (NumPy's function stops at 32 axes.)"""
    if one == other:
        return one
    ndim = max(len(one), len(other))
    one, other = ((1,) * (ndim - len(shape)) + shape for shape in (one, other))
    if any(x != y and 1 not in (x, y) for x, y in zip(one, other, strict=True)):
        raise ValueError(f"shapes {one} and {other} do not broadcast")
    return tuple(y if x == 1 else x for x, y in zip(one, other, strict=True))


def _resolved_dtypes(
    a: Array, b: Array, out: Array | None, dtype: npt.DTypeLike | None, casting: Casting
) -> tuple[DType, ...]:
    """The dtypes of a, b and out in which NumPy's matmul would compute; raises its errors."""
    given = (a.dtype, b.dtype, None if out is None else out.dtype)
    if dtype is not None:
        return np.matmul.resolve_dtypes(given, casting=casting, signature=(None, None, np.dtype(dtype)))
    native = a.dtype.newbyteorder("=")
    casts = [(a.dtype, native), (b.dtype, native), (native, native if out is None else out.dtype)]
    if _is_bfloat16(native) and _is_bfloat16(b.dtype) and all(np.can_cast(*cast, casting) for cast in casts):
        return (native,) * 3  # ml_dtypes' matmul returns float32; here that takes dtype="float32"
    return np.matmul.resolve_dtypes(given, casting=casting)


def _is_bfloat16(dtype: DType) -> bool:
    """Whether this is the dtype of ml_dtypes, for which NumPy's matmul has no loop."""
    return dtype.name == "bfloat16" and dtype.kind == "V"


def _is_plain(x: Array) -> bool:
    return x.dtype.isnative and x.flags.aligned


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
