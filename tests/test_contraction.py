"""einsum and tensordot mean what NumPy's mean, and become the product that their axes imply."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import output_of
from numpys import numbers, outcome
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._api import einsum_product

DTYPES = ["?", "i1", "u2", "i8", "f2", "f4", ">f4", "f8", "g", "F", "D"]
CPU = [name for name, info in gemmlab.backends().items() if info.available and name.startswith("cpu")]
ON_DEVICES = [name for name, info in gemmlab.backends().items() if info.available and not name.startswith("cpu")]


def rearranged(x):
    """The same array with its axes in another order in memory, or with steps."""
    order = RNG.permutation(x.ndim)
    there = np.transpose(x, order).copy().transpose(np.argsort(order))
    if x.ndim and RNG.random() < 0.3:
        wide = np.repeat(there, 2, axis=-1)
        return wide[..., ::2]
    return there


def assert_same(ours, theirs):
    assert type(ours) is type(theirs)
    if not isinstance(theirs, type):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(ours, theirs)


def random_term(sizes):
    """Subscripts of one operand, and its shape; letters may repeat, sizes may be 1."""
    letters = RNG.choice(list(sizes), RNG.integers(0, 4)).tolist()
    shape = [1 if RNG.random() < 0.1 else sizes[letter] for letter in letters]
    if RNG.random() < 0.3:
        place, leading = RNG.integers(0, len(letters) + 1), RNG.choice([1, 2], RNG.integers(0, 3)).tolist()
        letters.insert(place, "...")
        shape[place:place] = leading
    return "".join(letters), shape


def random_einsum():
    sizes = {letter: int(RNG.integers(0 if RNG.random() < 0.1 else 1, 5)) for letter in "ijKlm"}
    terms, shapes = zip(*(random_term(sizes) for _ in range(2)), strict=True)
    subscripts = ",".join(terms)
    if RNG.random() < 0.6:
        used = [letter for letter in sizes if letter in subscripts]
        output = RNG.permutation(used)[: RNG.integers(0, len(used) + 1)].tolist() if used else []
        if "..." in subscripts and RNG.random() < 0.95:
            output.insert(RNG.integers(0, len(output) + 1), "...")
        subscripts += "->" + "".join(output)
    return subscripts, [rearranged(numbers(shape, RNG.choice(DTYPES))) for shape in shapes]


def test_any_einsum_of_two_operands():
    for _ in range(600):
        subscripts, operands = random_einsum()
        theirs = outcome(np.einsum, subscripts, *operands)
        assert_same(outcome(gemmlab.einsum, subscripts, *operands), theirs)


SUBSCRIPTS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "ij,jk->ki": ((3, 4), (4, 5)),
    "bqhd,bkhd->bhqk": ((2, 3, 4, 5), (2, 6, 4, 5)),
    "bhqk,bkhd->bqhd": ((2, 4, 3, 6), (2, 6, 4, 5)),
    "bsd,dhe->bshe": ((2, 3, 8), (8, 4, 2)),
    "bshe,hed->bsd": ((2, 3, 4, 2), (4, 2, 8)),
    "iaj,akl->ikjl": ((2, 3, 4), (3, 5, 6)),
    "...ij,...jk": ((2, 1, 3, 4), (5, 4, 6)),
    "ii,ij->j": ((3, 3), (3, 4)),
    "xij,jk->ik": ((2, 3, 4), (4, 5)),
    "i,i": ((7,), (7,)),
}


@pytest.mark.parametrize("backend", [*CPU, *ON_DEVICES[:2]])
def test_a_named_backend_computes_every_product(backend):
    for subscripts, shapes in SUBSCRIPTS.items():
        a, b = (numbers(shape, "f4") for shape in shapes)
        expected = np.einsum(subscripts, a, b)
        with gemmlab.trace() as calls:
            np.testing.assert_array_equal(gemmlab.einsum(subscripts, a, b, backend=backend), expected)
        assert [call.backend for call in calls] == [backend]
    with gemmlab.trace() as calls:
        gemmlab.tensordot(a, b, 1, backend=backend, threads=1)
    assert [(call.backend, call.threads, call.m, call.n, call.k) for call in calls] == [(backend, 1, 1, 1, 7)]


@pytest.mark.parametrize(
    ("subscripts", "sizes"),
    [
        ("ij,jk->ik", (3, 5, 4, 1)),
        ("bqhd,bkhd->bhqk", (3, 6, 5, 8)),
        ("bsd,dhe->bshe", (6, 8, 8, 1)),
        ("bshe,hed->bsd", (6, 8, 8, 1)),
        ("i,i", (1, 1, 7, 1)),
    ],
)
def test_the_trace_has_the_product_that_an_einsum_becomes(subscripts, sizes):
    a, b = (numbers(shape, "f4") for shape in SUBSCRIPTS[subscripts])
    with gemmlab.trace() as calls:
        gemmlab.einsum(subscripts, a, b)
    assert [(call.m, call.n, call.k, call.batch, call.dtype) for call in calls] == [(*sizes, np.float32)]


@pytest.mark.parametrize(
    "subscripts", ["ij,jk->ki", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "bsd,dhe->bshe", "bshe,hed->bsd"]
)
def test_operands_whose_axes_merge_are_not_copied(subscripts):
    operands = [numbers(shape) for shape in SUBSCRIPTS[subscripts]]
    product = einsum_product((subscripts, *operands))
    assert np.shares_memory(product.a, operands[0])
    assert np.shares_memory(product.b, operands[1])


def test_the_form_of_einsum_with_lists():
    a, b = numbers((3, 4)), numbers((4, 5))
    for lists in (
        ([0, 1], [1, 2]),
        ([51, 0], [0, 30], [30, 51]),
        ([..., 1], [1, ...], [...]),
        ([0, 60], [60, 1]),
        ([0, -1], [-1, 1]),
    ):
        arguments = (a, lists[0], b, *lists[1:])
        assert_same(outcome(gemmlab.einsum, *arguments), outcome(np.einsum, *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("ij,jk",), ("ij,jk->ik", np.ones((2, 3))), ("ij,jk->ii", np.ones((2, 2)), np.ones((2, 2))),
        ("ij,jk->x", np.ones((2, 2)), np.ones((2, 2))), ("ij,jk", np.ones((2, 3)), np.ones((2, 3))),
        ("i,jk", np.ones((2, 3)), np.ones((2, 3))), ("i$,jk", np.ones((2, 3)), np.ones((3, 3))),
        ("ij,jk", [[1.0]], "text"),
    ],
)  # fmt: skip
def test_errors_are_of_numpys_types_whatever_the_backend(arguments):
    theirs = outcome(np.einsum, *arguments)
    assert isinstance(theirs, type)
    assert issubclass(outcome(gemmlab.einsum, *arguments), theirs)
    with pytest.raises((theirs, UnsupportedProblem)):
        gemmlab.einsum(*arguments, backend="cpu-naive")


def test_einsum_into_out():
    for subscripts, shapes in SUBSCRIPTS.items():
        for dtypes in (
            ("f4", "f4", "f4"),
            ("f4", "f4", "f8"),
            ("i1", "i1", "i8"),
            ("f8", "f4", "f4"),
            ("f4", "i8", "c16"),
        ):
            a, b = (numbers(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=False))
            expected = np.einsum(subscripts, a, b)
            ours, theirs = (rearranged(np.full(expected.shape, 99, dtypes[2])) for _ in range(2))
            result = outcome(gemmlab.einsum, subscripts, a, b, out=ours)
            if isinstance(want := outcome(np.einsum, subscripts, a, b, out=theirs), type):
                assert result is want
            else:
                assert result is ours
                np.testing.assert_array_equal(ours, theirs)
    square = numbers((4, 4))
    expected = np.einsum("ij,jk->ki", square, square)
    np.testing.assert_array_equal(gemmlab.einsum("ij,jk->ki", square, square, out=square), expected)


def test_half_precision_is_summed_in_float32():
    a, b = np.full((3000, 2), 40, "f2"), np.full((2, 3), 0.001, "f2")
    np.testing.assert_array_equal(
        gemmlab.einsum("xj,jk->k", a, b), np.einsum("xj,jk->k", a.astype("f4"), b).astype("f2")
    )


def test_what_is_no_product_goes_to_numpy_and_a_named_backend_refuses_it():
    a = numbers((3, 3))
    for subscripts, operands in (("ii->i", [a]), ("ij,ij->ij", [a, a]), ("i,j", [a[0], a[0]])):
        with gemmlab.trace() as calls:
            np.testing.assert_array_equal(gemmlab.einsum(subscripts, *operands), np.einsum(subscripts, *operands))
        assert calls == []
        assert "NumPy's einsum, because" in str(gemmlab.explain(subscripts, *operands))
        with pytest.raises(UnsupportedProblem, match="cpu-naive does not take"):
            gemmlab.einsum(subscripts, *operands, backend="cpu-naive")
        assert "cpu-naive" in str(gemmlab.explain(subscripts, *operands, backend="cpu-naive"))
    for wrong in ({"block": 3}, {"threads": 0}):
        with pytest.raises((TypeError, ValueError)):
            gemmlab.einsum("ii->i", a, **wrong)


def test_explain_has_the_product_of_an_einsum():
    a, b = (numbers(shape) for shape in SUBSCRIPTS["bqhd,bkhd->bhqk"])
    found = gemmlab.explain("bqhd,bkhd->bhqk", a, b, backend="cpu-naive")
    assert found.product == "m=3, n=6, k=5, batch=8"
    assert str(found).splitlines()[1].startswith("-> cpu-naive")
    with pytest.raises(ValueError, match="did not appear"):
        gemmlab.explain("ij,jk->x", a[0, 0], b[0, 0].T)
    with pytest.raises(TypeError):
        gemmlab.explain(a, b, a)
    with pytest.raises(TypeError, match="no parameter 'accumulate'"):
        gemmlab.explain("bqhd,bkhd->bhqk", a, b, accumulate=True)


CHAINS = {
    "ij,jk,kl->il": ((3, 4), (4, 5), (5, 2)),
    "ij,jk,kl": ((3, 4), (4, 5), (5, 1)),
    "ij,kj,kl,lm->mi": ((3, 4), (5, 4), (5, 6), (6, 2)),
    "bqd,bkd,bke->bqe": ((2, 3, 4), (2, 5, 4), (2, 5, 6)),
    "...ij,...jk,kl": ((2, 1, 3, 4), (5, 4, 6), (6, 2)),
    "i,ij,j": ((3,), (3, 4), (4,)),
    "iij,jk,kl->l": ((3, 3, 4), (4, 5), (5, 2)),
    "xij,jk,kl->il": ((2, 3, 4), (4, 5), (5, 2)),
}
WITH_OTHERS = {
    "ij,j,jk->ik": ((3, 4), (4,), (4, 5)),
    "i,j,ij->ij": ((3,), (4,), (3, 4)),
    "ij,i,j->ij": ((3, 4), (3,), (4,)),
}


@pytest.mark.parametrize("optimize", [None, "greedy", "optimal", ("greedy", 20), ["einsum_path", (0, 1, 2)], False])
def test_chains_take_numpys_path(optimize):
    given = {} if optimize is None else {"optimize": optimize}
    for subscripts, shapes in (CHAINS | WITH_OTHERS).items():
        if isinstance(optimize, list) and len(shapes) != 3:
            continue
        operands = [rearranged(numbers(shape, RNG.choice(["f8", "f4", "i8"]))) for shape in shapes]
        expected = np.einsum(subscripts, *operands)
        assert_same(gemmlab.einsum(subscripts, *operands, **given), expected)
        out = np.full(expected.shape, 99, expected.dtype)
        assert gemmlab.einsum(subscripts, *operands, out=out, **given) is out
        np.testing.assert_array_equal(out, expected)


def test_a_named_backend_computes_every_step_of_a_chain_or_refuses():
    for subscripts, shapes in CHAINS.items():
        operands = [numbers(shape) for shape in shapes]
        with gemmlab.trace() as calls:
            found = gemmlab.einsum(subscripts, *operands, backend="cpu-blocked")
        np.testing.assert_array_equal(found, np.einsum(subscripts, *operands))
        assert [call.backend for call in calls] == ["cpu-blocked"] * (len(operands) - 1)
        assert "2. cpu-packed" in str(gemmlab.explain(subscripts, *operands, backend="cpu-packed"))
    for subscripts, shapes in WITH_OTHERS.items():
        operands = [numbers(shape) for shape in shapes]
        with gemmlab.trace() as calls, pytest.raises(UnsupportedProblem, match="is no product"):
            gemmlab.einsum(subscripts, *operands, backend="cpu-blocked")
        assert calls == []
        assert "NumPy's einsum" in str(gemmlab.explain(subscripts, *operands))


def test_a_chain_of_our_arrays_follows_optimize():
    a = gemmlab.asarray(numbers((4, 4)))
    with gemmlab.trace() as calls:
        found = np.einsum("ij,jk,kl", a, a, a, optimize=True)
    assert type(found) is type(a)
    assert len(calls) == 2
    np.testing.assert_array_equal(np.asarray(found), np.asarray(a) @ np.asarray(a) @ np.asarray(a))


def test_options_of_einsum():
    a, b = numbers((3, 4), "f8"), numbers((4, 5), "f4")
    for options in (
        {"dtype": "c16"},
        {"dtype": "f4"},
        {"dtype": "f4", "casting": "same_kind"},
        {"dtype": np.int64, "casting": "unsafe"},
        {"order": "F"},
        {"order": "C"},
        {"order": "A"},
        {"order": "wrong"},
        {"casting": "wrong", "dtype": "f4"},
        {"optimize": "wrong"},
        {"optimize": False},
    ):
        for subscripts, operands in (("ij,jk->ki", [a, b]), ("ij,jk,lk->il", [a, b, b]), (b"ij,jk", [a, b])):
            ours = outcome(gemmlab.einsum, subscripts, *operands, **options)
            theirs = outcome(np.einsum, subscripts, *operands, **options)
            if options == {"optimize": "wrong"} and len(operands) == 2:
                continue  # there is nothing to optimize
            if isinstance(theirs, type):
                assert isinstance(ours, type)
                assert issubclass(ours, theirs)
            else:
                assert_same(ours, theirs)
                assert order_of(ours) >= order_of(theirs) if "order" in options else True
    for empty in ((), (2,)):
        assert_same(outcome(gemmlab.einsum, "", np.ones(empty)), outcome(np.einsum, "", np.ones(empty)))


def order_of(x):
    return {name for name in ("C", "F") if x.flags[f"{name}_CONTIGUOUS"]}


@pytest.mark.parametrize("name", ["accumulate", "axes", "casting", "dtype", "optimize", "order", "out"])
def test_options_of_matmul_and_of_numpys_functions_are_refused(name):
    a, b, out = numbers((2, 3)), numbers((3, 2)), np.zeros((2, 2))
    for backend in (None, "cpu-ikj"):
        if name in ("accumulate", "axes"):
            for arguments in (("ij,jk->ik", a, b), ("ij,jk,kl->il", a, b, a)):
                with pytest.raises(TypeError, match=f"gemmlab.einsum has no parameter '{name}'"):
                    gemmlab.einsum(*arguments, backend=backend, **{name: out})
        if name != "axes":
            with pytest.raises(TypeError, match=f"gemmlab.tensordot has no parameter '{name}'"):
                gemmlab.tensordot(a, b, 1, backend=backend, **{name: out})
    assert not out.any()


@pytest.mark.parametrize("backend", [None, "cpu-ikj"])
def test_sparse_operands_are_refused(backend):
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(3))
    with pytest.raises(UnsupportedProblem, match=r"pass x\.toarray\(\)"):
        gemmlab.einsum("ij,jk->ik", sparse, np.eye(3), backend=backend)
    with pytest.raises(UnsupportedProblem, match=r"pass x\.toarray\(\)"):
        gemmlab.tensordot(np.eye(3), sparse, 1, backend=backend)


def test_objects_go_to_numpy_under_auto():
    a = numbers((3, 3)).astype(object)
    np.testing.assert_array_equal(gemmlab.einsum("ij,kj", a, a), a @ a.T)
    np.testing.assert_array_equal(gemmlab.tensordot(a, a, 1), a @ a)
    for function in (lambda **how: gemmlab.einsum("ij,kj", a, a, **how), lambda **how: gemmlab.tensordot(a, a, **how)):
        with pytest.raises(UnsupportedProblem, match="cpu-packed"):
            function(backend="cpu-packed")


def random_tensordot():
    pairs = RNG.integers(0, 3)
    shape_a, shape_b = (
        RNG.integers(0 if RNG.random() < 0.1 else 1, 5, RNG.integers(pairs, 4)).tolist() for _ in range(2)
    )
    axes_a, axes_b = (RNG.permutation(len(shape))[:pairs] for shape in (shape_a, shape_b))
    for i, j in zip(axes_a, axes_b, strict=True):
        shape_b[j] = shape_a[i]
    a, b = (rearranged(numbers(shape, RNG.choice(DTYPES))) for shape in (shape_a, shape_b))
    if pairs and RNG.random() < 0.3:
        axes_a = axes_a - a.ndim
    return a, b, (axes_a.tolist(), axes_b.tolist())


def test_any_tensordot():
    for _ in range(300):
        a, b, axes = random_tensordot()
        assert_same(gemmlab.tensordot(a, b, axes), np.tensordot(a, b, axes))
        count = int(RNG.integers(-1, 4))
        assert_same(outcome(gemmlab.tensordot, a, b, count), outcome(np.tensordot, a, b, count))


@pytest.mark.parametrize(
    "axes", [5, 1.5, "ab", (0,), (0, 1, 2), ([0, 1], [0]), ([0, 0], [1, 1]), (3, 0), (0, 1), ([], []), (-1, 0)]
)
def test_axes_of_tensordot(axes):
    a, b = numbers((3, 4)), numbers((4, 3))
    theirs = outcome(np.tensordot, a, b, axes)
    assert_same(outcome(gemmlab.tensordot, a, b, axes), theirs)
    assert_same(outcome(gemmlab.tensordot, a, b, axes, backend="cpu-ikj"), theirs)


def test_no_contraction_loads_anything_heavy():
    program = (
        "import sys, gemmlab, numpy as np; a = np.eye(3)\ngemmlab.einsum('ij,jk', a, a); np.dot(gemmlab.asarray(a), a)"
    )
    loaded = output_of(program + "\nprint(*{name.partition('.')[0] for name in sys.modules})").split()
    assert not {"scipy", "pyopencl", "threadpoolctl"} & set(loaded)
