"""A call of `gemmlab.matmul` as data: it prints as the Python text that makes it again, and it makes its arguments.

>>> call = Call(Array((2, 3), "float32"), Array((3, 4), "float32", order="F"), options={"backend": "cpu-packed"})
>>> call
Call(Array((2, 3), 'float32'), Array((3, 4), 'float32', order='F'), options={'backend': 'cpu-packed'})
>>> made(call).a.shape
(2, 3)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import ml_dtypes
import numpy as np
from exporter import Exporter
from numpy.lib.stride_tricks import as_strided

import gemmlab

POISON = 0xFF  # NaN in every floating-point type
ROOM = 64  # bytes of poison behind the last array of a memory

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
GEMMLABS_OWN = ("threads", "backend", "params", "accumulate")  # options that NumPy does not have


class Printed:
    """A dataclass that prints what is not the default."""

    def __repr__(self) -> str:
        parts = []
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.kw_only and value == (each.default_factory() if callable(each.default_factory) else each.default):
                continue
            parts.append(f"{each.name}={value!r}" if each.kw_only else repr(value))
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # in Hypothesis' reports too


@dataclass(frozen=True, repr=False)
class Array(Printed):
    """An array, by its shape, dtype, values, its place in memory, and the kind of object that is passed.

    Attributes
    ----------
    values : str
        "small": whole numbers whose products are exact. "any": normal random numbers, integers of the full range.
        "special": the same with infinities, NaN, subnormal and huge numbers among them.
    order : str
        Which axis has adjacent numbers: the last one, "C"; the first one, "F"; or "stack", where those of the
        matrices are further apart than the matrices.
    steps : tuple of int
        For each axis, how far its elements are apart, in elements of a dense array: 0 repeats one, -1 goes backwards.
    gap : int
        Unused elements between the rows.
    shift : int
        Bytes before the array in its memory.
    kind : str
        What is passed: a key of `KINDS`.
    within : str
        "a" or "b": the array is in the memory of that operand. Only for arrays of the same dtype, or for `out`.
    """

    shape: tuple[int, ...]
    dtype: str = "float64"
    values: str = field(default="small", kw_only=True)
    order: str = field(default="C", kw_only=True)
    steps: tuple[int, ...] = field(default=(), kw_only=True)
    gap: int = field(default=0, kw_only=True)
    shift: int = field(default=0, kw_only=True)
    kind: str = field(default="ndarray", kw_only=True)
    readonly: bool = field(default=False, kw_only=True)
    within: str = field(default="", kw_only=True)


@dataclass(frozen=True, repr=False)
class Call(Printed):
    """A call: operands, `out`, and options, of which `params` is a dict of the backend's parameters.

    With `way` "use", the backend, its parameters and the threads are set by `gemmlab.use`; with "numpy" and "operator"
    too, but there `numpy.matmul` or `@` is called, with an array of `gemmlab.asarray`.
    """

    a: Array
    b: Array
    out: Array | None = field(default=None, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    way: str = field(default="arguments", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by their names."""
        every = {"a": self.a, "b": self.b, "out": self.out}
        return {name: array for name, array in every.items() if array is not None}

    @property
    def backend(self) -> str:
        """The backend's name."""
        return str(self.options.get("backend", "auto"))

    @property
    def params(self) -> Mapping[str, Any]:
        """The backend's parameters."""
        return self.options.get("params", {})  # type: ignore[no-any-return]

    @property
    def accumulates(self) -> bool:
        """Whether the product is added to `out`."""
        return "accumulate" in self.options

    @property
    def numpys_options(self) -> dict[str, Any]:
        """The options that NumPy's matmul has too."""
        return {name: value for name, value in self.options.items() if name not in GEMMLABS_OWN}


class Subclass(np.ndarray[Any, Any]):
    """A subclass of ndarray without methods of its own."""


class Wraps:
    """No array, but NumPy converts it to one."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)


def _masked(x: Any) -> Any:
    return np.ma.masked_array(x, (np.arange(x.size) % 3 == 0).reshape(x.shape))


def _dask(x: Any) -> Any:
    from dask.array import from_array

    return from_array(x, chunks=tuple(max(1, side // 2) for side in x.shape))


KINDS = {
    "ndarray": lambda x: x,
    "list": lambda x: x.tolist(),
    "memmap": lambda x: x.view(np.memmap),
    "matrix": lambda x: x.view(np.matrix),
    "masked": _masked,
    "subclass": lambda x: x.view(Subclass),
    "wraps": Wraps,
    "dask": _dask,
    "dlpack": Exporter.Tensor,
    "packed": gemmlab.pack,
    "asarray": gemmlab.asarray,
    "tuple": lambda x: (x,),
    "two": lambda x: (x, x),
}
PLAIN_FOR_NUMPY = ("dlpack", "packed", "asarray", "dask")  # NumPy is given the plain array instead


@dataclass
class Arguments:
    """The arguments of a call, the plain arrays that they hold, and the memory of these."""

    a: Any
    b: Any
    out: Any
    views: dict[str, Any]
    memories: dict[str, Any]

    def contents(self) -> dict[str, bytes]:
        """All bytes of all memories; object arrays by what they print."""
        return {
            name: str(memory.tolist()).encode() if memory.dtype == object else memory.tobytes()
            for name, memory in self.memories.items()
        }


def made(call: Call, for_numpy: bool = False) -> Arguments:
    """The arguments of a call: each time with the same values, in new memory."""
    rng = np.random.Generator(np.random.PCG64(call.seed))
    placed = {name: _placed(array) for name, array in call.arrays.items()}
    memories = {}
    for name, array in call.arrays.items():
        if not array.within:
            ends = [end for other, (*_, end) in placed.items() if name in (other, call.arrays[other].within)]
            memories[name] = _memory(dtype_of(array.dtype), max(ends) + ROOM)
    views = {}
    for name, array in call.arrays.items():
        strides, start, _ = placed[name]
        views[name] = _view(memories[array.within or name], array, strides, start)
    for name in ("out", "b", "a"):
        if name != "out" or call.accumulates:
            _fill(views[name], call.arrays[name].values, rng)
    for name, array in call.arrays.items():
        if array.readonly:
            views[name].flags.writeable = False
    passed = {name: _passed(views[name], array.kind, for_numpy) for name, array in call.arrays.items()}
    return Arguments(passed["a"], passed["b"], passed.get("out"), views, memories)


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name; ml_dtypes' type is known to NumPy by name too."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def _passed(view: Any, kind: str, for_numpy: bool) -> Any:
    if for_numpy and kind == "packed" and not view.dtype.isnative:  # packing gives an operand the machine's byte order
        return view.astype(view.dtype.newbyteorder("="))
    return view if for_numpy and kind in PLAIN_FOR_NUMPY else KINDS[kind](view)


def _placed(array: Array) -> tuple[tuple[int, ...], int, int]:
    """Strides, and the bytes in its memory where the first element of an array begins and where the array ends."""
    itemsize, ndim = dtype_of(array.dtype).itemsize, len(array.shape)
    axes = list(range(ndim))
    if array.order == "F":
        axes.reverse()
    elif array.order == "stack":
        axes = axes[-2:] + axes[:-2]
    strides, apart, start = [0] * ndim, itemsize, array.shift
    for place, axis in enumerate(reversed(axes)):
        step = array.steps[axis] if array.steps else 1
        strides[axis] = step * apart
        if step < 0:
            start += max(array.shape[axis] - 1, 0) * -strides[axis]
        apart *= abs(step) * max(array.shape[axis], 1) or 1
        if place == 0:
            apart += array.gap * itemsize
    return tuple(strides), start, array.shift + apart


def _memory(dtype: np.dtype[Any], size: int) -> Any:
    if dtype.hasobject:
        return np.full(-(-size // dtype.itemsize), None, dtype)
    return np.full(size, POISON, np.uint8)


def _view(memory: Any, array: Array, strides: tuple[int, ...], start: int) -> Any:
    dtype = dtype_of(array.dtype)
    if memory.dtype == object:
        return as_strided(memory[start // dtype.itemsize :], array.shape, strides)
    return np.ndarray(array.shape, dtype, memory, start, strides)


def _fill(view: Any, values: str, rng: np.random.Generator) -> None:
    if view.dtype.kind in "biufcO" or view.dtype == BFLOAT16:
        view[...] = _numbers(rng, view.shape, view.dtype, values)
    else:
        view[...] = np.zeros((), view.dtype)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], values: str) -> Any:
    kind = dtype.kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "c":
        x = np.empty(shape, dtype.newbyteorder("="))
        x.real, x.imag = (_numbers(rng, shape, real_of(dtype), values) for _ in range(2))
        return x
    if values == "small" or kind == "O":
        return rng.integers(0 if kind == "u" else -3, 4, shape)
    if kind in "iu":
        ends = np.iinfo(dtype)
        return rng.integers(ends.min, ends.max, shape, dtype.newbyteorder("="), endpoint=True)
    x = rng.standard_normal(math.prod(shape)).astype(dtype.newbyteorder("="))
    if values == "special" and x.size:
        finite, others = _specials(x.dtype)
        chosen = rng.random(x.size) < 0.1
        x[chosen] = rng.choice(finite, int(chosen.sum()))
        x[rng.integers(x.size, size=rng.integers(3))] = rng.choice(others)
    return x.reshape(shape)


def _specials(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Special numbers of a dtype: finite ones, and others."""
    ends = ml_dtypes.finfo(dtype) if dtype == BFLOAT16 else np.finfo(dtype)
    most, least, normal = dtype.type(ends.max), dtype.type(ends.smallest_subnormal), dtype.type(ends.smallest_normal)
    finite = [most, -most, least, -least, normal, -normal, normal - least, np.sqrt(most), -0.0, 0.0]
    return np.array(finite, dtype), np.array([np.inf, -np.inf, np.nan], dtype)


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the real part."""
    return np.zeros((), dtype.newbyteorder("=")).real.dtype if dtype.kind == "c" else dtype
