"""One product, checked once and brought into one form.

The arguments of `matmul` (vectors, batches that broadcast, `axes`, other dtypes, an `out` that overlaps an operand)
become a `Problem`: `a`, `b` and `out` with one dtype and one leading shape, ready to be multiplied.
Errors are NumPy's: if the arguments do not fit together, NumPy's matmul is called with arrays of the same shapes and
dtypes that hold no memory, and its exception is raised.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from gemmlab._config import check_threads
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem.dtypes import Array, Casting, DType, dtypes_to_add, resolved_dtypes, sums_of
from gemmlab._problem.memory import can_be_written
from gemmlab._problem.shapes import Agreed, AnyArray, Axes, agreed, axes_order, last_axes

if TYPE_CHECKING:
    from gemmlab._gpu.operands import DeviceOperand
    from gemmlab._gpu.runtime import Queue

__all__ = [
    "AnyArray", "Array", "Axes", "Casting", "DType", "Problem", "agreed", "as_array", "resolved_dtypes", "sums_of",
]  # fmt: skip


class Problem:
    """One product, or a batch of products, `out = a @ b`.

    Attributes
    ----------
    a, b, out : ndarray
        Of shape (..., m, k), (..., k, n) and (..., m, n) with the same leading shape and the same dtype, in
        native byte order and aligned, with any strides. `out` shares no memory with `a` and `b`. With a `queue` they
        are `DeviceOperand`s instead, see `_gpu.operands`.
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
    queue : Queue or None
        The queue that the operands are on, if they are on a device.
    packed : PackedOperand, NarrowOperand or None
        What `gemmlab.pack` made of `b`. Then `b` has the right shape, but not the values.
    caller_out : ndarray or None
        The caller's `out`, if a kernel must not write into it directly.
    accumulate : bool
        Whether the product is added to what `out` holds.
    whole_k : int
        k of the product that this one is a block of, for `block_of_k` of a backend; 0: it is whole.
    """

    __slots__ = (
        "_a", "_b", "_is_scalar", "_result", "accumulate", "batch", "caller_out", "copies", "dtype", "k", "m", "n",
        "out", "packed", "queue", "threads", "unconverted", "whole_k",
    )  # fmt: skip

    def __init__(self, a: AnyArray, b: AnyArray, out: AnyArray, *, threads: int | None = None, copies: int = 0) -> None:
        self._a: Array = a
        self._b: Array = b
        self.out: Array = out
        self.unconverted: tuple[Array, Array] | None = None
        self.m, self.k, self.n = a.shape[-2], a.shape[-1], b.shape[-1]
        self.batch = math.prod(out.shape[:-2])
        self.dtype = out.dtype
        self.threads = threads
        self.copies = copies
        self.queue: Queue | None = None
        self.packed: Any = None
        self.caller_out: AnyArray = None
        self.accumulate = False
        self.whole_k = 0
        self._result: AnyArray = out
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
        dtypes = resolved_dtypes(a, b, caller_out, dtype, casting)
        if accumulate is not False:
            dtypes = dtypes_to_add(accumulate, dtypes, a, b, caller_out, dtype, casting)
        fitting = agreed(a, b, caller_out, axes)
        view = fitting.out
        direct = view is None or can_be_written(view, dtypes[2], fitting.a, fitting.b)
        result = caller_out if caller_out is not None else _new_result(fitting, dtypes[2])
        if view is None:
            view = fitting.as_matrices(result)
        problem = cls(
            fitting.a,
            fitting.b,
            view if direct else np.empty(fitting.shape, dtypes[2]),
            threads=check_threads(threads),
            copies=int(not direct),
        )
        if a.dtype == b.dtype != dtypes[0] == dtypes[1] == dtypes[2] and _is_plain(a) and _is_plain(b):
            problem.unconverted = problem._a, problem._b
        problem.caller_out = None if direct else view
        problem._result = result
        problem._is_scalar = caller_out is None and result.ndim == 0
        if 0 in (problem.k, problem.out.size) and object in (a.dtype, b.dtype):
            for x, needed in zip((a, b), dtypes, strict=False):  # no backend will: an error for numbers that do not fit
                x.astype(needed)
        if accumulate:
            problem._begin_with_out()
        return problem

    def _begin_with_out(self) -> None:
        """Make what the caller's `out` holds the first addend."""
        self.accumulate = True
        if self.caller_out is not None:
            with np.errstate(all="ignore"):
                np.copyto(self.out, self.caller_out, casting="unsafe")  # `dtypes_to_add` has checked the casting

    @property
    def a(self) -> Array:
        """The left operand, in `dtype`."""
        if self.queue is None and _differs(self._a, self.dtype):
            with np.errstate(all="ignore"):
                self._a = self._converted(self._a)
        return self._a

    @property
    def b(self) -> Array:
        """The right operand, in `dtype`."""
        if self.queue is None and _differs(self._b, self.dtype):
            with np.errstate(all="ignore"):
                self._b = self._converted(self._b)
        return self._b

    @property
    def on_device(self) -> tuple[DeviceOperand, DeviceOperand, DeviceOperand]:
        """`a`, `b` and `out` of a product on a device."""
        return cast("tuple[DeviceOperand, DeviceOperand, DeviceOperand]", (self._a, self._b, self.out))

    @property
    def needs_conversion(self) -> bool:
        """Whether `a` or `b` is stored in another dtype or byte order than `dtype`, or not aligned."""
        return self.queue is None and (_differs(self._a, self.dtype) or _differs(self._b, self.dtype))

    def _converted(self, x: Array) -> Array:
        """A copy in `dtype`; what is broadcast along a leading axis is converted once and broadcast again."""
        self.copies += 1
        once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.strides[:-2])]
        return np.broadcast_to(once.astype(self.dtype, order="C"), x.shape)

    def operands(self) -> tuple[Array, Array]:
        """`a` and `b`, converted with NumPy's floating-point errors; the attributes are converted without."""
        self._a, self._b = (self._converted(x) if _differs(x, self.dtype) else x for x in (self._a, self._b))
        return self._a, self._b

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self._result.shape)

    def result(self) -> AnyArray:
        """What `matmul` returns once `out` is filled: the caller's `out`, a new array, or a scalar."""
        if self.caller_out is not None:
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


def _new_result(fitting: Agreed, dtype: DType) -> Array:
    """A new array for a result. It owns its data, and in memory the core axes come last, as in NumPy's results."""
    shape = fitting.memory_shape
    if fitting.out_axes == last_axes(len(fitting.out_axes)):
        return np.empty(shape, dtype)
    ndim = len(shape)
    strides = [math.prod(shape[axis + 1 :], start=dtype.itemsize) for axis in range(ndim)]
    order = axes_order(ndim, fitting.out_axes)
    return np.ndarray([shape[axis] for axis in order], dtype, strides=[strides[axis] for axis in order])


def _differs(x: Array, dtype: DType) -> bool:
    """Whether an operand must be converted to be of a dtype, in native byte order and aligned."""
    return x.dtype != dtype or not _is_plain(x)


def _is_plain(x: Array) -> bool:
    return x.dtype.isnative and x.flags.aligned
