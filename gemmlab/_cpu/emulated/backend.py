"""cpu-emulated: float32, float64 and complex products out of narrow ones, each scheme with its error's bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmlab._backend import Availability
from gemmlab._cpu import machine
from gemmlab._cpu.emulated import narrow, parts
from gemmlab._cpu.emulated.residues import by_residues
from gemmlab._cpu.packed_backend._packed import allowed_threads
from gemmlab._cpu.threads._threads import default_threads
from gemmlab._emulated.backend import BySchemes
from gemmlab._emulated.schemes import Scheme
from gemmlab._problem import Array, Problem

DTYPES = ("float32", "float64", "complex64", "complex128")


class Emulated(BySchemes):
    """Products of narrow numbers, put together."""

    name = "cpu-emulated"
    summary = "float32, float64 and complex numbers out of products of int8, bfloat16 or float16 numbers"
    source = "Ozaki, Uchino and Imamura, arXiv:2504.08009; Henry, Tang and Heinecke 2019; Ootomo and Yokota 2022"

    def probe(self) -> Availability:
        """Available where cpu-packed is, which multiplies the narrow numbers."""
        found = narrow.packed().probe()
        return found if not found.ok else Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        if problem.dtype.name in DTYPES:
            return True
        return f"{self.name} multiplies {', '.join(DTYPES)}, not {problem.dtype}: use backend='auto'"

    def threads(self, problem: Problem) -> int:
        """Threads of all steps; numbers are taken apart into bfloat16 and float16 by NumPy, on one."""
        flop = 2.0 * problem.batch * problem.m * problem.n * problem.k
        return allowed_threads(problem.threads or default_threads(flop))

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        scheme, threads = self.scheme(problem, params), self.threads(problem)
        for index in np.ndindex(problem.out.shape[:-2]):
            problem.out[index] = product(problem.a[index], problem.b[index], scheme, threads)


def product(a: Array, b: Array, scheme: Scheme, threads: int) -> Array:
    """A @ B of two matrices of one dtype. Rows of A and columns of B with infinities or NaN are multiplied plainly."""
    if scheme.name == "residues":
        out, rows, columns = by_residues(a, b, scheme.moduli, threads)
    else:
        rows, columns = (np.asarray(~np.isfinite(x).all(axis=axis)) for x, axis in ((a, 1), (b, 0)))
        out = _by_parts(np.where(rows[:, None], 0, a), np.where(columns, 0, b), scheme, threads)
    if rows.any():
        out[rows] = narrow.product(a[rows], b, a.dtype, threads)
    if columns.any():
        out[:, columns] = narrow.product(a, b[:, columns], a.dtype, threads)
    return out


def _by_parts(a: Array, b: Array, scheme: Scheme, threads: int) -> Array:
    if a.dtype.kind == "c":  # [[Re A, -Im A], [Im A, Re A]] @ [[Re B], [Im B]]
        left = np.block([[a.real, -a.imag], [a.imag, a.real]])
        both = _of_float32(left, np.concatenate([b.real, b.imag]), scheme, threads)
        return _complex(np.split(both, 2), a.dtype)
    return _of_float32(a, b, scheme, threads)


def _of_float32(a: Array, b: Array, scheme: Scheme, threads: int) -> Array:
    return parts.by_f16(a, b, threads) if scheme.name == "f16-pairs" else parts.by_bf16(a, b, scheme.name, threads)


def _complex(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Complex numbers of their real and imaginary parts."""
    out: Array = np.empty(parts[0].shape, dtype)
    out.real, out.imag = parts
    return out
