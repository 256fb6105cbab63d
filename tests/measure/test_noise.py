"""What makes a measurement doubtful: the statistics, and how a session uses them; threads on cores of their own."""

from __future__ import annotations

from contextlib import suppress

import pytest
from helpers import output_of

from gemmlab._process.children import WorkerProcess
from gemmlab.measure import Session, Settings, noise, sized
from gemmlab.measure.isolated import backend as isolated_backend
from gemmlab.measure.isolated.affinity import cpu_numbers, pin_threads
from gemmlab.measure.measurement import Measurement
from gemmlab.roofline.ceilings import probe_loop


def measurement(*rounds):
    backend = isolated_backend.IsolatedBackend("cpu-ikj", 1, ())
    return Measurement(backend, sized([16])[0], {}, rounds=[*rounds])


def test_rounds_that_agree_are_enough():
    assert not measurement([1.0], [1.001], [0.999]).needs_more_rounds
    assert measurement([1.0], [1.1], [0.9]).needs_more_rounds
    assert measurement([1.0], [1.0]).needs_more_rounds  # two say nothing
    assert noise.interval_percent([1.0, 1.0]) is None


def test_more_rounds_make_the_interval_narrower():
    assert noise.interval_percent([0.9, 1.1] * 8) < noise.interval_percent([0.9, 1.1] * 2)


def test_one_disturbed_round_of_many_changes_little():
    steady = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0]
    assert noise.interval_percent([*steady, 2.0]) < 2 * noise.interval_percent([*steady, 1.0])
    assert noise.interval_percent([1.0, 1.01, 0.99, 2.0]) > 40  # of four rounds none is trimmed
    assert noise.interval_percent([*steady, *steady, 2.0, 3.0]) < 2  # two of many change as little


@pytest.mark.parametrize(
    ("spread", "interval", "word"),
    [
        (11.0, None, "samples spread by 11 %"),
        (9.0, None, None),
        (11.0, 1.9, None),  # with an interval, the spread does not count
        (0.0, 2.1, "the 95 % confidence interval is +-2.1 %"),
    ],
)
def test_one_rule_decides_what_is_noisy(spread, interval, word):
    why = noise.why_noisy(spread, interval)
    assert why is None if word is None else word in why


@pytest.mark.parametrize(
    ("rounds", "noisy"), [([[1.0], [1.01], [0.99]], True), ([[1.0], [1.001], [0.999]], False), ([[1.0, 1.2]], True)]
)
def test_a_record_says_whether_it_is_noisy(rounds, noisy):
    record = measurement(*rounds).record()
    assert (record["rounds"], record["noisy"], record["noisy_because"] is not None) == (len(rounds), noisy, noisy)
    assert (record["interval_percent"] is None) == (len(rounds) < 3)


# the probe


def test_the_probe_answers_with_a_speed():
    process = WorkerProcess(1, probe_loop.COMMAND)
    try:
        assert process.ask("hello", 60, threads=1) == {}
        speeds = [process.ask("probe", 60)["gflop_per_s"] for _ in range(3)]
    finally:
        process.close()
    assert all(speed > 0 for speed in speeds)


def test_a_session_records_its_probe():
    with Session(probe_command=probe_loop.COMMAND) as session:
        (record,) = session.measure(["cpu-ikj"], sized([32]), Settings(threads=1, rounds=3, budget_s=0.003))
    assert record["probe_gflop_per_s"] > 0


@pytest.mark.parametrize("command", [("/no/such/program",), ("false",), None])
def test_a_session_goes_on_without_a_probe_that_cannot_run(command):
    with Session(probe_command=command) as session:
        (record,) = session.measure(["cpu-ikj"], sized([16]), Settings(threads=1, rounds=1, budget_s=0.001))
    assert (record["status"], record["probe_gflop_per_s"]) == ("ok", None)


# rounds


@pytest.mark.parametrize(("more_time", "enough", "rounds"), [(1e3, 3, 3), (1e3, 5, 5), (0.0, 9, 3)])
def test_rounds_go_on_until_they_agree_or_the_time_is_up(more_time, enough, rounds, monkeypatch):
    monkeypatch.setattr(Measurement, "needs_more_rounds", property(lambda one: len(one.rounds) < enough))
    timed = []
    monkeypatch.setattr(Measurement, "time", lambda one, *given, own=Measurement.time: (
        timed.append(one), own(one, *given)))  # fmt: skip
    settings = Settings(threads=1, rounds=3, budget_s=0.001, more_time=more_time)
    with Session() as session:
        (record,) = session.measure(["cpu-ikj"], sized([16]), settings)
    assert (record["status"], record["rounds"], len(timed)) == ("ok", rounds, rounds)


# threads on cores of their own


PINNING = """
import os, threading, time
from gemmlab.measure.isolated.affinity import cpu_numbers, pin_threads
cpus = cpu_numbers()
release = threading.Event()
others = [threading.Thread(target=release.wait, daemon=True) for _ in cpus[1:]]
for thread in others:
    thread.start()
pin_threads(cpus)
places = [os.sched_getaffinity(thread.native_id) for thread in others] + [os.sched_getaffinity(0)]
assert sorted(map(tuple, places)) == [(cpu,) for cpu in cpus], places
late = threading.Thread(target=release.wait, daemon=True)
late.start()
assert os.sched_getaffinity(late.native_id) == os.sched_getaffinity(0)
pin_threads(cpus)
assert os.sched_getaffinity(late.native_id) != os.sched_getaffinity(0)
"""


@pytest.mark.skipif(len(cpu_numbers()) < 2, reason="one CPU: no other core to pin a thread to")
def test_threads_are_pinned_to_cores_of_their_own():
    output_of(PINNING)


def test_nothing_is_pinned_on_one_cpu():
    before = cpu_numbers()
    pin_threads([])
    pin_threads([0])
    assert cpu_numbers() == before


@pytest.mark.parametrize(
    ("backend", "pinned"), [("cpu-ikj", True), ("opencl-local:gpu", False), ("cuda-cublas", False)]
)
def test_threads_of_a_device_are_left_alone(backend, pinned, monkeypatch):
    asked = []
    monkeypatch.setattr(isolated_backend, "WorkerProcess", lambda threads, command, affinity: asked.append(affinity))
    with suppress(AttributeError):  # None answers nothing
        isolated_backend.IsolatedBackend(backend, 1, ())._started()
    assert asked == [pinned]
