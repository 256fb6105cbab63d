"""cpu-packed: every dtype and layout, the same bits whatever the threads and the rows, and its memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import output_of
from packed_inputs import DTYPES, LAYOUTS, laid, whole
from randomness import RNG

import gemmlab
from gemmlab import Problem, UnsupportedProblem
from gemmlab._cpu import isa
from gemmlab._cpu.packed_backend._packed import free_buffers
from gemmlab._cpu.packed_backend.backend import Packed

FLOATS = ["float32", "float64", "complex64", "complex128", "float16"]
# Sizes that reach each path: tiny, in place, five loops, few rows, few columns, one column, one row, deep.
PATHS = [
    (3, 5, 4), (7, 66, 33), (40, 40, 40), (1300, 150, 220), (5, 700, 900), (700, 3, 900), (400, 1, 5000),
    (1, 300, 700), (1, 1, 9000), (20, 30, 9000), (150, 260, 3),
]  # fmt: skip


def packed(a, b, **options):
    return gemmlab.matmul(a, b, backend="cpu-packed", **options)


def exact(a, b):
    """The product by NumPy, in a type that holds it, or in the same where sums wrap."""
    if a.dtype.kind in "iub":
        return np.matmul(a, b)
    wide = complex if a.dtype.kind == "c" else float
    return (a.astype(wide) @ b.astype(wide)).astype(a.dtype)


# Right


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", PATHS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_are_exact_on_every_path(dtype, size, threads):
    m, n, k = size
    k = min(k, 2000) if dtype == "float16" else k  # a half holds whole numbers up to 2048
    a, b = whole((m, k), dtype), whole((k, n), dtype)
    assert np.array_equal(packed(a, b, threads=threads), exact(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("of_b", LAYOUTS)
@pytest.mark.parametrize("of_a", LAYOUTS)
def test_any_layout_without_a_copy(of_a, of_b, dtype):
    for m, n, k in ((6, 9, 13), (31, 70, 45), (80, 50, 130), (33, 1, 65), (1, 40, 20)):
        a, b = laid(whole((m, k), dtype), of_a), laid(whole((k, n), dtype), of_b)
        with gemmlab.trace() as calls:
            c = packed(a, b)
        assert np.array_equal(c, exact(a, b))
        assert calls[0].copies == 0


@pytest.mark.parametrize("layout", ["C", "F", "stepped", "reversed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_out_in_any_layout_without_a_copy(dtype, layout):
    for m, n, k in ((5, 3, 700), (37, 41, 19), (90, 130, 70), (600, 1, 40)):
        a, b = whole((m, k), dtype), whole((k, n), dtype)
        out = laid(np.full((m, n), whole((), dtype)), layout)
        with gemmlab.trace() as calls:
            assert packed(a, b, out=out, threads=2) is out
        assert np.array_equal(out, exact(a, b))
        assert calls[0].copies == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "int32", "float16"])
def test_every_size_from_1_to_70_at_each_place(dtype):
    sizes = np.stack([RNG.permutation(np.arange(1, 71)) for _ in range(3)], axis=1)
    for m, n, k in sizes:
        a, b = whole((m, k), dtype), whole((k, n), dtype)
        assert np.array_equal(packed(a, b), exact(a, b)), (m, n, k)


@pytest.mark.parametrize("blocks", [{"mc": 1, "kc": 1, "nc": 1}, {"mc": 15, "kc": 7, "nc": 33}, {"kc": 5000}])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_blocks(dtype, blocks):
    for m, n, k in ((33, 47, 29), (130, 140, 150), (50, 1, 99)):
        a, b = whole((m, k), dtype), whole((k, n), dtype)
        assert np.array_equal(packed(a, b, **blocks, threads=2), exact(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [
    ((500, 4, 4), (500, 4, 4)), ((7, 1, 30, 20), (5, 20, 9)), ((3, 200, 150), (150, 170)), ((40, 1, 6), (40, 6, 1)),
    ((1, 8, 8), (900, 8, 8)), ((2, 300, 64), (2, 64, 70)),
], ids=str)  # fmt: skip
def test_stacks(shapes, dtype):
    a, b = (whole(shape, dtype) for shape in shapes)
    for threads in (1, 2):
        assert np.array_equal(packed(a, b, threads=threads), exact(a, b))
    swapped = a.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    assert np.array_equal(packed(swapped, b, threads=2), exact(a, b))


def half(name):
    return pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.float16


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_half_survives_a_product_with_one(name):
    every = np.arange(2**16, dtype=np.uint16).view(half(name)).reshape(-1, 1)
    same = packed(every, np.ones((1, 2), every.dtype))[:, 0]
    given, same = every[:, 0].astype(np.float32), same.astype(np.float32)
    if name == "bfloat16" and isa.extras():  # these instructions take what is below the normal numbers for 0
        given[abs(given) < 2.0**-126] = 0
    assert np.array_equal(same, given, equal_nan=True)


@pytest.mark.parametrize("scale", [2.0**-23, 2.0**-18, 2.0**-14, 2.0**-8, 1.0, 2.0**13, 2.0**15])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_sums_are_rounded_as_numpy_rounds(name, scale):
    a = RNG.uniform(0.5, 2, (200, 2)).astype(half(name))
    with np.errstate(over="ignore"):
        b = (RNG.uniform(0.5, 2, (2, 300)) * scale).astype(half(name))
        sums = (a.astype(float) @ b.astype(float)).astype(np.float32)  # in float64 such a sum is exact
        rounded = sums.astype(half(name))
    assert np.array_equal(packed(a, b).view(np.uint16), rounded.view(np.uint16))


def test_bfloat16_gives_bfloat16_and_float32_where_it_is_asked_for():
    a, b = whole((9, 30), half("bfloat16")), whole((30, 8), half("bfloat16"))
    for backend in ("auto", "cpu-packed", "cpu-numpy"):
        for _ in range(2):  # the second call takes the compiled way
            assert gemmlab.matmul(a, b, backend=backend).dtype == a.dtype
    wide = packed(a, b, dtype=np.float32)
    assert wide.dtype == np.float32
    assert np.array_equal(wide, a.astype(float) @ b.astype(float))


@pytest.mark.parametrize(("narrow", "wide", "copies"), [
    ("int8", "int32", 0), ("uint8", "int32", 0), ("int8", "uint32", 0), ("int16", "int32", 0), ("uint16", "uint32", 0),
    ("int32", "int64", 0), ("uint32", "uint64", 0), ("float16", "float32", 0), ("bfloat16", "float32", 0),
    ("uint8", "int64", 2), ("float32", "float64", 2),
])  # fmt: skip
@pytest.mark.parametrize("size", PATHS, ids=str)
def test_sums_may_be_wider_than_the_operands(size, narrow, wide, copies):
    m, n, k = size
    dtype = half(narrow) if "float16" in narrow else np.dtype(narrow)
    layouts = RNG.choice(LAYOUTS, 2)
    a, b = laid(whole((m, k), dtype), layouts[0]), laid(whole((k, n), dtype), layouts[1])
    with gemmlab.trace() as calls:
        c = packed(a, b, dtype=wide, casting="unsafe", threads=2)
    assert c.dtype == wide
    in_full = wide if np.dtype(wide).kind in "iu" else np.float64  # whole numbers: exact
    assert np.array_equal(c, np.matmul(a.astype(in_full), b.astype(in_full)))
    assert calls[0].copies == copies


def test_a_broadcast_operand_is_converted_once():
    a, b = whole((500, 3, 40), "int8"), whole((40, 5), "int8")
    problem = Problem.from_call(a, b, dtype=np.int64)
    assert problem.copies == 0  # until they are read
    assert (problem.a.dtype, problem.b.strides[0]) == (np.int64, 0)
    assert problem.copies == 2
    assert np.array_equal(packed(a, b, dtype=np.int64), np.matmul(a, b, dtype=np.int64))


@pytest.mark.exhaustive
def test_a_block_of_k_may_be_larger_than_its_memory():
    a, b = whole((16, 140_000), "float32"), np.broadcast_to(np.float32(1), (140_000, 768))
    assert np.array_equal(packed(a, b, threads=2, kc=140_000), exact(a, b))


def test_operands_of_two_dtypes_or_for_other_backends_are_converted():
    a, b = np.full((5, 300), 100, np.int8), np.full((300, 6), 200, np.uint8)
    with gemmlab.trace() as calls:
        assert (packed(a, b, dtype=np.int32) == 6_000_000).all()
        assert (gemmlab.matmul(a, a.T, dtype=np.float32, backend="cpu-blocked") == 3_000_000).all()
    assert [call.copies for call in calls] == [2, 2]


def test_other_dtypes_go_to_numpy_under_auto_and_are_refused_by_name():
    a = np.ones((2, 2), np.longdouble)
    with pytest.raises(UnsupportedProblem, match="use backend='auto'"):
        packed(a, a)
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a)
        gemmlab.matmul(np.eye(2), np.eye(2))
    assert [call.backend for call in calls] == ["cpu-numpy", "cpu-packed"]


# The same bits


def numbers(shape, dtype):
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("size", [*PATHS, (64, 17, 4000), (500, 33, 1200)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_threads_change_no_bit(dtype, size):
    m, n, k = size
    a, b = numbers((m, k), dtype), numbers((k, n), dtype)
    first = packed(a, b, threads=1).tobytes()
    for threads in (2, 3, 5, 8):
        assert packed(a, b, threads=threads).tobytes() == first
    assert packed(a, b).tobytes() == first


@pytest.mark.parametrize(("n", "k"), [(1, 50), (1, 9000), (2, 5000), (7, 300), (40, 40), (70, 2500), (600, 700)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_a_give_rows_of_the_product(dtype, n, k):
    m = 90
    a, b = numbers((m, k), dtype), numbers((k, n), dtype)
    c = packed(a, b, threads=2)
    for rows in (slice(0, 1), slice(89, 90), slice(3, 5), slice(11, 17), slice(7, 20), slice(20, 53), slice(1, 89, 2)):
        for threads in (1, 2, 3):
            assert packed(a[rows], b, threads=threads).tobytes() == c[rows].tobytes(), (rows, threads)
    assert packed(a[5], b).tobytes() == c[5].tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_layouts_and_stacks_change_no_bit(dtype):
    for m, n, k in ((20, 30, 40), (20, 1, 5000), (100, 120, 1300), (4, 4, 4)):
        a, b = numbers((m, k), dtype), numbers((k, n), dtype)
        first = packed(a, b)
        assert packed(np.asfortranarray(a), b).tobytes() == first.tobytes()
        assert packed(a, np.asfortranarray(b)).tobytes() == first.tobytes()
        assert packed(laid(a, "stepped"), laid(b, "reversed")).tobytes() == first.tobytes()
        out = np.empty((m, n), dtype, order="F")
        assert packed(a, b, out=out).tobytes() == first.tobytes()
        stack = packed(np.stack([a] * 5), b, threads=2)
        assert all(c.tobytes() == first.tobytes() for c in stack)


@pytest.mark.parametrize("m", [1, 3, 8])
@pytest.mark.parametrize("dtype", FLOATS)
def test_where_b_begins_changes_no_bit(dtype, m):
    k, n = 130, 64 * 16 // np.dtype(dtype).itemsize
    a, wide = numbers((m, k), dtype), numbers((k, 2 * n), dtype)
    c = packed(a, wide)
    for start in range(17):  # rows of B are whole vectors apart, and begin at any number of one
        columns = slice(start, start + n)
        out = np.full((m, n), np.nan, dtype)
        assert packed(a, wide[:, columns], out=out, threads=1).tobytes() == c[:, columns].tobytes(), start
        assert packed(a, wide[:, columns], threads=2).tobytes() == c[:, columns].tobytes(), start


def test_mc_and_nc_change_no_bit():
    a, b = numbers((300, 900), "float32"), numbers((900, 310), "float32")
    first = packed(a, b).tobytes()
    assert packed(a, b, mc=28, nc=64).tobytes() == first
    assert packed(a, b, mc=1000, nc=5000, threads=2).tobytes() == first


# Threads, processes, memory


def test_many_threads_of_python_at_once():
    work = [(whole((m, k), "float32"), whole((k, n), "float32")) for m, n, k in PATHS * 3]
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda pair: np.array_equal(packed(*pair, threads=2), exact(*pair)), work * 4)
        assert all(done)


LEAK = """
import resource
import numpy as np
import gemmlab

sizes = (3, 4, 5), (40, 50, 60), (2, 9, 300), (30, 1, 9)
pairs = [(np.ones((m, k), "f4"), np.ones((k, n), "f4")) for m, n, k in sizes]
def calls(count):
    for _ in range(count // len(pairs)):
        for a, b in pairs:
            gemmlab.matmul(a, b, backend="cpu-packed")
            gemmlab.matmul(b.T, a.T, backend="cpu-packed")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = calls(2000)
after = calls(100_000)
assert after - before < 2000, f"{after - before} KiB more"
"""


@pytest.mark.skipif(os.name == "nt", reason="no resource here")
def test_a_hundred_thousand_calls_leak_nothing():
    output_of(LEAK)


def test_buffers_are_kept_and_given_back_on_request():
    gemmlab.free_buffers()
    packed(np.ones((400, 400)), np.ones((400, 400)), threads=1)
    kept = gemmlab.free_buffers()
    assert 0 < kept < 8 << 20
    assert free_buffers() == 0
    packed(np.ones((400, 400)), np.ones((400, 400)), threads=1)
    assert gemmlab.free_buffers() == kept


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16", "int8", "int64"])
@pytest.mark.parametrize("size", [(400, 1600, 1200), (300, 300, 6000), (5000, 70, 300), (64, 5000, 1700)], ids=str)
def test_panels_take_a_few_mib_a_thread_whatever_the_problem(size, dtype):
    m, n, k = size
    a, b = (np.broadcast_to(np.ones((), dtype), shape) for shape in ((m, k), (k, n)))
    for threads in (1, 2):
        gemmlab.free_buffers()
        packed(a, b, threads=threads)
        assert gemmlab.free_buffers() <= (2 << 20) + threads * (10 << 20)


@pytest.mark.parametrize("dtypes", list(Packed().kernels), ids=" into ".join)
def test_a_block_of_a_fits_the_cache_and_the_tiles(dtypes):
    size, mc, kc, _ = Packed().kernels[dtypes]
    assert mc % 84 == 0 or mc % 32 == 0
    by_amx = "amx" in isa.extras() and dtypes[0] in ("bfloat16", "int8", "uint8")  # a processor with 2 MiB of L2
    assert mc * kc * size <= 1 << 19 + by_amx


def test_a_team_costs_as_much_time_in_every_dtype():
    dtypes = "float32", "float64", "complex64", "complex128"
    cost = {dtype: Packed().usual_team_flop(dtype, dtype) for dtype in dtypes}
    assert cost["float32"] == 2 * cost["float64"] == 2 * cost["complex64"] == 4 * cost["complex128"]


@pytest.mark.parametrize("dtypes", list(Packed().kernels), ids=" into ".join)
def test_a_product_is_made_with_the_blocks_of_its_dtypes(dtypes, monkeypatch, tmp_path):
    monkeypatch.setattr(gemmlab.config, "cache_dir", tmp_path)  # no profile
    narrow, wide = dtypes
    a = np.ones((2, 2), half(narrow) if "float16" in narrow else narrow)
    with gemmlab.trace() as calls:
        packed(a, a, **({"dtype": wide, "casting": "unsafe"} if wide != narrow else {}))
    _, mc, kc, _ = Packed().kernels[dtypes]
    assert (calls[0].params["mc"], calls[0].params["kc"]) == (mc, kc)


def test_more_bytes_move_with_a_larger_problem_and_none_less_than_the_operands():
    rung = Packed()
    small, large = (
        rung.traffic(Problem(*(np.broadcast_to(np.float32(0), (n, n)) for _ in range(3))), {}) for n in (500, 4000)
    )
    assert set(small) == {"l1", "l2", "l3", "dram"}
    assert all(large[level] > small[level] > 3 * 500 * 500 * 4 for level in small)
    assert large["l2"] > large["l3"] > large["dram"]


# Packed operands


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_packed_operand_gives_the_same_bits(layout, dtype):
    for m, n, k in ((1, 40, 30), (5, 70, 900), (90, 100, 110), (150, 1300, 40), (8, 3, 9000), (30, 1, 5000), (1, 1, 1)):
        b = laid(whole((k, n), dtype), layout)
        weights = gemmlab.pack(b)
        assert (weights.shape, weights.dtype) == ((k, n), b.dtype)
        for rows in (1, m, 2 * m):
            a = numbers((rows, k), dtype) if np.dtype(dtype).kind in "fc" else whole((rows, k), dtype)
            for threads in (1, 2):
                product = gemmlab.matmul(a, weights, threads=threads)
                assert product.tobytes() == packed(a, b).tobytes(), (rows, n, k, threads)


def test_a_packed_operand_may_be_multiplied_by_vectors_and_stacks_and_into_out():
    b = whole((40, 30), "float64")
    weights = gemmlab.pack(b)
    for shape in ((40,), (3, 40), (5, 6, 40), (2, 3, 4, 40), (0, 40)):
        a = whole(shape, "float64")
        assert np.array_equal(packed(a, weights), exact(a, b))
    out = np.empty((7, 30), order="F")
    a = whole((7, 40), "float64")
    assert gemmlab.matmul(a, weights, out=out) is out
    assert np.array_equal(out, exact(a, b))
    assert np.array_equal(gemmlab.matmul(np.ones((2, 40), "float32"), weights), exact(np.ones((2, 40)), b))
    assert gemmlab.matmul(np.ones((3, 0)), gemmlab.pack(np.ones((0, 4)))).tolist() == np.zeros((3, 4)).tolist()


def test_what_becomes_of_the_matrix_changes_no_packed_operand():
    b = np.eye(20)
    weights = gemmlab.pack(b)
    b[:] = 7
    assert np.array_equal(packed(np.ones((2, 20)), weights), np.ones((2, 20)))


def test_what_cannot_be_packed_or_used_is_one_clear_line():
    with pytest.raises(ValueError, match="pack takes a matrix, not an array of 1 dimensions"):
        gemmlab.pack([1.0, 2.0])
    with pytest.raises(UnsupportedProblem, match="not object"):
        gemmlab.pack(np.eye(2, dtype=object))
    weights = gemmlab.pack(np.ones((4, 3), "float32"))
    with pytest.raises(UnsupportedProblem, match="plain arrays, not MaskedArray"):
        gemmlab.matmul(np.ma.masked_equal(np.ones((2, 4), "float32"), 1), weights)
    with pytest.raises(UnsupportedProblem, match=r"pack\(b\.T\)"):
        gemmlab.matmul(np.ones((2, 3), "float32"), weights, axes=[(0, 1), (1, 0), (0, 1)])
    assert gemmlab.matmul(np.ones((4, 2), "float32"), weights, axes=[(1, 0), (0, -1), (0, 1)]).tolist() == [[4] * 3] * 2
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        gemmlab.matmul(np.ones((2, 5), "float32"), weights)
    with pytest.raises(UnsupportedProblem, match="packed as float32"):
        gemmlab.matmul(np.ones((2, 4)), weights)
    with pytest.raises(UnsupportedProblem, match="takes no packed operand"):
        gemmlab.matmul(np.ones((2, 4), "float32"), weights, backend="cpu-ikj")
    assert repr(weights) == "<gemmlab.pack of a float32 matrix of shape (4, 3)>"


# threadpoolctl

LIMITS = """
import numpy as np
import {first}
import {second}
from threadpoolctl import threadpool_info, threadpool_limits

a = np.ones((700, 700))
def threads():
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend="cpu-packed")
    return calls[0].threads

usual = threads()
(ours,) = [pool for pool in threadpool_info() if pool["internal_api"] == "gemmlab"]
assert (ours["user_api"], ours["num_threads"], ours["version"]) == ("blas", usual, gemmlab.__version__)
for limits in (dict(limits=1), dict(limits=1, user_api="blas"), dict(limits=1, user_api="openmp")):
    with threadpool_limits(**limits):
        assert threads() == 1, limits
    assert threads() == usual
gemmlab.config.threads = usual + 1
assert threads() == usual + 1  # the limit that was restored is none
"""


@pytest.mark.parametrize("names", [("gemmlab", "threadpoolctl"), ("threadpoolctl", "gemmlab")], ids=" then ".join)
def test_threadpoolctl_limits_our_threads(names):
    output_of(LIMITS.format(first=names[0], second=names[1]))


def test_importing_gemmlab_brings_no_threadpoolctl():
    multiply = "import sys, numpy, gemmlab\ngemmlab.matmul(numpy.eye(2), numpy.eye(2))\n"
    output_of(f"{multiply}assert 'threadpoolctl' not in sys.modules")


def test_explain_knows_a_packed_operand():
    a, packed = np.ones((3, 4)), gemmlab.pack(np.ones((4, 2)))
    assert gemmlab.explain(a, packed).rows == (("cpu-packed", True, "b is packed for it"),)
    assert gemmlab.explain(a, packed, backend="cpu-ikj").rows == (("cpu-ikj", False, "takes no packed operand"),)


def test_explain_names_the_way():
    def way(m, n, k, dtype="float32"):
        a, b = (np.broadcast_to(np.ones((), dtype), shape) for shape in ((m, k), (k, n)))
        return gemmlab.explain(a, b, backend="cpu-packed").rows[0][2]

    assert "; in place, by strips; 1 thread" in way(8, 8, 8)
    assert "five loops" in way(700, 700, 700)
    assert "dot products" in way(10, 1, 10)
    assert "five loops" in way(8, 8, 8, "int8")
    assert "an empty sum" in way(8, 8, 0)
    square = np.ones((900, 900), "float32")
    assert "in place, by rows of B" in str(gemmlab.explain(square[:8], square, backend="cpu-packed"))
    assert "in place, by rows of C" in str(gemmlab.explain(square[:, :8], square[:8], backend="cpu-packed"))


def test_the_share_of_packing_is_told_and_changes_nothing():
    a, b = whole((1000, 900), "float32"), whole((900, 800), "float32")
    problem = Problem.from_call(a, b)
    assert 0 < Packed().packing_share(problem, mc=28) < 1
    np.testing.assert_array_equal(problem.out, a @ b)
    small = Problem.from_call(a[:8, :8], b[:8, :8])
    assert Packed().packing_share(small) == 0  # nothing is packed


@pytest.mark.parametrize("dtype", sorted({*DTYPES, "int8", "int16", "int32", "int64", "uint8", "uint64", "complex64"}))
def test_a_matrix_by_a_vector_is_not_packed(dtype):
    matrix, column, row = np.zeros((300, 400), dtype), np.zeros((400, 1), dtype), np.zeros((1, 300), dtype)
    kernel = Packed().kernel
    plans = kernel.plan(matrix, column, np.zeros((300, 1), dtype)), kernel.plan(row, matrix, np.zeros((1, 400), dtype))
    assert not any(plan.is_packed for plan in plans), plans
