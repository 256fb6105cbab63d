"""The functions of `numbers.c` and `parts.c`, in the build for the instruction set in force, for NumPy's arrays."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ssize_t, c_void_p
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gemmlab._cpu import isa
from gemmlab._cpu.packed_backend._packed import share
from gemmlab._emulated.moduli import MODULI, limbs, modulus_product, weights

LIMB, SPARE = 40, 14  # bits of a limb; those that the sum of weights times residues has more than P, and a sign
CHUNK = 4096  # numbers of k whose parts stand together, and whose sums are added at the end
SPECIAL = np.iinfo(np.int64).min  # the scale of a row with infinities or NaN
Ints = NDArray[np.int64]
Residues = NDArray[np.int8]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint16]

_AT_ONCE, _REDUCED = 8, 16384  # rows, and sums, of a piece: as in numbers.c and parts.c
_TASKS = {
    "spread": ("numbers", 0), "reduce": ("numbers", 1), "rebuild": ("numbers", 2),
    "split": ("parts", 0), "pair": ("parts", 1), "rescale": ("parts", 2),
}  # fmt: skip


class _Spreading(ctypes.Structure):
    _fields_ = (
        ("x", c_void_p), *((name, c_ssize_t) for name in ("rows", "numbers", "along", "across")),
        *((name, c_int) for name in ("parts", "is_double", "count")),
        *((name, c_void_p) for name in ("squares", "moduli", "scales", "out")), ("failed", c_int),
    )  # fmt: skip


class _Reducing(ctypes.Structure):
    _fields_ = (
        ("sums", c_void_p), ("count", c_ssize_t), ("modulus", c_int), ("out", c_void_p),
    )  # fmt: skip


class _Rebuilding(ctypes.Structure):
    _fields_ = (
        ("count", c_int), ("limbs", c_int), *((name, c_void_p) for name in ("weights", "whole", "fractions", "rests")),
        ("m", c_ssize_t), ("n", c_ssize_t), *((name, c_void_p) for name in ("of_rows", "of_columns", "out")),
        ("along", c_ssize_t), ("across", c_ssize_t), ("is_double", c_int),
    )  # fmt: skip


class _Splitting(ctypes.Structure):
    _fields_ = (
        ("x", c_void_p), *((name, c_ssize_t) for name in ("rows", "numbers", "along", "across", "chunk")),
        *((name, c_void_p) for name in ("out", "special", "scales")),
        *((name, c_int) for name in ("across_k", "reverse", "failed")),
    )  # fmt: skip


class _Rescaling(ctypes.Structure):
    _fields_ = (
        ("sums", c_void_p), *((name, c_ssize_t) for name in ("columns", "along", "across")), ("of_rows", c_void_p),
        ("of_columns", c_void_p),
    )  # fmt: skip


def _run(task: str, work: ctypes.Structure, pieces: int, threads: int) -> None:
    """All pieces of a task, on the threads of cpu-packed."""
    library, place = _TASKS[task]
    table = (c_size_t * (place + 1)).from_address(isa.table("gemmlab._cpu.emulated", library))
    share(table[place], ctypes.addressof(work), pieces, threads)


def _planes(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Memory for the narrow numbers of a matrix; MemoryError where no memory is as large."""
    if prod(shape) > np.iinfo(np.intp).max // np.dtype(dtype).itemsize:
        raise MemoryError(f"no memory for the narrow numbers of {shape[-2]} x {shape[-1]} numbers")
    return np.empty(shape, dtype)


def spread(rows: NDArray[Any], squares: Ints, count: int, threads: int) -> tuple[Ints, Residues]:
    """The scale of each row, and the residues of its integers: (1, moduli, rows, numbers).

    A scale is a power of two that makes integers, or SPECIAL. Of complex numbers there are (3, ...): the residues of
    real parts, of imaginary parts, and of their sums.
    """
    parts = 2 if rows.dtype.kind == "c" else 1
    size = rows.dtype.itemsize // parts
    scales, found = np.empty(rows.shape[0], np.int64), _planes((2 * parts - 1, count, *rows.shape), np.int8)
    moduli = np.array(MODULI[:count], np.int32)
    arrays = (x.ctypes.data for x in (squares, moduli, scales, found))
    steps = [step // size for step in rows.strides]
    work = _Spreading(rows.ctypes.data, *rows.shape, *steps, parts, size == 8, count, *arrays)
    _run("spread", work, -(-len(rows) // _AT_ONCE), threads)
    if work.failed:
        raise MemoryError("no memory for the residues of a product")
    return scales, found


def reduce(sums: NDArray[np.int32], modulus: int, out: Residues, threads: int) -> None:
    """The residues of sums."""
    work = _Reducing(sums.ctypes.data, sums.size, modulus, out.ctypes.data)
    _run("reduce", work, -(-sums.size // _REDUCED), threads)


def rebuild(rests: Residues, of_rows: Ints, of_columns: Ints, out: NDArray[Any], threads: int) -> None:
    """Fill `out` with the numbers of these residues, of shape (moduli, m, n), over the scales of rows and columns."""
    weighted, whole, fractions = _system(len(rests))
    arrays = [x.ctypes.data for x in (weighted, whole, fractions, rests)]
    steps = [step // out.itemsize for step in out.strides]
    scales = of_rows.ctypes.data, of_columns.ctypes.data, out.ctypes.data
    work = _Rebuilding(len(rests), len(whole), *arrays, *out.shape, *scales, *steps, out.itemsize == 8)
    _run("rebuild", work, len(out), threads)


def split(
    rows: NDArray[np.float32], threads: int, across_k: bool = False, reverse: bool = False
) -> tuple[Bits, NDArray[np.bool_]]:
    """The bits of three bfloat16 numbers each, whose sum it is; and which rows have infinities or NaN.

    A row is along k, and its parts stand side by side; or `across_k`, and they stand one below the other. `reverse` has
    the last part first. `parts.c` has the order. What is below the smallest float32 is lost; parts of infinities and
    NaN mean nothing.
    """
    found, _, special = _taken_apart("split", rows, 3, np.uint16, threads, across_k, reverse)
    return found, special


def pair(
    rows: NDArray[np.float32], threads: int, reverse: bool = False
) -> tuple[NDArray[np.float16], Ints, NDArray[np.bool_]]:
    """Two float16 numbers each, side by side, of rows that are scaled by powers of two; and these powers.

    The third says which rows have infinities or NaN, and so count as zeros.
    """
    return _taken_apart("pair", rows, 2, np.float16, threads, False, reverse)


def _taken_apart(
    task: str, rows: NDArray[np.float32], parts: int, dtype: DTypeLike, threads: int, across_k: bool, reverse: bool
) -> tuple[NDArray[Any], Ints, NDArray[np.bool_]]:
    """So many parts, a scale for each row where the task has some, and which rows are special."""
    count, numbers = rows.shape
    found = _planes((parts * count, numbers) if across_k else (count, parts * numbers), dtype)
    scales, special = np.empty(count, np.int64), np.empty(count, np.bool_)
    steps, arrays = [step // rows.itemsize for step in rows.strides], (x.ctypes.data for x in (found, special, scales))
    work = _Splitting(rows.ctypes.data, *rows.shape, *steps, CHUNK, *arrays, across_k, reverse)
    _run(task, work, -(-len(rows) // _AT_ONCE), threads)
    if work.failed:
        raise MemoryError("no memory for the parts of a product")
    return found, scales, special


def rescale(sums: NDArray[np.float32], of_rows: Ints, of_columns: Ints, threads: int) -> None:
    """Divide sums by the powers of two of their rows and columns."""
    steps = [step // sums.itemsize for step in sums.strides]
    work = _Rescaling(sums.ctypes.data, sums.shape[1], *steps, of_rows.ctypes.data, of_columns.ctypes.data)
    _run("rescale", work, len(sums), threads)


@cache
def _system(count: int) -> tuple[Floats, Floats, Floats]:
    """How integers are put together: weights of residues, and their product, in limbs; and a limb's part of that."""
    whole = modulus_product(count)
    size = -(-(whole.bit_length() + SPARE) // LIMB)
    return (
        np.array([limbs(weight, size, LIMB) for weight in weights(count)], np.float64),
        np.array(limbs(whole, size, LIMB), np.float64),
        np.array([2.0 ** (LIMB * i) / float(whole) for i in range(size)]),
    )
