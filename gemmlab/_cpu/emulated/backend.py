"""cpu-emulated: float32, float64 and complex products out of narrow ones, each scheme with its error's bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmlab._backend import Availability, Params
from gemmlab._cpu import isa, machine
from gemmlab._cpu.emulated import narrow, parts, residues
from gemmlab._cpu.emulated.compiled import SPECIAL
from gemmlab._cpu.packed_backend._packed import allowed_threads
from gemmlab._cpu.threads._threads import default_threads
from gemmlab._emulated.backend import BySchemes
from gemmlab._emulated.operand import NarrowOperand
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

    def instruction(self, scheme: Scheme, problem: Problem) -> str:
        """Which narrow numbers are multiplied, and by what."""
        if scheme.moduli:
            return f"int8 by {'+'.join((isa.chosen(), *isa.extras()[-1:]))}"
        return f"float32 by {isa.chosen()}"

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        scheme, threads, packed = self.scheme(problem, params), self.threads(problem), problem.packed
        for index in np.ndindex(problem.out.shape[:-2]):
            b = taken_apart(problem.b[index], scheme, threads) if packed is None else packed
            problem.out[index] = product(problem.a[index], b, threads)

    def pack(self, b: Array, params: Params) -> NarrowOperand:
        """A matrix, taken apart by the scheme that parameters ask for."""
        problem = Problem(b[:0], b, b[:0])
        return taken_apart(b.copy(), self.scheme(problem, params), self.threads(problem))


def taken_apart(b: Array, scheme: Scheme, threads: int) -> NarrowOperand:
    """A right operand. Columns with infinities or NaN count as zeros in its parts."""
    if scheme.moduli:
        found: Any = residues.of_rows(b.T, scheme.moduli, threads)
        return NarrowOperand(b, scheme, found, found[0] == SPECIAL)
    special: Any = ~np.isfinite(b).all(axis=0)
    finite = np.where(special, 0, b)
    if b.dtype.kind == "c":  # [[Re A, -Im A], [Im A, Re A]] @ [[Re B], [Im B]]
        finite = np.concatenate([finite.real, finite.imag])
    return NarrowOperand(b, scheme, parts.of_columns(finite, scheme.name), special)


def product(a: Array, b: NarrowOperand, threads: int) -> Array:
    """A @ B of two matrices of one dtype. Rows of A and columns of B with infinities or NaN are multiplied plainly."""
    scheme, plain = b.scheme, b.plain
    if scheme.moduli:
        left = residues.of_rows(a, scheme.moduli, threads)
        rows: Any = left[0] == SPECIAL
        out = residues.multiplied(left, b.parts, a.dtype, threads)
    else:
        rows = ~np.isfinite(a).all(axis=1)
        out = _by_parts(np.where(rows[:, None], 0, a), b, threads)
    if rows.any():
        out[rows] = narrow.product(a[rows], plain, a.dtype, threads)
    if b.special.any():
        out[:, b.special] = narrow.product(a, plain[:, b.special], a.dtype, threads)
    return out


def _by_parts(a: Array, b: NarrowOperand, threads: int) -> Array:
    name, is_complex = b.scheme.name, a.dtype.kind == "c"
    left = np.block([[a.real, -a.imag], [a.imag, a.real]]) if is_complex else a
    found = parts.multiplied(parts.of_rows(left, name), b.parts, name, threads)
    return _complex(np.split(found, 2), a.dtype) if is_complex else found


def _complex(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Complex numbers of their real and imaginary parts."""
    out: Array = np.empty(parts[0].shape, dtype)
    out.real, out.imag = parts
    return out
