"""Dask arrays in chunks that few have: what `dask.array.matmul` gives, or one line that says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from randomness import RNG

import gemmlab

dask = pytest.importorskip("dask", reason="needs dask")
array = pytest.importorskip("dask.array", reason="needs dask")


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def unknown(x, axis):
    """Some lines of it, of which Dask does not know how many there are in a chunk."""
    keep = array.from_array(np.arange(x.shape[axis]) % 3 > 0, chunks=x.chunks[axis])
    return x[keep] if axis == 0 else x[:, keep]


@pytest.mark.parametrize("other", ["known", "unknown", "a vector", "of NumPy"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_chunks_of_unknown_size_are_one_line(other, axis, swapped):
    x = unknown(array.ones((9, 9), chunks=(4, 3)), axis)
    y = {"known": array.ones((9, 9), chunks=(3, 9)), "unknown": unknown(array.ones((9, 9), chunks=(4, 3)), 1 - axis),
         "a vector": array.ones(9, chunks=3), "of NumPy": np.ones((9, 9))}[other]  # fmt: skip
    pair = (y, x) if swapped else (x, y)
    with pytest.raises(ValueError, match=r"chunks of unknown size: call its compute_chunk_sizes\(\) first"):
        gemmlab.matmul(*pair)


@pytest.mark.parametrize("chunks", [(0, 1), (1, 0), (0, 1, 0), (1,), (0, 0, 1)])
@pytest.mark.parametrize("extent", [1, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_batch_axis_of_one_in_empty_chunks(chunks, extent, swapped):
    a, b = RNG.standard_normal((1, 4, 6)), RNG.standard_normal((extent, 6, 5))
    x = array.from_array(a, chunks=(chunks, 4, 3))
    y = array.from_array(b, chunks=(2, 3, 5))
    if swapped:
        a, b, x, y = b.swapaxes(1, 2), a.swapaxes(1, 2), y.swapaxes(1, 2), x.swapaxes(1, 2)
    assert np.allclose(gemmlab.matmul(x, y).compute(), a @ b)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_empty_chunks_on_any_axis(axis):
    a, b = RNG.standard_normal((3, 4, 6)), RNG.standard_normal((3, 6, 5))
    chunks = [(3,), (4,), (6,)]
    chunks[axis] = (0, chunks[axis][0], 0)
    y = array.from_array(b, chunks=(1, 3, 5))
    assert np.allclose(gemmlab.matmul(array.from_array(a, chunks=tuple(chunks)), y).compute(), a @ b)
