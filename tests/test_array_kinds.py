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
        except (LookupError, TypeError, NotImplementedError):  # Zarr needs out=
            continue
        np.testing.assert_array_equal(np.asarray(result), array_kinds.PLAIN)


@pytest.mark.parametrize("runtime", ["opencl", "sycl", "cuda"])
def test_a_product_of_host_and_device_is_refused_by_every_function(runtime):
    try:
        there = array_kinds.on_device(runtime)
    except gemmlab.BackendUnavailable as error:
        pytest.skip(str(error))
    here = gemmlab.asarray(array_kinds.PLAIN)
    for multiply in (np.matmul, np.dot, np.inner, gemmlab.matmul, gemmlab.tensordot):
        with pytest.raises(TypeError):
            multiply(here, there)
    with pytest.raises(gemmlab.UnsupportedProblem, match="matmul takes them"):
        gemmlab.einsum("ij,jk", there, there)


def test_the_blocks_of_a_dask_array_multiply_by_gemmlab():
    arrays = pytest.importorskip("dask.array")
    blocks = arrays.from_array(np.ones((4, 6)), chunks=3)
    lazy = gemmlab.asarray(np.ones((2, 4))) @ blocks
    with gemmlab.use("cpu-naive"), gemmlab.trace() as calls:
        result = lazy.compute(scheduler="synchronous")
    assert type(result) is type(gemmlab.asarray(0.0))
    assert {call.backend for call in calls} == {"cpu-naive"}
    np.testing.assert_array_equal(result, np.full((2, 6), 4.0))
