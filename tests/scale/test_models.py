"""Cutting C, lines of time, and the prediction: pure functions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from randomness import RNG

from gemmlab._tiles import even
from gemmlab.scale import predicted
from gemmlab.scale.blocks import ALL, along, axis_to_cut, cut, grid, moved
from gemmlab.scale.lines import Line, ending_together, through


@pytest.mark.parametrize(
    ("count", "sizes", "expected"),
    [(1, (100, 100, 100), (1, 1)), (2, (100, 100, 100), (2, 1)), (4, (100, 100, 100), (2, 2)),
     (4, (10000, 10, 100), (4, 1)), (4, (10, 10000, 100), (1, 4)), (3, (100, 100, 100), (3, 1)),
     (8, (100, 100, 100), (4, 2)), (4, (1, 100, 100), (1, 4)), (4, (3, 1, 5), (3, 1)), (5, (2, 2, 9), (2, 2))],
)  # fmt: skip
def test_a_grid_uses_all_devices_and_moves_the_least(count, sizes, expected):
    assert grid(count, *sizes) == expected


def test_no_other_grid_of_as_many_blocks_moves_less():
    for _ in range(200):
        count, m, n, k = (int(x) for x in RNG.integers(1, 12, 4))
        r, c = grid(count, m, n, k)
        assert r <= m
        assert c <= n
        others = [rc for rc in itertools.product(range(1, m + 1), range(1, n + 1)) if math.prod(rc) <= count]
        assert r * c == max(map(math.prod, others))
        assert moved(r, c, m, n, k) == min(moved(*rc, m, n, k) for rc in others if math.prod(rc) == r * c)


def covered(shape, blocks):
    """How often each element is in a block."""
    seen = np.zeros(shape, int)
    for block in blocks:
        seen[(*block.lead, block.rows, block.columns)] += 1
    return seen


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (2, 9, 3), (1, 2, 5, 4), (3, 1, 1)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("rows_only", [False, True])
def test_blocks_cover_c_once(shape, count, rows_only):
    blocks = cut(shape, 6, count, rows_only=rows_only)
    assert 1 <= len(blocks) <= count
    assert (covered(shape, blocks) == 1).all()


def test_a_batch_is_cut_where_it_has_a_matrix_for_each():
    assert axis_to_cut((2, 5, 100, 100), 4) == 1
    assert axis_to_cut((2, 3, 100, 100), 4) == 2
    assert cut((8, 5, 5), 5, 2) == along(0, 3, [4, 4])
    assert all(block.columns == ALL for block in cut((1, 50, 50), 5, 4, rows_only=True))


def test_even_shares():
    assert even(10, 3) == [4, 3, 3]
    assert even(2, 3) == [1, 1]


def test_lines_that_end_together():
    assert ending_together([Line(0, 1.0), Line(0, 1.0)], 10) == [5, 5]
    assert ending_together([Line(0, 1.0), Line(0, 3.0)], 100) == [75, 25]
    assert ending_together([Line(20.0, 1.0), Line(0, 1.0)], 100) == [40, 60]
    assert ending_together([Line(200.0, 0.1), Line(0, 1.0)], 100) == [0, 100]  # it would begin after the end
    assert ending_together([Line(5.0, 1.0)], 7) == [7]


def test_no_other_shares_end_sooner():
    for _ in range(100):
        lines = [Line(*pair) for pair in RNG.uniform(0.1, 10, (3, 2))]
        rows = int(RNG.integers(1, 12))
        found = ending_together(lines, rows)
        assert sum(found) == rows
        end = max(line.seconds(share) for line, share in zip(lines, found, strict=True))
        for x, y in itertools.product(range(rows + 1), repeat=2):
            if x + y <= rows:
                other = max(line.seconds(share) for line, share in zip(lines, (x, y, rows - x - y), strict=True))
                assert end <= other + max(line.row_s for line in lines)  # within one row, by rounding


def test_a_line_through_two_points():
    assert through((2, 5.0), (4, 7.0)) == Line(3.0, 1.0)
    assert through((2, 1.0), (4, 4.0)) == Line(0.0, 1.0)  # noise: no negative time for nothing
    assert through((2, 5.0), (4, 5.0)) == Line(0.0, 1.25)
    assert through((1, 5.0), (1, 5.0)) == Line(0.0, 5.0)
    assert Line(3.0, 1.0).seconds(0) == 0


def test_the_prediction_counts_work_and_bytes():
    one = predicted(100, 200, 300, "float64", flop_per_s=1e9, bytes_per_s=1e9)
    assert one.work_s == pytest.approx(2 * 100 * 200 * 300 / 1e9)
    assert one.moved_s == pytest.approx(8 * (100 * 300 + 300 * 200 + 100 * 200) / 1e9)
    assert one.bound_s == one.work_s
    assert one.in_turn_s == one.work_s + one.moved_s
    four = predicted(1000, 1000, 1000, devices=4, flop_per_s=1e9, bytes_per_s=1e9)
    assert four.work_s == pytest.approx(0.5)
    assert four.moved_s == pytest.approx(4 * (500 * 1000 * 2 + 500 * 500) / 1e9)
    shared = predicted(1000, 1000, 1000, devices=4, flop_per_s=1e9, bytes_per_s=1e9, host_bytes_per_s=1e9)
    assert shared.moved_s == pytest.approx(4 * (2 * 2 + 1) * 1e6 / 1e9)
    with pytest.raises(ValueError, match="at least 1"):
        predicted(0, 1, 1, flop_per_s=1.0, bytes_per_s=1.0)
