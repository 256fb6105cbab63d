"""Everyday calls never take the slow way: no `Problem` is made for them, and no copy that is not needed.

How fast they are, `bench/everyday.py` says.
"""

from __future__ import annotations

import numpy as np
import pytest
from randomness import fresh_seed

import gemmlab
from gemmlab import UnsupportedProblem, _front
from gemmlab._api import vector_functions
from gemmlab._api.products import general_matmul

RNG = np.random.default_rng(fresh_seed())


def numbers(*shape, dtype="float64"):
    return RNG.integers(-9, 10, shape).astype(dtype)


@pytest.fixture
def compiled_way():
    """The general way is closed, after a first product has registered the kernel."""
    for backend in "cpu-packed", "auto":
        for dtype in "float64", "complex128", "int8":
            gemmlab.matmul(np.ones((2, 2), dtype), np.ones((2, 2), dtype), backend=backend)

    def closed(*given):
        raise AssertionError("the general way was taken")

    _front.set_general(closed)
    yield
    _front.set_general(general_matmul)


VECTORS = [
    ((10, 10), (10,)), ((10,), (10, 10)), ((10,), (10,)), ((1,), (1,)), ((7, 1), (1,)), ((1,), (1, 5)), ((3, 5), (5,)),
    ((1000, 4, 4), (1000, 4, 1)), ((1000, 1, 4), (1000, 4, 1)), ((1000, 4, 4), (4,)), ((4,), (1000, 4, 4)),
    ((5, 1, 3, 4), (7, 4, 1)), ((6, 2, 5), (6, 5, 1)), ((6, 3, 5), (1, 5, 1)), ((3, 1, 9), (3, 9, 40)),
    ((2, 300, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), VECTORS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int8"])
@pytest.mark.parametrize("strided", [False, True], ids=["", "strided"])
def test_vectors_and_stacks_of_small_products(left, right, dtype, strided, compiled_way):
    a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
    if strided:
        a, b = np.repeat(a, 2, -1)[..., ::2], np.repeat(b, 3, 0)[::-3]
    expected = np.matmul(a, b)
    for threads in (1, 2):
        found = gemmlab.matmul(a, b, backend="cpu-packed", threads=threads)
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    if expected.ndim:
        out = np.full_like(expected, 77)
        assert gemmlab.matmul(a, b, out=out, backend="cpu-packed") is out
        assert np.array_equal(out, expected)


def test_a_vector_has_the_bits_of_a_matrix_with_one_column():
    a, b = RNG.standard_normal((37, 500)), RNG.standard_normal(500)
    for dtype in "float32", "float64":
        x, y = a.astype(dtype), b.astype(dtype)
        assert gemmlab.matmul(x, y).tobytes() == gemmlab.matmul(x, y[:, None]).tobytes()
        assert gemmlab.matmul(y, x.T).tobytes() == gemmlab.matmul(y[None, :], x.T).tobytes()


MIXED = [("float32", "float64"), ("int8", "float32"), ("bool", "int16"), ("int64", "float32"), ("uint8", "complex64"),
         ("float16", "float32")]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [*MIXED, *(pair[::-1] for pair in MIXED)])
def test_dtypes_that_numpy_promotes(one, other, compiled_way):
    a, b = numbers(10, 10, dtype=one), numbers(10, 10, dtype=other)
    found, expected = gemmlab.matmul(a, b, backend="cpu-packed"), np.matmul(a, b)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_lists_and_a_dtype_that_keeps_every_value(compiled_way):
    a, b = numbers(4, 5, dtype="float32"), numbers(5, 3, dtype="float32")
    for x, y in ((a.tolist(), b), (a, b.tolist()), (a.tolist(), b.tolist())):
        assert np.array_equal(gemmlab.matmul(x, y, backend="cpu-packed"), np.matmul(x, y))
    for dtype in ("float64", np.float32, float, np.dtype("float64")):
        found = gemmlab.matmul(a, b, dtype=dtype, backend="cpu-packed")
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, np.matmul(a, b, dtype=dtype))


DTYPES = [  # of operands, and of the product: by a kernel, or by conversions that keep every value, or that do not
    ("int8", "int32"), ("uint8", "int32"), ("int16", "int32"), ("int32", "int64"), ("float16", "float32"),
    ("bfloat16", "float32"), ("int8", "float32"), ("int8", "int64"), ("float16", "float64"),
    ("bfloat16", "float64"), ("float32", "complex128"), ("bool", "float64"), ("float64", "float32"),
    ("int64", "float16"),
]  # fmt: skip


@pytest.mark.parametrize(("of_ab", "dtype"), DTYPES)
def test_a_dtype_of_the_product(of_ab, dtype, compiled_way):
    pytest.importorskip("ml_dtypes")
    for left, right in ((10, 10), (10, 10)), ((6, 3, 5), (5, 2)), ((4,), (4, 3)), ((9,), (9,)), ((40, 300), (300, 50)):
        a, b = numbers(*left, dtype=of_ab), numbers(*right, dtype=of_ab)
        expected = (a.astype(object) @ b.astype(object) if of_ab != "bool" else a.astype(int) @ b.astype(int))
        found = gemmlab.matmul(a, b, dtype=dtype)
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, np.asarray(expected).astype(float).astype(dtype))
        out = np.full_like(found, 77) if found.ndim else None
        assert out is None or np.array_equal(gemmlab.matmul(a, b, dtype=dtype, out=out), found)


def test_bfloat16_by_itself_and_beside_others(compiled_way):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(6, 5, dtype=bfloat16), numbers(5, 7, dtype=bfloat16)
    plain = gemmlab.matmul(a, b)
    assert plain.dtype == bfloat16
    assert np.array_equal(plain, gemmlab.matmul(a, b, out=np.empty((6, 7), bfloat16)))
    assert np.array_equal(plain, (a.astype("float32") @ b.astype("float32")).astype(bfloat16))
    _front.set_general(general_matmul)
    other = numbers(5, 7, dtype="float8_e4m3fn")  # of the same kind, but no kernel's
    assert np.array_equal(gemmlab.matmul(other.T, other), np.matmul(other.T, other))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "int64"])
def test_adding_to_an_out(dtype, compiled_way):
    for left, right in ((10, 10), (10, 10)), ((6, 3, 5), (5, 2)), ((4,), (4, 3)), ((30, 9), (9, 40)):
        a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
        before = numbers(*np.matmul(a, b).shape, dtype=dtype)
        out = before.copy()
        assert gemmlab.matmul(a, b, out=out, accumulate=True) is out
        assert np.array_equal(out, before + np.matmul(a, b))


OUTS = [("float32", "float64"), ("float64", "float32"), ("int8", "int32"), ("int32", "float32"),
        ("float64", "complex64"), ("float16", "float32")]  # fmt: skip


@pytest.mark.parametrize(("of_ab", "of_out"), OUTS)
def test_an_out_of_another_dtype(of_ab, of_out, compiled_way):
    for left, right in ((10, 10), (10, 10)), ((6, 3, 5), (5, 2)), ((4,), (4, 3)), ((9,), (9,)):
        a, b = numbers(*left, dtype=of_ab), numbers(*right, dtype=of_ab)
        expected = np.matmul(a, b)
        out = np.full(expected.shape, 77, of_out)
        assert gemmlab.matmul(a, b, out=out, backend="cpu-packed") is out
        assert np.array_equal(out, expected)
    own = numbers(10, 10, dtype=of_ab)
    view = own.view(of_out)[:, :10] if np.dtype(of_out).itemsize < own.itemsize else None
    if view is not None:  # memory of an operand
        expected = np.matmul(own, own)
        assert np.array_equal(gemmlab.matmul(own, own, out=view, backend="cpu-packed"), expected)


def test_an_out_that_does_not_fit_is_as_it_was():
    a, read_only = np.ones((2, 2)), np.zeros((2, 2), "float32")
    read_only.flags.writeable = False
    wrong = (np.zeros((2, 2), int), TypeError), (np.zeros((3, 2), "float32"), ValueError), (read_only, ValueError)
    for out, error in wrong:
        with pytest.raises(error):
            gemmlab.matmul(a, a, out=out)
        assert not out.any()


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        (np.ones((2, 2)), [[1, 2], [3]], {}),
        (np.ones((2, 3)), np.ones((2, 3), "float32"), {}),
        (np.ones((2, 2)), np.ones((2, 2)), {"dtype": "no dtype"}),
        (np.ones((2, 2)), np.array([["a", "b"]] * 2), {}),
        (np.ones((2, 2)), np.array(["2020-01-01"] * 2, "M8[D]"), {}),
        (np.ones((2, 2)), np.ones((2, 2)), {"dtype": "int32"}),
        (np.ones((2, 2)), np.ones((2, 2)), {"accumulate": True}),
        (np.ones(3), np.ones(4), {}),
    ],
    ids=["uneven list", "shapes", "no dtype", "text", "dates", "a cast", "nothing to add to", "vectors"],
)
def test_what_cannot_be_multiplied_raises_the_general_ways_error(a, b, options):
    with pytest.raises((TypeError, ValueError)):
        gemmlab.matmul(a, b, **options)


def test_an_out_of_any_strides_that_overlaps_nothing(compiled_way):
    a, b, stack = numbers(6, 5), numbers(5, 4), numbers(3, 6, 5)
    room = np.zeros((9, 14, 16))
    for out in room[0, ::2, ::3][:6, :4], room[0, 5::-1, 3::-1], room[0].T[:12:2, :4], room[:, :6, 4].T[:, :3]:
        x = numbers(out.shape[0], 5)
        y = numbers(5, out.shape[1])
        assert gemmlab.matmul(x, y, out=out) is out
        assert np.array_equal(out, x @ y)
    for out in room[:3, 2:8, :4], room[::-3, 1:13:2, 1:9:2], room[:6, :3, :4].transpose(1, 0, 2), room.T[:3, :6, :4]:
        assert gemmlab.matmul(stack, b, out=(out,)) is out
        assert np.array_equal(out, stack @ b)
    _front.set_general(general_matmul)
    room[...] = 0
    overlapping = np.lib.stride_tricks.as_strided(room, (6, 4), (8, 8))
    gemmlab.matmul(a, b, out=overlapping)  # any of the values, but none elsewhere
    assert not room.ravel()[9:].any()


def test_operands_that_are_not_aligned(compiled_way):
    b = numbers(5, 4)
    records = np.zeros(6, [("flag", "i1"), ("row", "f8", 5)])
    records["row"] = numbers(6, 5)
    assert not records["row"].flags.aligned
    assert np.array_equal(gemmlab.matmul(records["row"], b), records["row"] @ b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "bfloat16"])
def test_a_packed_operand(dtype, compiled_way):
    pytest.importorskip("ml_dtypes")
    b = numbers(30, 40, dtype=dtype)
    packed = gemmlab.pack(b)
    for shape in (30,), (1, 30), (7, 30), (3, 2, 30):
        a = numbers(*shape, dtype=dtype)
        expected = gemmlab.matmul(a, b)
        for x in a, np.asfortranarray(a):
            assert np.array_equal(gemmlab.matmul(x, packed), expected)
        out = np.zeros_like(expected)
        assert gemmlab.matmul(a, packed, out=out) is out
        assert np.array_equal(out, expected)
        if dtype not in ("int8", "bfloat16"):
            gemmlab.matmul(a, packed, out=out, accumulate=True)
            assert np.array_equal(out, expected + expected)
    one = numbers(30, 1, dtype=dtype)
    assert np.array_equal(gemmlab.matmul(numbers(4, 30, dtype=dtype) * 0, gemmlab.pack(one)), np.zeros((4, 1)))
    _front.set_general(general_matmul)
    for shape, other, error in ((7, 29), dtype, ValueError), ((7, 30), "complex128", UnsupportedProblem):
        with pytest.raises(error):
            gemmlab.matmul(numbers(*shape, dtype=other), packed)
    with pytest.raises(UnsupportedProblem):
        gemmlab.matmul(a, packed, backend="cpu-blocked")


EINSUMS = [
    "ij,jk->ik",
    "ij,kj->ik",
    "ji,jk->ki",
    "ij,j->i",
    "i,i->",
    "i,ij->j",
    "bij,bjk->bik",
    "bij,bkj->bik",
    "ij,jk",
    "bij,jk->bik",
    "ji,bjk->bik",
    "bij,jk->bki",
    "...ij,jk->...ik",
    "bij,kj",
    "hbij,hbkj->hbik",
]


@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum_and_tensordot_are_one_plain_product(subscripts, compiled_way, monkeypatch):
    terms = subscripts.replace("...", "hb").partition("->")[0].split(",")
    a, b = (numbers(*(3 + "hbijk".index(label) for label in term)) for term in terms)
    monkeypatch.setattr(gemmlab._api.contraction, "_computed", None)
    with gemmlab.use("cpu-packed"):
        found, expected = gemmlab.einsum(subscripts, a, b), np.einsum(subscripts, a, b)
        assert type(found) is type(expected)
        assert np.array_equal(found, expected)
        if subscripts == "ij,jk":
            assert np.array_equal(gemmlab.tensordot(a, b, 1), expected)
            assert np.array_equal(gemmlab.tensordot(a[0], b, 1), np.tensordot(a[0], b, 1))


def test_arrays_of_our_class_ask_nobody(compiled_way, monkeypatch):
    monkeypatch.setattr(gemmlab._api.array, "_has_own_ufuncs", None)
    x, y = numbers(10, 10), numbers(10, 10)
    ours = gemmlab.asarray(x)
    with gemmlab.use("cpu-packed"):
        for found, expected in ((ours @ y, x @ y), (y @ ours, y @ x), (ours @ ours, x @ x), (ours @ y[0], x @ y[0]),
                                (np.matmul(ours, y), x @ y), (ours + 1, x + 1), (y * ours, y * x)):  # fmt: skip
            assert type(found) is type(ours)
            assert np.array_equal(found, expected)
        assert type(ours[0] @ y[0]) is np.float64


# Functions that not every NumPy has, by what they mean.
MEANINGS = {
    "matvec": ("...ij,...j->...i", (3, 4), (4,)),
    "vecmat": ("...j,...jk->...k", (4,), (4, 5)),
    "vecdot": ("...j,...j->...", (4,), (4,)),
}


@pytest.mark.parametrize("name", MEANINGS)
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int16"])
@pytest.mark.parametrize(
    "stacks", [((), ()), ((5,), ()), ((), (5,)), ((2, 5), (5,)), ((2, 1), (3,)), ((0,), (1,))], ids=str
)
def test_vector_functions_mean_what_numpys_do(name, dtype, stacks):
    subscripts, left, right = MEANINGS[name]
    a, b = numbers(*stacks[0], *left, dtype=dtype), numbers(*stacks[1], *right, dtype=dtype)
    if dtype == "complex64":
        a, b = a + 1j * numbers(*a.shape).astype("float32"), b - 1j * numbers(*b.shape).astype("float32")
    expected = np.einsum(subscripts, a if name == "matvec" else a.conj(), b)
    found = getattr(gemmlab, name)(a, b)
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    if hasattr(np, name):
        assert type(getattr(np, name)(a, b)) is type(found)
    if expected.ndim:
        out = np.full_like(expected, 3)
        assert getattr(gemmlab, name)(a, b, out, backend="cpu-packed") is out
        assert np.array_equal(out, expected)
    ours = getattr(gemmlab, name)(gemmlab.asarray(a), b)
    assert np.array_equal(ours, expected)
    assert isinstance(ours, type(gemmlab.asarray(a))) == bool(expected.ndim)


@pytest.mark.parametrize(
    ("name", "a", "b", "says"),
    [
        ("matvec", np.ones(3), np.ones(3), "at least 2"),
        ("vecmat", np.ones(3), np.ones((4, 4)), "3 and 4"),
        ("vecdot", 3.0, np.ones(3), "operand 0 has 0"),
    ],
)
def test_vector_functions_say_what_does_not_fit(name, a, b, says):
    with pytest.raises(ValueError, match=says):
        getattr(gemmlab, name)(a, b)


def test_an_out_of_another_shape_and_arrays_of_others_are_refused():
    with pytest.raises(ValueError, match="1 dimensions"):
        gemmlab.matvec(np.ones((2, 3)), np.ones(3), np.empty((2, 1)))
    with pytest.raises(gemmlab.UnsupportedProblem, match="matvec"):
        gemmlab.matvec(np.ma.masked_array(np.ones((2, 3))), np.ones(3))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", ["matvec", "vecmat", "vecdot"])
def test_one_product_with_a_vector_takes_the_compiled_way(name, dtype, compiled_way, monkeypatch):
    matrix, x, y = (numbers(*shape, dtype=dtype) for shape in ((5, 5), (5,), (5,)))
    a, b = {"matvec": (matrix, x), "vecmat": (x, matrix), "vecdot": (x, y)}[name]
    expected = (a if name == "matvec" else a.conj()) @ b
    if dtype == "float64":
        monkeypatch.setattr(vector_functions, "_operands", None)  # which looks at them first
    for options in {}, {"threads": 1}, {"backend": "cpu-packed"}:
        found = getattr(gemmlab, name)(a, b, **options)
        assert type(found) is type(expected)
        assert np.array_equal(found, expected)
    out = np.full(expected.shape, 77, dtype)
    assert getattr(gemmlab, name)(a, b, out) is out
    assert np.array_equal(out, expected)
