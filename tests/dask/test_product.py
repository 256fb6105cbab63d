"""Products of Dask arrays are those of NumPy, whatever the chunks, the kinds of operands, the groups of k and the
scheduler."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers import output_of
from randomness import RNG

import gemmlab

da = pytest.importorskip("dask.array")
import dask  # noqa: E402

import gemmlab.dask  # noqa: E402

SCHEDULERS = ("synchronous", "threads")
SMALL = 40_000  # bytes of memory: several tiles, and several tasks for each


def whole(*shape, dtype="float64"):
    return RNG.integers(-8, 9, shape).astype(dtype)


def chunked(x, *sides):
    return da.from_array(x, chunks=sides)


def uneven(extent):
    """Chunks of random sizes."""
    ends = np.unique(RNG.integers(1, extent, 4)) if extent > 1 else []
    return tuple(int(side) for side in np.diff([0, *ends, extent]))


def exact(a, b):
    return np.matmul(np.asarray(a, "int64"), np.asarray(b, "int64"))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("k_group", [None, 1, 2, 5])
@pytest.mark.parametrize("backend", ["auto", "cpu-packed", "cpu-numpy", "cpu-blocked"])
def test_odd_chunks_give_the_exact_product(scheduler, k_group, backend):
    a, b = whole(37, 53), whole(53, 29)
    with dask.config.set(scheduler=scheduler):
        lazy = gemmlab.dask.matmul(chunked(a, 7, 11), chunked(b, 13, 5), backend, k_group, memory=SMALL)
        assert isinstance(lazy, da.Array)
        assert lazy.npartitions > 1
        np.testing.assert_array_equal(lazy.compute(), exact(a, b))


def test_chunks_of_any_size_give_the_exact_product():
    for _ in range(30):
        m, k, n = (int(side) for side in RNG.integers(1, 60, 3))
        a, b = whole(m, k, dtype="float32"), whole(k, n, dtype="float32")
        operands = chunked(a, uneven(m), uneven(k)), chunked(b, uneven(k), uneven(n))
        memory = int(RNG.integers(30_000, 200_000))
        try:
            lazy = gemmlab.dask.matmul(*operands, memory=memory)
        except ValueError as refusal:  # chunks that are too large for so little memory
            assert "the smallest task needs" in str(refusal)  # noqa: PT017
            assert memory < 130_000  # room for three chunks of 59 x 59, for each of two threads
            continue
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), exact(a, b))


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((30,), (30,)), ((30,), (30, 20)), ((10, 30), (30,)), ((4, 10, 30), (30, 20)), ((10, 30), (4, 30, 20)),
        ((4, 10, 30), (4, 30, 20)), ((1, 10, 30), (4, 30, 20)), ((3, 1, 10, 30), (4, 30, 20)), ((30,), (4, 30, 20)),
        ((4, 10, 30), (30,)), ((0, 30), (30, 20)), ((10, 0), (0, 20)), ((0,), (0,)), ((2, 0, 30), (30, 4)),
    ],
)  # fmt: skip
def test_vectors_batches_and_empty_arrays_give_what_numpy_gives(of_a, of_b):
    a, b = whole(*of_a), whole(*of_b)
    sides_a, sides_b = ([max(1, side // 2) for side in shape] for shape in (of_a, of_b))
    lazy = gemmlab.dask.matmul(chunked(a, *sides_a), chunked(b, *sides_b), memory=SMALL)
    assert lazy.shape == np.matmul(a, b).shape
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), np.matmul(a, b))


def test_plain_arrays_beside_dask_arrays_are_wrapped():
    a, b = whole(20, 30), whole(30, 10)
    for pair in ((chunked(a, 7, 9), b), (a, chunked(b, 9, 7)), (a, b), (chunked(a, 7, 9), b.tolist())):
        lazy = gemmlab.dask.matmul(*pair)
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), exact(a, b))


@pytest.mark.parametrize(
    ("of_a", "of_b"), [*product(["bool", "int8", "uint16", "float16", "float32", "complex64", "object"], repeat=2)]
)
def test_dtypes_are_promoted_as_by_numpy(of_a, of_b):
    a, b = (RNG.integers(0, 2, shape).astype(dtype) for shape, dtype in (((9, 14), of_a), ((14, 5), of_b)))
    lazy = gemmlab.dask.matmul(chunked(a, 4, 5), chunked(b, 6, 2), memory=SMALL)
    right = np.matmul(a, b)
    assert lazy.dtype == right.dtype
    found = lazy.compute(scheduler="synchronous")
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)


def test_half_precision_is_rounded_once():
    a = np.ones((4, 3000), "float16")
    b = np.full((3000, 4), 0.7, "float16")
    expected = gemmlab.matmul(a, b)
    for k_group in (None, 1):
        for backend in ("cpu-packed", "cpu-numpy"):
            lazy = gemmlab.dask.matmul(chunked(a, 2, 250), chunked(b, 250, 3), backend, k_group)
            np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)


def test_a_product_has_the_same_bits_each_time():
    a, b = RNG.random((80, 90), "float32"), RNG.random((90, 70), "float32")
    lazy = gemmlab.dask.matmul(chunked(a, 20, 30), chunked(b, 30, 20), "cpu-packed", memory=SMALL)
    first = lazy.compute(scheduler="synchronous").tobytes()
    for scheduler in SCHEDULERS * 2:
        assert lazy.compute(scheduler=scheduler).tobytes() == first


def test_the_same_product_has_the_same_name_and_another_has_not():
    a, b = chunked(whole(20, 20), 10, 10), chunked(whole(20, 20), 10, 10)
    name = gemmlab.dask.matmul(a, b, memory=SMALL).name
    assert gemmlab.dask.matmul(a, b, memory=SMALL).name == name
    others = [((b, a), {}), ((a, b), {"backend": "cpu-naive"}), ((a, b), {"k_group": 1}), ((a, b), {"threads": 1})]
    assert len({name, *(gemmlab.dask.matmul(*pair, memory=SMALL, **options).name for pair, options in others)}) == 5


def test_no_task_writes_into_what_it_was_given():
    """Every input of every task is read-only: chunks of the operands and partial sums."""

    class ReadOnly(dask.callbacks.Callback):
        def _posttask(self, key, result, dsk, state, worker_id):
            if isinstance(result, np.ndarray):
                result.flags.writeable = False

    a, b = whole(40, 60), whole(60, 30)
    with ReadOnly():
        for k_group, backend in product((None, 1, 2), ("auto", "cpu-numpy")):
            lazy = gemmlab.dask.matmul(chunked(a, 10, 10), chunked(b, 10, 10), backend, k_group, memory=SMALL)
            np.testing.assert_array_equal(lazy.compute(scheduler="synchronous", optimize_graph=False), exact(a, b))


def test_chunks_of_another_class_stay_so():
    mask = RNG.random((12, 12)) < 0.3
    a = np.ma.masked_array(whole(12, 12), mask)
    lazy = gemmlab.matmul(da.from_array(a, chunks=5, asarray=False), whole(12, 12))
    assert isinstance(lazy.compute(scheduler="synchronous"), np.ma.MaskedArray)
    with pytest.raises(gemmlab.UnsupportedProblem, match=r"plain chunks, not MaskedArray: use backend='auto'"):
        gemmlab.matmul(da.from_array(a, chunks=5, asarray=False), whole(12, 12), backend="cpu-packed")


def test_the_backend_of_use_and_its_parameters_are_for_the_chunks():
    a = chunked(whole(30, 30), 10, 10)
    with gemmlab.use("cpu-blocked", bs_c=16):
        lazy = gemmlab.matmul(a, a)
    with gemmlab.trace() as calls:
        lazy.compute(scheduler="synchronous")
    assert {call.backend for call in calls} == {"cpu-blocked"}
    assert {call.params["bs_c"] for call in calls} == {16}


def test_threads_of_tasks_at_the_same_time_share_those_of_the_process():
    a = chunked(whole(30, 30), 10, 10)
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, threads=1, backend="cpu-packed").compute(scheduler="synchronous")
    assert {call.threads for call in calls} == {1}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dtype": "f4"}, TypeError, "takes no dtype: convert"),
        ({"axes": [(0, 1)] * 3}, TypeError, "takes no axes"),
        ({"casting": "no"}, TypeError, "takes no casting"),
        ({"out": np.empty((6, 6))}, TypeError, "out must be a zarr.Array, not ndarray"),
        ({"accumulate": True}, gemmlab.UnsupportedProblem, r"compute out \+ a @ b"),
        ({"backend": "cpu-pakced"}, gemmlab.UnknownBackend, "did you mean cpu-packed"),
        ({"backend": "dask"}, gemmlab.UnsupportedProblem, "name the backend that multiplies their chunks"),
        ({"backend": "cpu-packed", "bs_r": 3}, TypeError, "no parameter 'bs_r'"),
        ({"threads": 0}, ValueError, "threads must be"),
        ({"k_group": 0}, ValueError, "k_group must be a number of blocks"),
        ({"k_group": 1.5}, ValueError, "k_group must be a number of blocks"),
        ({"memory": "much"}, ValueError, "a size of memory"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(options, error, words):
    a = chunked(whole(6, 6), 2, 3)
    with pytest.raises(error, match=words):
        gemmlab.matmul(a, a, **options)


def test_wrong_operands_are_refused_at_once():
    a, b = chunked(whole(6, 5), 2, 3), chunked(whole(6, 5), 2, 3)
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        gemmlab.matmul(a, b)
    with pytest.raises(ValueError, match="unknown size: call its compute_chunk_sizes"):
        gemmlab.matmul(a, b[b[:, 0] > 0].T)
    with pytest.raises(gemmlab.UnsupportedProblem, match="multiplied with plain arrays"):
        gemmlab.matmul(a, gemmlab.pack(whole(5, 4)))
    with pytest.raises(gemmlab.UnsupportedProblem, match="up to 32 dimensions, not 33: reshape"):
        gemmlab.matmul(a, np.ones((1,) * 31 + (5, 4)))
    with pytest.raises(gemmlab.UnsupportedProblem, match="int64"):
        gemmlab.matmul(a.astype("int64"), a.astype("int64").T, backend="cpu-naive")


def test_without_dask_there_is_one_line_with_the_fix():
    code = """
import sys
sys.modules["dask"] = None
import gemmlab.dask
from gemmlab import _registry
try:
    gemmlab.dask.matmul
except ImportError as error:
    print(error)
print(_registry.availability("dask"))
"""
    assert "gemmlab.dask needs Dask, which is not here" in (said := output_of(code))
    assert said.count("pip install 'gemmlab[dask]'") == 2


def test_explain_says_which_backend_multiplies_the_chunks():
    a = chunked(whole(6, 6), 2, 3)
    assert gemmlab.explain(a, a, backend="cpu-naive").rows[0][:2] == ("cpu-naive", True)
    assert "gemmlab.dask" in str(gemmlab.explain(a, a))


def test_the_backend_for_audits_is_in_no_list():
    assert "dask" not in gemmlab.backends()
    assert gemmlab.get_backend("dask").name == "dask"
    assert "dask" not in gemmlab.backends()
    a = whole(9, 11)
    np.testing.assert_array_equal(gemmlab.matmul(a, a.T, backend="dask"), exact(a, a.T))
    assert gemmlab.explain(a, a.T, backend="dask").rows[0][:2] == ("dask", True)
