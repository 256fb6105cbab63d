"""The checks of an audit: each tests one promise on one backend and one dtype.

A check is a function of a `CheckContext`. It opens a `ctx.case(...)` for each test, and raises `Fault` for a
broken promise. Most checks multiply small integers, whose products are exact, so no tolerance is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from threading import Barrier

import numpy as np

from gemmlab._backend import Params
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import Array
from gemmlab.verify.context import CheckContext, Fault
from gemmlab.verify.dtypes import is_exact
from gemmlab.verify.inputs import (
    CANARY,
    EDGES,
    NOT_A_NUMBER,
    OPERAND_LAYOUTS,
    RESULT_LAYOUTS,
    around,
    distributions,
    owner,
    triples,
)

CALLERS = 8


def _exact(ctx: CheckContext) -> None:
    for m, n, k in ((24, 40, 32), (64, 64, 64), (96, 72, 144), (8, 16, 4096)):
        with ctx.case(f"m={m} n={n} k={k}"):
            ctx.expect_exact(ctx.integers(m, k), ctx.integers(k, n))


def _block_edges(ctx: CheckContext) -> None:
    for m, n, k in triples(ctx.rng, ctx.sizes, rounds=24 if ctx.thorough else 6):
        with ctx.case(f"m={m} n={n} k={k}"):
            ctx.expect_exact(ctx.integers(m, k), ctx.integers(k, n))


def _parameters(ctx: CheckContext) -> None:
    for param in ctx.params.values():
        choices = param.choices if ctx.thorough else param.choices[:: max(1, len(param.choices) - 1)]
        for choice in choices:
            edges = around([choice]) if isinstance(choice, int) else []
            for m, n, k in (*triples(ctx.rng, edges, rounds=1), (65, 33, 49)):
                with ctx.case(f"{param.name}={choice}, m={m} n={n} k={k}"):
                    option: Params = {param.name: choice}
                    try:
                        ctx.expect_exact(ctx.integers(m, k), ctx.integers(k, n), **option)
                    except ValueError as error:  # a value that is invalid with the other parameters
                        raise UnsupportedProblem(str(error)) from None


def _error_bound(ctx: CheckContext) -> None:
    if is_exact(ctx.dtype):
        return
    for name, (draw_a, draw_b) in distributions(ctx.dtype).items():
        shapes = [*triples(ctx.rng, ctx.sizes, rounds=8 if ctx.thorough else 1), (20, 20, 1000)]
        for m, n, k in shapes:
            with ctx.case(f"{name}, m={m} n={n} k={k}"):
                ctx.expect_within_bound(draw_a(ctx.rng, (m, k)), draw_b(ctx.rng, (k, n)))


def _only_out_is_written(ctx: CheckContext) -> None:
    for layout in RESULT_LAYOUTS:
        for m, n, k in triples(ctx.rng, list(EDGES), rounds=1):
            with ctx.case(f"out {layout.name}, m={m} n={n} k={k}"):
                out = layout.frame((m, n), ctx.dtype, CANARY)
                before = out.copy()
                ctx.product(ctx.integers(m, k), ctx.integers(k, n), out)
                out[...] = before
                changed = np.flatnonzero(owner(out).view(np.uint8) != CANARY)
                if len(changed):
                    raise Fault(f"{len(changed)} bytes outside out were written")


def _operands_unchanged(ctx: CheckContext) -> None:
    m, n, k = 17, 33, 19
    for layout_a, layout_b in product(OPERAND_LAYOUTS, OPERAND_LAYOUTS):
        with ctx.case(f"a {layout_a.name}, b {layout_b.name}"):
            operands = layout_a.hold(ctx.integers(m, k)), layout_b.hold(ctx.integers(k, n))
            before = [owner(array).tobytes() for array in operands]
            ctx.product(*operands)
            for name, array, content in zip("ab", operands, before, strict=True):
                if owner(array).tobytes() != content:
                    raise Fault(f"{name} was changed")


def _old_content_ignored(ctx: CheckContext) -> None:
    for layout in RESULT_LAYOUTS:
        for m, n, k in ((1, 1, 1), (3, 5, 1), (17, 33, 19), (65, 64, 63)):
            with ctx.case(f"out {layout.name} full of NaN, m={m} n={n} k={k}"):
                out = layout.frame((m, n), ctx.dtype, NOT_A_NUMBER)
                ctx.expect_exact(ctx.integers(m, k), ctx.integers(k, n), out)


# The values of a[i, p], a[i, q], b[p, j] and b[q, j]; None leaves the element unchanged.
_SPECIAL_VALUES: tuple[tuple[str, tuple[float | None, ...]], ...] = (
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


def _nan_and_infinity(ctx: CheckContext) -> None:
    if is_exact(ctx.dtype) or ctx.dtype.kind == "c":  # of complex numbers IEEE 754 says nothing
        return
    sizes = [size for size in EDGES if size > 1]
    for name, (a_ip, a_iq, b_pj, b_qj) in _SPECIAL_VALUES:
        for m, n, k in triples(ctx.rng, sizes, rounds=4 if ctx.thorough else 1):
            with ctx.case(f"{name}, m={m} n={n} k={k}"), np.errstate(invalid="ignore"):
                a, b = ctx.integers(m, k), ctx.integers(k, n)
                i, j = int(ctx.rng.integers(m)), int(ctx.rng.integers(n))
                p, q = ctx.rng.choice(k, 2, replace=False).tolist()
                _put(a, (i, p), a_ip)
                _put(a, (i, q), a_iq)
                _put(b, (p, j), b_pj)
                _put(b, (q, j), b_qj)
                ctx.expect_within_bound(a, b)


def _put(array: Array, at: tuple[int, int], value: float | None) -> None:
    if value is not None:
        array[at] = value


def _layouts(ctx: CheckContext) -> None:
    sides = tuple(enumerate(OPERAND_LAYOUTS))
    for (i, layout_a), (j, layout_b) in product(sides, sides):
        # One layout of out for each pair, chosen so that all pairs with a layout of out occur too.
        shifted = RESULT_LAYOUTS[(i + j) % len(RESULT_LAYOUTS)]
        for layout_out in RESULT_LAYOUTS if ctx.thorough else (shifted,):
            for m, n, k in ((5, 7, 3), (17, 33, 19)):
                names = f"a {layout_a.name}, b {layout_b.name}, out {layout_out.name}"
                with ctx.case(f"{names}, m={m} n={n} k={k}"):
                    a, b = layout_a.hold(ctx.integers(m, k)), layout_b.hold(ctx.integers(k, n))
                    ctx.expect_exact(a, b, layout_out.frame((m, n), ctx.dtype, NOT_A_NUMBER))


def _overlap(ctx: CheckContext) -> None:
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
            with ctx.case(f"{name}, n={n}"):
                memory = ctx.integers(2 * n, n)
                ctx.expect_exact(memory[rows_a], memory[rows_b], memory[rows_out])
        with ctx.case(f"out is a transposed, n={n}"):
            a = ctx.integers(n, n)
            ctx.expect_exact(a, ctx.integers(n, n), a.T)


def _accumulate(ctx: CheckContext) -> None:
    if not ctx.accumulates:
        return
    for layout in RESULT_LAYOUTS:
        for m, n, k in ((1, 1, 1), (5, 7, 0), (17, 33, 19), (65, 64, 63), (3, 5, 2000), (130, 1, 70)):
            with ctx.case(f"out {layout.name}, m={m} n={n} k={k}"):
                a, b, out = ctx.integers(m, k), ctx.integers(k, n), layout.frame((m, n), ctx.dtype, NOT_A_NUMBER)
                out[...] = ctx.integers(m, n)
                ctx.expect_added(a, b, out)
    with ctx.case("a batch with one b"):
        ctx.expect_added(ctx.integers(3, 5, 4), ctx.integers(4, 6), ctx.integers(2, 3, 5, 6))
    with ctx.case("out is a"):
        square = ctx.integers(33, 33)
        ctx.expect_added(square, ctx.integers(33, 33), square)


def _empty(ctx: CheckContext) -> None:
    for m, n, k in ((0, 5, 4), (5, 0, 4), (5, 4, 0), (1, 1, 0), (0, 0, 3), (0, 0, 0), (65, 33, 0)):
        with ctx.case(f"m={m} n={n} k={k}"):
            a, b = ctx.integers(m, k), ctx.integers(k, n)
            ctx.expect_exact(a, b)
            ctx.expect_exact(a, b, ctx.unwritten((m, n)))
    for shape_a, shape_b in (
        ((0,), (0,)),
        ((0,), (0, 3)),
        ((3, 0), (0,)),
        ((0, 3, 4), (4, 5)),
        ((2, 3, 0), (0, 5)),
    ):
        with ctx.case(f"shapes {shape_a} and {shape_b}"):
            ctx.expect_exact(ctx.integers(*shape_a), ctx.integers(*shape_b))


def _wrong_shapes(ctx: CheckContext) -> None:
    wrong: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = [
        ((3, 4), (5, 6), None),
        ((4,), (5,), None),
        ((3, 4), (5,), None),
        ((2, 3, 4), (3, 4, 5), None),
        ((), (3, 3), None),
    ]
    wrong += [((3, 4), (4, 5), out) for out in ((3, 4), (5, 3), (4, 5), (3, 6), (3,), (5,), (), (3, 5, 1))]
    for shape_a, shape_b, shape_out in wrong:
        with ctx.case(f"shapes {shape_a} and {shape_b}, out {shape_out}"):
            before = ctx.integers(*shape_out or ())
            options = {} if shape_out is None else {"out": before.copy()}
            try:
                ctx.multiply(ctx.integers(*shape_a), ctx.integers(*shape_b), **options)
            except ValueError:
                if options and (options["out"] != before).any():
                    raise Fault("raised ValueError after writing to out") from None
            else:
                raise Fault("raised no ValueError")


def _vectors(ctx: CheckContext) -> None:
    for k in EDGES:
        x, matrix = ctx.integers(k), ctx.integers(k, 17)
        for name, vector in (("plain", x), ("reversed", x[::-1]), ("every second", ctx.integers(2 * k)[::2])):
            with ctx.case(f"{name} vectors, k={k}"):
                ctx.expect_exact(vector, x)
                ctx.expect_exact(vector, matrix)
                ctx.expect_exact(matrix.T, vector)
                ctx.expect_exact(vector, np.asfortranarray(matrix), ctx.unwritten((34,))[::2])


def _batches(ctx: CheckContext) -> None:
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
        with ctx.case(f"shapes {shape_a} and {shape_b}"):
            a, b = ctx.integers(*shape_a), ctx.integers(*shape_b)
            ctx.expect_exact(a, b)
            shape = np.matmul(a, b).shape
            ctx.expect_exact(a, b, ctx.unwritten((*shape, 2))[..., 0])
            ctx.expect_exact(a, b, ctx.unwritten(shape[::-1]).T)
    with ctx.case("batches whose first axis has the smallest stride"):
        a, b = np.moveaxis(ctx.integers(5, 4, 3), -1, 0), np.moveaxis(ctx.integers(4, 6, 3), -1, 0)
        ctx.expect_exact(a, b, np.moveaxis(ctx.unwritten((5, 6, 3)), -1, 0))
    with ctx.case("one matrix repeated as a batch"):
        ctx.expect_exact(np.broadcast_to(ctx.integers(5, 4), (3, 5, 4)), ctx.integers(3, 4, 6)[::-1])


def _same_operand(ctx: CheckContext) -> None:
    for n in (*EDGES, 130):
        with ctx.case(f"n={n}"):
            square, tall = ctx.integers(n, n), ctx.integers(n, 19)
            ctx.expect_exact(square, square)
            ctx.expect_exact(square, square.T)
            ctx.expect_exact(tall, tall.T)
            ctx.expect_exact(tall.T, tall)


def _same_bits(ctx: CheckContext) -> None:
    options: list[Params] = [{}] * 3
    if ctx.any_thread_count:
        options += [{"threads": count} for count in ((1, 2, 3, 4, 7, None) if ctx.thorough else (1, 2, None))]
    for m, n, k in ((150, 140, 130), (33, 65, 49), (1, 150, 150), (150, 1, 150)):
        a, b = ((100 * ctx.rng.random(shape)).astype(ctx.dtype) for shape in ((m, k), (k, n)))
        with ctx.case(f"m={m} n={n} k={k}"):
            first = ctx.product(a, b)
            for option in options:
                if ctx.product(a, b, **option).tobytes() != first.tobytes():
                    threads = f" with threads={option['threads']}" if option else ""
                    raise Fault(f"the product{threads} has different bits than the first time")


def _concurrent(ctx: CheckContext) -> None:
    shapes = ((17, 33, 19), (64, 48, 80), (130, 20, 65))
    work = [[(ctx.integers(m, k), ctx.integers(k, n)) for m, n, k in shapes] for _ in range(CALLERS)]
    barrier = Barrier(CALLERS)

    def call(products: list[tuple[Array, Array]]) -> None:
        barrier.wait()
        for a, b in products * 3:
            ctx.expect_exact(a, b)

    with ctx.case(f"{CALLERS} threads"), ThreadPoolExecutor(CALLERS) as pool:
        for done in [pool.submit(call, products) for products in work]:
            done.result()


@dataclass(frozen=True)
class Check:
    """A promise, and the function that tests it."""

    name: str
    meaning: str
    run: Callable[[CheckContext], None]


CHECKS = (
    Check("exact integers", "integers from -8 to 8 give the exact product", _exact),
    Check("block edges", "exact for sizes at, just below and just above block sizes", _block_edges),
    Check("parameters", "exact for the choices of each parameter", _parameters),
    Check("error bound", "the error of each element is at most gamma_k |A||B|", _error_bound),
    Check("only out written", "no byte outside out is written", _only_out_is_written),
    Check("operands unchanged", "no byte of a and b is changed", _operands_unchanged),
    Check("old content ignored", "NaN in out before the call has no effect", _old_content_ignored),
    Check("NaN and infinity", "they propagate as in IEEE 754, 0 * inf included", _nan_and_infinity),
    Check("layouts", "any strides, alignment and byte order of a, b and out", _layouts),
    Check("overlap", "out may overlap a and b", _overlap),
    Check("accumulate", "exact where the product is added to out, by a backend that does it", _accumulate),
    Check("empty", "sizes of 0; an empty sum is 0", _empty),
    Check("wrong shapes", "raise ValueError and do not change out", _wrong_shapes),
    Check("vectors", "1-D operands", _vectors),
    Check("batches", "batches of matrices, broadcast as in NumPy", _batches),
    Check("same operand", "a @ a, a @ a.T and a.T @ a", _same_operand),
    Check("same bits", "a repeated call gives the same bits; our CPU rungs with any threads", _same_bits),
    Check("concurrent calls", "simultaneous calls from several threads", _concurrent),
)
