"""gemmlab.matmul means what numpy.matmul means: values, shapes, dtypes, types, errors and their words.

Every test compares with NumPy itself; `test_fuzz.py` does so for random calls. A backend asked for by name may refuse
what is not float32 or float64, and subclasses of ndarray; `auto` refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemmlab
from gemmlab.verify import error_over_bound

RUNGS = [name for name, info in gemmlab.backends().items() if info.available and info.kind == "rung"]
NAMED = ["cpu-numpy", *RUNGS]
BACKENDS = ["auto", *NAMED]
NUMBER_TYPES = "?bhilqBHILQefdgFDGO"
COMPUTED = ("float32", "float64")


def outcome(multiply: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, ...]:
    """What a call does, in a form that compares: its error and words, or its type, dtype and values."""
    try:
        result = multiply(*args, **options)
    except gemmlab.UnsupportedProblem:
        raise
    except Exception as error:
        return type(error), str(error)
    return type(result), result.shape, result.dtype, result.tolist()


def same_as_numpy(backend: str, *args: Any, **options: Any) -> None:
    """Compare outcomes; a named backend may refuse a product that NumPy does in another dtype."""
    out = options.get("out")
    theirs = outcome(np.matmul, *args, **(options if out is None else {**options, "out": out.copy("K")}))
    try:
        ours = outcome(gemmlab.matmul, *args, backend=backend, **options)
    except gemmlab.UnsupportedProblem:
        assert backend in NAMED
        assert not issubclass(theirs[0], Exception)
        dtypes = [np.result_type(x) for x in args] + ([] if out is None else [out.dtype])
        assert {np.result_type(*dtypes).name, *(d.name for d in dtypes)} - set(COMPUTED), "refused float32 or float64"
        return
    assert ours == theirs


# Shapes

SHAPES = [
    (), (1,), (2,), (0,), (1, 1), (1, 2), (2, 1), (3, 4), (4, 3), (2, 0), (0, 2),
    (2, 1, 1), (3, 1, 2), (3, 2, 1), (1, 2, 2), (2, 2, 3, 4),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_pair_of_shapes(backend: str) -> None:
    for shape_a, shape_b in product(SHAPES, SHAPES):
        same_as_numpy(backend, np.ones(shape_a), np.ones(shape_b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_shape_of_out(backend: str) -> None:
    outs = [*SHAPES, (3, 5), (5, 3), (3,), (5,), (1, 3, 5), (2, 3, 5), (2, 1, 3, 5), (2, 5), (6, 3, 5)]
    operands = [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
    ]
    for (shape_a, shape_b), shape_out in product(operands, outs):
        same_as_numpy(backend, np.ones(shape_a), np.ones(shape_b), out=np.full(shape_out, 7.0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_vectors_give_a_scalar(backend: str, dtype: Any) -> None:
    result = gemmlab.matmul(np.ones(3, dtype), np.ones(3, dtype), backend=backend)
    assert type(result) is dtype
    assert result == 3
    out = np.empty((), dtype)
    assert gemmlab.matmul(np.ones(3, dtype), np.ones(3, dtype), out=out, backend=backend) is out
    assert out == 3


# out


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overlapping_out(backend: str, dtype: Any) -> None:
    def square(n: int) -> Any:
        return (np.arange(2.0 * n * n) % 7).astype(dtype).reshape(2 * n, n)

    views: list[Callable[[Any, int], tuple[Any, Any, Any]]] = [
        lambda x, n: (x[:n], x[n:], x[:n]),
        lambda x, n: (x[:n], x[n:], x[n:]),
        lambda x, n: (x[:n], x[:n], x[:n]),
        lambda x, n: (x[:n], x[n:], x[:n].T),
        lambda x, n: (x[:n], x[n:], x[1 : n + 1]),
        lambda x, n: (x[::2], x[1::2], x[n - 1 :: -1]),
        lambda x, n: (x[:n].T, x[:n], x[: 2 * n : 2]),
    ]
    for n, view in product((1, 2, 5, 40), views):
        a, b, out = view(square(n), n)
        expected = a.copy() @ b.copy()
        assert gemmlab.matmul(a, b, out=out, backend=backend) is out
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_out_may_be(backend: str) -> None:
    a, b = np.ones((3, 4)), np.ones((4, 5))
    c = np.empty((3, 5))
    assert gemmlab.matmul(a, b, c, backend=backend) is c
    assert gemmlab.matmul(a, b, out=(c,), backend=backend) is c
    for out in ((c, c), (), [[0.0] * 5] * 3, "c", 3.0, (None,)):
        ours = outcome(gemmlab.matmul, a, b, out=out, backend=backend)
        assert ours == outcome(np.matmul, a, b, out=out)


@pytest.mark.parametrize("backend", BACKENDS)
def test_read_only_arrays(backend: str) -> None:
    a, c = np.ones((3, 3)), np.zeros((3, 3))
    for array in (a, c):
        array.flags.writeable = False
    np.testing.assert_array_equal(gemmlab.matmul(a, a, backend=backend), a @ a)
    assert outcome(gemmlab.matmul, a, a, out=c, backend=backend) == outcome(np.matmul, a, a, out=c)
    assert not c.any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_refused_call_leaves_out_alone(backend: str) -> None:
    out = np.full((3, 3), 7, np.int32)
    for options in ({"out": out}, {"out": out.astype(float), "axes": [(0, 1)]}):
        with pytest.raises((TypeError, ValueError)):
            gemmlab.matmul(np.ones((3, 3)), np.ones((3, 3)), backend=backend, **options)
        assert (options["out"] == 7).all()


# dtypes, casting, axes


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_pair_of_types(backend: str) -> None:
    for type_a, type_b in product(NUMBER_TYPES, NUMBER_TYPES):
        same_as_numpy(backend, np.ones((2, 3), type_a), np.ones((3, 2), type_b))
        same_as_numpy(backend, np.ones(3, type_a), np.ones((3, 2), type_b))


def test_named_backends_refuse_other_types() -> None:
    for backend, dtype in product(RUNGS, (int, bool, np.float16, np.complex64, np.complex128, np.longdouble, object)):
        if backend == "cpu-packed" and dtype not in (np.longdouble, object):
            continue  # it has them all
        if backend.endswith("-tuned") and dtype is np.float16:
            continue  # with sums in float32
        a = np.ones((2, 2), dtype)
        with pytest.raises(gemmlab.UnsupportedProblem, match=backend) as refusal:
            gemmlab.matmul(a, a, backend=backend)
        assert isinstance(refusal.value, TypeError)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_types_are_computed_in_the_wider(backend: str) -> None:
    rng = np.random.default_rng(0)
    for other in (np.float32, np.int64, np.int8):
        a, b = (9 * rng.random((20, 30))).astype(other), rng.random((30, 10))
        c = gemmlab.matmul(a, b, backend=backend)
        assert c.dtype == np.float64
        assert error_over_bound(a.astype(float), b, c) <= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_dtype_casting_and_type_of_out(backend: str) -> None:
    castings = ("no", "equiv", "safe", "same_kind", "unsafe", "wild")
    types, dtypes, outs = ("ff", "dd", "fd", "if", "?d", "FD"), (None, "f", "d", "D", "l"), (None, "f", "d", "D", "i")
    for (type_a, type_b), dtype, casting, out in product(types, dtypes, castings, outs):
        a, b = np.ones((2, 3), type_a), np.ones((3, 2), type_b)
        options: dict[str, Any] = {"casting": casting, "dtype": dtype}
        if out is not None:
            options["out"] = np.zeros((2, 2), out)
        theirs = outcome(np.matmul, a, b, **options)
        try:
            assert outcome(gemmlab.matmul, a, b, backend=backend, **options) == theirs
        except gemmlab.UnsupportedProblem:
            assert backend in NAMED
            assert type_a == "F" or dtype in ("D", "l")


@pytest.mark.parametrize("backend", BACKENDS)
def test_axes(backend: str) -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(40.0).reshape(4, 5, 2)
    every = [
        (-2, -1),
        (0, 1),
        (1, 0),
        (2, 0),
        (0, -1),
        (1, 2),
        (-1, -2),
        (0, 0),
        (0, 3),
        (0,),
        0,
        (),
        (0, 1, 2),
        "01",
    ]
    for axes in product(every, every, [(-2, -1), (0, 1), (2, 0)]):
        same_as_numpy(backend, a, b, axes=list(axes))
    for odd in ([], [(0, 1)], [(0, 1), (1, 0)], ((0, 1), (1, 0), (0, 1)), [None] * 3, 5):
        same_as_numpy(backend, a[0], a[0].T, axes=odd)
    for vectors in ([0, 0, ()], [0, 0], [(0,), (0,), ()], [1, 0, ()], [-1, -1, ()]):
        same_as_numpy(backend, np.arange(3.0), np.arange(3.0), axes=vectors)
    for mixed in ([(0, 1), 0, 0], [(1, 0), 0, 0], [(1, 0), 0, -1], [(1, 0), 0, 1], [(1, 0), (0, 1), 0]):
        same_as_numpy(backend, np.arange(12.0).reshape(4, 3), np.arange(4.0), axes=mixed)
    out = np.zeros((5, 2, 3))
    same_as_numpy(backend, a, b.T[..., :], axes=[(1, 2), (2, 1), (2, 0)], out=out)


# Kinds of operands


class Doubled(np.ndarray):
    """A subclass with a say in ufuncs."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(x) for x in inputs]
        options["out"] = tuple(np.asarray(x) for x in options.get("out", ())) or None
        return 2 * getattr(ufunc, method)(*plain, **options)


class Wraps:
    """No array at all, but NumPy takes it for one."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.full((2, 2), 3.0, dtype)


class Answers:
    """Takes part in NumPy's dispatch without being an array."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return np.array([ufunc.__name__ == "matmul"])


class Declines:
    __array_ufunc__ = None


SQUARE = np.arange(4.0).reshape(2, 2)
SUBCLASSES = {
    "matrix": SQUARE.view(np.matrix),
    "masked": np.ma.masked_array(SQUARE, [[0, 1], [0, 0]]),
    "recarray": SQUARE.view(np.recarray),
    "with a say": SQUARE.view(Doubled),
}


@pytest.mark.parametrize("kind", SUBCLASSES)
def test_subclasses_behave_as_in_numpy_under_auto(kind: str) -> None:
    x = SUBCLASSES[kind]
    for args in ((x, SQUARE), (SQUARE, x), (x, x), ([[1, 2], [3, 4]], x)):
        ours, theirs = gemmlab.matmul(*args), np.matmul(*args)
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(ours, theirs)
    out = np.empty((2, 2))
    assert gemmlab.matmul(x, SQUARE, out=out) is not None
    assert type(gemmlab.matmul(SQUARE, SQUARE, out=x.copy())) is type(np.matmul(SQUARE, SQUARE, out=x.copy()))


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize("kind", SUBCLASSES)
def test_named_backends_refuse_subclasses(kind: str, backend: str) -> None:
    x = SUBCLASSES[kind]
    for args, options in (((x, SQUARE), {}), ((SQUARE, x), {}), ((SQUARE, SQUARE), {"out": x.copy()})):
        with pytest.raises(gemmlab.UnsupportedProblem, match=backend):
            gemmlab.matmul(*args, backend=backend, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_memmap(backend: str, tmp_path: Path) -> None:
    held = np.memmap(tmp_path / "matrix", np.float64, "w+", shape=(2, 2))
    held[...] = SQUARE
    same_as_numpy(backend, held, held)
    assert gemmlab.matmul(SQUARE, SQUARE, out=held, backend=backend) is held
    np.testing.assert_array_equal(held, SQUARE @ SQUARE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_numpy_takes_for_an_array(backend: str) -> None:
    rows = [[0.5, 1.0], [2.0, 3.0]]
    for args in (
        (rows, SQUARE), (SQUARE, rows), (rows, rows), (tuple(map(tuple, rows)), SQUARE), (Wraps(), SQUARE),
        (range(2), SQUARE), (memoryview(SQUARE), SQUARE), (np.float64(1), SQUARE), (2.0, 3.0), (None, SQUARE),
        ("ab", SQUARE), (rows, [[1.0, 2.0], [3.0]]), (SQUARE.astype("M8[s]"), SQUARE), ([[]], [[]]), ([], []),
    ):  # fmt: skip
        same_kind_of_result(backend, args)


def same_kind_of_result(backend: str, args: tuple[Any, Any]) -> None:
    theirs = outcome(np.matmul, *args)
    try:
        assert outcome(gemmlab.matmul, *args, backend=backend) == theirs
    except gemmlab.UnsupportedProblem:
        assert backend in NAMED
        assert np.asarray(args[0]).dtype.name not in COMPUTED


def test_others_may_answer_under_auto() -> None:
    assert gemmlab.matmul(SQUARE, Answers())[0]
    assert outcome(gemmlab.matmul, SQUARE, Declines()) == outcome(np.matmul, SQUARE, Declines())
    for other, backend in product((Answers(), Declines()), RUNGS):
        with pytest.raises(TypeError):
            gemmlab.matmul(SQUARE, other, backend=backend)


def test_arguments() -> None:
    with pytest.raises(TypeError, match="block_size"):
        gemmlab.matmul(SQUARE, SQUARE, backend="cpu-naive", block_size=3)
    with pytest.raises(TypeError):
        gemmlab.matmul(SQUARE)
    with pytest.raises(TypeError):
        gemmlab.matmul(a=SQUARE, b=SQUARE)
    for threads in (0, -1, 1.5, "two", True):
        with pytest.raises(ValueError, match="threads"):
            gemmlab.matmul(SQUARE, SQUARE, threads=threads)
