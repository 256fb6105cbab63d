"""Hypothesis strategies of calls of `gemmlab.matmul`: `calls()` draws any call that a user might make.

What is drawn is data (see `calls.py`): it prints as the text that makes it again. The first choice of every strategy is
the simplest, so Hypothesis shrinks a call to the one property that matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from calls import Array, Call, dtype_of
from hypothesis import strategies as st

import gemmlab
from gemmlab._cpu.rungs.ladder import RUNGS


def weighted(*shares: tuple[Any, int]) -> st.SearchStrategy[Any]:
    """One of these values, each as often as its share says; the simplest is the first."""
    return st.sampled_from([value for value, share in shares for _ in range(share)])


# Sizes and shapes

TINY = st.integers(1, 9)
TILE = st.sampled_from((*range(1, 18), 24, 28, 31, 32, 33, 47, 48, 49, 63, 64, 65))
DEEP = st.sampled_from((70, 129, 257, 511, 513, 800, 1500, 2100))
LONG = st.sampled_from((70, 100, 193, 300, 500, 800))
SIZES = weighted(  # of m, n and k: products around tiles, deep and long ones, few rows, and such as take five loops
    (st.tuples(TINY, TINY, TINY), 8),
    (st.tuples(TILE, TILE, TILE), 8),
    (st.tuples(TINY, TILE, DEEP), 2),
    (st.tuples(TILE, TINY, DEEP), 2),
    (st.tuples(LONG, TINY, TILE), 2),
    (st.tuples(TINY, LONG, TILE), 1),
    (st.tuples(TILE, LONG, TILE), 1),
    (st.tuples(st.integers(2, 4), st.sampled_from((300, 500)), st.sampled_from((129, 257))), 4),  # B is not in L1
    (st.tuples(st.sampled_from((13, 17, 29, 40)), st.sampled_from((65, 96, 130)), st.sampled_from((257, 300, 511))), 1),
)
FORMS = weighted(
    ("matrices", 10), ("stacks", 5), ("vector, matrix", 1), ("matrix, vector", 1), ("vectors", 1), ("empty", 1)
)  # fmt: skip
EMPTIES = st.sampled_from(((1, 1, 0), (0, 1, 1), (1, 0, 1), (0, 0, 0)))
LEADS = st.sampled_from(((2,), (1,), (3,), (2, 3), (1, 2), (2, 1, 2), (40,), (0,), (1,) * 33))
SPREADS = weighted(("both", 3), ("of a", 2), ("of b", 2), ("crossed", 1))
MOST_WORK, MOST_SLOW_WORK = 600_000, 3_000  # multiply-adds of a call, and of one in a dtype that is slow in NumPy


class Shapes(NamedTuple):
    """Shapes of the operands and of the result with the core axes last, and how many core axes each has."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    out: tuple[int, ...]
    core: tuple[int, int, int]


def _shapes(draw: st.DrawFn, most_work: int) -> Shapes:
    form = draw(FORMS)
    m, n, k = draw(draw(SIZES))
    lead: tuple[int, ...] = draw(LEADS) if form == "stacks" else ()
    lead_a, lead_b = _spread(draw, lead) if lead else ((), ())
    while math.prod(lead) * m * n * k > most_work:
        m, n, k = (min(side, max(m, n, k) * 2 // 3) for side in (m, n, k))
    if form == "empty":
        m, n, k = (side * factor for side, factor in zip((m, n, k), draw(EMPTIES), strict=True))
    of_a = (k,) if form in ("vector, matrix", "vectors") else (m, k)
    of_b = (k,) if form in ("matrix, vector", "vectors") else (k, n)
    of_out = (*of_a[:-1], *of_b[1:])
    return Shapes(lead_a + of_a, lead_b + of_b, lead + of_out, (len(of_a), len(of_b), len(of_out)))


def _spread(draw: st.DrawFn, lead: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Leading shapes of a and b that broadcast to `lead`."""
    spread = draw(SPREADS)
    if spread == "crossed":
        return (
            tuple(side if axis % 2 else 1 for axis, side in enumerate(lead)),
            tuple(1 if axis % 2 else side for axis, side in enumerate(lead)),
        )
    return lead if spread != "of b" else (), lead if spread != "of a" else ()


# Arrays

COMMON = ("float64", "float32", "int32", "complex64", "float16", "int8", "bfloat16")
NUMBERS = (
    *COMMON * 2, *COMMON[:2] * 2, "int64", "bool", "uint8", "int16", "uint16", "uint32", "uint64", "complex128", ">f8",
    ">f4", ">i4", ">c8", ">f2", "longdouble", "clongdouble", "object",
)  # fmt: skip
NO_NUMBERS = ("M8[s]", "m8[s]", "U3", "S3", "V4")
SLOW = ("longdouble", "clongdouble", "object")
DTYPES = st.sampled_from(NUMBERS)
STYLES = weighted(("dense", 6), ("gap", 2), ("steps", 2), ("repeated", 1), ("unaligned", 1))
ORDERS = weighted(("C", 5), ("F", 3), ("stack", 1))
STEPS = st.sampled_from((1, 2, -1, 3, -2))
GAPS = st.integers(1, 5)
SHIFTS = st.sampled_from((1, 3))
AXIS = {count: st.integers(0, count - 1) for count in range(1, 41)}
VALUES = weighted(("small", 6), ("any", 3), ("special", 1))
KINDS = weighted(
    ("ndarray", 150), ("readonly", 5), ("list", 2), ("memmap", 2), ("subclass", 2), ("wraps", 2), ("matrix", 1),
    ("masked", 1), ("asarray", 6), ("dask", 4),
)  # fmt: skip
HAS_DASK = find_spec("dask") is not None
PAIRS = weighted(("separate", 30), ("shared", 2), ("dlpack", 1), ("packed", 1))
SHARED_AT = st.integers(0, 3)


def _layout(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, is_out: bool = False) -> dict[str, Any]:
    """Where an array is in its memory."""
    style = draw(STYLES)
    layout: dict[str, Any] = {}
    if len(shape) > 1 and (order := draw(ORDERS)) != "C":
        layout["order"] = order
    if style == "gap":
        layout["gap"] = draw(GAPS)
    elif style == "steps":
        layout["steps"] = tuple(draw(STEPS) if side > 1 else 1 for side in shape)
    elif style == "repeated" and shape and not is_out:
        repeated = draw(AXIS[len(shape)])
        layout["steps"] = tuple(int(axis != repeated) for axis in range(len(shape)))
    elif style == "unaligned" and dtype != "object":
        layout["shift"] = draw(SHIFTS)
    return layout


def _operand(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, values: str) -> Array:
    options = _layout(draw, shape, dtype)
    kind = draw(KINDS)
    if kind == "readonly":
        options["readonly"] = True
    elif _fits_kind(kind, shape, dtype):
        options["kind"] = kind
    return Array(shape, dtype, values=values, **options)


def _fits_kind(kind: str, shape: tuple[int, ...], dtype: str) -> bool:
    if kind == "dask":
        return HAS_DASK and 1 <= len(shape) <= 2 and dtype in COMMON[:-1]
    if kind == "asarray":
        return bool(shape) or dtype != "object"
    return (kind != "matrix" or len(shape) == 2) and (kind != "list" or dtype in COMMON[:-1])


def _operands(draw: st.DrawFn, shapes: Shapes, dtypes: Sequence[str]) -> tuple[Array, Array]:
    values = draw(VALUES)
    a = _operand(draw, shapes.a, dtypes[0], values)
    b = _operand(draw, shapes.b, dtypes[1], values)
    if "matrix" in (a.kind, b.kind) and max(len(a.shape), len(b.shape)) > 2:  # numpy.matrix drops axes of its stacks
        a, b = (replace(x, kind="ndarray") if x.kind == "matrix" else x for x in (a, b))
    if {a.kind, b.kind} == {"masked", "dask"}:  # Dask has numpy.ma cast fill values, which not every dtype can hold
        a, b = (replace(x, kind="ndarray") if x.kind == "masked" else x for x in (a, b))
    pair = draw(PAIRS)
    if pair == "shared" and dtypes[0] == dtypes[1]:
        b = replace(b, within="a", shift=a.shift + draw(SHARED_AT) * dtype_of(b.dtype).itemsize)
    elif pair == "dlpack" and dtypes[0] == dtypes[1] and dtypes[0] in COMMON[:-1]:
        a, b = (replace(x, kind="dlpack", readonly=False, shift=0) for x in (a, b))
    elif pair == "packed" and len(shapes.b) == 2 and dtypes[1] not in SLOW:
        b = replace(b, kind="packed")
    return a, b


OUTS = weighted((None, 9), ("fits", 6), ("other dtype", 1), ("within", 1), ("stretched", 1))
STRETCHED = st.sampled_from(((2,), (1,), (1, 2)))
WITHIN_AT = st.integers(0, 20)
OUT_KINDS = weighted(("ndarray", 8), ("tuple", 1), ("memmap", 1), ("subclass", 1), ("asarray", 1))


def _out(draw: st.DrawFn, shape: tuple[int, ...], dtypes: Sequence[str], owners: Sequence[str]) -> Array | None:
    """`out` for a result of this shape; `owners` are the operands with memory of their own."""
    form = draw(OUTS)
    if form is None:
        return None
    dtype = draw(DTYPES) if form == "other dtype" else _result_dtype(dtypes)
    if form == "stretched":
        shape = (*draw(STRETCHED), *shape)
    options = _layout(draw, shape, dtype, is_out=True)
    if form == "within" and "object" not in (dtype, *dtypes):
        options["within"] = owners[draw(AXIS[len(owners)])]
        options["shift"] = draw(WITHIN_AT) * dtype_of(dtype).itemsize
    kind = draw(OUT_KINDS)
    return Array(shape, dtype, kind=kind if _fits_kind(kind, shape, dtype) else "ndarray", **options)


def _result_dtype(dtypes: Sequence[str]) -> str:
    """The dtype of the result; of an error, if the operands have no common dtype, any."""
    if dtypes[0] == dtypes[1] == "bfloat16":
        return "bfloat16"
    try:
        return str(np.matmul.resolve_dtypes((*map(dtype_of, dtypes), None))[2])
    except TypeError:
        return "float64"


# Options

OUR_RUNGS = (*(rung.name for rung in RUNGS), "cpu-packed")
BACKENDS = st.sampled_from((
    *("auto",) * 8, *("cpu-packed",) * 5, *OUR_RUNGS, "cpu", "cpu-emulated",
    *(name for name in ("cpu-numpy", "cpu-blas", "cpu-mkl", "cpu-blis") if gemmlab.backends()[name].available),
))  # fmt: skip
SCHEDULES = st.sampled_from((None, "static", "guided"))
SIDES = st.sampled_from((None, 1, 3, 7, 16, 33))  # of blocks
OF_PACKED = {"mc": SIDES, "kc": st.sampled_from((None, 1, 3, 8, 16, 64, 200)), "nc": SIDES}
OF_BLOCKED = {"bs_r": SIDES, "bs_c": SIDES, "bs_k": SIDES, "schedule": SCHEDULES}
PARAMS = {
    **dict.fromkeys(("auto", "cpu", "cpu-packed"), OF_PACKED),
    **{rung.name: OF_BLOCKED for rung in RUNGS if "bs_r" in rung.params},
    "cpu-ikj": {"schedule": SCHEDULES},
    "cpu-emulated": {"moduli": st.sampled_from((8, 13, 15, 20))},
}
WITH_PARAMS = weighted((False, 2), (True, 1))
GIVEN = weighted(((), 20), (("dtype",), 1), (("casting",), 1), (("dtype", "casting"), 2), (("axes",), 2))
CASTINGS = st.sampled_from(("unsafe", "safe", "same_kind", "equiv", "no"))
THREADS = weighted((None, 8), (1, 1), (2, 2), (3, 1))
PLACES = {
    count: st.sampled_from([(p, q) for p in range(count) for q in range(count) if p != q]) for count in range(2, 41)
}


def _options(draw: st.DrawFn, backends: st.SearchStrategy[str]) -> tuple[dict[str, Any], Sequence[str]]:
    """Options, and the names of those that are given besides backend, threads and parameters."""
    options: dict[str, Any] = {}
    if (backend := draw(backends)) != "auto":
        options["backend"] = backend
    if (threads := draw(THREADS)) is not None:
        options["threads"] = threads
    if backend in PARAMS and draw(WITH_PARAMS):
        options["params"] = {name: value for name, values in PARAMS[backend].items() if (value := draw(values))}
    given = draw(GIVEN)
    if "dtype" in given:
        options["dtype"] = draw(DTYPES)
    if "casting" in given:
        options["casting"] = draw(CASTINGS)
    return options, given


def _with_axes(draw: st.DrawFn, shapes: Shapes) -> tuple[Shapes, list[Any]]:
    """The shapes with their core axes elsewhere, and the `axes` that says where."""
    moved, axes = [], []
    for shape, core in zip(shapes[:3], shapes.core, strict=True):
        chosen: tuple[int, ...] = ()
        if core == 1:
            chosen = (draw(AXIS[len(shape)]),)
        elif core == 2:
            chosen = draw(PLACES[len(shape)])
        others = iter(shape[: len(shape) - core])
        sides = dict(zip(chosen, shape[len(shape) - core :], strict=True))
        moved.append(tuple(sides[axis] if axis in sides else next(others) for axis in range(len(shape))))
        chosen = tuple(axis - len(shape) for axis in chosen) if draw(BOOLEANS) else chosen
        axes.append(chosen[0] if core == 1 and draw(BOOLEANS) else chosen)
    return Shapes(moved[0], moved[1], moved[2], shapes.core), axes


# Calls, and faults in them

BOOLEANS = st.booleans()
UNEQUAL = weighted((False, 4), (True, 1))
WAYS = weighted(("arguments", 15), ("use", 1))
WAYS_OF_ASARRAY = weighted(("arguments", 1), ("use", 1), ("numpy", 2), ("operator", 1))
SEEDS = st.integers(0, 2**16)
ACCUMULATES = weighted((False, 6), (True, 1))
OUT_FAULTS = {"read-only out": {"readonly": True}, "list as out": {"kind": "list"}, "two outs": {"kind": "two"}}
WRONG_OPTIONS = {
    "casting": {"casting": "wild"},
    "few axes": {"axes": [(-2, -1), (-2, -1)]},
    "large axis": {"axes": [(-2, -1), (0, 64), (-2, -1)]},
    "double axis": {"axes": [(-2, -1), (0, 0), (-2, -1)]},
    "bool axis": {"axes": [(False, True), (-2, -1), (-2, -1)]},
}
FAULTS = ("k", "lead", "scalar", "no number", "dtype", "shape of out", *OUT_FAULTS, *WRONG_OPTIONS)
FAULT = weighted((None, 140), *((fault, 1) for fault in FAULTS))


@st.composite
def calls(draw: st.DrawFn, backends: st.SearchStrategy[str] = BACKENDS) -> Call:
    """Calls of `gemmlab.matmul` with these backends. One in eleven has a fault, for which NumPy raises an error."""
    dtype = draw(DTYPES)
    dtypes = (dtype, draw(DTYPES) if draw(UNEQUAL) else dtype)
    shapes = _shapes(draw, MOST_SLOW_WORK if {*dtypes} & {*SLOW} else MOST_WORK)
    options, given = _options(draw, backends)
    if "axes" in given:
        shapes, options["axes"] = _with_axes(draw, shapes)
    a, b = _operands(draw, shapes, dtypes)
    out = _out(draw, shapes.out, dtypes, ("a",) if b.within else ("a", "b"))
    way = _way(draw, a, b, out)
    if out is not None and way in ("arguments", "use") and draw(ACCUMULATES):
        options["accumulate"], out = True, _filled(out, {"a": a, "b": b})
    if a.kind == b.kind == "dlpack" and out is not None and out.kind == "ndarray" and out.dtype in COMMON[:-1]:
        out = replace(out, kind="dlpack", shift=0)
    call = Call(a, b, out=out, options=options, way=way, seed=draw(SEEDS))
    fault = draw(FAULT)
    if fault is not None:
        call = _with_fault(call, fault, shapes.out)
    return replace(call, way="numpy") if call.way == "operator" and (call.out or call.numpys_options) else call


def _filled(out: Array, operands: Mapping[str, Array]) -> Array:
    """`out` with numbers in it; in the memory of an operand only if these are whole elements of the operand."""
    out = replace(out, values=operands["a"].values)
    if out.within and operands[out.within].dtype == out.dtype:
        return replace(out, shift=out.shift + operands[out.within].shift)
    return replace(out, within="", shift=0 if out.within else out.shift)


def _way(draw: st.DrawFn, a: Array, b: Array, out: Array | None) -> str:
    kinds = {a.kind, b.kind} | ({out.kind} if out is not None else set())
    return draw(WAYS_OF_ASARRAY if "asarray" in kinds and not kinds & {"packed", "dlpack"} else WAYS)


def _with_fault(call: Call, fault: str, result: tuple[int, ...]) -> Call:
    """A similar call with this fault and no other; with none where the fault does not fit."""
    options = {
        name: value for name, value in call.options.items() if name not in ("dtype", "casting", "axes", "accumulate")
    }
    a, b = call.a, replace(call.b, dtype=call.a.dtype, kind="ndarray" if call.b.kind == "packed" else call.b.kind)
    has_out = call.out is not None or fault in OUT_FAULTS
    out = Array(result, _result_dtype((a.dtype, b.dtype))) if has_out else None
    no_number = NO_NUMBERS[call.seed % len(NO_NUMBERS)]
    if fault in ("k", "lead"):
        axis = 0 if fault == "lead" else max(len(b.shape) - 2, 0)
        b = replace(b, shape=(*b.shape[:axis], b.shape[axis] + 2, *b.shape[axis + 1 :]))
    elif fault == "scalar":
        a = Array((), a.dtype, kind=a.kind if a.kind == "asarray" else "ndarray")
    elif fault == "no number":
        b = Array(b.shape, no_number)
    elif fault == "dtype":
        options["dtype"] = no_number
    elif out is not None and fault in OUT_FAULTS:
        out = replace(out, **OUT_FAULTS[fault])
    elif fault == "shape of out":
        out = Array((*result[:-1], result[-1] + 1) if result else (2,), call.a.dtype)
    else:
        options |= WRONG_OPTIONS[fault]
    return replace(call, a=a, b=b, out=out, options=options)
