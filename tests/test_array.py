"""gemmlab.asarray: NumPy's products go through gemmlab and mean what they mean in NumPy; the rest is NumPy's."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from helpers import output_of
from numpys import numbers, outcome
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._api import array

GemmArray = type(gemmlab.asarray(0.0))
DTYPES = ["?", "i1", "u4", "i8", "f2", "f4", ">f8", "f8", "g", "F", "D"]
UFUNCS = [getattr(np, name) for name in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, name)]
LINALG = [getattr(np.linalg, name) for name in ("matmul", "vecdot", "tensordot") if hasattr(np.linalg, name)]
FUNCTIONS = [np.dot, np.vdot, np.inner, np.tensordot, *UFUNCS, *LINALG]


def random_operand():
    shape = RNG.integers(0 if RNG.random() < 0.1 else 1, 4, RNG.integers(0, 4))
    x = numbers(shape, RNG.choice(DTYPES))
    return x.T if RNG.random() < 0.3 else x


def assert_same(ours, theirs):
    """The same result, of our class where NumPy's is an array."""
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert type(ours) is (GemmArray if type(theirs) is np.ndarray else type(theirs))
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def wrapped_in_some_way(a, b):
    """One of the operands as ours, or both."""
    both = gemmlab.asarray(a), gemmlab.asarray(b)
    return [(both[0], b), (a, both[1]), both][RNG.integers(3)]


@pytest.fixture
def without_numpys_products(monkeypatch):
    """Fails where a product is handed to NumPy's function."""

    def refuse(function, args, kwargs):
        raise AssertionError(f"{function.__name__} went to NumPy")

    monkeypatch.setattr(array, "by_numpy", refuse)


def test_asarray_is_a_view():
    x = numbers((3, 4))
    ours = gemmlab.asarray(x)
    assert np.shares_memory(ours, x)
    assert gemmlab.asarray(ours) is ours
    assert type(np.asarray(ours)) is np.ndarray
    assert not hasattr(ours, "__dict__")
    assert gemmlab.asarray([[1, 2]]).dtype == np.array([1]).dtype
    assert repr(gemmlab.asarray([1.5])) == "GemmArray([1.5])"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_any_operands(function):
    for _ in range(150):
        a, b = random_operand(), random_operand()
        if RNG.random() < 0.7 and a.ndim and b.ndim:
            place = b.ndim - 2 if function in (np.dot, np.matmul) and b.ndim > 1 else b.ndim - 1
            b = numbers([*b.shape[:place], a.shape[-1], *b.shape[place + 1 :]], b.dtype)
        options = {"axes": int(RNG.integers(0, 3))} if "tensordot" in function.__name__ else {}
        theirs = outcome(function, a, b, **options)
        assert_same(outcome(function, *wrapped_in_some_way(a, b), **options), theirs)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_product_goes_through_gemmlab(function, without_numpys_products):
    shapes = {"matvec": ((4, 4), 4), "vecmat": (4, (4, 4)), "vecdot": ((3, 4), 4)}.get(
        function.__name__, ((4, 4), (4, 4))
    )
    a, b = (numbers(shape, "f4") for shape in shapes)
    for operands in ((gemmlab.asarray(a), b), (a, gemmlab.asarray(b))):
        with gemmlab.use("cpu-naive"), gemmlab.trace() as calls:
            function(*operands)
        assert [call.backend for call in calls] == ["cpu-naive"]


def test_a_way_back_to_numpy_would_be_seen(without_numpys_products):
    with pytest.raises(AssertionError, match="dot went to NumPy"):
        np.dot(3.0, gemmlab.asarray([1.0]))


def test_operators_and_methods():
    a, b = numbers((3, 3)), numbers((3, 3))
    x = gemmlab.asarray(a)
    programs = {
        "a @ b": lambda x: x @ b,
        "b @ a": lambda x: b @ x,
        "list @ a": lambda x: [[1, 2, 3]] @ x,
        "a.dot(b)": lambda x: x.dot(b),
        "b.dot with out": lambda x: x.dot(b, out=np.empty((3, 3))) + x.dot(b, np.empty((3, 3))),
        "matrix_power": lambda x: np.linalg.matrix_power(x, 3),
        "multi_dot": lambda x: np.linalg.multi_dot([b, b, x]),
        "einsum": lambda x: np.einsum("ij,kj", x, b, optimize=True),
        "einsum with lists": lambda x: np.einsum(x, [0, 1], b, [1, 2]),
    }
    for name, program in programs.items():
        with gemmlab.trace() as calls:
            ours = program(x)
        theirs = program(a)
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert len(calls) == {"matrix_power": 2, "multi_dot": 2, "b.dot with out": 2}.get(name, 1), name
    assert type(b.dot(x)) is GemmArray or type(b.dot(x)) is np.ndarray  # ndarray.dot asks no class
    with pytest.raises(ValueError, match="matmul"):
        x @ 3


def test_in_place():
    a, b = numbers((3, 3)), numbers((3, 3))
    x = same = gemmlab.asarray(a.copy())
    with gemmlab.trace() as calls:
        x @= b
    assert x is same
    assert len(calls) == 1
    np.testing.assert_array_equal(x, a @ b)
    plain = here = a.copy()
    plain @= gemmlab.asarray(b)
    assert plain is here
    np.testing.assert_array_equal(plain, a @ b)
    x += 1
    x[...] = 0
    assert x is same
    vector = gemmlab.asarray(a[0].copy())
    vector @= b
    np.testing.assert_array_equal(vector, a[0] @ b)
    with pytest.raises(ValueError, match="inplace matrix multiplication"):
        x @= b[0]


@pytest.mark.parametrize("function", [np.dot, *UFUNCS, np.add, partial(np.einsum, "ij,jk->ik")])
def test_out_is_returned_as_it_was_given(function):
    a, b = {"matvec": ((3, 4), 4), "vecmat": (3, (3, 4)), "vecdot": ((3, 4), (3, 4)), "add": ((3, 4), 4)}.get(
        getattr(function, "__name__", ""), ((3, 4), (4, 5))
    )
    a, b = numbers(a), numbers(b)
    expected = function(a, b)
    for out in (np.empty_like(expected), gemmlab.asarray(np.empty_like(expected))):
        for operands in ((gemmlab.asarray(a), b), (a, gemmlab.asarray(b))):
            out[...] = 99
            assert function(*operands, out=out) is out
            np.testing.assert_array_equal(out, expected)
    out = gemmlab.asarray(np.empty_like(expected))
    assert function(a, b, out=out) is out
    np.testing.assert_array_equal(out, expected)
    for wrong in (np.empty((9, 9)), np.empty(expected.shape, "i4"), np.empty((*expected.shape, 2))[..., 0]):
        theirs = outcome(function, a, b, out=wrong)
        ours = outcome(function, gemmlab.asarray(a), b, out=wrong)
        assert ours is theirs if isinstance(theirs, type) else ours is wrong


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_arguments_of_ufuncs(ufunc):
    a, b = {"matvec": ((2, 3, 4), (2, 4)), "vecmat": ((2, 4), (2, 4, 3)), "vecdot": ((3, 4), (3, 4))}.get(
        ufunc.__name__, ((2, 3, 4), (2, 4, 3))
    )
    axes = {
        "vecdot": [[0, 0, ()], [0, 0], [(1,), (-1,), ()], [0, 1], [5, 0], 3, [0, 0, 0]],
        "matvec": [[(1, 2), 1, 1], [(1, 2), 1, 0], [(-1, -2), 1, 1], [(0, 0), 1, 1], [1, 1, 1], [("a", 0), 1, 1]],
        "vecmat": [[1, (1, 2), 1], [1, (1, 2), (0,)], [1, (0, 3), 1]],
        "matmul": [[(1, 2), (1, 2), (0, 2)], [(-2, -1)] * 3, [0, 1, 2]],
    }[ufunc.__name__]
    choices = [
        {}, *({"axes": each} for each in axes), {"axis": 0}, {"axis": 7}, {"keepdims": True}, {"dtype": "f8"},
        {"dtype": "i4"}, {"dtype": "i4", "casting": "unsafe"}, {"casting": "no"}, {"casting": "wild"}, {"order": "C"},
        {"subok": False}, {"where": True}, {"nonsense": 1}, {"signature": "dd->d"},
    ]  # fmt: skip
    for options in choices:
        for dtypes in (("f4", "f4"), ("f4", "f8"), ("i1", "i1"), ("D", "D")):
            x, y = numbers(a, dtypes[0]), numbers(b, dtypes[1])
            assert_same(outcome(ufunc, *wrapped_in_some_way(x, y), **options), outcome(ufunc, x, y, **options))


def test_a_named_backend_is_not_replaced_by_numpy():
    x, objects = gemmlab.asarray(numbers((3, 3))), gemmlab.asarray(numbers((3, 3)).astype(object))
    masked = np.ma.masked_array(np.ones((3, 3)), np.eye(3))
    calls = {
        "order=": lambda: np.matmul(x, x, order="F"),
        "keepdims=": lambda: np.vecdot(x, x, keepdims=True),
        "order='A'": lambda: np.einsum("ij,jk", x, x, order="A"),
        "object": lambda: np.dot(objects, x),
        "MaskedArray": lambda: np.inner(x, masked),
        "cpu-ikj": lambda: x @ masked,
    }
    for text, call in calls.items():
        call()
        with gemmlab.use("cpu-ikj"), pytest.raises(UnsupportedProblem, match=text):
            call()
    with gemmlab.use("cpu-ikj"):  # no products
        assert_same(np.einsum("ij,ij->ij", x, x), np.asarray(x) ** 2)
        assert_same(np.dot(3.0, x), 3 * np.asarray(x))
        assert_same(np.where(x > 0, x, 0), np.where(np.asarray(x) > 0, np.asarray(x), 0))


def test_cpu_numpy_gets_plain_arrays():
    x = gemmlab.asarray(numbers((3, 3)))
    with gemmlab.use("cpu-numpy"), gemmlab.trace() as calls:
        assert_same(x @ x, np.asarray(x) @ np.asarray(x))
    assert [call.backend for call in calls] == ["cpu-numpy"]


def test_gemmlabs_own_functions_give_the_class_back():
    a, b = numbers((3, 3)), numbers((3, 3))
    x = gemmlab.asarray(a)
    for function in (gemmlab.matmul, gemmlab.tensordot, partial(gemmlab.einsum, "ij,jk->ik")):
        options = {"axes": 1} if function is gemmlab.tensordot else {}
        assert_same(function(x, b, **options, backend="cpu-ikj"), a @ b)
        assert_same(function(a, x, **options), a @ a)
    assert type(gemmlab.matmul(x[0], b[0])) is np.float64
    for out in (np.empty((3, 3)), gemmlab.asarray(np.empty((3, 3)))):
        assert gemmlab.matmul(x, b, out=out) is out
        assert gemmlab.matmul(a, b, out=(out,)) is out
        assert gemmlab.einsum("ij,jk->ik", a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
    assert type(gemmlab.verify.error_over_bound(x, b, x @ b)) is float
    assert gemmlab.explain(x, b).rows[0][1]
    np.testing.assert_array_equal(x @ gemmlab.pack(b), a @ b)


ELEMENTWISE = [
    lambda x: x + 1, lambda x: 1 - x, lambda x: x * x, np.exp, lambda x: x > 0, lambda x: np.divmod(x, 3), np.modf,
    np.add.reduce, np.add.accumulate, lambda x: np.multiply.outer(x, x), lambda x: -x, abs,
    lambda x: x.sum(), lambda x: x.sum(axis=0), lambda x: x.mean(), lambda x: x.max(axis=1), lambda x: x.std(),
    lambda x: x.argmax(), lambda x: np.sum(x, axis=0, keepdims=True), lambda x: np.concatenate([x, np.asarray(x)]),
    lambda x: np.stack([np.asarray(x), x]), lambda x: np.where(x > 0, x, 0), np.tril, np.transpose, np.copy,
    lambda x: np.split(x, 3), lambda x: np.pad(x, 1), lambda x: np.linalg.inv(x + 9 * np.eye(3)), np.linalg.norm,
    np.histogram, lambda x: np.add(x, 1, where=x > 0, out=np.zeros((3, 3))), lambda x: x[1], lambda x: x[1, 2],
    lambda x: x[x > 0], lambda x: x.T, lambda x: x.reshape(-1), lambda x: x.astype("f4"), lambda x: x.copy(),
    lambda x: x[None], np.sort, lambda x: x.ravel(), lambda x: np.broadcast_to(x, (2, 3, 3)), np.zeros_like,
    lambda x: np.linalg.svd(x + 9 * np.eye(3)), lambda x: np.clip(x, 0, 1), lambda x: x.item(0), np.shape,
    lambda x: np.linalg.eigvalsh(x + x.T), lambda x: np.cumsum(x, 0), lambda x: np.may_share_memory(x, x),
    lambda x: float(x[0, 0]), lambda x: np.zeros(3, like=x),
]  # fmt: skip


def assert_all_the_same(ours, theirs):
    if isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_all_the_same(one, other)
    elif isinstance(theirs, np.ndarray):
        np.testing.assert_array_equal(np.asarray(ours), theirs)
        assert type(ours) is GemmArray or theirs.dtype == bool or ours.flags.owndata
    else:
        assert type(ours) is type(theirs)
        assert ours == theirs


@pytest.mark.parametrize("number", range(len(ELEMENTWISE)))
def test_everything_else_is_numpys_and_keeps_the_class(number):
    plain = numbers((3, 3))
    function = ELEMENTWISE[number]
    assert_all_the_same(function(gemmlab.asarray(plain)), function(plain))


def test_scalars_are_numpys_scalars():
    x = gemmlab.asarray(numbers(4))
    for scalar in (
        x @ x,
        np.dot(x, x),
        x.dot(x),
        np.inner(x, x),
        np.vdot(x, x),
        np.vecdot(x, x),
        np.einsum("i,i", x, x),
        x.sum(),
        x[0],
        x.max(),
    ):
        assert type(scalar) is np.float64


def test_copies_and_files(tmp_path):
    x = gemmlab.asarray(numbers((3, 4), "f4"))
    for other in (copy.copy(x), copy.deepcopy(x), x.copy(), *(pickle.loads(pickle.dumps(x, n)) for n in range(6))):
        assert type(other) is GemmArray
        assert not np.shares_memory(other, x)
        np.testing.assert_array_equal(other, x)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    x.tofile(tmp_path / "x.bin")
    for read in (
        np.load(tmp_path / "x.npy"),
        np.load(tmp_path / "x.npz")["x"],
        np.fromfile(tmp_path / "x.bin", "f4").reshape(3, 4),
    ):
        assert type(read) is np.ndarray
        np.testing.assert_array_equal(read, x)


def test_a_pickle_has_the_class_in_another_process(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps(gemmlab.asarray(np.eye(2))))
    program = (
        f"import pickle; x = pickle.load(open({str(tmp_path / 'x')!r}, 'rb')); print(type(x).__name__, (x @ x).sum())"
    )
    assert output_of(program).split() == ["GemmArray", "2.0"]


def test_a_memmap_is_taken_without_a_copy(tmp_path):
    held = np.memmap(tmp_path / "numbers", "f4", "w+", shape=(3, 3))
    held[...] = numbers((3, 3))
    x = gemmlab.asarray(held)
    assert np.shares_memory(x, held)
    assert_same(x @ held, np.asarray(held) @ np.asarray(held))
    assert np.matmul(x, x, out=held) is held


class Answers:
    """Takes part in NumPy's dispatch without being an array."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return ufunc.__name__, [type(x).__name__ for x in inputs]

    def __array_function__(self, function, types, args, kwargs):
        return function.__name__


class Declines:
    __array_ufunc__ = None

    def __rmatmul__(self, other):
        return "answered"


def test_others_have_their_say():
    x = gemmlab.asarray(numbers((3, 3)))
    for function in (np.matmul, np.add):
        assert function(x, Answers()) == (function.__name__, ["GemmArray", "Answers"])
    assert (x @ Answers())[0] == "matmul"
    assert np.dot(x, Answers()) == "dot"
    assert np.tensordot(Answers(), x) == "tensordot"
    assert x @ Declines() == "answered"
    with pytest.raises(TypeError):
        np.matmul(x, Declines())


def test_other_subclasses_behave_as_beside_an_ndarray():
    a = numbers((3, 3))
    for other in (np.ma.masked_array(a, a > 2), a.view(np.matrix), a.view(np.recarray)):
        for function in (np.matmul, np.dot, np.add, np.inner):
            for pair in ((gemmlab.asarray(a), other), (other, gemmlab.asarray(a))):
                ours, theirs = (
                    function(*pair),
                    function(*(x.view(np.ndarray) if type(x) is GemmArray else x for x in pair)),
                )
                assert type(ours) is (GemmArray if type(theirs) is np.ndarray else type(theirs))
                np.testing.assert_array_equal(ours, theirs)


def test_an_array_of_one_object_is_an_array():
    x = np.array(3, dtype=object)
    assert gemmlab.asarray(x).dtype == object
    assert_same(np.dot(gemmlab.asarray(x), [1, 2]), np.dot(x, [1, 2]))


def test_what_asarray_refuses():
    for x, text in ((np.ma.masked_array([1.0], [True]), "mask"), ({}, "dict"), (object(), "object")):
        with pytest.raises(UnsupportedProblem, match=text):
            gemmlab.asarray(x)


def test_the_method_dot_asks_no_foreign_class():
    class Foreign:  # as CuPy's arrays: its numpy.dot is the method of the first operand
        def __array__(self, dtype=None, copy=None):
            raise TypeError("not on the host")

        def __array_function__(self, function, types, args, kwargs):
            return args[0].dot(*args[1:])

    for multiply in (np.dot, lambda a, b: a.dot(b)):
        with pytest.raises(TypeError, match="not on the host"):
            multiply(gemmlab.asarray(np.eye(2)), Foreign())
