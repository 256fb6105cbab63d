"""Measuring devices: what is counted and what is not, on a made-up device and on those that are here."""

from __future__ import annotations

import sys
from pathlib import Path

import fake_device
import numpy as np
import pytest
from devices import FIRST_PLACES, backend_at
from fake_device import KERNEL_S, LABEL, FakeRuntime
from helpers import SUPPORT

import gemmlab
from gemmlab._cpu import machine
from gemmlab.measure import Session, Settings, gemm_table, sized
from gemmlab.measure.isolated.backend import IsolatedBackend
from gemmlab.measure.isolated.worker import Product, ResidentProduct, Worker, check, seconds_a_call
from gemmlab.measure.session import _that_fit

HOMES = [str(Path(gemmlab.__file__).parents[1]), str(SUPPORT)]
FAKE = (sys.executable, "-c", f"import sys; sys.path[:0] = {HOMES}; import fake_worker; fake_worker.main()")


def measured(backends, sizes, *, progress=None, **options):
    settings = Settings(threads=2, rounds=2, budget_s=0.001, **options)
    with Session(run_id="run", worker_command=FAKE) as session:
        return session.measure(backends, sized(sizes), settings, progress=progress)


@pytest.fixture
def device():
    """The made-up device, among the backends of this process."""
    with fake_device.installed():
        yield gemmlab.get_backend("opencl-fake:1")


# records


def test_a_device_is_measured_without_transfers_and_with_them():
    steps = []
    records = measured(["opencl-fake:1", "good"], [20], progress=lambda *step: steps.append(step[2]))
    found = [(record["backend"], record["transfers_counted"], record["status"]) for record in records]
    assert found == [("opencl-fake", False, "ok"), ("opencl-fake", True, "ok"), ("good", None, "ok")]
    assert {"opencl-fake:1 20", "opencl-fake:1 + transfers 20", "good 20"} <= set(steps)


def test_a_record_says_what_holds_for_a_device():
    *on_device, on_cpu = measured(["opencl-fake:1", "good"], [20])
    for record in on_device:
        assert (record["device"], record["threads"], record["thread_scope"]) == (LABEL, None, None)
        assert (record["kernel_s"], record["copies"]) == (KERNEL_S, 0)
        assert (record["kernel_p20_s"], record["kernel_p80_s"]) == (KERNEL_S, KERNEL_S)
        assert record["samples"] >= 2
    assert (on_cpu["device"], on_cpu["threads"], on_cpu["kernel_s"]) == (machine.cpu_name(), 1, None)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("transfers", "counted"), [("with", True), ("without", False)])
def test_one_of_the_two_times_alone(transfers, counted):
    records = measured(["opencl-fake:1", "good"], [20], transfers=transfers)
    assert [record["transfers_counted"] for record in records] == [counted, None]


def test_transfers_are_with_without_or_both():
    with pytest.raises(ValueError, match="transfers is one of both, with, without, not 'maybe'"):
        measured(["good"], [10], transfers="maybe")


def test_a_device_may_keep_the_time_of_its_kernels_to_itself():
    assert [record["kernel_s"] for record in measured(["opencl-clockless"], [20])] == [None, None]


def test_what_a_device_leaves_unwritten_is_wrong():
    records = measured(["opencl-idle"], [20])
    assert [record["status"] for record in records] == ["wrong", "wrong"]
    assert [record["threads"] for record in records] == [None, None]
    assert all("left unwritten" in record["reason"] for record in records)


def test_building_a_kernel_is_not_taken_for_the_devices_pace():
    records = measured(["opencl-builds"], [10, 300], transfers="without")
    assert [record["status"] for record in records] == ["ok", "ok"]


def test_parameters_of_a_device_are_named_as_it_is():
    records = measured(["opencl-fake:1"], [10], params={"opencl-fake:1": {"size": 2}})
    assert [record["params"] for record in records] == [{"size": 2}, {"size": 2}]


# the worker's parts


def random_operands(edge=12):
    rng = np.random.default_rng(5)
    return rng.random((edge, edge)), rng.random((edge, edge))


def test_calls_of_a_sample_are_started_together_and_awaited_once(device):
    product = ResidentProduct(device, *random_operands(), {})
    before = FakeRuntime.waits
    seconds_a_call(product.start, 7, product.finish)
    assert FakeRuntime.waits == before + 1
    assert product._out.work == []
    assert check(product.a, product.b, product.result()) <= 1


def test_operands_stay_on_the_device(device):
    product = ResidentProduct(device, *random_operands(), {})
    brought = FakeRuntime.brought
    seconds_a_call(product.start, 3, product.finish)
    assert product.kernel_s() == KERNEL_S
    product.poison()
    assert FakeRuntime.brought == brought


@pytest.mark.parametrize("kind", [Product, ResidentProduct])
def test_a_result_from_before_does_not_pass_for_a_new_one(device, kind):
    product = kind(device, *random_operands(), {})
    seconds_a_call(product.start, 1, product.finish)
    product.poison()
    assert np.isnan(product.result()).all()


def test_the_layout_goes_to_the_device_too(device):
    a, b = random_operands()
    product = ResidentProduct(device, np.asfortranarray(a), b, {})
    left = product.start.args[0]
    assert left.values.flags.f_contiguous
    seconds_a_call(product.start, 1, product.finish)
    np.testing.assert_allclose(product.result(), a @ b)


def test_a_worker_says_what_its_device_is(device, monkeypatch):
    monkeypatch.setattr("threadpoolctl.threadpool_limits", lambda threads: None)  # of this process, for all later tests
    worker = Worker()
    hello = worker.hello("opencl-fake:1", 1, resident=True)
    assert not hello["on_cpu"]
    assert hello["resident"]
    assert (hello["device"], hello["memory_bytes"]) == (LABEL, fake_device.MEMORY_BYTES)
    assert not worker.hello("cpu-naive", 1, resident=True).get("resident")


def test_operands_of_a_case_fit_into_a_devices_memory():
    backends = [(IsolatedBackend(str(i), 1, (), resident=True), {}) for i in range(4)]
    case = sized([100])[0]
    assert list(_that_fit(backends, case)) == [backends]
    backends[2][0].hello = {"on_cpu": False, "memory_bytes": 8 * case.bytes_compulsory}
    assert list(_that_fit(backends, case)) == [backends[:2], backends[2:]]


# the table


@pytest.mark.exhaustive
def test_times_with_transfers_have_a_table_of_their_own():
    text = gemm_table(measured(["opencl-fake:1", "good", "opencl-idle"], [20, 64]))
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    heads = {line: lines[i + 2].split() for i, line in enumerate(lines) if line.startswith("float32 on ")}
    assert list(heads) == sorted(f"float32 on {name}" for name in (LABEL, f"{LABEL} + transfers", machine.cpu_name()))
    *cpu, device, with_transfers = (heads[name] for name in sorted(heads, key=lambda name: LABEL in name))
    assert ("thr" in cpu[0], "kernel" in cpu[0]) == (True, False)
    assert device == with_transfers
    assert ("thr" in device, "kernel" in device) == (False, True)
    assert text.count("opencl-fake ") == 4
    assert text.count("125 ms") == 4
    assert "opencl-idle + transfers 20 wrong" in text
    assert "opencl-idle 20 wrong" in text


def test_a_long_name_and_a_long_device_stay_within_the_line():
    record = measured(["opencl-fake:1"], [20], transfers="with")[0]
    record |= {"backend": "opencl-register-global", "device": "Some Long Processor Name " * 4, "median_s": 0.0123}
    record["problem"] |= {"m": 12345, "n": 12345, "k": 768}
    text = gemm_table([record], peak=lambda record: 1.0)
    assert max(map(len, text.splitlines())) <= 80
    assert "opencl-reg" in text


# the devices that are here


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_the_devices_that_are_here(place):
    name = backend_at(place, "private")
    with Session() as session:
        records = session.measure([name], sized([16, 200]), Settings(rounds=2, budget_s=0.01))
    assert [record["status"] for record in records] == ["ok"] * 4
    assert [record["transfers_counted"] for record in records] == [False, True] * 2
    for record in records:
        assert (record["backend"], record["threads"]) == (name.partition(":")[0], None)
        assert record["device"] == gemmlab.get_backend(name).device.label
        assert record["kernel_s"] is None or record["kernel_s"] > 0
        assert record["params"]["group_x"]


@pytest.mark.parametrize("place", FIRST_PLACES)
@pytest.mark.parametrize("letter", "CF")
def test_operands_on_a_device_that_is_here(place, letter):
    backend = gemmlab.get_backend(backend_at(place, "private"))
    a, b = (np.asarray(x, np.float32, order=letter) for x in random_operands(40))
    product = ResidentProduct(backend, a, b, {})
    for _ in range(2):
        product.poison()
        assert np.isnan(product.result()).all()
        seconds_a_call(product.start, 5, product.finish)
        assert check(a, b, product.result()) <= 1
