"""The plan: its tiles are C, its blocks are k, and it reads and takes what it says."""

from __future__ import annotations

import dataclasses
from itertools import groupby, pairwise

import numpy as np
import pytest
from randomness import RNG

from gemmlab.product import npy, product
from gemmlab.product.plan import BAND_FLOP, BANDS, LEAST_BAND, STEP, Sizes, choose


def random_sizes():
    m, n, k = (int(x) for x in RNG.integers(1, [3000, 3000, 9000]))
    item = int(RNG.choice([1, 2, 4, 8, 16]))
    steps = tuple(int(x) for x in RNG.choice([STEP, 100, 250], 3))
    return Sizes(m, n, k, item, item, (item, item), (item, max(item, 4)), bool(RNG.integers(2)), steps)


def blocks(plan):
    """What each step multiplies."""
    return [((rows, depth), (depth, columns)) for rows, columns in plan.tiles for depth in plan.depths]


def size(block):
    (first, last), (left, right) = block
    return (last - first) * (right - left)


@pytest.mark.parametrize("repeat", range(20))
def test_a_plan_covers_the_product_and_says_what_it_reads_and_takes(repeat):
    sizes = random_sizes()
    memory = int(RNG.integers(16, 200)) << 20  # the least tiles of these sizes take 14 MiB
    plan = choose(sizes, memory)
    count = np.zeros((sizes.m, sizes.n), np.int8)
    for rows, columns in plan.tiles:
        count[slice(*rows), slice(*columns)] += 1
        assert rows[0] % sizes.steps[0] == columns[0] % sizes.steps[1] == 0
    assert (count == 1).all()
    assert plan.depths[0][0] == 0
    assert plan.depths[-1][1] == sizes.k
    assert all(one[1] == other[0] for one, other in pairwise(plan.depths))
    read = taken = 0
    item, sum_item = sizes.items if len(plan.depths) == 1 else sizes.cut_items
    for operand, bytes_of in ((0, sizes.a_item), (1, sizes.b_item)):
        changes = [block for block, _ in groupby(step[operand] for step in blocks(plan))]
        read += bytes_of * sum(map(size, changes))
        taken += min(2, len(changes)) * max(map(size, changes)) * item
    taken += plan.tm * plan.tn * sum_item * (1 if sizes.adds or len(plan.depths) == 1 else 2)
    assert read == plan.bytes_read
    assert taken <= plan.bytes_memory <= memory


def test_more_memory_never_costs_more():
    sizes = Sizes(40_000, 40_000, 40_000, 4, 4, (4, 4), (4, 4))
    read = [choose(sizes, 2**power).bytes_read for power in range(24, 36)]
    assert all(more <= 1.1 * less for less, more in pairwise(read))
    assert read[-1] == 2 * 40_000**2 * 4, "both operands once"


def test_a_tile_is_small_where_that_costs_nothing():
    plan = choose(Sizes(40_000, 40_000, 40_000, 4, 4, (4, 4), (4, 4)), 2**36)
    assert plan.bytes_read == 2 * 40_000**2 * 4
    assert len(plan.tiles) > 10
    small = choose(Sizes(5_000, 5_000, 5_000, 4, 4, (4, 4), (4, 4)), 2**36)
    assert len(small.tiles) == 1, "all of it is less than a tile"


def test_a_panel_stays_where_k_is_short_and_tiles_are_large_where_it_is_long():
    short = choose(Sizes(100_000, 100_000, 500, 4, 4, (4, 4), (4, 4)), 2**29)
    assert len(short.depths) == 1
    long = choose(Sizes(20_000, 20_000, 200_000, 4, 4, (4, 4), (4, 4)), 2**29)
    assert len(long.depths) > 1
    assert min(long.tm, long.tn) > 5000


@pytest.mark.parametrize("repeat", range(20))
def test_no_tile_is_of_one_column_but_of_a_product_with_one(repeat):
    n = int(RNG.choice([1, 65, 129, 193, 1025, 2 * int(RNG.integers(100, 2000)) + 1]))
    sizes = dataclasses.replace(random_sizes(), n=n, steps=(STEP, int(RNG.choice([1, STEP])), STEP))
    plan = choose(sizes, int(RNG.integers(16, 200)) << 20)
    assert n == 1 or min(high - low for _, (low, high) in plan.tiles) > 1


@pytest.mark.parametrize("repeat", range(20))
def test_a_band_is_a_small_share_of_a_long_product(repeat):
    m, n, k = (int(x) for x in 10 ** RNG.uniform(2, 5.5, 3))
    plan = choose(Sizes(m, n, k, 8, 8, (8, 8), (8, 8)), 2**31)
    count = np.zeros((plan.tm, plan.tn), np.int8) if plan.tm * plan.tn < 1e8 else None
    for rows, columns in plan.bands(plan.tm, plan.tn):
        (height, width) = (high - low for low, high in (rows, columns))
        assert width > 1
        assert min(height, width) <= LEAST_BAND + STEP or height * width * plan.tk <= max(
            BAND_FLOP / 2, m * n * k / BANDS
        ) + STEP * plan.tm * plan.tk
        if count is not None:
            count[slice(*rows), slice(*columns)] += 1
    assert count is None or (count == 1).all()


@pytest.mark.parametrize("repeat", range(10))
def test_bands_are_of_whole_columns_of_chunks_and_never_of_one_column(repeat):
    sizes = Sizes(1000, 60_000, 60_000, 8, 8, (8, 8), (8, 8), read_steps=(STEP, int(RNG.choice([1, 64, 500, 2000]))))
    plan = dataclasses.replace(choose(sizes, 2**31), tm=1000, tn=60_000)
    for width in (1281, 1 + 64 * int(RNG.integers(1, 900)), int(RNG.integers(2, 60_000))):
        bands = [columns for _, columns in plan.bands(1000, width)]
        assert all(low % min(sizes.read_steps[1], 2000) == 0 for low, _ in bands)
        assert min(high - low for low, high in bands) > 1
        assert (bands[0][0], bands[-1][1]) == (0, width)


def test_too_little_memory_says_how_much_it_takes():
    sizes = Sizes(4000, 4000, 4000, 8, 8, (8, 8), (8, 8))
    with pytest.raises(ValueError, match="1 MiB of memory are too few for this product: give at least 2MiB"):
        choose(sizes, 2**20)
    choose(sizes, 2 * 2**20)


def test_files_are_read_as_often_as_planned(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", RNG.random((400, 1500)))
    np.save(tmp_path / "b.npy", RNG.random((1500, 300)))
    read, wanted = npy.NpyMatrix.read, []

    def counted(self, rows, columns, into):
        wanted.append(size((rows, columns)) * self.dtype.itemsize)
        return read(self, rows, columns, into)

    def end(done, total, doing):
        if doing == "check":
            wanted.append("check")

    monkeypatch.setattr(npy.NpyMatrix, "read", counted)
    found = product(tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "c.npy", memory="2MiB", threads=1, progress=end)
    assert len(found.plan.tiles) > 1
    assert sum(wanted[: wanted.index("check")]) == found.plan.bytes_read
