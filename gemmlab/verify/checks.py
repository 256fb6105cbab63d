"""The checks of an audit: each tries one promise on one backend and one dtype.

A check is a function of a `Subject`. It opens a `subject.case(...)` for each thing it tries, and a broken
promise raises `Fault`. Most checks multiply small whole numbers, whose product is exact, so that "right"
needs no tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from threading import Barrier
from typing import Any

import numpy as np

from gemmlab._errors import UnsupportedProblem
from gemmlab.verify.cases import (
    CANARY,
    EDGES,
    NOT_A_NUMBER,
    OPERAND_LAYOUTS,
    RESULT_LAYOUTS,
    Array,
    around,
    distributions,
    owner,
    triples,
)
from gemmlab.verify.subject import Fault, Subject

CALLERS = 8


def _exact(s: Subject) -> None:
    for m, n, k in ((24, 40, 32), (64, 64, 64), (96, 72, 144), (8, 16, 4096)):
        with s.case(f"m={m} n={n} k={k}"):
            s.expect_exact(s.integers(m, k), s.integers(k, n))


def _block_edges(s: Subject) -> None:
    for m, n, k in triples(s.rng, s.sizes, rounds=24 if s.thorough else 6):
        with s.case(f"m={m} n={n} k={k}"):
            s.expect_exact(s.integers(m, k), s.integers(k, n))


def _parameters(s: Subject) -> None:
    for param in s.params.values():
        choices = param.choices if s.thorough else param.choices[:: max(1, len(param.choices) - 1)]
        for choice in choices:
            edges = around([choice]) if isinstance(choice, int) else []
            for m, n, k in (*triples(s.rng, edges, rounds=1), (65, 33, 49)):
                with s.case(f"{param.name}={choice}, m={m} n={n} k={k}"):
                    option: dict[str, Any] = {param.name: choice}
                    try:
                        s.expect_exact(s.integers(m, k), s.integers(k, n), **option)
                    except ValueError as error:  # a choice that does not go with the other parameters
                        raise UnsupportedProblem(str(error)) from None


def _error_bound(s: Subject) -> None:
    for name, (draw_a, draw_b) in distributions(s.dtype).items():
        shapes = [*triples(s.rng, s.sizes, rounds=8 if s.thorough else 1), (20, 20, 1000)]
        for m, n, k in shapes:
            with s.case(f"{name}, m={m} n={n} k={k}"):
                s.expect_within_bound(draw_a(s.rng, (m, k)), draw_b(s.rng, (k, n)))


def _only_out_is_written(s: Subject) -> None:
    for layout in RESULT_LAYOUTS:
        for m, n, k in triples(s.rng, list(EDGES), rounds=1):
            with s.case(f"out {layout.name}, m={m} n={n} k={k}"):
                out = layout.frame((m, n), s.dtype, CANARY)
                before = out.copy()
                s.product(s.integers(m, k), s.integers(k, n), out)
                out[...] = before
                strays = np.flatnonzero(owner(out).view(np.uint8) != CANARY)
                if len(strays):
                    raise Fault(f"{len(strays)} bytes outside out were written")


def _operands_unchanged(s: Subject) -> None:
    m, n, k = 17, 33, 19
    for layout_a, layout_b in product(OPERAND_LAYOUTS, OPERAND_LAYOUTS):
        with s.case(f"a {layout_a.name}, b {layout_b.name}"):
            operands = layout_a.hold(s.integers(m, k)), layout_b.hold(s.integers(k, n))
            before = [owner(array).tobytes() for array in operands]
            s.product(*operands)
            for name, array, content in zip("ab", operands, before, strict=True):
                if owner(array).tobytes() != content:
                    raise Fault(f"{name} was changed")


def _old_content_ignored(s: Subject) -> None:
    for layout in RESULT_LAYOUTS:
        for m, n, k in ((1, 1, 1), (3, 5, 1), (17, 33, 19), (65, 64, 63)):
            with s.case(f"out {layout.name} full of NaN, m={m} n={n} k={k}"):
                out = layout.frame((m, n), s.dtype, NOT_A_NUMBER)
                s.expect_exact(s.integers(m, k), s.integers(k, n), out)


# What stands at a[i, p], a[i, q], b[p, j] and b[q, j]; None leaves the number that is there.
_SPOILED: tuple[tuple[str, tuple[float | None, ...]], ...] = (
    ("NaN in a", (np.nan, None, None, None)),
    ("NaN in b", (None, None, np.nan, None)),
    ("NaN in a times zero", (np.nan, None, 0, None)),
    ("zero times NaN in b", (0, None, np.nan, None)),
    ("infinity in a", (np.inf, None, None, None)),
    ("infinity in b", (None, None, -np.inf, None)),
    ("infinity in a times zero", (np.inf, None, 0, None)),
    ("zero times infinity in b", (0, None, np.inf, None)),
    ("infinity minus infinity", (np.inf, -np.inf, 1, 1)),
    ("infinity times -infinity", (np.inf, None, -np.inf, None)),
)


def _nan_and_infinity(s: Subject) -> None:
    sizes = [size for size in EDGES if size > 1]
    for name, (a_ip, a_iq, b_pj, b_qj) in _SPOILED:
        for m, n, k in triples(s.rng, sizes, rounds=4 if s.thorough else 1):
            with s.case(f"{name}, m={m} n={n} k={k}"), np.errstate(invalid="ignore"):
                a, b = s.integers(m, k), s.integers(k, n)
                i, j = int(s.rng.integers(m)), int(s.rng.integers(n))
                p, q = s.rng.choice(k, 2, replace=False).tolist()
                _put(a, (i, p), a_ip)
                _put(a, (i, q), a_iq)
                _put(b, (p, j), b_pj)
                _put(b, (q, j), b_qj)
                s.expect_within_bound(a, b)


def _put(array: Array, at: tuple[int, int], value: float | None) -> None:
    if value is not None:
        array[at] = value


def _layouts(s: Subject) -> None:
    sides = tuple(enumerate(OPERAND_LAYOUTS))
    for (i, layout_a), (j, layout_b) in product(sides, sides):
        # One layout of out for each pair, shifted from row to row, so that all pairs of two meet.
        shifted = RESULT_LAYOUTS[(i + j) % len(RESULT_LAYOUTS)]
        for layout_out in RESULT_LAYOUTS if s.thorough else (shifted,):
            for m, n, k in ((5, 7, 3), (17, 33, 19)):
                names = f"a {layout_a.name}, b {layout_b.name}, out {layout_out.name}"
                with s.case(f"{names}, m={m} n={n} k={k}"):
                    a, b = layout_a.hold(s.integers(m, k)), layout_b.hold(s.integers(k, n))
                    s.expect_exact(a, b, layout_out.frame((m, n), s.dtype, NOT_A_NUMBER))


def _overlap(s: Subject) -> None:
    for n in (2, 9, 33, 65):
        views: dict[str, tuple[slice, slice, slice]] = {
            "out is a": (slice(0, n), slice(n, 2 * n), slice(0, n)),
            "out is b": (slice(0, n), slice(n, 2 * n), slice(n, 2 * n)),
            "out, a and b are one": (slice(0, n), slice(0, n), slice(0, n)),
            "out one row below a": (slice(0, n), slice(n, 2 * n), slice(1, n + 1)),
            "out half a, half b": (slice(0, n), slice(n, 2 * n), slice(n // 2, n // 2 + n)),
            "out is a upside down": (slice(0, n), slice(n, 2 * n), slice(n - 1, None, -1)),
        }
        for name, (rows_a, rows_b, rows_out) in views.items():
            with s.case(f"{name}, n={n}"):
                memory = s.integers(2 * n, n)
                s.expect_exact(memory[rows_a], memory[rows_b], memory[rows_out])
        with s.case(f"out is a transposed, n={n}"):
            a = s.integers(n, n)
            s.expect_exact(a, s.integers(n, n), a.T)


def _empty(s: Subject) -> None:
    for m, n, k in ((0, 5, 4), (5, 0, 4), (5, 4, 0), (1, 1, 0), (0, 0, 3), (0, 0, 0), (65, 33, 0)):
        with s.case(f"m={m} n={n} k={k}"):
            a, b = s.integers(m, k), s.integers(k, n)
            s.expect_exact(a, b)
            s.expect_exact(a, b, np.full((m, n), np.nan, s.dtype))
    for shape_a, shape_b in (
        ((0,), (0,)),
        ((0,), (0, 3)),
        ((3, 0), (0,)),
        ((0, 3, 4), (4, 5)),
        ((2, 3, 0), (0, 5)),
    ):
        with s.case(f"shapes {shape_a} and {shape_b}"):
            s.expect_exact(s.integers(*shape_a), s.integers(*shape_b))


def _wrong_shapes(s: Subject) -> None:
    wrong: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = [
        ((3, 4), (5, 6), None),
        ((4,), (5,), None),
        ((3, 4), (5,), None),
        ((2, 3, 4), (3, 4, 5), None),
        ((), (3, 3), None),
    ]
    wrong += [((3, 4), (4, 5), out) for out in ((3, 4), (5, 3), (4, 5), (3, 6), (3,), (5,), (), (3, 5, 1))]
    for shape_a, shape_b, shape_out in wrong:
        with s.case(f"shapes {shape_a} and {shape_b}, out {shape_out}"):
            options = {} if shape_out is None else {"out": np.full(shape_out, 7, s.dtype)}
            try:
                s.multiply(s.integers(*shape_a), s.integers(*shape_b), **options)
            except ValueError:
                if options and (options["out"] != 7).any():
                    raise Fault("raised ValueError after writing to out") from None
            else:
                raise Fault("raised no ValueError")


def _vectors(s: Subject) -> None:
    for k in EDGES:
        x, matrix = s.integers(k), s.integers(k, 17)
        for name, vector in (("plain", x), ("reversed", x[::-1]), ("every second", s.integers(2 * k)[::2])):
            with s.case(f"{name} vectors, k={k}"):
                s.expect_exact(vector, x)
                s.expect_exact(vector, matrix)
                s.expect_exact(matrix.T, vector)
                s.expect_exact(vector, np.asfortranarray(matrix), np.full(34, np.nan, s.dtype)[::2])


def _stacks(s: Subject) -> None:
    for shape_a, shape_b in (
        ((3, 5, 4), (3, 4, 6)),
        ((3, 5, 4), (4, 6)),
        ((5, 4), (3, 4, 6)),
        ((2, 1, 5, 4), (3, 4, 6)),
        ((2, 3, 17, 9), (2, 3, 9, 33)),
        ((1, 5, 4), (3, 4, 6)),
        ((4,), (3, 4, 6)),
        ((3, 5, 4), (4,)),
    ):
        with s.case(f"shapes {shape_a} and {shape_b}"):
            a, b = s.integers(*shape_a), s.integers(*shape_b)
            s.expect_exact(a, b)
            shape = np.matmul(a, b).shape
            s.expect_exact(a, b, np.full((*shape, 2), np.nan, s.dtype)[..., 0])
            s.expect_exact(a, b, np.full(shape[::-1], np.nan, s.dtype).T)
    with s.case("stacks whose first axis is the fastest"):
        a, b = np.moveaxis(s.integers(5, 4, 3), -1, 0), np.moveaxis(s.integers(4, 6, 3), -1, 0)
        s.expect_exact(a, b, np.moveaxis(np.full((5, 6, 3), np.nan, s.dtype), -1, 0))
    with s.case("one matrix repeated as a stack"):
        s.expect_exact(np.broadcast_to(s.integers(5, 4), (3, 5, 4)), s.integers(3, 4, 6)[::-1])


def _same_operand(s: Subject) -> None:
    for n in (*EDGES, 130):
        with s.case(f"n={n}"):
            square, tall = s.integers(n, n), s.integers(n, 19)
            s.expect_exact(square, square)
            s.expect_exact(square, square.T)
            s.expect_exact(tall, tall.T)
            s.expect_exact(tall.T, tall)


def _same_bits(s: Subject) -> None:
    options: list[dict[str, Any]] = [{}] * 3
    if s.any_thread_count:
        options += [{"threads": count} for count in ((1, 2, 3, 4, 7, None) if s.thorough else (1, 2, None))]
    for m, n, k in ((150, 140, 130), (33, 65, 49), (1, 150, 150), (150, 1, 150)):
        a, b = s.rng.standard_normal((m, k)).astype(s.dtype), s.rng.standard_normal((k, n)).astype(s.dtype)
        with s.case(f"m={m} n={n} k={k}"):
            first = s.product(a, b)
            for option in options:
                if s.product(a, b, **option).tobytes() != first.tobytes():
                    said = f" with threads={option['threads']}" if option else ""
                    raise Fault(f"the product{said} has other bits than the first time")


def _concurrent(s: Subject) -> None:
    shapes = ((17, 33, 19), (64, 48, 80), (130, 20, 65))
    work = [[(s.integers(m, k), s.integers(k, n)) for m, n, k in shapes] for _ in range(CALLERS)]
    barrier = Barrier(CALLERS)

    def call(products: list[tuple[Array, Array]]) -> None:
        barrier.wait()
        for a, b in products * 3:
            s.expect_exact(a, b)

    with s.case(f"{CALLERS} threads"), ThreadPoolExecutor(CALLERS) as pool:
        for done in [pool.submit(call, products) for products in work]:
            done.result()


@dataclass(frozen=True)
class Check:
    """A promise, and the function that tries it."""

    name: str
    meaning: str
    run: Callable[[Subject], None]


CHECKS = (
    Check("exact integers", "whole numbers from -8 to 8 give the exact product", _exact),
    Check("block edges", "exact at, below and above block sizes", _block_edges),
    Check("parameters", "exact for the choices of each parameter", _parameters),
    Check("error bound", "each element is within gamma_k |A||B| of the true product", _error_bound),
    Check("only out written", "no byte outside out is written", _only_out_is_written),
    Check("operands unchanged", "a and b are bitwise what they were", _operands_unchanged),
    Check("old content ignored", "NaN in out before the call does not show", _old_content_ignored),
    Check("NaN and infinity", "they spread as IEEE 754 has it, 0 * inf included", _nan_and_infinity),
    Check("layouts", "any strides, alignment and byte order of a, b and out", _layouts),
    Check("overlap", "out may overlap a and b", _overlap),
    Check("empty", "sizes of 0; a sum of nothing is 0", _empty),
    Check("wrong shapes", "raise ValueError and leave out alone", _wrong_shapes),
    Check("vectors", "1-D operands", _vectors),
    Check("stacks", "stacks of matrices, broadcast as NumPy does", _stacks),
    Check("same operand", "a @ a, a @ a.T and a.T @ a", _same_operand),
    Check("same bits", "a repeated call gives the same bits; our CPU rungs with any threads", _same_bits),
    Check("concurrent calls", "calls from many threads at once", _concurrent),
)
