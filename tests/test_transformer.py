"""A program that only knows NumPy, bench/programs/transformer.py, has every product from the backend that it names."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from helpers import ROOT
from randomness import RNG
from sweeps import but_clblast

import gemmlab
from gemmlab._api import array, products
from gemmlab.verify import error_over_bound

SIZES = {"batch": 2, "tokens": 13, "width": 24, "heads": 3}
AVAILABLE = [name for name, info in gemmlab.backends().items() if info.available]


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("transformer", ROOT / "bench" / "programs" / "transformer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checked_products(monkeypatch):
    """The error of each product over its bound, as it is computed."""
    errors, run = [], products.run

    def checked(backend, problem, *arguments):
        handle = run(backend, problem, *arguments)
        errors.append(error_over_bound(problem.a, problem.b, problem.out))
        return handle

    monkeypatch.setattr(products, "run", checked)
    return errors


@pytest.fixture
def no_way_back(monkeypatch):
    """NumPy's products raise: those that our class would hand over, and those of arrays that lost the class."""

    def refuse(function, args, kwargs):
        raise AssertionError(f"{function.__name__} went to NumPy")

    monkeypatch.setattr(array, "by_numpy", refuse)
    for name in ("dot", "einsum", "tensordot"):
        monkeypatch.setattr(np, name, only_of_our_class(getattr(np, name)))


def only_of_our_class(function):
    def call(*args, **kwargs):
        assert any(isinstance(x, array.GemmArray) for x in args), f"{function.__name__} of plain arrays"
        return function(*args, **kwargs)

    return call


def inputs(program, dtype):
    return program.inputs(*SIZES.values(), dtype, RNG)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", but_clblast(AVAILABLE))
def test_a_block_under_each_backend(program, backend, dtype, checked_products, no_way_back):
    x, weights = inputs(program, dtype)
    weights = {name: gemmlab.asarray(weight) for name, weight in weights.items()}
    with gemmlab.use(backend), gemmlab.trace() as calls:
        output = program.block(x, weights)
    implied = program.products(**SIZES)
    assert [(call.backend, call.dtype, call.m, call.n, call.k, call.batch) for call in calls] == [
        (backend, dtype, *sizes) for sizes in implied
    ]
    assert len(checked_products) == len(implied)
    assert max(checked_products) <= 1
    assert type(output) is array.GemmArray
    assert output.dtype == dtype


@pytest.mark.parametrize("backend", but_clblast(AVAILABLE))
def test_the_output_is_that_of_numpy_within_the_bound(program, backend):
    x, weights = inputs(program, "float32")
    exact = program.block(x.astype("f8"), {name: weight.astype("f8") for name, weight in weights.items()})
    output, calls, _ = program.run(backend, x, weights)
    bound = sum(call.k for call in calls) * np.finfo("f4").eps  # of a chain of sums, each relative to the largest term
    assert np.abs(output - exact).max() <= bound * np.abs(exact).max()


def test_the_program_prints_a_row_for_each_backend(program, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["transformer.py", "--tokens", "5", "--width", "8", "auto", "cpu-ikj"])
    program.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[2]) for row in rows[1:]] == [("auto", "8"), ("cpu-ikj", "8")]
