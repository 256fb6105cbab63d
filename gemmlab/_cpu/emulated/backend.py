"""cpu-emulated: float32, float64 and complex products out of narrow ones, each scheme with its error's bound."""

from __future__ import annotations

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
        """Threads of all steps."""
        flop = 2.0 * problem.batch * problem.m * problem.n * problem.k
        return allowed_threads(problem.threads or default_threads(flop))

    def instruction(self, scheme: Scheme, problem: Problem) -> str:
        """Which narrow numbers are multiplied, and by what."""
        with_extra = "+".join((isa.chosen(), *isa.extras()[-1:]))
        if scheme.moduli:
            return f"int8 by {with_extra}"
        return f"float16 by {isa.chosen()}" if scheme.name == "f16-pairs" else f"bfloat16 by {with_extra}"

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        scheme, threads, packed = self.scheme(problem, params), self.threads(problem), problem.packed
        for index in np.ndindex(problem.out.shape[:-2]):
            b = taken_apart(problem.b[index], scheme, threads) if packed is None else packed
            multiply(problem.a[index], b, problem.out[index], threads)

    def pack(self, b: Array, params: Params) -> NarrowOperand:
        """A matrix, taken apart by the scheme that parameters ask for."""
        problem = Problem(b[:0], b, b[:0])
        return taken_apart(b.copy(), self.scheme(problem, params), self.threads(problem))


def taken_apart(b: Array, scheme: Scheme, threads: int) -> NarrowOperand:
    """A right operand. Columns with infinities or NaN count as zeros in its parts."""
    if scheme.moduli:
        found: Any = residues.of_rows(b.T, scheme.moduli, threads)
        return NarrowOperand(b, scheme, found, found[0] == SPECIAL)
    # [[Re A, -Im A], [Im A, Re A]] @ [[Re B], [Im B]]
    reals = np.concatenate([b.real, b.imag]) if b.dtype.kind == "c" else b
    return NarrowOperand(b, scheme, *parts.of_columns(reals, scheme.name, threads))


def multiply(a: Array, b: NarrowOperand, out: Array, threads: int) -> None:
    """Fill `out` with A @ B, of one dtype. Rows of A and columns of B with infinities or NaN are multiplied plainly."""
    scheme, plain = b.scheme, b.plain
    if scheme.moduli:
        left = residues.of_rows(a, scheme.moduli, threads)
        rows: Any = left[0] == SPECIAL
        residues.multiply(left, b.parts, out, threads)
    else:
        rows = _multiply_parts(a, b, out, threads)
    if rows.any():
        out[rows] = narrow.product(a[rows], plain, a.dtype, threads)
    if b.special.any():
        out[:, b.special] = narrow.product(a, plain[:, b.special], a.dtype, threads)


def _multiply_parts(a: Array, b: NarrowOperand, out: Array, threads: int) -> Array:
    """Fill `out`, and return the rows of A with infinities or NaN, which count as zeros in it."""
    name, is_complex = b.scheme.name, a.dtype.kind == "c"
    reals = np.block([[a.real, -a.imag], [a.imag, a.real]]) if is_complex else a
    left, special = parts.of_rows(reals, name, threads)
    if is_complex:
        found: Array = np.empty((2, *out.shape), np.float32)
        parts.multiply(left, b.parts, found.reshape(-1, out.shape[1]), name, threads)
        out.real, out.imag = found
    else:
        parts.multiply(left, b.parts, out, name, threads)
    return special[: len(a)]
