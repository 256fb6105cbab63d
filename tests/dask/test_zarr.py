"""Arrays in Zarr: read by the tasks, written chunk by chunk, marked until they are whole."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from randomness import RNG

import gemmlab

da = pytest.importorskip("dask.array")
zarr = pytest.importorskip("zarr")
import dask  # noqa: E402

import gemmlab.dask  # noqa: E402
from gemmlab.dask import operands, storing, tasks  # noqa: E402

MARK = "gemmlab_unfinished"
SMALL = 40_000


def whole(*shape):
    return RNG.integers(-8, 9, shape).astype("float32")


@pytest.fixture
def create(tmp_path):
    """A function that makes an array in Zarr, of zeros or of given values."""
    made = iter(range(100))

    def new(values, chunks, **options):
        x = zarr.create_array(tmp_path / f"{next(made)}.zarr", shape=values.shape, chunks=chunks,
                              dtype=options.pop("dtype", values.dtype), **options)  # fmt: skip
        x[...] = values
        return x

    return new


@pytest.mark.parametrize("k_group", [None, 1, 3])
@pytest.mark.parametrize(
    "chunks", [((7, 11), (13, 5), (10, 6)), ((37, 53), (53, 29), (8, 29)), ((5, 5), (5, 5), (5, 5))]
)
def test_the_product_is_stored_and_returned(create, chunks, k_group):
    a, b = whole(37, 53), whole(53, 29)
    out = create(np.full((37, 29), np.nan, "float32"), chunks[2])
    shown = []
    operands = create(a, chunks[0]), create(b, chunks[1])
    result = gemmlab.dask.matmul(
        *operands, "cpu-packed", k_group, out=out, memory=4 * SMALL, progress=lambda *at: shown.append(at)
    )
    assert result is out
    np.testing.assert_array_equal(out[...], a @ b)
    assert MARK not in out.attrs
    assert shown[0] == (0, shown[-1][1], "tiles")
    assert shown[-1][0] == shown[-1][1]


def test_operands_of_any_kind_go_to_zarr(create):
    a, b = whole(20, 30), whole(30, 10)
    of_a, of_b = create(a, (6, 7)), create(b, (8, 4))
    pairs = (of_a, b), (a, of_b), (a, b), (da.from_array(a, chunks=(3, 4)), of_b), (da.from_zarr(of_a), of_b)
    for pair in pairs:
        out = create(np.full((20, 10), np.nan, "float32"), (4, 4))
        assert gemmlab.matmul(*pair, out=out) is out
        np.testing.assert_array_equal(out[...], a @ b)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [((30,), (30, 20)), ((10, 30), (30,)), ((4, 10, 30), (30, 20)), ((10, 30), (4, 30, 20)), ((2, 1, 6, 8), (3, 8, 5))],
)
def test_vectors_and_batches(create, of_a, of_b):
    a, b = whole(*of_a), whole(*of_b)
    right = np.matmul(a, b)
    out = create(np.full(right.shape, np.nan, "float32"), tuple(-(-side // 2) for side in right.shape))
    operands = (create(x, tuple(-(-side // 3) for side in x.shape)) for x in (a, b))
    gemmlab.dask.matmul(*operands, out=out, memory=SMALL)
    np.testing.assert_array_equal(out[...], right)


def test_shards_and_other_byte_orders(create):
    a, b = whole(24, 24), whole(24, 24)
    out = create(np.zeros((24, 24)), (3, 4), shards=(6, 8), dtype="float64")
    gemmlab.dask.matmul(create(a, (4, 4), shards=(8, 12)), create(b, (5, 5), dtype=">f4"), out=out, memory=SMALL)
    np.testing.assert_array_equal(out[...], a @ b)


def test_each_chunk_of_the_output_is_written_once(create, monkeypatch):
    a, b = whole(40, 40), whole(40, 40)
    out, written = create(np.zeros((40, 40), "float32"), (7, 9)), []

    class Watched:
        shards, chunks = None, out.chunks

        def __setitem__(self, box, values):
            written.append(tuple((side.start, side.stop) for side in box))
            out[box] = values

    stored = tasks.stored
    monkeypatch.setattr("gemmlab.dask.graph.stored", lambda target, *given: stored(Watched(), *given))
    gemmlab.dask.matmul(create(a, (8, 8)), create(b, (8, 8)), out=out, memory=SMALL)
    assert len(written) == len(set(written)) == out.nchunks
    assert all(start % side == 0 for box in written for (start, _), side in zip(box, out.chunks, strict=True))
    np.testing.assert_array_equal(out[...], a @ b)


def test_tasks_read_what_a_dask_array_has_in_zarr(create):
    a = create(whole(20, 30), (6, 7))
    lazy = gemmlab.dask.matmul(da.from_zarr(a), da.from_zarr(a).T)
    assert len([key for key in lazy.dask if key[0].startswith("from-zarr")]) == 20  # of the transposed one alone
    alone = gemmlab.dask.matmul(da.from_zarr(a), whole(30, 5), memory=SMALL)
    assert not [key for key in alone.dask if str(key[0]).startswith("from-zarr")]
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), a[...] @ a[...].T)


@pytest.mark.parametrize("kind", ["folder", "group", "format 2"])
def test_workers_get_absolute_paths(tmp_path, monkeypatch, kind):
    """A worker may be in another folder, where a relative path would be of an array that is not there."""
    monkeypatch.chdir(tmp_path)
    a, b = whole(9, 8), whole(8, 7)

    def create(name, values):
        options = {"shape": values.shape, "chunks": (3, 4), "dtype": values.dtype, "fill_value": 5.0}
        with zarr.config.set({"array.write_empty_chunks": True}):
            if kind == "group":
                return zarr.open_group("group.zarr").create_array(f"in/{name}", **options)
            return zarr.create_array(f"{name}.zarr", zarr_format=2 if kind == "format 2" else 3, **options)

    stored = [create(name, values) for name, values in (("a", a), ("b", b), ("c", a @ b))]
    stored[0][...], stored[1][...] = a, b
    assert not stored[0].store.root.is_absolute()
    (tmp_path / "other").mkdir()
    compute = storing._compute_here

    def elsewhere(marks, show):
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path / "other")
            compute(pickle.loads(pickle.dumps(marks)), show)

    monkeypatch.setattr(storing, "_compute_here", elsewhere)
    gemmlab.dask.matmul(da.from_zarr(stored[0]), stored[1], out=stored[2], memory=SMALL)
    np.testing.assert_array_equal(stored[2][...], a @ b)
    assert not list((tmp_path / "other").iterdir())
    absolute = operands.by_absolute_path(stored[2])
    assert absolute.store.root.is_absolute()
    assert absolute.config == stored[2].config


def test_what_cannot_be_stored_is_said_before_anything_is_written(create):
    a, out = create(whole(6, 6), (2, 3)), create(np.zeros((6, 6), "float32"), (2, 2))
    refusals = [
        ({}, TypeError, "needs out="),
        ({"out": np.empty((6, 6))}, TypeError, "out must be a zarr.Array"),
        ({"out": a}, ValueError, "the operand A is read from out"),
        ({"out": create(np.zeros((6, 5)), (2, 2))}, ValueError, r"the shape \(6, 5\), and the product \(6, 6\)"),
        ({"out": create(np.zeros((6, 6), "int32"), (2, 2))}, TypeError, "cannot hold a product of float32"),
        ({"out": out, "dtype": "float64"}, TypeError, "takes no dtype"),
        ({"out": out, "backend": "cpu-pakced"}, gemmlab.UnknownBackend, "did you mean"),
    ]
    for options, error, words in refusals:
        with pytest.raises(error, match=words):
            gemmlab.matmul(a, a, **options)
    assert not out[...].any()
    assert MARK not in out.attrs


@pytest.mark.parametrize("name", ["relative path", "link", "expression", "transposed", "in memory"])
def test_an_output_that_is_an_operand_is_refused_by_any_name(create, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    values = whole(6, 6)
    out, a = create(values, (2, 3)), create(values, (2, 3))
    (tmp_path / "link.zarr").symlink_to(tmp_path / "0.zarr")
    if name == "in memory":
        out = zarr.create_array({}, shape=(6, 6), chunks=(2, 2), dtype="f4")
        out[...] = values
    same = {
        "in memory": lambda: out,
        "relative path": lambda: zarr.open_array("0.zarr"),
        "link": lambda: zarr.open_array(tmp_path / "link.zarr"),
        "expression": lambda: da.from_zarr("0.zarr").rechunk(4) + 1,
        "transposed": lambda: da.from_array(out).T,
    }[name]()
    for pair, operand in (((same, a), "A"), ((a, same), "B")):
        with pytest.raises(ValueError, match=f"^the operand {operand} is read from out: create another array"):
            gemmlab.matmul(*pair, out=out)
    np.testing.assert_array_equal(out[...], values)
    assert MARK not in out.attrs


def test_no_thread_writes_after_the_error(create, monkeypatch):
    """A late tile of the first product would be in the second one, into the same output."""
    a, out, begun, ended = whole(40, 40), create(np.zeros((40, 40), "float32"), (8, 8)), [], []

    def slow(target, box, *given):
        begun.append(box)
        if len(begun) == 2:
            raise OSError("the second one fails")
        time.sleep(0.3)
        ended.append(box)
        return tasks.stored(target, box, *given)

    monkeypatch.setattr("gemmlab.dask.graph.stored", slow)
    with dask.config.set(num_workers=2), pytest.raises(gemmlab.dask.Unfinished, match="the second one fails"):
        gemmlab.dask.matmul(create(a, (8, 8)), create(a, (8, 8)), out=out, memory=SMALL)
    assert len(begun) == len(ended) + 1
    assert len(begun) < out.nchunks


def test_a_group_of_arrays_is_refused(tmp_path):
    with pytest.raises(gemmlab.UnsupportedProblem, match="zarr's Group: pass"):
        gemmlab.matmul(zarr.open_group(tmp_path / "group.zarr"), np.eye(3))


def test_a_chunk_that_cannot_be_read_is_one_clear_error(create, tmp_path):
    a, out = create(whole(8, 8), (4, 4)), create(np.zeros((8, 8), "float32"), (4, 4))
    damaged = tmp_path / "0.zarr" / "c" / "1" / "0"
    damaged.write_bytes(damaged.read_bytes()[:10])
    with pytest.raises(gemmlab.dask.Unfinished) as found:
        gemmlab.matmul(a, a, out=out)
    assert "\n" not in str(found.value)
    assert "cannot read [4:8, 0:4] of file:" in str(found.value)
    assert out.attrs[MARK]
    with pytest.raises(gemmlab.dask.CannotRead):
        gemmlab.dask.matmul(a, a).compute(scheduler="synchronous")
    damaged.unlink()  # a chunk that is not there is zeros, in Zarr
    gemmlab.matmul(a, a, out=out)
    assert MARK not in out.attrs
