"""The audit finds every fault we can think of, and the bounds are what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import broken_backends as broken
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import fresh_seed
from sweeps import swept

import gemmlab
from gemmlab._backend import Param
from gemmlab._registry import registered
from gemmlab.verify import bounds, error_over_bound, freivalds, gamma
from gemmlab.verify.checks import CHECKS
from gemmlab.verify.context import CheckContext, Fault
from gemmlab.verify.inputs import CANARY, EDGES, OPERAND_LAYOUTS, RESULT_LAYOUTS, around, owner, triples
from gemmlab.verify.running import supported

ON_THE_CPU = [name for name, info in gemmlab.backends().items() if info.available and name.startswith("cpu-")]


@cache
def audit_of(fault: type[broken.Honest]) -> Any:
    with registered(fault()) as backend:
        return gemmlab.verify(backend.name, seed=5)


def failed(audit: Any) -> set[str]:
    return {result.check for result in audit.results if result.status == "failed"}


# The audit


# .ci/run audits the devices' backends by `gemmlab verify`.
@pytest.mark.parametrize("name", swept(["auto", *ON_THE_CPU]))
def test_backends_on_the_cpu_pass(name: str) -> None:
    audit = gemmlab.verify(name, seed=fresh_seed())
    assert audit.passed, str(audit)


@pytest.mark.parametrize("fault", swept(broken.FOUND_BY), ids=lambda fault: fault.__name__)
def test_audit_finds(fault: type[broken.Honest]) -> None:
    audit = audit_of(fault)
    assert not audit.passed
    assert broken.FOUND_BY[fault] in failed(audit), str(audit)


def test_a_dtype_in_which_a_backend_raises_is_audited_and_fails() -> None:
    class FailsForInt8(broken.Honest):
        def gemm(self, problem: gemmlab.Problem, **params: Any) -> None:
            if problem.dtype == np.int8:
                raise ValueError("no int8 here")
            super().gemm(problem, **params)

    with registered(FailsForInt8()) as backend:
        assert "int8" in supported(backend.name)
        assert not gemmlab.verify(backend.name, dtypes=["int8"], seed=5).passed


def test_honest_backend_passes() -> None:
    audit = audit_of(broken.Honest)
    assert audit.passed, str(audit)
    assert {result.status for result in audit.results} == {"passed"}


def test_every_check_has_a_fault_made_for_it() -> None:
    # The core hands no empty problem, no overlapping out and no wrong shape to a backend.
    of_the_core = {"overlap", "empty", "wrong shapes"}
    assert {check.name for check in CHECKS} - of_the_core == set(broken.FOUND_BY.values())


def careless(a: Any, b: Any, out: Any = None) -> Any:
    """A product that minds neither an `out` that overlaps or is too large nor an empty sum."""
    out = np.full(np.matmul(a, b).shape, np.nan, a.dtype) if out is None else out
    for i in range(len(a)):
        if a.shape[-1]:
            out[i] = np.matmul(a[i], b)
    return out


@pytest.mark.parametrize(("name", "where"), [("overlap", "out is b"), ("empty", "k=0"), ("wrong shapes", "out")])
def test_faults_of_the_core_would_be_found(name: str, where: str) -> None:
    check = next(check for check in CHECKS if check.name == name)
    with pytest.raises(Fault, match=where):
        check.run(CheckContext(careless, np.dtype(float), {}, [], False, False, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (broken.DropsLastColumn, "elements are wrong"),
        (broken.Crashes, "ZeroDivisionError: seven"),
        (broken.SumsByThreads, "threads=2"),
        (broken.WritesOnePast, "bytes outside out"),
        (broken.ChangesOperand, "a was changed"),
    ],
)
def test_faults_are_told_where_they_are(fault: type[broken.Honest], words: str) -> None:
    assert words in " ".join(str(audit_of(fault)).split())


def test_float32_sums_are_no_fault_in_float32() -> None:
    results = audit_of(broken.SumsInSinglePrecision).results
    assert {r.dtype for r in results if r.status == "failed"} == {"float64"}


def test_unsupported_dtype_is_not_a_failure() -> None:
    audit = audit_of(broken.RefusesFloat64)
    assert audit.passed
    assert {r.status for r in audit.results if r.dtype == "float64"} == {"not supported"}


def test_unsupported_layouts_are_counted() -> None:
    audit = audit_of(broken.RefusesColumnMajor)
    assert audit.passed, str(audit)
    (layouts,) = (r for r in audit.results if r.check == "layouts" and r.dtype == "float32")
    assert "cases not supported" in layouts.detail


def test_a_backend_that_always_crashes_fails_every_check() -> None:
    class AlwaysCrashes(broken.Honest):
        def gemm(self, problem: Any, **params: Any) -> None:
            raise RuntimeError("always")

    audit = audit_of(AlwaysCrashes)
    assert failed(audit) == {check.name for check in CHECKS} - {"parameters", "empty", "wrong shapes"}


def test_nothing_supported_is_no_pass() -> None:
    class RefusesAll(broken.Honest):
        def supports(self, problem: Any) -> bool | str:
            return "no"

    assert not audit_of(RefusesAll).passed


@pytest.mark.exhaustive
def test_seed_repeats_an_audit() -> None:
    once, again = (gemmlab.verify("cpu-naive", seed=11) for _ in range(2))
    assert once == again
    assert gemmlab.verify("cpu-numpy").seed not in (11, gemmlab.verify("cpu-numpy").seed)


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int, str]] = []
    gemmlab.verify("cpu-numpy", progress=lambda *progress: seen.append(progress))
    assert [done for done, _, _ in seen] == list(range(2 * len(CHECKS)))
    assert {total for _, total, _ in seen} == {2 * len(CHECKS)}


def test_report_is_narrow_and_serialisable() -> None:
    for audit in (audit_of(broken.Crashes), audit_of(broken.Honest)):
        assert max(map(len, str(audit).splitlines())) <= 80
        assert json.loads(json.dumps(audit.to_dict()))["passed"] == audit.passed
        assert "seed 5" in str(audit)


def test_nothing_to_audit() -> None:
    with pytest.raises(gemmlab.UnknownBackend):
        gemmlab.verify("cpu-nonesuch")
    for name, info in gemmlab.backends().items():
        if not info.available:
            with pytest.raises(gemmlab.BackendUnavailable):
                gemmlab.verify(name)


# Its cases


@pytest.mark.parametrize("layout", OPERAND_LAYOUTS, ids=lambda layout: layout.name)
def test_layouts_hold_values(layout: Any) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    held = layout.hold(values)
    assert held.shape == (3, 4)
    assert np.isnan(held).sum() == 0
    if "repeated" not in layout.name:
        assert np.array_equal(held, values)


@pytest.mark.parametrize("layout", RESULT_LAYOUTS, ids=lambda layout: layout.name)
def test_frames_lie_inside_their_buffer(layout: Any) -> None:
    out = layout.frame((3, 4), np.float64, CANARY)
    out[...] = 0
    around = owner(out).view(np.uint8)
    assert (around == 0).sum() == 12 * 8
    assert (around == CANARY).sum() == around.size - 12 * 8 > 0


def test_sizes_follow_the_backends_blocks() -> None:
    class HasTiles(broken.Honest):
        params: Mapping[str, Param] = {
            "tile": Param("tile", 14, (14,), ""),
            "mode": Param("mode", "a", ("a",), ""),
        }
        seen: ClassVar[set[int]] = set()

        def multiply(self, a: Any, b: Any) -> Any:
            self.seen.add(a.shape[-1])
            return super().multiply(a, b)

    assert audit_of(HasTiles).passed
    assert {*EDGES, 13, 14, 15} <= HasTiles.seen
    assert around([14, 4096, 1]) == [13, 14, 15]
    rounds = list(triples(np.random.default_rng(0), [3, 4, 5], rounds=2))
    assert sorted(k for _, _, k in rounds) == [3, 3, 4, 4, 5, 5]


# The bounds


def test_gamma_is_what_it_says() -> None:
    u = Fraction(1, 2**24)
    assert gamma(100, np.float32) == pytest.approx(float(100 * u / (1 - 100 * u)), rel=1e-15)
    assert gamma(0, float) == 0
    assert gamma(5, np.complex128) == gamma(10, np.float64)
    assert gamma(3, ">f4") == gamma(3, "<f4")
    assert gamma(2048, np.float16) == np.inf


def exact_ratio(a: Any, b: Any, c: Any) -> float:
    """The largest error over its bound, in rational numbers."""
    u, tiny = Fraction(float(np.finfo(a.dtype).eps)) / 2, Fraction(float(np.finfo(a.dtype).smallest_normal))
    k = a.shape[1]
    worst = Fraction(0)
    for i, j in np.ndindex(c.shape):
        products = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)]
        bound = k * u / (1 - k * u) * sum(map(abs, products)) + k * tiny
        worst = max(worst, abs(Fraction(float(c[i, j])) - sum(products)) / bound)
    return float(worst)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("longdouble_is_wider", [True, False])
def test_ratio_agrees_with_rational_arithmetic(
    dtype: Any, longdouble_is_wider: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if longdouble_is_wider and not bounds._LONGDOUBLE_IS_WIDER:
        pytest.skip("long double is no wider than float64 here")
    monkeypatch.setattr(bounds, "_LONGDOUBLE_IS_WIDER", longdouble_is_wider)
    rng = np.random.default_rng(3)
    for shape in ((4, 1, 3), (3, 9, 4), (2, 60, 3)):
        a = (rng.standard_normal(shape[:2]) * 2.0 ** rng.integers(-20, 20, shape[:2])).astype(dtype)
        b = rng.standard_normal(shape[1:]).astype(dtype)
        assert error_over_bound(a, b, a @ b) == pytest.approx(exact_ratio(a, b, a @ b), rel=0.05)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["f2", "f4", "f8", "c8", "c16"]),
    m=st.integers(1, 6),
    k=st.integers(1, 40),
    n=st.integers(1, 6),
)
def test_numpy_keeps_the_bound_and_a_wrong_element_does_not(seed: int, dtype: str, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (
        (rng.standard_normal(s) + (1j * rng.standard_normal(s) if dtype[0] == "c" else 0)).astype(dtype)
        for s in ((2, m, k), (k, n))
    )
    c = np.matmul(a, b)
    assert error_over_bound(a, b, c) <= 1
    assert freivalds(a, b, c, rng) <= 1
    c[1, m - 1, n - 1] += np.abs(a[1, m - 1]) @ np.abs(b[:, n - 1])
    assert error_over_bound(a, b, c) > 1


def test_narrow_output_is_granted_its_rounding() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random((9, 30), dtype=np.float32), rng.random((30, 8), dtype=np.float32)
    assert 0.5 < error_over_bound(a, b, (a @ b).astype(np.float16)) <= 1
    assert error_over_bound(a, b, (a @ b + 0.01).astype(np.float16)) > 1
    assert error_over_bound(300 * a, 300 * b, np.full((9, 8), np.inf, np.float16)) == 0


def test_sampled_rows_and_columns() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((8, 5)), rng.random((5, 7))
    c = a @ b
    c[6, 2] = 0
    assert error_over_bound(a, b, c, rows=slice(0, 6)) < 1
    assert error_over_bound(a, b, c, columns=[0, 1, 3]) < 1
    assert error_over_bound(a, b, c, rows=[0, 6], columns=[2]) > 1


def test_vectors_stacks_and_nothing() -> None:
    x, matrix, stack = np.array([0.1, 0.2]), np.full((2, 3), 0.3), np.full((4, 1, 5, 2), 0.7)
    for a, b in ((x, x), (x, matrix), (stack, matrix), (stack, x), (matrix.T, stack.swapaxes(-1, -2))):
        assert error_over_bound(a, b, np.matmul(a, b)) <= 1
        assert freivalds(a, b, np.matmul(a, b), np.random.default_rng(0)) <= 1
    for m, n, k in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        a, b = np.ones((m, k)), np.ones((k, n))
        assert error_over_bound(a, b, a @ b) == freivalds(a, b, a @ b, np.random.default_rng(0)) == 0
    assert error_over_bound(np.ones((2, 0)), np.ones((0, 2)), np.zeros((2, 2))) == 0
    assert error_over_bound(np.ones((2, 0)), np.ones((0, 2)), np.full((2, 2), 1e-300)) == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity_must_be_where_they_belong(dtype: Any) -> None:
    a, b = np.ones((3, 4), dtype), np.ones((4, 5), dtype)
    a[0, 1], a[1, 1], b[1, 2] = np.nan, np.inf, 0
    with np.errstate(invalid="ignore"):
        c = a @ b
    assert np.isnan(c[1, 2])
    assert np.isinf(c[1, 1])
    assert error_over_bound(a, b, c) == 0
    for at, value in (((0, 0), 1), ((1, 0), -np.inf), ((1, 0), np.nan), ((1, 2), 0), ((2, 0), np.nan)):
        wrong = c.copy()
        wrong[at] = value
        assert error_over_bound(a, b, wrong) == np.inf
    assert freivalds(a, b, np.ones((3, 5), dtype), np.random.default_rng(0)) == np.inf


def test_overflow_on_the_way_is_accepted() -> None:
    big = np.float32(3e38)
    a, b = np.array([[1, 1, -1]], np.float32), np.full((3, 1), big)
    assert error_over_bound(a, b, np.array([[np.inf]], np.float32)) == 0
    assert error_over_bound(a, b, np.array([[big]])) == 0
    assert error_over_bound(a, b, np.array([[0]], np.float32)) > 1
    assert error_over_bound(a / 1e3, b, np.array([[np.inf]], np.float32)) == np.inf


def test_freivalds_finds_one_wrong_element_and_a_lost_step_of_k() -> None:
    rng = np.random.default_rng(6)
    for dtype in (np.float32, np.float64):
        a, b = rng.random((300, 400)).astype(dtype), rng.random((400, 500)).astype(dtype)
        c = a @ b
        assert freivalds(a, b, c, rng) < 1
        assert freivalds(a, b, a[:, :-1] @ b[:-1], rng) > 1
        c[299, 499] = 0
        assert freivalds(a, b, c, rng) > 1


def test_what_cannot_be_judged() -> None:
    ones = np.ones((2, 2))
    with pytest.raises(ValueError, match="no product"):
        error_over_bound(ones, ones, np.ones((2, 3)))
    with pytest.raises(ValueError, match="no product"):
        error_over_bound(ones, np.ones((3, 2)), ones)
    with pytest.raises(ValueError, match="dimension"):
        error_over_bound(1.0, ones, ones)
    with pytest.raises(TypeError, match="int64"):
        error_over_bound(ones, ones, ones.astype(int))
