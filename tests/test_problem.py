"""Operands, options and results that are out of the ordinary: what NumPy does, or one clear line.

Arrays of other libraries, packed and sparse operands, bfloat16, `axes` and many dimensions, new results, floating-point
errors, and sizes that no memory holds.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import output_of
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._cpu.isa import available, chosen, extras

HOST = [name for name, info in gemmlab.backends().items() if info.available and name.startswith("cpu-")]
OURS = [name for name in HOST if gemmlab.backends()[name].kind == "rung"]
WITH_DISPATCH = ["auto", "cpu-numpy"]  # they pass foreign operands to NumPy


def outcome(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[str, ...]:
    """The type of the result and its dtype, or the error with its words."""
    try:
        result = call(*args, **options)
    except Exception as error:
        return type(error).__name__, str(error)
    return type(result).__name__, str(getattr(result, "dtype", ""))


def whole(*shape: int) -> Any:
    return RNG.integers(-8, 9, shape).astype(np.float64)


# Dask (more in tests/dask) and pandas


@pytest.mark.parametrize("backend", [*WITH_DISPATCH, *OURS])
def test_dask_arrays_give_a_lazy_dask_array(backend: str) -> None:
    dask = pytest.importorskip("dask.array")
    a, b = whole(5, 7), whole(7, 3)
    of_a, of_b = dask.from_array(a, chunks=(2, 3)), dask.from_array(b, chunks=(4, 2))
    for pair in ((of_a, of_b), (a, of_b), (of_a, b)):
        result = gemmlab.matmul(*pair, backend=backend)
        assert isinstance(result, dask.Array)
        with gemmlab.trace() as calls:
            assert np.array_equal(result.compute(scheduler="synchronous"), a @ b)
        assert {call.backend for call in calls} <= {"cpu-packed", "cpu-numpy"} if backend == "auto" else {backend}
    for options in ({"dtype": "f4"}, {"casting": "no"}, {"out": np.empty((5, 3))}, {"axes": [(0, 1)] * 3}):
        ours, theirs = (outcome(function, of_a, of_b, **options) for function in (gemmlab.matmul, np.matmul))
        assert ours[0] == theirs[0] == "TypeError"


@pytest.mark.parametrize("backend", WITH_DISPATCH)
def test_pandas_objects_give_what_numpy_gives(backend: str) -> None:
    pandas = pytest.importorskip("pandas")
    a, b = whole(3, 3), whole(3, 3)
    frame = pandas.DataFrame(a, index=list("abc"), columns=list("xyz"))
    other = pandas.DataFrame(b, index=list("xyz"), columns=list("uvw"))
    row = pandas.Series(b[0], index=list("xyz"))
    kinds: dict[Any, Callable[..., None]] = {
        pandas.DataFrame: pandas.testing.assert_frame_equal,
        pandas.Series: pandas.testing.assert_series_equal,
    }
    for pair in product((frame, other, row, a), repeat=2):
        theirs = outcome(np.matmul, *pair)
        assert outcome(gemmlab.matmul, *pair, backend=backend) == theirs
        if not theirs[0].endswith("Error"):
            right = np.matmul(*pair)
            compare = kinds.get(type(right), np.testing.assert_array_equal)
            compare(gemmlab.matmul(*pair, backend=backend), right)


def test_a_backend_by_name_refuses_what_has_its_own_dispatch() -> None:
    pandas = pytest.importorskip("pandas")
    for name in OURS:
        with pytest.raises(UnsupportedProblem, match=rf"{name} takes plain arrays, not DataFrame: pass numpy.asarray"):
            gemmlab.matmul(pandas.DataFrame(np.eye(2)), np.eye(2), backend=name)


# Sparse and packed operands, and parameters of other functions


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_array"])
def test_a_sparse_operand_is_refused_in_one_line(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    x, dense = getattr(sparse, kind)(np.eye(3)), np.eye(3)
    calls: list[Callable[[], Any]] = [
        *(lambda pair=pair: gemmlab.matmul(*pair) for pair in ((x, dense), (dense, x), (x, x))),
        *(lambda name=name: gemmlab.matmul(dense, x, backend=name) for name in HOST),
        lambda: gemmlab.pack(x),
        lambda: gemmlab.explain(x, dense),
    ]
    words = rf"^{kind} is sparse.*use its own product `a @ b`, or pass x.toarray\(\)$"
    for call in calls:
        with pytest.raises(UnsupportedProblem, match=words):
            call()


class Shaped:
    """NumPy takes it for a scalar."""

    shape = (3, 3)


def test_what_numpy_takes_for_a_scalar_is_refused_in_one_line() -> None:
    with pytest.raises(UnsupportedProblem, match="NumPy cannot make an array of Shaped"):
        gemmlab.matmul(Shaped(), np.eye(3))


def test_a_packed_operand_is_the_right_one_only() -> None:
    packed, square = gemmlab.pack(np.eye(3)), np.eye(3)
    calls: list[Callable[[], Any]] = [
        lambda: gemmlab.matmul(packed, square),
        lambda: gemmlab.matmul(packed, packed),
        lambda: gemmlab.matmul(packed, square, backend="cpu-blas"),
        lambda: gemmlab.pack(packed),
        lambda: gemmlab.explain(packed, square),
        lambda: np.matmul(square, packed),
        lambda: square @ packed,
        lambda: np.asarray(packed),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"panels of a matrix.*the right operand of gemmlab\.matmul"):
            call()
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        gemmlab.matmul(square, square, out=packed)


def test_a_packed_operand_is_copied_by_reference_and_not_pickled() -> None:
    packed = gemmlab.pack(np.eye(3))
    assert copy.copy(packed) is packed  # it never changes
    assert copy.deepcopy([packed])[0] is packed
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=r"cannot be pickled.*pickle the matrix, and pack it again"):
            pickle.dumps(packed, protocol)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("subok", False, "NumPy's matmul has it"),
        ("order", "F", "NumPy's matmul has it.*out="),
        ("where", True, "NumPy's .*numpy.where"),
        ("axis", 0, "NumPy's .*axes="),
        ("signature", "dd->d", "NumPy's matmul has it.*dtype="),
        ("alpha", 2.0, "BLAS has it.*scale"),
        ("beta", 1.0, "BLAS has it"),
        ("trans_a", True, "BLAS has it.*a.T"),
    ],
)
def test_parameters_of_other_functions_are_named_as_such(name: str, value: object, words: str) -> None:
    said = f"gemmlab.matmul has no parameter '{name}'.*{words}"
    for backend, options in product(["auto", *HOST], ({}, {"casting": "no"})):
        with pytest.raises(TypeError, match=said):
            gemmlab.matmul(np.eye(2), np.eye(2), backend=backend, **options, **{name: value})
    with pytest.raises(TypeError, match=said), gemmlab.use("cpu-packed", **{name: value}):
        pass


# bfloat16


def test_bfloat16_in_the_other_byte_order_is_converted() -> None:
    native = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    a, b = (RNG.integers(-4, 5, shape).astype(native) for shape in ((3, 5), (5, 2)))
    expected = a.astype(np.int64) @ b.astype(np.int64)
    swapped = native.newbyteorder("S")
    for x, y in ((a.astype(swapped), b), (a, b.astype(swapped)), (a.astype(swapped), b.astype(swapped))):
        for backend in ("cpu-packed", "cpu-numpy"):
            result = gemmlab.matmul(x, y, backend=backend)
            assert result.dtype == native
            assert result.dtype.isnative
            np.testing.assert_array_equal(result.astype(np.int64), expected)


def test_bfloat16_is_cast_as_numpy_casts_it() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    others = [np.dtype(code) for code in "?bBhilefdgFDO"]
    castings = ("no", "equiv", "safe", "same_kind", "unsafe")
    ones = np.ones((2, 2), bfloat16)
    for casting, dtype, out in product(castings, (None, bfloat16, *others), (None, bfloat16, *others)):
        for other in (bfloat16, *others):
            if dtype is None and other == bfloat16 and (out is None or np.can_cast(bfloat16, out, casting)):
                continue  # the product is one of bfloat16, where ml_dtypes' is one of float32
            for pair in ((ones, ones.astype(other)), (ones.astype(other), ones)):
                options = {"casting": casting, "dtype": dtype}
                if out is not None:
                    options["out"] = np.zeros((2, 2), out)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                    ours = outcome(gemmlab.matmul, *pair, **options)
                    assert ours == outcome(np.matmul, *pair, **options), (*pair, options)
    with pytest.raises(TypeError, match="Cannot cast"):
        gemmlab.matmul(np.full((2, 2), 1e30, bfloat16), ones, dtype=np.float16)


# axes, and many dimensions


@pytest.mark.parametrize("backend", ["auto", *HOST])
def test_axes_where_out_has_more_leading_axes(backend: str) -> None:
    a, b = whole(2, 3), whole(3, 4)
    for shape, axes in [
        ((5, 2, 4), (1, 2)),
        ((2, 5, 4), (0, 2)),
        ((2, 4, 5), (0, 1)),
        ((4, 5, 2), (2, 0)),
        ((6, 2, 5, 4), (-3, -1)),
        ((5, 2, 4), (0, 1)),
        ((5, 2, 4), (1, 3)),
        ((5, 2, 4), (1, 1)),
    ]:
        outs = np.full(shape, np.nan), np.full(shape, np.nan)
        options = {"axes": [(0, 1), (0, 1), axes]}
        theirs = outcome(np.matmul, a, b, out=outs[0], **options)
        assert outcome(gemmlab.matmul, a, b, out=outs[1], backend=backend, **options) == theirs
        np.testing.assert_array_equal(*outs)
    for axes, shape in (([0, (0, 1), 1], (5, 4)), ([0, (0, 1), 0], (4, 5)), ([0, (0, 1), 2], (5, 4))):
        outs = np.full(shape, np.nan), np.full(shape, np.nan)
        theirs = outcome(np.matmul, a[0], b, out=outs[0], axes=axes)
        assert outcome(gemmlab.matmul, a[0], b, out=outs[1], axes=axes, backend=backend) == theirs
        np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("backend", ["auto", *HOST])
def test_an_out_of_fewer_axes_makes_vectors_of_the_operands(backend: str) -> None:
    shapes = [(3,), (1, 3), (3, 1), (2, 3), (1, 1, 3), (3, 3), (2, 1, 3), (1, 3, 2), (1, 1)]
    for of_a, of_b, of_out in product(shapes, shapes, [(), (1,), (2,), (3,), (2, 3)]):
        a, b = whole(*of_a), whole(*of_b)
        outs = np.full(of_out, np.nan), np.full(of_out, np.nan)
        theirs = outcome(np.matmul, a, b, out=outs[0])
        assert outcome(gemmlab.matmul, a, b, out=outs[1], backend=backend) == theirs
        np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("axes", [[(False, True)] * 3, [(0, 1), (0, True), (0, 1)], [(0, 1), (0, 1), (np.False_, 1)]])
def test_booleans_are_no_axes(axes: list[Any]) -> None:
    ours = outcome(gemmlab.matmul, np.eye(2), np.eye(2), axes=axes)
    assert ours == outcome(np.matmul, np.eye(2), np.eye(2), axes=axes)
    assert ours[0] == "TypeError"


@pytest.mark.parametrize("backend", ["auto", *HOST])
def test_as_many_dimensions_as_numpy_has(backend: str) -> None:
    for ndim in (33, 35, 50, 64):
        wide = whole(*(1,) * (ndim - 4), 2, 1, 3, 5)
        for other in (whole(5, 4), whole(3, 5, 4), whole(*(1,) * (ndim - 5), 2, 1, 3, 5, 4), whole(5)):
            right = np.matmul(wide, other)
            for _ in range(2):  # the general path, and the fast one
                result = gemmlab.matmul(wide, other, backend=backend)
                assert result.shape == right.shape
                assert np.array_equal(result, right)
            out = np.full(right.shape, np.nan)
            assert gemmlab.matmul(wide, other, out=out, backend=backend, casting="no") is out
            assert np.array_equal(out, right)
        moved = {"axes": [(1, -1), (0, 1), (0, -3)]}
        assert np.array_equal(
            gemmlab.matmul(wide, whole(5, 4) * 0 + 1, backend=backend, **moved),
            np.matmul(wide, np.ones((5, 4)), **moved),
        )


# New results


@pytest.mark.parametrize("backend", ["auto", *HOST])
def test_new_results_own_their_data_and_have_numpys_layout(backend: str) -> None:
    batch, square, vector = whole(6, 2, 3), whole(3, 3), whole(3)
    cases: list[tuple[Any, Any, Any]] = [
        (batch, vector, None),
        (vector, square, None),
        (square, vector, None),
        (vector, whole(6, 3, 4), None),
        (vector, whole(6, 3, 4), [0, (1, 2), 0]),
        (square, square, [(0, 1), (0, 1), (1, 0)]),
        *(
            (batch, square, [(1, 2), (0, 1), axes])
            for axes in product(range(-3, 3), repeat=2)
            if len({*np.mod(axes, 3)}) == 2
        ),
        (whole(4, 5, 2, 3), square, [(2, 3), (1, 0), (3, 1)]),
        (np.zeros((3, 0)), np.zeros((0, 2)), [(0, 1), (0, 1), (1, 0)]),
        (np.zeros((3, 5)), np.zeros((5, 0)), [(0, 1), (0, 1), (1, 0)]),
        (batch.astype(np.float32), vector, None),
    ]
    for a, b, axes in cases:
        options = {} if axes is None else {"axes": axes}
        result, right = gemmlab.matmul(a, b, backend=backend, **options), np.matmul(a, b, **options)
        assert np.array_equal(result, right)
        assert result.flags.owndata
        assert result.strides == right.strides
    grows = gemmlab.matmul(square, vector, backend=backend)
    grows.resize(5, refcheck=False)
    assert not grows[3:].any()


@pytest.mark.parametrize("backend", OURS)
def test_a_result_in_its_own_place_needs_no_copy(backend: str) -> None:
    with gemmlab.trace() as calls:
        gemmlab.matmul(whole(6, 2, 3), whole(3), backend=backend)
        gemmlab.matmul(whole(3), whole(3, 4), backend=backend)
        gemmlab.matmul(whole(6, 2, 3), whole(3, 4), axes=[(1, 2), (0, 1), (2, 0)], backend=backend)
    assert [call.copies for call in calls] == [0, 0, 0]


# Floating-point errors

SIZES = [(1, 1, 1), (3, 5, 7), (1, 9, 40), (33, 1, 65), (37, 41, 19), (70, 90, 300), (5, 3, 5000)]


def extremes(dtype: Any) -> dict[str, tuple[Any, Any]]:
    ends = np.finfo(dtype if np.dtype(dtype).kind == "f" else np.zeros(0, dtype).real.dtype)
    return {
        "ordinary": (1, 1),
        "overflow": (ends.max, ends.max),
        "invalid": (np.inf, 0),
        "underflow": (ends.tiny, ends.tiny),
        "subnormal": (ends.smallest_subnormal, 1),
        "nan": (np.nan, 1),
    }


def raises_nothing_after() -> None:
    """Operations of NumPy that would report what another has left in the processor's flags."""
    x = np.ones(9)
    for value in (
        x + x,
        x.astype(np.float32),
        np.float64(3) / np.float64(4),
        x @ x,
        np.linalg.inv(np.eye(2)),
        np.sqrt(x),
    ):
        assert np.isfinite(value).all()


@pytest.mark.parametrize("backend", ["auto", *(name for name in HOST if name != "cpu-numpy")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_no_floating_point_error_and_none_for_the_next_operation(dtype: Any, backend: str) -> None:
    if np.dtype(dtype).name not in ("float32", "float64") and backend not in ("auto", "cpu-packed"):
        return
    with np.errstate(all="raise"):
        for (m, n, k), (of_a, of_b) in product(SIZES, extremes(dtype).values()):
            a, b = np.full((m, k), of_a, dtype), np.full((k, n), of_b, dtype)
            for options in ({}, {"threads": 2}):
                gemmlab.matmul(a, b, backend=backend, **options)
                raises_nothing_after()


def test_conversions_are_silent_but_for_cpu_numpy() -> None:
    big, tiny, eye = np.full((3, 3), 1e300), np.full((3, 3), 1e-300), np.eye(3)
    whole_out = {"out": np.zeros((3, 3), int), "casting": "unsafe"}
    calls: list[tuple[Any, Any, dict[str, Any], tuple[str, ...]]] = [
        (big, eye, {"dtype": np.float32}, tuple(HOST)),
        (big, eye[0].astype(np.float32), {"dtype": np.float32}, tuple(HOST)),
        (big, eye, {"out": np.zeros((3, 3), np.float32)}, tuple(HOST)),
        (tiny, eye, {"out": np.zeros((3, 3), np.float32)}, tuple(HOST)),
        (np.full((3, 3), np.inf), eye, whole_out, tuple(HOST)),
        (big, eye, {"dtype": np.float16}, ("cpu-packed",)),
        (np.full((3, 3), np.nan), eye, {"dtype": int, "casting": "unsafe"}, ("cpu-packed",)),
    ]
    with np.errstate(all="raise"):
        for a, b, options, names in calls:
            for multiply in (np.matmul, lambda *a, **options: gemmlab.matmul(*a, backend="cpu-numpy", **options)):
                with pytest.raises(FloatingPointError):
                    multiply(a, b, **options)
            for name in ("auto", *names):
                if name != "cpu-numpy":
                    gemmlab.matmul(a, b, backend=name, **options)
                    raises_nothing_after()


# Sizes that no memory holds

HUGE = """
import numpy as np, gemmlab

def refused(call, *errors):
    try:
        call()
    except errors as error:
        assert str(error), "says nothing"
    else:
        raise AssertionError("not refused")

one, wide = np.broadcast_to, ("int8", "float16", "float32", "float64", "complex128")
for dtype in wide:
    most = (2**63 - 1) // np.dtype(dtype).itemsize
    for k in (1, 2, 3, 2**20 + 1, 2**40, 2**59 // np.dtype(dtype).itemsize, most):
        n = most // k
        refused(lambda: gemmlab.pack(one(np.ones((), dtype), (k, n))), MemoryError)
        refused(lambda: gemmlab.pack(one(np.ones((), dtype), (n, k))), MemoryError)
refused(lambda: gemmlab.pack(one(np.int8(1), (2**40, 2**22))), MemoryError)
assert gemmlab.pack(one(np.int8(1), (2**61, 0))).nbytes == 0
for dtype in wide:
    zero = np.zeros((), dtype)
    for m, n in ((1, 1), (1, 3), (20, 20), (3, 1)):
        k = (2**63 - 1) // (max(m, n) * zero.itemsize)
        a, b = one(zero, (m, k)), one(zero, (k, n))
        refused(lambda: gemmlab.matmul(a, b), MemoryError)
        refused(lambda: gemmlab.matmul(a, b, backend="cpu-packed", threads=2), MemoryError)
        refused(lambda: gemmlab.matmul(a, b, dtype="complex128"), MemoryError, ValueError)
        if dtype in ("float32", "float64"):
            for name in NAMES:
                refused(lambda: gemmlab.matmul(a, b, backend=name), MemoryError, gemmlab.UnsupportedProblem)
a = np.ones((3, 3))
assert (gemmlab.matmul(a, gemmlab.pack(a)) == 3).all()
"""


@pytest.mark.parametrize("isa", dict.fromkeys(["+".join((chosen(), *extras())), *available()]))
def test_panels_of_more_bytes_than_can_be_counted_are_a_memory_error(isa: str) -> None:
    names = [name for name in HOST if name not in ("cpu-packed", "cpu-numpy")]
    output_of(HUGE.replace("NAMES", repr(names)), GEMMLAB_ISA=isa)


def test_results_of_more_bytes_than_can_be_counted_are_numpys_error() -> None:
    for rows, options in product((2**25, 2**35), ({}, {"casting": "no"}, {"axes": [(0, 1), (0, 1), (1, 0)]})):
        a, b = np.broadcast_to(1.0, (rows, 1)), np.broadcast_to(1.0, (1, rows))
        assert outcome(gemmlab.matmul, a, b, **options)[0] == outcome(np.matmul, a, b, **options)[0]


@pytest.mark.parametrize("shapes", [
    ((0, 2), (2, 3)), ((2, 2), (2, 0)), ((0, 1, 1), (1, 7)), ((3, 0), (0, 3)), ((0, 2), (2,)), ((0, 2, 3), (0, 3, 4)),
])  # fmt: skip
@pytest.mark.parametrize("backend", ["auto", "cpu-packed"])
def test_numbers_that_do_not_fit_are_an_error_in_an_empty_product_too(shapes, backend):
    """As in NumPy, which converts operands that it does not multiply."""
    a, b = (np.full(shape, -2, object) for shape in shapes)

    def kind_of(multiply, **options):
        try:
            return multiply(a, b, dtype="uint8", casting="unsafe", **options).shape
        except OverflowError as error:
            return type(error)

    assert kind_of(gemmlab.matmul, backend=backend) == kind_of(np.matmul)
