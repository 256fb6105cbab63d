"""The inputs of the checks: values, sizes, and layouts in memory.

Every matrix is part of a larger buffer, all of whose other bytes have one value. NOT_A_NUMBER around the operands
makes a kernel that reads out of bounds return NaN; CANARY around the result reveals a kernel that writes out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from gemmlab._problem import Array, DType
from gemmlab.verify.dtypes import finfo

Shape: TypeAlias = tuple[int, int]
Draw: TypeAlias = Callable[[np.random.Generator, Shape], Array]
Frame: TypeAlias = Callable[[Shape, DTypeLike, int], Array]

NOT_A_NUMBER = 0xFF
CANARY = 0xCA
MARGIN = 3

EDGES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65)
LARGEST_BLOCK = 300


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Random integers from -8 to 8: their products are exact, whatever the order of summation."""
    return rng.integers(-8, 9, shape).astype(dtype)


def distributions(dtype: DType) -> Mapping[str, tuple[Draw, Draw]]:
    """The distributions of the two operands, by name."""
    quarter = int(finfo(dtype).maxexp) // 4
    smallest = float(finfo(dtype).smallest_normal)

    def of_dtype(draw: Draw) -> Draw:
        """Both parts of complex numbers are drawn."""
        if dtype.kind != "c":
            return lambda rng, shape: draw(rng, shape).astype(dtype)
        return lambda rng, shape: (draw(rng, shape) + 1j * draw(rng, shape)).astype(dtype)

    @of_dtype
    def uniform(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.random(shape)

    @of_dtype
    def normal(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.standard_normal(shape)

    @of_dtype
    def wide_range(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.standard_normal(shape) * np.exp2(rng.uniform(-quarter, quarter, shape))

    @of_dtype
    def subnormal(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.uniform(-2, 2, shape) * smallest

    @of_dtype
    def large(rng: np.random.Generator, shape: Shape) -> Array:
        return np.ldexp(rng.uniform(-1, 1, shape), 2 * quarter)

    found = {
        "uniform": (uniform, uniform),
        "normal": (normal, normal),
        "wide magnitudes": (wide_range, wide_range),
    }
    if dtype.name == "bfloat16":  # AVX512-BF16 and AMX take its subnormal numbers as 0, as `docs/promises.md` says
        return found
    # The large operand brings the products back into the normal range, so that a kernel which flushes subnormal numbers
    # to zero has a large error.
    return found | {"subnormal times large": (subnormal, large)}


def around(blocks: Iterable[int]) -> list[int]:
    """Sizes at, one below and one above each block size; blocks too large for a short audit are omitted."""
    return sorted({block + step for block in blocks if 1 < block <= LARGEST_BLOCK for step in (-1, 0, 1)})


def triples(rng: np.random.Generator, sizes: list[int], rounds: int) -> Iterator[tuple[int, int, int]]:
    """Triples (m, n, k); in every round each size occurs once as m, once as n and once as k."""
    for _ in range(rounds):
        columns = (rng.permutation(sizes).tolist() for _ in range(3))
        yield from zip(*columns, strict=True)


@dataclass(frozen=True)
class Layout:
    """A layout of a matrix in memory.

    `frame(shape, dtype, byte)` returns a writable matrix inside a buffer filled with `byte`. When the matrix has its
    values, `finish` converts it to the operand.
    """

    name: str
    frame: Frame
    finish: Callable[[Array], Array] = lambda array: array

    def hold(self, values: Array) -> Array:
        """A matrix with these values in this layout. A layout with a zero stride repeats the first row or column."""
        array = self.frame((values.shape[0], values.shape[1]), values.dtype, NOT_A_NUMBER)
        array[...] = values
        return self.finish(array)


def owner(array: Array) -> Array:
    """The buffer that contains the array."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _buffer(count: int, dtype: DTypeLike, byte: int, offset: int = 0) -> Array:
    item = np.dtype(dtype).itemsize
    memory = np.full((count + 2 * MARGIN) * item + offset, byte, np.uint8)
    start = MARGIN * item + offset
    return memory[start : start + count * item].view(dtype)


def _rows(shape: Shape, dtype: DTypeLike, byte: int) -> Array:
    return _buffer(shape[0] * shape[1], dtype, byte).reshape(shape)


def _padded(shape: Shape, dtype: DTypeLike, byte: int) -> Array:
    return _rows((shape[0], shape[1] + MARGIN), dtype, byte)[:, : shape[1]]


def _stepped(shape: Shape, dtype: DTypeLike, byte: int) -> Array:
    return _rows((2 * shape[0], 3 * shape[1]), dtype, byte)[::2, ::3]


def _unaligned(shape: Shape, dtype: DTypeLike, byte: int) -> Array:
    return _buffer(shape[0] * shape[1], dtype, byte, offset=1).reshape(shape)


def _swapped(shape: Shape, dtype: DTypeLike, byte: int) -> Array:
    return _rows(shape, np.dtype(dtype).newbyteorder("S"), byte)


def _transposed(frame: Frame) -> Frame:
    return lambda shape, dtype, byte: frame((shape[1], shape[0]), dtype, byte).T


def _flipped(*axes: int) -> Frame:
    return lambda shape, dtype, byte: np.flip(_rows(shape, dtype, byte), axes)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


RESULT_LAYOUTS = (
    Layout("C", _rows),
    Layout("F", _transposed(_rows)),
    Layout("padded rows", _padded),
    Layout("padded columns", _transposed(_padded)),
    Layout("every 2nd row, 3rd column", _stepped),
    Layout("rows reversed", _flipped(0)),
    Layout("columns reversed", _flipped(1)),
    Layout("both reversed", _flipped(0, 1)),
    Layout("F reversed", _transposed(_flipped(0, 1))),
    Layout("unaligned", _unaligned),
    Layout("byte-swapped", _swapped),
)

OPERAND_LAYOUTS = (
    *RESULT_LAYOUTS,
    Layout("read-only", _rows, _read_only),
    Layout("one row repeated", _rows, lambda array: np.broadcast_to(array[:1], array.shape)),
    Layout("one column repeated", _rows, lambda array: np.broadcast_to(array[:, :1], array.shape)),
)
