"""matmul(..., out=c, accumulate=True): what c holds is the first addend, on every path of every backend that adds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import output_of
from numpy.lib.stride_tricks import as_strided
from randomness import RNG, fresh_seed
from sweeps import swept

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._cpu import isa
from gemmlab._cpu.rungs import ladder

RUNGS = [*(rung.name for rung in ladder.RUNGS), "cpu-packed"]
DTYPES = [np.dtype(code).name for code in "fdFDe?bBhHiIqQ"]
WIDER = [("int8", "int32"), ("uint8", "int32"), ("int16", "int32"), ("uint32", "uint64"), ("float16", "float32")]
# Sizes that reach each path: tiny, in place, five loops, few rows, few columns, one column, one row, deep, and a C with
# rows so far apart that its sums are in a separate accumulator.
PATHS = [
    (3, 5, 4), (7, 66, 33), (41, 40, 39), (130, 131, 257), (5, 400, 900), (400, 3, 900), (60, 1, 5000), (1, 300, 700),
    (1, 1, 9000), (9, 13, 9000), (60, 1024, 600),
]  # fmt: skip
LAYOUTS = ["C", "F", "stepped", "reversed"]


def whole(shape, dtype):
    """Whole numbers so small that every sum of them is exact in a float of 32 bits."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.05
    most = 1 if dtype.name in ("float16", "bfloat16") else 8
    x = RNG.integers(0 if dtype.kind == "u" else -most, most + 1, shape)
    return (x + 1j * RNG.integers(-most, most + 1, shape) if dtype.kind == "c" else x).astype(dtype)


def any_number(shape, dtype):
    return RNG.standard_normal(shape).astype(dtype)


def laid(x, layout):
    """A writable array of the same values in another layout."""
    m, n = x.shape
    places = {
        "C": lambda: np.empty((m, n), x.dtype),
        "F": lambda: np.empty((n, m), x.dtype).T,
        "stepped": lambda: np.empty((2 * m, 3 * n), x.dtype)[::2, ::3],
        "reversed": lambda: np.empty((m, n), x.dtype)[::-1, ::-1],
    }
    place = places[layout]()
    place[...] = x
    return place


def expected(a, b, c):
    """c + a @ b where no sum is rounded, and integers wrap; bool by or and and."""
    wide = complex if c.dtype.kind == "c" else float
    exact = c.astype(wide) + a.astype(wide) @ b.astype(wide)
    return (exact.astype(np.int64) if c.dtype.kind in "iu" else exact).astype(c.dtype)


def add(a, b, c, **options):
    """What is in a copy of c afterwards; `matmul` returns the `out` that it was given."""
    out = laid(c, options.pop("layout", "C")) if c.ndim == 2 else c.copy()
    assert gemmlab.matmul(a, b, out=out, accumulate=True, **options) is out
    return out


# Right


@pytest.mark.parametrize("size", PATHS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_are_exact_on_every_path(dtype, size):
    m, n, k = size
    k = min(k, 1500) if dtype == "float16" else k  # a half holds whole numbers up to 2048
    a, b, c = whole((m, k), dtype), whole((k, n), dtype), whole((m, n), dtype)
    right = expected(a, b, c)
    for threads in (1, 2, 3):
        layout = LAYOUTS[RNG.integers(len(LAYOUTS))]
        got = add(a, b, c, layout=layout, threads=threads, backend="cpu-packed")
        assert np.array_equal(got, right), (threads, layout)


@pytest.mark.parametrize("size", PATHS, ids=str)
@pytest.mark.parametrize(("dtype", "wider"), WIDER)
def test_wider_sums_take_c_of_their_own_dtype(dtype, wider, size):
    m, n, k = size
    a, b, c = whole((m, k), dtype), whole((k, n), dtype), whole((m, n), wider)
    for threads in (1, 2):
        got = add(a, b, c, threads=threads, dtype=wider, casting="unsafe", backend="cpu-packed")
        assert np.array_equal(got, expected(a.astype(wider), b.astype(wider), c)), threads


def test_bfloat16():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    for m, n, k in PATHS:
        k = min(k, 200)  # it holds whole numbers up to 256
        a, b, c = (whole(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
        for threads in (1, 3):
            got = add(a, b, c, threads=threads, backend="cpu-packed")
            assert np.array_equal(got.astype(float), expected(a, b, c).astype(float)), (m, n, k, threads)


@pytest.mark.parametrize("narrow", ["bool", "int8", "uint8"])
def test_narrow_integers_are_added_to_bfloat16(narrow):
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    a, b, c = whole((3, 5), narrow), whole((5, 4), narrow), whole((3, 4), dtype)
    got = add(a, b, c)
    assert np.array_equal(got.astype(float), expected(a.astype(float), b.astype(float), c.astype(float)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", RUNGS[:-1])
def test_the_rungs_below_add_in_every_layout(backend, dtype):
    for m, n, k in ((1, 1, 1), (5, 7, 3), (33, 65, 130), (70, 31, 90)):
        a, b, c = (whole(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
        for layout in LAYOUTS:
            for order in "CF":
                got = add(a.copy(order), b.copy(order), c, layout=layout, backend=backend)
                assert np.array_equal(got, expected(a, b, c)), (m, n, k, layout, order)


@pytest.mark.parametrize("backend", RUNGS)
def test_each_element_is_within_the_bound(backend):
    m, n, k = 33, 40, 700
    a, b, c = (any_number(shape, "float32") for shape in ((m, k), (k, n), (m, n)))
    wide = [x.astype(np.longdouble) for x in (a, b, c)]
    error = abs(add(a, b, c, backend=backend) - (wide[2] + wide[0] @ wide[1]))
    assert (error <= (k + 1) * 2.0**-24 * (abs(wide[2]) + abs(wide[0]) @ abs(wide[1]))).all()


@pytest.mark.parametrize("size", [(7, 66, 33), (41, 40, 39), (60, 1, 300), (130, 131, 257), (9, 13, 4000)], ids=str)
def test_halves_are_rounded_once(size):
    m, n, k = size
    a, b, c = (any_number(shape, "float16") for shape in ((m, k), (k, n), (m, n)))
    # Sums of C and of products in float32: the same as a product of one more column and row, but for the order.
    sums = add(a, b, c.astype("float32"), dtype="float32", backend="cpu-packed")
    for threads in (1, 2):
        got = add(a, b, c, threads=threads, backend="cpu-packed")
        assert np.array_equal(got, sums.astype("float16")), threads
    twice = c + gemmlab.matmul(a, b, backend="cpu-packed")
    assert m * n < 100 or (got != twice).any()


# The same bits


@pytest.mark.parametrize("size", [*PATHS, (70, 90, 2000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "float16"])
def test_threads_rows_and_layouts_change_no_bit(dtype, size):
    m, n, k = size
    a, b, c = (any_number(shape, dtype) / 8 for shape in ((m, k), (k, n), (m, n)))
    first = add(a, b, c, threads=1, backend="cpu-packed")
    for threads in (2, 3):
        assert add(a, b, c, threads=threads, backend="cpu-packed").tobytes() == first.tobytes(), threads
    for layout in LAYOUTS:
        assert np.array_equal(add(a, b, c, layout=layout, threads=2, backend="cpu-packed"), first), layout
    for start, end in ((0, 1), (m // 2, m), (m // 3, m // 3 + 13)):
        rows = add(a[start:end], b, c[start:end], backend="cpu-packed")
        assert rows.tobytes() == first[start:end].tobytes(), (start, end)


def test_c_is_the_first_addend():
    """In the order of the promise: what C holds, then the blocks of kc one by one."""
    m, n, kc = 20, 30, 64
    a, b, c = (any_number(shape, "float32") for shape in ((m, 3 * kc), (3 * kc, n), (m, n)))
    step_by_step = c
    for start in range(0, 3 * kc, kc):
        block = slice(start, start + kc)
        step_by_step = step_by_step + gemmlab.matmul(a[:, block], b[block], backend="cpu-packed")
    for threads in (1, 2):
        got = add(a, b, c, kc=kc, threads=threads, backend="cpu-packed")
        assert got.tobytes() == step_by_step.tobytes()


@pytest.mark.parametrize("backend", RUNGS[1:-1])
def test_threads_change_no_bit_of_the_rungs_below(backend):
    a, b, c = (any_number(shape, "float64") for shape in ((50, 60), (60, 70), (50, 70)))
    assert add(a, b, c, backend=backend, threads=1).tobytes() == add(a, b, c, backend=backend, threads=3).tobytes()


# Batches, packed operands, memory


@pytest.mark.parametrize("backend", ["cpu-ikj", "cpu-packed"])
@pytest.mark.parametrize(
    ("of_a", "of_b", "of_c"),
    [
        ((30, 4, 4), (30, 4, 4), (30, 4, 4)),
        ((7, 1, 30, 20), (5, 20, 9), (7, 5, 30, 9)),
        ((6, 15, 70), (1, 70, 9), (6, 15, 9)),
        ((6, 1, 70), (70, 9), (6, 1, 9)),
        ((3, 20, 15), (15, 17), (2, 3, 20, 17)),  # `out` has an axis more: each of its products is added to
        ((4, 5), (5, 6), (3, 4, 6)),
        ((3, 4, 5), (5,), (3, 4)),
        ((5,), (5, 6), (6,)),
        ((5,), (5,), ()),
        ((3, 0, 5), (5, 6), (3, 0, 6)),
        ((0, 3, 5), (5, 6), (0, 3, 6)),
    ],
)
def test_batches_and_vectors(backend, of_a, of_b, of_c):
    a, b, c = whole(of_a, "float64"), whole(of_b, "float64"), whole(of_c, "float64")
    for threads in (1, 2):
        assert np.array_equal(add(a, b, c, threads=threads, backend=backend), c + a @ b)


@pytest.mark.parametrize("backend", RUNGS)
def test_an_empty_sum_leaves_c(backend):
    c = whole((4, 6), "float64")
    assert np.array_equal(add(np.empty((4, 0)), np.empty((0, 6)), c, backend=backend), c)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int8"])
def test_packed_operands(dtype):
    for m, n, k in ((5, 30, 70), (90, 40, 60), (30, 1, 700), (4, 9, 2000)):
        a, b, c = (whole(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
        for threads in (1, 2):
            got = add(a, gemmlab.pack(b), c, threads=threads)
            assert got.tobytes() == add(a, b, c, backend="cpu-packed").tobytes()


@pytest.mark.parametrize("backend", ["cpu-naive", "cpu-packed"])
def test_out_may_overlap_an_operand(backend):
    memory = whole((40, 20), "float64")
    for rows_a, rows_out in ((slice(0, 20), slice(0, 20)), (slice(0, 20), slice(3, 23)), (slice(19, None, -1),) * 2):
        x = memory.copy()
        right = x[rows_out] + x[rows_a] @ x[20:]
        gemmlab.matmul(x[rows_a], x[20:], out=x[rows_out], accumulate=True, backend=backend)
        assert np.array_equal(x[rows_out], right)


def test_c_of_another_dtype_is_cast_to_that_of_the_sums_and_back():
    a, b = whole((4, 5), "float64"), whole((5, 6), "float64")
    c = whole((4, 6), "float32")
    with gemmlab.trace() as calls:
        assert np.array_equal(add(a, b, c), c + a @ b)
    assert calls[0].copies == 1
    swapped = c.astype(a.dtype.newbyteorder())
    assert np.array_equal(add(a, b, swapped), swapped + a @ b)


@pytest.mark.parametrize(
    ("operands", "of_c", "value"), [("f2", "f4", 1e6), ("f4", "f8", 0.1), ("i4", "i8", 2**40), ("u1", "i8", -1)]
)
@pytest.mark.parametrize("k", [0, 1])
def test_c_loses_no_digits_to_the_dtype_of_the_product(operands, of_c, value, k):
    a, b = np.ones((1, k), operands), np.ones((k, 1), operands)
    c = np.array([[value]], of_c)
    assert add(a, b, c) == c + k
    assert add(a, b, c, dtype=of_c) == c + k
    narrow = np.matmul(a, b).dtype
    untouched(TypeError, f"pass dtype='{c.dtype}'", a, b, c, dtype=narrow)
    add(a, b, c, dtype=narrow, casting="unsafe")


def test_no_temporary_where_none_is_needed():
    for layout in LAYOUTS:
        with gemmlab.trace() as calls:
            add(whole((4, 5), "float64"), whole((5, 6), "float64"), whole((4, 6), "float64"), layout=layout)
        assert calls[0].copies == 0


def test_through_dlpack():
    from gemmlab._api.foreign import multiply_exchanged

    a, b, c = whole((4, 5), "float64"), whole((5, 6), "float64"), whole((4, 6), "float64")
    right = c + a @ b
    options = {"dtype": None, "casting": "same_kind", "axes": None, "threads": None, "accumulate": True}
    assert multiply_exchanged("auto", a, b, c, options, {}) is c
    assert np.array_equal(c, right)


# Refused


def untouched(error, match, a, b, out, **options):
    before = out.tobytes()
    with pytest.raises(error, match=match):
        gemmlab.matmul(a, b, out=out, accumulate=True, **options)
    assert out.tobytes() == before


def test_wrong_arguments():
    a, c = np.ones((3, 3)), np.ones((3, 3))
    with pytest.raises(TypeError, match="pass it as out="):
        gemmlab.matmul(a, a, accumulate=True)
    with pytest.raises(TypeError, match="True or False, not 'yes'"):
        gemmlab.matmul(a, a, out=c, accumulate="yes")
    assert gemmlab.matmul(a, a, accumulate=np.False_)[0, 0] == 3
    untouched(ValueError, "mismatch", a, np.ones((4, 3)), c)
    untouched(ValueError, "mismatch", a, a, np.ones((3, 4)))
    untouched(TypeError, "pass dtype='float64'", np.ones((3, 3), int), np.ones((3, 3), int), c, dtype=int)
    untouched(TypeError, "pass dtype='complex128'", a, a, c.astype(complex), dtype=float)
    untouched(TypeError, "pass dtype='int64'", np.ones((3, 3), np.uint64), np.ones((3, 3), np.uint64), c.astype(int))
    untouched(ValueError, "must be", a, a, c, backend="cpu-packed", kc=-1)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((3, 3), (0, 8)), ((3, 3), (8, 8)), ((2, 3, 3), (0, 800, 8)), ((3, 3), (24, 4)), ((3, 4), (24, 8)),
        ((3, 3), (8, -8)),
    ],
)
def test_an_out_that_shares_memory_with_itself_is_refused(shape, strides):
    out = as_strided(np.ones(1000)[20:], shape, strides)
    *_, m, n = shape
    untouched(ValueError, "share no memory", np.ones((m, 5)), np.ones((5, n)), out)


@pytest.mark.parametrize("strides", [(24, 8), (8, 24), (-24, 8), (16, 24 * 4), (24, 16)])
def test_an_out_whose_elements_are_apart_is_not(strides):
    out = as_strided(np.zeros(1000)[500:], (3, 2), strides)
    gemmlab.matmul(np.ones((3, 5)), np.ones((5, 2)), out=out, accumulate=True)
    assert (out == 5).all()


@pytest.mark.parametrize("backend", ["cpu-numpy", "cpu-blas"])
def test_a_backend_that_does_not_say_so_refuses(backend):
    untouched(UnsupportedProblem, f"{backend} does not add to out", np.ones((3, 3)), np.ones((3, 3)), np.ones((3, 3)),
              backend=backend)  # fmt: skip


def test_auto_refuses_dtypes_that_go_to_numpy():
    a = np.ones((3, 3), np.longdouble)
    untouched(UnsupportedProblem, "no backend of auto", a, a, a.copy())
    rows = gemmlab.explain(a, a, accumulate=True).rows
    assert not any(taken for _, taken, _ in rows)
    assert gemmlab.explain(np.ones((3, 3)), np.ones((3, 3)), accumulate=True).rows[0][:2] == ("cpu-packed", True)


def test_contractions_have_no_such_parameter():
    a = np.ones((3, 3))
    with pytest.raises(TypeError, match="has no parameter 'accumulate'"):
        gemmlab.einsum("ij,jk->ik", a, a, accumulate=True)
    with pytest.raises(TypeError, match="has no parameter 'accumulate'"):
        gemmlab.tensordot(a, a, accumulate=True)


def test_wrapped_arrays_are_added_to():
    a, out = gemmlab.asarray(np.ones((3, 3))), gemmlab.asarray(np.ones((3, 3)))
    assert gemmlab.matmul(a, a, out=out, accumulate=True) is out
    assert (np.asarray(out) == 4).all()


def test_subclasses_are_refused():
    a = np.ma.ones((3, 3))
    untouched(UnsupportedProblem, "does not add to out", a, a, np.ones((3, 3)))


# Other instruction sets

ON_ISA = """
import numpy as np
import gemmlab

rng = np.random.default_rng({seed})
for dtype in "fdFDe?bhiq":
    for m, n, k in ((3, 5, 4), (41, 40, 39), (60, 1, 700), (9, 13, 3000), (20, 1024, 600), (60, 131, 257)):
        k = min(k, 1000) if dtype == "e" else k
        a, b, c = (rng.integers(-1, 2, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
        for wide in (dtype, {{"b": "i", "h": "i", "e": "f"}}.get(dtype, dtype)):
            c_wide = c.astype(wide)
            sums = "D" if dtype in "FD" else "d"
            right = (c.astype(sums) + a.astype(sums) @ b.astype(sums)).astype(wide)
            for threads in (1, 2):
                out = c_wide.copy()
                gemmlab.matmul(a, b, out=out, accumulate=True, threads=threads, dtype=wide, backend="cpu-packed")
                assert np.array_equal(out, right), (dtype, wide, m, n, k, threads)
    for name in {rungs} if dtype in "fd" else ():
        out = c.copy()
        assert np.array_equal(gemmlab.matmul(a, b, out=out, accumulate=True, backend=name), c + a @ b), name
"""
SETS = [*isa.available(), *(f"v4+{extra}" for extra in isa.extras_here())]


@pytest.mark.parametrize("name", swept(SETS[::-1]))
def test_on_every_instruction_set(name):
    output_of(ON_ISA.format(seed=fresh_seed(), rungs=RUNGS[:-1]), GEMMLAB_ISA=name)
