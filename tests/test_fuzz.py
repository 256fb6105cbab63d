"""Random calls of gemmlab.matmul do what NumPy does, but for the differences that docs/promises.md names.

`strategies.py` in tests/support draws the calls, `oracle.py` compares. 1,000 calls are drawn each time, 12,000 with the
exhaustive tests, and any number with `pytest tests/test_fuzz.py -m "" --cases N`. A failure prints the smallest call
that fails; to repeat it: `PYTHONPATH=tests/support python -c "from oracle import *; check(Call(...))"`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import cast

import pytest
from calls import Array, Call, made
from helpers import DOCS
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from oracle import DIFFERENCES, check
from randomness import fresh_seed
from strategies import calls
from sweeps import swept

import gemmlab
from gemmlab._cpu.packed_backend.backend import Packed
from gemmlab._cpu.packed_backend.plan import STRATEGIES

INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = (*INTEGERS, "float16", "bfloat16", "float32", "float64", "longdouble", "complex64", "complex128")
PART = 1_000  # calls of one test
RUN = 100  # calls of one run of Hypothesis: what one run draws is much alike
ON_DEVICES = [name for name, info in gemmlab.backends().items() if info.available and name.startswith("opencl")]
PATHS = (*STRATEGIES, "slices", "pieces", "blocks of rows", "blocks of columns", "blocks of k", "kept", "separate")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", swept(range(-(-metafunc.config.option.cases // PART))))


def for_random_calls(count: int, backends: st.SearchStrategy[str] | None = None) -> Callable[..., None]:
    """A decorator: run a function now for so many calls, in runs of Hypothesis with seeds of their own."""

    def run(function: Callable[[Call], None]) -> None:
        drawn = calls() if backends is None else calls(backends)
        options = settings(
            max_examples=min(count, RUN),
            database=None,  # --seed repeats a run
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        for _ in range(-(-count // RUN)):
            seed(fresh_seed())(options(given(drawn)(function)))()

    return run


def test_calls_do_what_numpy_does(part: int) -> None:
    @for_random_calls(PART)
    def _(call: Call) -> None:
        check(call)


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [{}, {"accumulate": True}, {"accumulate": True, "casting": "unsafe"}], ids=str)
def test_each_dtype_with_each_other(options: dict[str, object]) -> None:
    for a, b, out in product(DTYPES, repeat=3):
        check(Call(Array((2, 3), a), Array((3, 1), b), out=Array((2, 1), out), options=dict(options)))


@pytest.mark.skipif(not ON_DEVICES, reason="no OpenCL device here")
def test_calls_by_opencl_do_what_numpy_does() -> None:
    @for_random_calls(100, st.sampled_from(ON_DEVICES))
    def _(call: Call) -> None:
        check(call)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.exhaustive
def test_the_calls_take_every_path_of_the_packed_rung() -> None:
    taken: Counter[str] = Counter()

    def missing() -> set[str]:
        return {path for path in PATHS if not taken[path]}

    for _ in range(5):  # some paths are rare
        if missing():

            @for_random_calls(2_000, st.just("cpu-packed"))
            def _(call: Call) -> None:
                taken.update(paths_of(call))

    assert not missing()


def paths_of(call: Call) -> set[str]:
    """What `cpu-packed` does for a call; nothing if the call is not for it."""
    given, packed = made(call), cast("Packed", gemmlab.get_backend("cpu-packed"))
    try:
        problem = gemmlab.Problem.from_call(
            given.a, given.b, given.out, threads=call.options.get("threads"), **call.numpys_options
        )
        plan = packed.plan(problem, **call.params) if packed.supports(problem) is True else None
    except (TypeError, ValueError, OverflowError):  # the last: a whole number, of dtype object, that does not fit
        return set()
    if plan is None:
        return set()
    found = {
        "slices": plan.slices > 1,
        "pieces": plan.pieces > 1,
        "blocks of rows": 0 < plan.mc < plan.m,
        "blocks of columns": 0 < plan.nc < plan.n,
        "blocks of k": plan.kc < plan.k,
        "kept": plan.kept > 1,
        "separate": plan.separate,
    }
    return {plan.strategy, *(path for path, is_taken in found.items() if is_taken)}


def test_a_call_prints_as_the_text_that_makes_it_again() -> None:
    @for_random_calls(50)
    def _(call: Call) -> None:
        assert eval(repr(call), {"Array": Array, "Call": Call}) == call


def test_the_page_of_promises_names_every_difference() -> None:
    page = re.sub(r"\s+", " ", (DOCS / "promises.md").read_text(encoding="utf-8"))
    assert not [difference.sentence for difference in DIFFERENCES if difference.sentence not in page]
