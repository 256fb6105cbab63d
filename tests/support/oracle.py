"""Is what `gemmlab.matmul` does for a call what NumPy does for it, or what `docs/promises.md` says instead?

`check(call)` makes the arguments twice, calls both, and compares errors or results, and all memory besides.
`DIFFERENCES` lists every known difference, with the sentence of the page that it rests on.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from calls import BFLOAT16, Arguments, Array, Call, dtype_of, made, real_of
from exporter import Exporter
from reference import Reading, acceptable

import gemmlab
from gemmlab import _registry
from gemmlab._backend import ErrorBound
from gemmlab._cpu import isa
from gemmlab._cpu.rungs.ladder import RUNGS
from gemmlab._problem import Problem
from gemmlab.verify.bounds import GAMMA

__all__ = ["DIFFERENCES", "Array", "Call", "check"]

BITS_EVERY = 7  # one call of so many is repeated on other threads and on some rows of A
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
GemmArray = type(gemmlab.asarray(()))
FOR_PACKED = ("auto", "cpu", "cpu-packed")
CPU_LADDER = tuple(rung.name for rung in RUNGS)
FUNCTIONS: dict[str, Callable[..., Any]] = {"use": gemmlab.matmul, "numpy": np.matmul, "operator": operator.matmul}
DISPATCHED = {"matrix", "masked", "subclass"}  # kinds for which NumPy asks their class
Loop = np.dtype[Any] | None


class Outcome(NamedTuple):
    """What a call did: its result, or its error; and the categories of its warnings."""

    result: Any
    error: Exception | None
    warned: set[type[Warning]]


# Differences from NumPy


@dataclass(frozen=True)
class Difference:
    """A difference from NumPy that `docs/promises.md` names.

    Attributes
    ----------
    sentence : str
        Of the page, as it is there.
    what : str
        The error that gemmlab raises; "no error" where NumPy raises one; or what is different in a result.
    applies : function of (call, loop)
        Whether it concerns a call, whose loop has this dtype; None where NumPy has no loop.
    """

    sentence: str
    what: str
    applies: Callable[[Call, Loop], bool]


def _is_named(call: Call) -> bool:
    return call.backend not in ("auto", "cpu-numpy")


def _is_by_numpy(call: Call) -> bool:
    return call.backend == "cpu-numpy" or bool(_kinds(call) & DISPATCHED)


def _below_packed(call: Call) -> bool:
    return _is_named(call) and call.backend not in ("cpu", "cpu-packed") and not _on_device(call)


def _on_device(call: Call) -> bool:
    return call.backend.startswith(("opencl", "sycl", "cuda"))


def _device_has(call: Call, loop: Loop) -> bool:
    return loop in (np.float32, np.float64) or (loop == np.float16 and call.backend.endswith("-tuned"))


def _packed_has(loop: Loop) -> bool:
    return loop == BFLOAT16 or (loop is not None and loop.kind in "biufc" and real_of(loop).itemsize <= 8)


def _kinds(call: Call) -> set[str]:
    return {array.kind for array in call.arrays.values()}


def _fits_packed(call: Call, loop: Loop) -> bool:
    axes = call.options.get("axes")
    is_transposed = axes is not None and axes[1][0] % 2 == 1
    is_plain = call.backend in FOR_PACKED and not _kinds(call) & {*DISPATCHED, "dask"}
    return is_plain and not is_transposed and loop == dtype_of(call.b.dtype)


def _has_options_of_numpy(call: Call) -> bool:
    return any(call.options.get(name) is not None for name in ("dtype", "axes", "casting"))


def _adds_to_out(call: Call) -> bool:
    return call.backend in (*FOR_PACKED, *CPU_LADDER) and not (
        _kinds(call) & {*DISPATCHED, "dask"}
    )


def _may_cast_out(call: Call, loop: np.dtype[Any]) -> bool:
    casting = "unsafe" if call.options.get("casting") == "unsafe" else "safe"
    return call.out is None or np.can_cast(dtype_of(call.out.dtype), loop, casting)


def _is_of_bfloat16(call: Call, loop: Loop) -> bool:
    return loop == BFLOAT16 and "dtype" not in call.options


DIFFERENCES = (
    Difference(
        "NumPy's floating-point warnings and errors (`numpy.errstate`) come from `cpu-numpy` alone",
        "no RuntimeWarning",
        lambda call, loop: True,
    ),
    Difference(
        "An empty product converts nothing, so it gives no warning of a conversion.",
        "no ComplexWarning",
        lambda call, loop: any(0 in array.shape for array in (call.a, call.b)),
    ),
    Difference(
        "Where one part of a complex number overflows, NumPy's BLAS may make NaN of the other part",
        "NaN beside an overflow",
        lambda call, loop: _is_by_numpy(call) and loop is not None and loop.kind == "c",
    ),
    Difference(
        "The bfloat16 instructions of AVX512-BF16 and AMX treat numbers below 2^-126 as 0, in operands and in sums.",
        "subnormal numbers",
        lambda call, loop: call.a.dtype == call.b.dtype == "bfloat16" and bool(isa.extras()),
    ),
    Difference(
        "bfloat16 operands give a bfloat16 result, where `@` of ml_dtypes gives float32",
        "dtype",
        _is_of_bfloat16,
    ),
    Difference(
        "bfloat16 operands give a bfloat16 result, where `@` of ml_dtypes gives float32",
        "no error",  # there is nothing to cast
        _is_of_bfloat16,
    ),
    Difference(
        "The rungs below `cpu-packed` support float32 and float64, and so do `cpu-blas`, `cpu-mkl` and `cpu-blis`.",
        "UnsupportedProblem",
        lambda call, loop: _below_packed(call) and loop not in (np.float32, np.float64),
    ),
    Difference(
        "On devices: float32 and float64, and float16 by `RT-tuned`, with sums in float32 that are rounded once.",
        "UnsupportedProblem",
        lambda call, loop: _on_device(call) and not _device_has(call, loop),
    ),
    Difference(
        "bool, integers of 8 to 64 bits (modulo 2^bits, as in NumPy), float16, bfloat16, float32, float64, complex64 "
        "and complex128.",
        "UnsupportedProblem",
        lambda call, loop: call.backend in ("cpu", "cpu-packed") and not _packed_has(loop),
    ),
    Difference(
        "operands that dispatch NumPy's functions themselves (subclasses of ndarray, pandas objects) give what "
        "`numpy.matmul` gives. "
        "A backend asked for by name refuses them",
        "UnsupportedProblem",
        lambda call, loop: _is_named(call) and bool(_kinds(call) & DISPATCHED),
    ),
    Difference(
        'They take no `dtype`, `axes`, `accumulate`, or other `casting` than `"same_kind"`, the default,',
        "TypeError",
        lambda call, loop: "dask" in _kinds(call) and (call.out is not None or _has_options_of_numpy(call)),
    ),
    Difference(
        'They take no `dtype`, `axes`, `accumulate`, or other `casting` than `"same_kind"`, the default,',
        "UnsupportedProblem",
        lambda call, loop: "dask" in _kinds(call) and call.accumulates,
    ),
    Difference(
        "and have up to 32 dimensions.",
        "UnsupportedProblem",
        lambda call, loop: "dask" in _kinds(call) and max(len(array.shape) for array in call.arrays.values()) > 32,
    ),
    Difference(
        "sums of blocks of k are rounded to the dtype of the result, which for float16 is more than the error of one",
        "values",
        lambda call, loop: (
            "dask" in _kinds(call) and call.way in ("numpy", "operator") and loop in (np.float16, BFLOAT16)
        ),
    ),
    Difference(
        "Arrays that come through DLPack are multiplied with arrays of the same library only",
        "UnsupportedProblem",
        lambda call, loop: "dlpack" in _kinds(call) and len(_kinds(call)) > 1,
    ),
    Difference(
        "NumPy raises BufferError for a result in a dtype that DLPack does not have.",
        "BufferError",
        lambda call, loop: "dlpack" in _kinds(call) and (loop == BFLOAT16 or not _packed_has(loop)),
    ),
    Difference(
        "What `pack` returns is multiplied by `cpu-packed` alone, with plain arrays, in its dtype and as it is; "
        "anything else raises `UnsupportedProblem`.",
        "UnsupportedProblem",
        lambda call, loop: "packed" in _kinds(call) and not _fits_packed(call, loop),
    ),
    Difference(
        "A backend that does not declare this (the baselines, devices) raises `UnsupportedProblem`.",
        "UnsupportedProblem",
        lambda call, loop: call.accumulates and not (_adds_to_out(call) and _packed_has(loop)),
    ),
    Difference(
        "Where it does not hold all values of `c` (`dtype=numpy.float32`, `c` of float64), `TypeError` asks for "
        "another `dtype=`, unless `casting=\"unsafe\"`.",
        "TypeError",
        lambda call, loop: call.accumulates and loop is not None and not _may_cast_out(call, loop),
    ),
    Difference(
        "A parameter that the chosen backend does not have raises `TypeError`, also where `auto` leaves the product to "
        "NumPy.",
        "TypeError",
        lambda call, loop: (
            bool(call.params) and call.backend == "auto" and (not _packed_has(loop) or bool(_kinds(call) & DISPATCHED))
        ),
    ),
)


def differs(what: str, call: Call, loop: Loop) -> bool:
    """Whether the page names this difference from NumPy for a call."""
    return any(each.what == what and each.applies(call, loop) for each in DIFFERENCES)


# Comparison


def check(call: Call) -> None:
    """Compare what gemmlab does with what NumPy does; AssertionError says what is different."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check(call)


def _check(call: Call) -> None:
    given, numpys = made(call), made(call, for_numpy=True)
    loop = _loop_of(call, numpys)
    before, old_out = given.contents(), _raw(given.views["out"]).copy() if "out" in given.views else None
    theirs = _outcome(np.matmul, numpys, call.numpys_options)
    ours = _outcome(_multiply(call), given)
    if ours.error is not None or theirs.error is not None:
        if type(ours.error) is not type(theirs.error):
            error = "no error" if ours.error is None else type(ours.error).__name__
            assert differs(error, call, loop), f"gemmlab: {ours.error!r}, NumPy: {theirs.error!r}"
        if ours.error is None:
            return
        assert given.contents() == before, f"memory has changed; {ours.error!r}"
        return
    if "dask" in _kinds(call):
        assert hasattr(ours.result, "dask"), "the result is not lazy"
        ours = ours._replace(result=ours.result.compute(scheduler="synchronous"))
    usual = theirs.warned | _warned_for_c(call, loop)
    assert ours.warned <= usual, f"a warning that NumPy does not give: {ours.warned - usual}"
    for category in usual - ours.warned:
        assert differs(f"no {category.__name__}", call, loop), f"no {category.__name__}"
    assert loop is not None
    if call.out is not None:
        assert ours.result is (given.out[0] if isinstance(given.out, tuple) else given.out), "the result is not `out`"
    elif call.a.kind == "dlpack":
        assert type(ours.result) is Exporter.Tensor
    elif "dask" in _kinds(call):
        if call.way in ("numpy", "operator") and ours.result.dtype == np.sum(np.empty(0, theirs.result.dtype)).dtype:
            # Dask's product, to which NumPy leaves it: it adds chunks of k in a wider dtype.
            ours = ours._replace(result=ours.result.astype(theirs.result.dtype))
        assert (ours.result.shape, ours.result.dtype) == (theirs.result.shape, theirs.result.dtype)
    elif not hasattr(theirs.result, "dtype"):  # two vectors of objects
        assert type(ours.result) is type(theirs.result)
    else:
        dtype = loop if differs("dtype", call, loop) else theirs.result.dtype
        _check_new_array(ours.result, theirs.result, dtype, "asarray" in (call.a.kind, call.b.kind))
    _check_values(call, loop, ours.result, theirs.result)
    if old_out is not None:
        _raw(given.views["out"])[...] = old_out
    assert given.contents() == before, "an operand has changed, or memory between the elements of `out`"
    if call.out is None and call.seed % BITS_EVERY == 0 and _packed_has(loop):
        _check_bits(call, ours.result)


def _multiply(call: Call) -> Callable[..., Any]:
    """The function that multiplies as the call says."""
    options = dict(call.options)
    params = options.pop("params", {})
    if call.way == "arguments":
        return partial(gemmlab.matmul, **options, **params)
    backend, threads = options.pop("backend", None), options.pop("threads", None)

    def within_use(a: Any, b: Any, **out: Any) -> Any:
        with gemmlab.use(backend, threads=threads, **params):
            return FUNCTIONS[call.way](a, b, **out, **options)

    return within_use


def _warned_for_c(call: Call, loop: Loop) -> set[type[Warning]]:
    """The warnings of NumPy where what `out` holds becomes the first addend, in the dtype of the sums."""
    if call.out is None or loop is None or not call.accumulates:
        return set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.ones(1, dtype_of(call.out.dtype)).astype(loop)
    return {each.category for each in caught}


def _outcome(function: Callable[..., Any], given: Arguments, options: dict[str, Any] | None = None) -> Outcome:
    out = {} if given.out is None else {"out": given.out}
    result = error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "invalid value encountered in matmul")  # comes by chance: see pyproject.toml
        try:
            result = function(given.a, given.b, **out, **(options or {}))
        except Exception as raised:
            error = raised
    return Outcome(result, error, {each.category for each in caught})


def _loop_of(call: Call, given: Arguments) -> Loop:
    """The dtype in which the product is summed and rounded; None if there is none."""
    loop = _numpys_loop(call, given)
    if loop is None or not call.accumulates or call.options.get("dtype") is not None or "out" not in given.views:
        return loop
    out = given.views["out"].dtype
    return np.promote_types(loop, out) if np.can_cast(loop, out, "safe") else loop


def _numpys_loop(call: Call, given: Arguments) -> Loop:
    """The same where nothing is added, by NumPy's rules."""
    dtypes = [np.asarray(given.a).dtype, np.asarray(given.b).dtype]
    out = given.views["out"].dtype if "out" in given.views else None
    dtype = call.options.get("dtype")
    is_bfloat16 = dtypes == [BFLOAT16] * 2 and dtype is None and not _kinds(call) & DISPATCHED
    casting = call.options.get("casting", "same_kind")
    if is_bfloat16 and (out is None or (casting in CASTINGS and np.can_cast(BFLOAT16, out, casting))):
        return BFLOAT16
    signature = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    try:
        return np.matmul.resolve_dtypes((*dtypes, out), casting="unsafe", **signature)[2]
    except (TypeError, ValueError):
        return None


def _check_new_array(ours: Any, theirs: Any, dtype: np.dtype[Any], is_wrapped: bool) -> None:
    kind = dtype.type if isinstance(theirs, np.generic) else type(theirs)
    is_wrapped &= kind is np.ndarray
    assert type(ours) is (GemmArray if is_wrapped else kind), f"type {type(ours)}"
    assert ours.shape == theirs.shape
    assert ours.dtype == dtype
    if isinstance(ours, np.ndarray):
        assert ours.flags.writeable or ours is np.ma.masked
        owner = ours.base if is_wrapped else ours
        assert owner.flags.owndata or not theirs.flags.owndata, "a view, where NumPy's result owns its data"


def _check_values(call: Call, loop: np.dtype[Any], ours: Any, theirs: Any) -> None:
    """Exactly NumPy's values where no order of summation rounds, else values within the bound."""
    if isinstance(theirs, np.ma.MaskedArray):
        assert np.array_equal(np.ma.getmaskarray(ours), np.ma.getmaskarray(theirs)), "another mask"
    c, numpys_c = (np.asarray(x.values if isinstance(x, Exporter.Tensor) else x) for x in (ours, theirs))
    is_exact = loop.kind in "biuO" or all(x.values == "small" for x in (call.a, call.b))
    if loop != BFLOAT16 and not call.accumulates and (is_exact or real_of(loop).itemsize > 8):
        assert np.all(_same(c, numpys_c)), "other values than NumPy's"
        return
    if differs("values", call, loop):
        return
    given, (c, numpys_c) = _as_matrices(call, loop, c.astype(loop) if c.dtype == object else c, numpys_c)
    if loop.kind in "biu":
        assert np.array_equal(c, (np.matmul(given.a, given.b) + given.first).astype(c.dtype)), "not out + a @ b"
        return
    right = acceptable(given, c, loop, _error_of(call, given), is_exact, differs("subnormal numbers", call, loop))
    if not call.accumulates:
        numpys_c = numpys_c.astype(c.dtype)  # which may be objects
        right |= _same(c, numpys_c)
        if differs("NaN beside an overflow", call, loop):
            right |= ~np.isfinite(c) & ~np.isfinite(numpys_c)
    assert right.all(), f"{int((~right).sum())} of {right.size} values are beyond the bound"


def _error_of(call: Call, given: Reading) -> ErrorBound:
    """What an emulated product may be off by, which `docs/promises.md` leaves to its scheme; all others are sums."""
    backend = _registry.get(call.backend)
    if backend.kind != "emulated" or not given.a.size or not given.b.size:
        return GAMMA
    return backend.error(Problem.from_call(given.a, given.b), **call.params)


def _as_matrices(call: Call, loop: np.dtype[Any], *results: Any) -> tuple[Reading, list[Any]]:
    """The operands and the first addend in the dtype of the loop, and results, all as (stacks of) matrices."""
    given = made(call, for_numpy=True)
    a, b = (_core_last(call, side, np.asarray(x)) for side, x in enumerate((given.a, given.b)))
    first = given.views["out"] if call.accumulates else np.zeros_like(results[0])
    results = tuple(_core_last(call, 2, x) for x in (first, *results))
    if b.ndim == 1:
        b, results = b[:, None], tuple(x[..., None] for x in results)
    if a.ndim == 1:
        a, results = a[None, :], tuple(x[..., None, :] for x in results)
    return Reading(a.astype(loop), b.astype(loop), results[0].astype(loop)), list(results[1:])


def _same(x: Any, y: Any) -> Any:
    return (x == y) | ((x != x) & (y != y))


def _core_last(call: Call, side: int, x: Any) -> Any:
    """a, b or the result (side 0, 1, 2) with its core axes last."""
    axes = call.options.get("axes")
    if axes is None:
        return x
    core = axes[side] if isinstance(axes[side], tuple) else (axes[side],)
    return np.moveaxis(x, core, range(-len(core), 0))


def _raw(x: Any) -> Any:
    """The same memory as bytes without a meaning, so that copies keep all of them."""
    return x if x.dtype == object else x.view(f"V{x.itemsize}")


def _check_bits(call: Call, result: Any) -> None:
    """The same bits on any number of threads; of cpu-packed, also for some rows of A. They are promised of `auto` only
    where it takes cpu-packed, which is then asked for by name: fewer rows may be of another class of shape."""
    if call.backend not in ("auto", "cpu-packed", *CPU_LADDER):
        return
    if any(array.kind not in ("ndarray", "memmap") for array in (call.a, call.b)):
        return
    given = made(call)
    options = {**call.options, **call.params}
    options.pop("params", None)
    if call.backend == "auto":
        with gemmlab.trace() as calls:
            gemmlab.matmul(given.a, given.b, **options)
        if calls[-1].backend != "cpu-packed":
            return
        options["backend"] = "cpu-packed"
    threads = 1 + call.seed % 3
    again = gemmlab.matmul(given.a, given.b, **(options | {"threads": threads}))
    assert same_bits(again, result), f"other bits on {threads} threads"
    if call.backend in ("auto", "cpu-packed") and given.a.ndim >= 2 and "axes" not in call.options:
        rows = slice(call.seed % 7, call.seed % 7 + 1 + call.seed % 5)
        part = gemmlab.matmul(given.a[..., rows, :], given.b, **options)
        of_result = result[..., rows] if given.b.ndim == 1 else result[..., rows, :]
        assert same_bits(part, of_result), f"other bits for the rows {rows}"


def same_bits(x: Any, y: Any) -> bool:
    """Whether all bits are equal, but for those of NaN, which `docs/promises.md` leaves open."""
    x, y = (np.asarray(each) for each in (x, y))
    numbers = [np.ascontiguousarray(each).reshape(-1).view(real_of(each.dtype)) for each in (x, y)]
    bits = [np.where(each != each, 0, each).astype(each.dtype).tobytes() for each in numbers]
    return bool(x.shape == y.shape and x.dtype == y.dtype and bits[0] == bits[1])
