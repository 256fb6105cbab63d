"""The model of memory and of bytes, and the graph: far fewer bytes enter tasks than by Dask's own matmul."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
import dask  # noqa: E402

import gemmlab.dask  # noqa: E402
from gemmlab.dask.graph import Options, Product  # noqa: E402
from gemmlab.dask.workers import Workers  # noqa: E402

TWO = Workers(2, 1, 2 << 30, is_cluster=True)


def unknown(name, rows, columns):
    """A Dask array of which only the chunks are known, so that no task of a product is joined with theirs."""
    grid = product(range(len(rows)), range(len(columns)))
    graph = {(name, i, j): (np.ones, (rows[i], columns[j]), "f4") for i, j in grid}
    return da.Array(graph, name, (rows, columns), dtype="f4")


def bytes_into_tasks(c, operand_chunk):
    """Bytes of all inputs of all tasks by the graph, as it would be computed."""
    (c,) = dask.optimize(c)
    parts = sizes_of_parts(c)
    inputs = c.dask.get_all_dependencies().values()
    return sum(parts.get(key, operand_chunk) for keys in inputs for key in keys)


def sizes_of_parts(c):
    """Bytes of the partial sums of ours."""
    keys = [key for key in c.dask if isinstance(key, tuple) and key[0].startswith("part-of-gemmlab")]
    return {key: c.chunks[0][key[1]] * c.chunks[1][key[2]] * 4 for key in keys}


@pytest.mark.filterwarnings("ignore::dask.array.core.PerformanceWarning")
def test_five_times_fewer_bytes_enter_tasks_than_by_dask():
    side = (1000,) * 16
    a, b = unknown("a", side, side), unknown("b", side, side)
    made = Product(a, b, Options(), TWO)
    ours = bytes_into_tasks(made.lazy(), 4_000_000)
    theirs = bytes_into_tasks(da.matmul(a, b), 4_000_000)
    assert ours == made.plan.moved
    assert theirs >= 5 * ours


def test_the_advice_counts_what_the_graph_has():
    sides = (300, 200, 400), (500, 100), (250, 250, 250)
    a, b = unknown("a", sides[0], sides[1]), unknown("b", sides[1], sides[2])
    advice = gemmlab.dask.advise(a, b, memory="4MiB")
    (c,) = dask.optimize(gemmlab.dask.matmul(a, b, memory="4MiB"))
    chunks = {(name, i, j): x.chunks[0][i] * x.chunks[1][j] * 4 for name, x in (("a", a), ("b", b))
              for i in range(x.numblocks[0]) for j in range(x.numblocks[1])}  # fmt: skip
    chunks |= sizes_of_parts(c)
    assert advice.moved == sum(chunks[key] for keys in c.dask.get_all_dependencies().values() for key in keys)
    assert advice.tasks == len([key for key in c.dask if key[0] not in "ab"]) - bool(sizes_of_parts(c)) * c.npartitions


def test_larger_memory_makes_larger_tiles_and_moves_less():
    side = (500,) * 16
    a = unknown("a", side, side)
    moved = [gemmlab.dask.advise(a, a, memory=f"{memory}MiB").moved for memory in (256, 512, 1024, 4096)]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]


def test_a_task_takes_what_the_model_allows():
    side = (1000,) * 16
    for memory in (2, 3, 4, 8):
        made = Product(unknown("a", side, side), unknown("b", side, side), Options(), Workers(2, 1, memory << 30, True))
        assert made.plan.task <= 0.75 * (memory << 30)


def test_chunks_that_do_not_fit_are_refused_with_better_ones():
    a = unknown("a", (16_000,), (16_000,))
    with pytest.raises(ValueError, match=r"^the smallest task needs .*: rechunk A to \((\d+), \1\) and r") as refused:
        gemmlab.dask.matmul(a, a, memory="1GiB")
    better = a.rechunk(int(str(refused.value).split("A to (")[1].split(",")[0]))
    assert gemmlab.dask.advise(better, better, memory="1GiB").tasks > 1


def test_a_k_group_that_does_not_fit_is_refused_with_one_that_does():
    sides = (1000,), (1000,) * 64
    a, b = unknown("a", *sides), unknown("b", *sides[::-1])
    workers = Workers(8, 1, 512 << 20, is_cluster=True)
    with pytest.raises(ValueError, match=r"leave k_group=None, or pass at most k_group=\d+") as refused:
        Product(a, b, Options(k_group=64), workers)
    fits = int(str(refused.value).rpartition("=")[2])
    assert Product(a, b, Options(k_group=fits), workers).plan.ks == fits


def test_advice_prints_as_a_table():
    a = unknown("a", (1000,) * 4, (1000,) * 4)
    text = str(gemmlab.dask.advise(a, a, memory="2GiB"))
    for words in ("workers", "expected peak", "bytes into tasks", "dask.array.matmul", "threads a task"):
        assert words in text
