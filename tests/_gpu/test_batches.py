"""Batches are split into launches that cover every product once, with the right matrices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gemmlab._gpu.batches import BatchedLayout, launches, row_major


def elements(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of offsets with equal leading axes, some of them repeated, permuted or cut."""
    lead = draw(st.lists(st.integers(1, 4), max_size=4))
    arrays = []
    for _ in range(2):
        kept = [1 if draw(st.booleans()) else count for count in lead]
        array = np.arange(np.prod([*kept, 2, 3], dtype=int)).reshape(*kept, 2, 3)
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(lead))))
            mixed = np.arange(array.size).reshape(*[kept[axis] for axis in order], 2, 3)
            array = np.moveaxis(mixed, range(len(lead)), order)
        arrays.append(np.broadcast_to(array, (*lead, 2, 3)))
    return arrays[0], arrays[1]


@given(batches(), st.integers(1, 5))
def test_launches_cover_the_batch(pair: tuple[np.ndarray, np.ndarray], most: int) -> None:
    lead = pair[0].shape[:-2]
    operands = [BatchedLayout(0, tuple(elements(x)[:-2]), 3) for x in pair]
    seen = []
    for products, ends in launches(lead, operands, most):
        assert 1 <= products <= most
        seen += [tuple(end.skip(batch=step).start for end in ends) for step in range(products)]
    expected = [tuple(int(x[index][0, 0]) for x in pair) for index in np.ndindex(*lead)]
    assert sorted(seen) == sorted(expected)


def test_a_contiguous_batch_is_one_launch() -> None:
    operands = [row_major((5, 4, 3, 2, 3), 3), row_major((1, 1, 1, 2, 3), 3)]
    ((products, (first, second)),) = launches((5, 4, 3), operands, 1000)
    assert (products, first.batch_stride, second.batch_stride) == (60, 6, 0)
