"""docs/arrays.md says what happens to each kind of array: each row is observed again."""

from __future__ import annotations

import array_kinds
import numpy as np
import pytest

import gemmlab


@pytest.mark.parametrize("name", array_kinds.KINDS)
def test_a_row_of_the_page_is_what_happens(name):
    try:
        observed = array_kinds.row(name)
    except LookupError as error:
        pytest.skip(str(error))
    assert array_kinds.rows_on_page()[name] == observed, "python tests/support/array_kinds.py writes the page"


def test_the_page_has_every_kind_once():
    assert list(array_kinds.rows_on_page()) == list(array_kinds.KINDS)


def test_the_products_are_right():
    for name in array_kinds.KINDS:
        try:
            x = array_kinds.made(name)
            result = gemmlab.asarray(gemmlab.matmul(x, x))
        except (LookupError, gemmlab.UnsupportedProblem, NotImplementedError):
            continue
        np.testing.assert_array_equal(np.asarray(result), array_kinds.PLAIN)
