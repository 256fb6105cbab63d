"""Backends with one fault each, to see that an audit finds it.

Every class is right but for the fault that its name tells; `FOUND_BY` names the check made for it.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gemmlab._backend import Availability, Param
from gemmlab._problem import Problem

Array = np.ndarray[Any, Any]


class Honest:
    """NumPy's product: the backend that the others break."""

    kind = "rung"
    summary = "a backend for tests"
    source = ""
    params: Mapping[str, Param] = {}
    accumulates = True

    @property
    def name(self) -> str:
        return "broken-" + type(self).__name__

    def probe(self) -> Availability:
        return Availability(True)

    def supports(self, problem: Problem) -> bool | str:
        return True

    def gemm(self, problem: Problem, **params: Any) -> None:
        old = problem.out.copy() if problem.accumulate else np.zeros((), problem.dtype)
        problem.out[...] = old + self.multiply(problem.a, problem.b)

    def multiply(self, a: Array, b: Array) -> Array:
        return np.matmul(a, b)


class IgnoresLongSums(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        return np.matmul(a[..., :2048], b[..., :2048, :])


class DropsLastColumn(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        c = np.matmul(a, b)
        if c.shape[-1] % 8 == 1 and c.shape[-1] > 1:
            c[..., -1] = 0
        return c


class IgnoresLastTile(Honest):
    params: Mapping[str, Param] = {"tile": Param("tile", 8, (8, 12, 16), "steps of k in a tile")}

    def gemm(self, problem: Problem, *, tile: int = 8, **params: Any) -> None:
        k = problem.k if tile == 8 else problem.k // tile * tile
        problem.out[...] = np.matmul(problem.a[..., :k], problem.b[..., :k, :])


class SumsInSinglePrecision(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.matmul(a.astype(np.float32), b.astype(np.float32))


class TakesSubnormalsForZeros(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        return np.matmul(np.where(np.abs(a) < np.finfo(a.dtype).smallest_normal, 0, a).astype(a.dtype), b)


class WritesOnePast(Honest):
    """Writes one element past each row of a padded `out`, but the last row's (which nobody may own)."""

    def gemm(self, problem: Problem, **params: Any) -> None:
        out = problem.out
        out[...] = np.matmul(problem.a, problem.b)
        if out.ndim == 2 and out.strides[0] > out.nbytes // max(problem.m, 1) and out.strides[1] == out.itemsize:
            as_strided(out, (problem.m - 1, problem.n + 1), out.strides)[:, -1] = 0


class ChangesOperand(Honest):
    """Zeroes the first element of `a` by its address, as a kernel would: no flag protects it there."""

    def multiply(self, a: Array, b: Array) -> Array:
        c = np.matmul(a, b)
        ctypes.memset(a.ctypes.data, 0, a.itemsize)
        return c


class AddsToOut(Honest):
    def gemm(self, problem: Problem, **params: Any) -> None:
        problem.out += np.matmul(problem.a, problem.b)


class OverwritesOut(Honest):
    def gemm(self, problem: Problem, **params: Any) -> None:
        problem.out[...] = self.multiply(problem.a, problem.b)


class SkipsZeros(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        products = a[..., :, :, None] * b[..., None, :, :]
        return np.where(a[..., None] == 0, 0, products).sum(axis=-2, dtype=a.dtype)


class IgnoresSignOfStrides(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        return np.matmul(a[..., ::-1, :] if a.strides[-2] < 0 else a, b)


class TakesColumnMajorForRowMajor(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        return np.matmul(a.ravel("K").reshape(a.shape) if a.flags.f_contiguous else a, b)


class ReadsTooFar(Honest):
    """Reads the element after each row of a padded `a` and multiplies it by zero."""

    def multiply(self, a: Array, b: Array) -> Array:
        c = np.matmul(a, b)
        if a.ndim == 2 and a.strides[0] > a.shape[1] * a.itemsize and a.strides[1] == a.itemsize:
            c[:-1] += 0 * as_strided(a, (a.shape[0] - 1, a.shape[1] + 1), a.strides)[:, -1:]
        return c


class TakesVectorsForContiguous(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        if b.shape[-1] == 1 and b.ndim == 2 and b.strides[0] == 2 * b.itemsize:
            b = as_strided(b, b.shape, (b.itemsize, b.itemsize))
        return np.matmul(a, b)


class ForgetsLastOfBatch(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        c = np.matmul(a, b)
        if c.ndim > 2:
            c[-1:] = 0
        return c


class LeavesLowerTriangle(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        c = np.matmul(a, b)
        is_gram = np.shares_memory(a, b) and a.ndim == 2 and a.T.shape == b.shape and a.T.strides == b.strides
        return np.triu(c) if is_gram else c


class SumsInAnyOrder(Honest):
    rng = np.random.default_rng(0)

    def multiply(self, a: Array, b: Array) -> Array:
        order = self.rng.permutation(a.shape[-1])
        return np.matmul(a[..., order], b[..., order, :])


class SumsByThreads(Honest):
    def gemm(self, problem: Problem, **params: Any) -> None:
        half = problem.k // 2 if problem.threads == 2 else 0
        a, b = problem.a, problem.b
        problem.out[...] = np.matmul(a[..., :half], b[..., :half, :]) + np.matmul(a[..., half:], b[..., half:, :])


class SharesScratch(Honest):
    scratch: Array

    def multiply(self, a: Array, b: Array) -> Array:
        self.scratch = a.copy()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        return np.matmul(self.scratch, b)


class Crashes(Honest):
    def multiply(self, a: Array, b: Array) -> Array:
        if a.shape[-1] == 7:
            raise ZeroDivisionError("seven")
        return np.matmul(a, b)


FOUND_BY: Mapping[type[Honest], str] = {
    IgnoresLongSums: "exact integers",
    DropsLastColumn: "block edges",
    Crashes: "block edges",
    IgnoresLastTile: "parameters",
    SumsInSinglePrecision: "error bound",
    TakesSubnormalsForZeros: "error bound",
    WritesOnePast: "only out written",
    ChangesOperand: "operands unchanged",
    AddsToOut: "old content ignored",
    OverwritesOut: "accumulate",
    SkipsZeros: "NaN and infinity",
    IgnoresSignOfStrides: "layouts",
    TakesColumnMajorForRowMajor: "layouts",
    ReadsTooFar: "layouts",
    TakesVectorsForContiguous: "vectors",
    ForgetsLastOfBatch: "batches",
    LeavesLowerTriangle: "same operand",
    SumsInAnyOrder: "same bits",
    SumsByThreads: "same bits",
    SharesScratch: "concurrent calls",
}


class RefusesFloat64(Honest):
    def supports(self, problem: Problem) -> bool | str:
        return problem.dtype == np.float32 or "float64 is not done"


class RefusesColumnMajor(Honest):
    def supports(self, problem: Problem) -> bool | str:
        return problem.a.flags.c_contiguous or "a must be row-major"
