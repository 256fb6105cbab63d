"""Several backends on one product. Made-up backends take made-up times, so that splits are the same on any machine."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from randomness import RNG

import gemmlab
from gemmlab import BackendUnavailable, DeviceError, UnknownBackend, UnsupportedProblem, _registry
from gemmlab._backend import Availability, FullBackend
from gemmlab._name import BackendName
from gemmlab._problem import Problem
from gemmlab.scale import co_execution, rates
from gemmlab.scale.lines import Line

SIZES = 300, 20, 30


class Timed(FullBackend):
    """NumPy's product; its time is that of a line, longer by a factor while others work too."""

    kind, summary, source, params = "rung", "", "", {}
    device = None

    def __init__(self, name, fixed_s, row_s, device="gpu", contention=1.0):
        self.name, self.line, self.contention, self.rows = name, Line(fixed_s, row_s), contention, []
        if device is not None:
            self.device = SimpleNamespace(kind=device, runtime="made-up", index=name, label=name)

    def probe(self):
        return Availability(True, device=self.name)

    def supports(self, problem):
        return problem.dtype.kind == "f" or f"{self.name} multiplies floats"

    def threads(self, problem):
        return 8

    def gemm(self, problem, **params):
        self.rows.append((problem.m, problem.threads))
        np.matmul(problem.a, problem.b, out=problem.out)


@pytest.fixture
def share(monkeypatch):
    """A function that joins made-up backends; nothing is too small, and a split itself takes no time."""
    together = []

    def seconds(worker, problem):
        worker.gemm(problem)
        units = problem.out.shape[rates.axis_of(problem, 2)] if problem.batch > 1 else problem.m
        return worker.line.seconds(units) * (worker.contention if together else 1.0)

    def run_at_once(pool, jobs):
        together.append(len(jobs))
        try:
            return [job() for job in jobs]
        finally:
            together.clear()

    monkeypatch.setattr(rates, "SMALL_FLOP", 0)
    monkeypatch.setattr(co_execution, "SPLIT_S", 0.0)
    monkeypatch.setattr(rates, "seconds_of", seconds)
    monkeypatch.setattr(co_execution, "seconds_of", seconds)
    monkeypatch.setattr(co_execution, "run_at_once", run_at_once)
    with ExitStack() as stack:

        def joined(*backends):
            for backend in backends:
                stack.enter_context(_registry.registered(backend))
            return gemmlab.get_backend("+".join(backend.name for backend in backends))

        yield joined
    for name in [name for name in _registry._loaded if "+" in name and "made" in name]:
        del _registry._loaded[name], _registry._probed[name]


def operands(m=SIZES[0], n=SIZES[1], k=SIZES[2], lead=()):
    return RNG.standard_normal((*lead, m, k)), RNG.standard_normal((*lead, k, n))


def planned(backend, a, b):
    return backend.plan(Problem.from_call(a, b))


def test_rows_end_together_and_the_gain_is_said_beforehand(share):
    fast, slow = Timed("made-fast", 0.0, 1e-3), Timed("made-slow", 0.0, 3e-3)
    backend = share(fast, slow)
    a, b = operands()
    plan = planned(backend, a, b)
    assert plan.shares == (225, 75)
    assert plan.gain == pytest.approx(4 / 3, rel=0.02)
    assert plan.predicted_s == pytest.approx(0.225, rel=0.02)
    fast.rows.clear()
    slow.rows.clear()
    out = np.full((300, 20), np.nan)
    gemmlab.matmul(a, b, out=out, backend=backend.name)
    assert np.array_equal(out, np.concatenate([a[:225] @ b, a[225:] @ b]))
    assert [fast.rows, slow.rows] == [[(225, None)], [(75, None)]]
    told = str(gemmlab.explain(a, b, backend=backend.name))
    assert "predicted 1.33 times the fastest alone" in told
    assert "made-fast 300 ms alone, 225 of 300; made-slow 900 ms alone, 75 of 300" in told


def test_a_fixed_time_counts(share):
    backend = share(Timed("made-fast", 0.1, 1e-3), Timed("made-slow", 0.0, 3e-3))
    plan = planned(backend, *operands())
    assert sum(plan.shares) == 300
    assert plan.shares[0] == pytest.approx((0.9 - 0.1) / 4e-3, abs=2)


def test_three_share_too(share):
    backend = share(*(Timed(f"made-{i}", 0.0, 1e-3) for i in range(3)))
    assert planned(backend, *operands()).shares == (100, 100, 100)


@pytest.mark.parametrize(("slow_row_s", "fixed_s"), [(3e-2, 0.0), (1e-3, 0.5)])
def test_without_a_gain_the_faster_runs_alone(share, slow_row_s, fixed_s):
    fast, slow = Timed("made-fast", 0.0, 1e-3), Timed("made-slow", fixed_s, slow_row_s)
    backend = share(slow, fast)
    a, b = operands()
    plan = planned(backend, a, b)
    assert not plan.is_split
    assert plan.gain < co_execution.MIN_GAIN
    assert "under 1.05" in plan.summary
    slow.rows.clear()
    assert np.array_equal(gemmlab.matmul(a, b, backend=backend.name), a @ b)
    assert slow.rows == []


def test_what_uses_the_same_cores_does_not_share(share):
    backend = share(Timed("made-host", 0.0, 2e-3, device=None), Timed("made-cpu", 0.0, 1e-3, device="cpu"))
    plan = planned(backend, *operands())
    assert plan.shares == (0, 300)
    assert plan.summary == "made-cpu alone: all use the same cores or device"


def test_of_those_on_the_same_cores_the_fastest_shares_with_a_gpu(share):
    gpu, host = Timed("made-gpu", 0.0, 1e-3), Timed("made-host", 0.0, 2e-3, None)
    cpu = Timed("made-cpu", 0.0, 4e-3, "cpu")
    assert planned(share(gpu, cpu, host), *operands()).shares == (200, 0, 100)


def test_a_backend_of_the_host_leaves_a_core_to_drive_the_device(share):
    gpu, host = Timed("made-gpu", 0.0, 1e-3), Timed("made-host", 0.0, 1e-3, None)
    backend = share(host, gpu)
    a, b = operands()
    planned(backend, a, b)
    host.rows.clear()
    gemmlab.matmul(a, b, backend=backend.name)
    gemmlab.matmul(a, b, backend=backend.name, threads=3)
    assert host.rows[0] == (150, 7)
    assert host.rows[-1] == (150, 3)


def test_what_slows_down_beside_others_gets_less(share):
    host, gpu = Timed("made-host", 0.0, 1e-3, None, contention=2.0), Timed("made-gpu", 0.0, 1e-3)
    backend = share(host, gpu)
    plan = planned(backend, *operands())
    assert plan.shares == (100, 200)
    assert plan.gain == pytest.approx(1.5, rel=0.02)


def test_a_split_is_corrected_by_its_times_and_then_stays(share):
    one, two = Timed("made-one", 0.0, 1e-3), Timed("made-two", 0.0, 1e-3)
    backend = share(one, two)
    a, b = operands()
    gain = planned(backend, a, b).gain
    two.line = Line(0.0, 2e-3)
    for _ in range(co_execution.CORRECTIONS):
        gemmlab.matmul(a, b, backend=backend.name)
    plan = planned(backend, a, b)
    assert plan.shares == (pytest.approx(200, abs=12), pytest.approx(100, abs=12))
    assert plan.gain == gain  # as it was said beforehand
    gemmlab.matmul(a, b, backend=backend.name)
    assert planned(backend, a, b) is plan


def test_a_split_that_turns_out_slower_is_given_up(share):
    one, two = Timed("made-one", 0.0, 1e-3), Timed("made-two", 0.0, 1e-3)
    backend = share(one, two)
    a, b = operands()
    planned(backend, a, b)
    one.contention = two.contention = 10.0
    gemmlab.matmul(a, b, backend=backend.name)
    plan = planned(backend, a, b)
    assert not plan.is_split
    assert plan.why == "the split was slower"


def test_products_of_about_the_same_shape_are_measured_once(share):
    one, two = Timed("made-one", 0.0, 1e-3), Timed("made-two", 0.0, 1e-3)
    backend = share(one, two)
    planned(backend, *operands())
    count = len(one.rows)
    planned(backend, *operands(m=290))
    assert len(one.rows) == count + 2  # its split alone is tried, twice
    planned(backend, *operands(m=3000))
    assert len(one.rows) > count + 4


def test_a_batch_is_shared_by_matrices_where_it_is_long(share):
    backend = share(Timed("made-one", 0.0, 1e-3), Timed("made-two", 0.0, 1e-3))
    a, b = operands(4, 5, 6, lead=(100,))
    assert planned(backend, a, b).shares == (50, 50)
    assert np.allclose(gemmlab.matmul(a, b, backend=backend.name), a @ b)


def test_empty_and_small_products(monkeypatch, share):
    one, two = Timed("made-one", 0.0, 2e-3), Timed("made-two", 0.0, 1e-3)
    backend = share(one, two)
    assert planned(backend, np.ones((0, 3)), np.ones((3, 2))) is None
    assert np.array_equal(gemmlab.matmul(np.ones((4, 0)), np.ones((0, 2)), backend=backend.name), np.zeros((4, 2)))
    assert np.array_equal(gemmlab.matmul([[2.0]], [[3.0]], backend=backend.name), [[6.0]])
    monkeypatch.setattr(rates, "SMALL_FLOP", 1e9)
    a, b = operands(m=17)
    assert planned(backend, a, b).shares == (0, 17)
    one.rows.clear()
    assert np.array_equal(gemmlab.matmul(a, b, backend=backend.name), a @ b)
    assert one.rows == []
    assert "too small" in str(gemmlab.explain(a, b, backend=backend.name))


def test_errors_and_refusals(share):
    one, two = Timed("made-one", 0.0, 1e-3), Timed("made-two", 0.0, 1e-3)
    backend = share(one, two)
    with pytest.raises(UnsupportedProblem, match="made-one multiplies floats"):
        gemmlab.matmul(np.eye(3, dtype=int), np.eye(3, dtype=int), backend=backend.name)
    with pytest.raises(TypeError, match="has no parameter 'tile'"):
        gemmlab.matmul(np.eye(3), np.eye(3), backend=backend.name, tile=1)
    with pytest.raises(UnsupportedProblem, match="does not add to out"):
        gemmlab.matmul(np.eye(3), np.eye(3), out=np.eye(3), backend=backend.name, accumulate=True)
    a, b = operands()
    planned(backend, a, b)

    def lost(problem, **params):
        raise DeviceError("it is lost")

    two.gemm = lost
    with pytest.raises(DeviceError, match="it is lost"):
        gemmlab.matmul(a, b, backend=backend.name)


def test_names():
    assert _registry.resolve_name("cpu+cpu-numpy") == "cpu-packed+cpu-numpy"
    assert BackendName.of("opencl-local:0+cuda-local:1").plain == "opencl-local+cuda-local"
    assert BackendName.of("cpu-packed+opencl-local:gpu").on_runtime
    assert not BackendName.of("cpu-packed+cpu-blas").on_runtime
    assert BackendName.of("cpu-packed+cpu-numpy").shares
    with pytest.raises(UnknownBackend, match="did you mean cpu-packed"):
        gemmlab.get_backend("cpu-numpy+cpu-paked")
    with pytest.raises(UnknownBackend, match="auto cannot share a product"):
        gemmlab.get_backend("auto+cpu-numpy")
    with pytest.raises(UnknownBackend):
        gemmlab.get_backend("cpu-numpy+")
    with gemmlab.use("cpu-packed+cpu-numpy"), gemmlab.trace() as calls:
        gemmlab.matmul(np.eye(2), np.eye(2))
    assert calls[0].backend == "cpu-packed+cpu-numpy"
    assert "cpu-packed+cpu-numpy" not in gemmlab.backends()


def test_a_name_whose_backend_is_blocked_or_missing(monkeypatch):
    monkeypatch.setattr(gemmlab.config, "block", "cpu-numpy")
    with pytest.raises(BackendUnavailable, match="blocked"):
        gemmlab.get_backend("cpu-packed+cpu-numpy")
    monkeypatch.setattr(gemmlab.config, "block", "")
    with pytest.raises(BackendUnavailable, match="fix"):
        gemmlab.get_backend("cpu-packed+opencl-local:no such device")


def test_the_audit_of_backends_that_share():
    assert gemmlab.verify("cpu-packed+cpu-numpy", dtypes=["float32"]).passed


def test_real_backends_that_share_for_real(monkeypatch):
    """Two of the host's, taken for two machines: threads, parts and corrections as they are."""
    monkeypatch.setattr(rates, "SMALL_FLOP", 0)
    monkeypatch.setattr(co_execution, "MIN_GAIN", 0.0)
    monkeypatch.setattr(co_execution, "_hardware", lambda backend: backend.name)
    backend = co_execution.CoExecution("pair", [gemmlab.get_backend(name) for name in ("cpu-blocked", "cpu-ikj")])
    with _registry.registered(backend):
        a, b = RNG.integers(-8, 9, (201, 90)).astype("float32"), RNG.integers(-8, 9, (90, 70)).astype("float32")
        for _ in range(8):
            out = np.full((201, 70), np.nan, "float32")
            assert np.array_equal(gemmlab.matmul(a, b, out=out, backend="pair"), a @ b)
        assert gemmlab.verify("pair", dtypes=["float64"]).passed
