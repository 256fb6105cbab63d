"""What makes a measurement doubtful: the rules, the probe, and how a session uses both."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter

import pytest
from helpers import output_of

from gemmlab.measure import Session, entrant, noise, run, sized
from gemmlab.measure import session as session_module
from gemmlab.measure.binding import bind_threads, cpu_numbers
from gemmlab.measure.prober import Prober
from gemmlab.measure.process import WorkerProcess
from gemmlab.measure.turn import Turn, that_count
from gemmlab.roofline import probe


def test_turns_that_agree_are_enough():
    assert noise.is_sure([1.0, 1.001, 0.999])
    assert not noise.is_sure([1.0, 1.1, 0.9])
    assert not noise.is_sure([1.0, 1.0])  # two say nothing
    assert noise.error_percent([1.0]) is None


def test_more_turns_make_surer():
    assert noise.error_percent([0.9, 1.1] * 8) < noise.error_percent([0.9, 1.1] * 2)


def test_one_disturbed_turn_of_many_says_little():
    steady = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0]
    assert noise.error_percent([*steady, 2.0]) < 2 * noise.error_percent([*steady, 1.0])
    assert noise.error_percent([1.0, 1.01, 0.99, 2.0]) > 40  # of four it is a quarter of what is known
    assert noise.error_percent([*steady, *steady, 2.0, 3.0]) < 2  # two of many say as little


def test_a_probe_is_held_against_the_usual_one():
    assert noise.usual([99, 98, 97, *[60] * 3, 98]) == 98  # however many were disturbed
    assert noise.drop_percent([50.0, 50.0], 100.0) == 50
    assert noise.drop_percent([102.0], 100.0) == pytest.approx(-2)
    assert noise.drop_percent([], 100.0) is None
    assert noise.drop_percent([1.0], None) is None
    assert noise.usual([]) is None
    assert noise.usual([7.0]) == 7.0


def test_calm_turns_count_alone_where_there_are_enough():
    calm, disturbed = Turn([1.0], probes=[99.0, 98.0]), Turn([2.0], probes=[99.0, 90.0])
    assert that_count([calm, disturbed, calm, calm], 100.0) == [calm] * 3
    assert that_count([calm, disturbed, calm], 100.0) == [calm, disturbed, calm]
    assert that_count([disturbed], None) == [disturbed]
    assert Turn([1.0]).is_calm(100.0)  # nothing was probed


class Machine:
    """Stands for the probe's process: it is slow for a while, and fast from then on."""

    def __init__(self, *slow):
        self.speeds = [*slow]

    def ask(self, *_):
        return {"gflop_per_s": self.speeds.pop(0) if self.speeds else 100.0}


def probing(*slow, time_to_spare=True):
    prober = Prober(("none",))
    prober._said, prober._start_s = [100.0] * 20, perf_counter() - (1000.0 if time_to_spare else -1000.0)
    prober._process = Machine(*slow)
    return prober


def test_a_turn_waits_for_a_calm_machine_but_not_for_ever():
    assert probing(50.0, 60.0).calm() == [100.0]
    assert probing(*range(50, 90)).calm() == [59.0]
    assert probing(50.0, time_to_spare=False).calm()[0] == 50.0  # no time of the session to spare


class Backend:
    """Stands for an entrant that answers every question alike."""

    on_device = False

    def ask(self, *_, **__):
        return {"samples_s": [1.0], "calls_per_sample": 1, "kernel_s": None, "dram_bytes": None}


@pytest.mark.parametrize(
    ("speeds", "time_to_spare", "turns"),
    [([], True, 1), ([100, 50], True, 2), ([100, 50] * 9, True, 3), ([100, 50], False, 1)],
)
def test_a_disturbed_turn_is_taken_again_where_there_is_time(speeds, time_to_spare, turns):
    taken = run.Run(Backend(), sized([16])[0], {})
    taken.take_turn(0.001, probing(*speeds, time_to_spare=time_to_spare))
    assert len(taken.turns) == turns


def test_stolen_time_is_a_share_of_all_ticks_between_the_readings():
    assert noise.steal_percent([(0, 0), (50, 1000)], [(5, 100), (55, 1100)]) == 5
    assert noise.steal_percent([None], [None]) is None
    assert noise.steal_percent([(1, 10)], [(1, 10)]) is None


def test_ticks_are_read_where_the_system_tells_them(tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "_STAT", tmp_path / "stat")
    assert noise.cpu_ticks() is None
    (tmp_path / "stat").write_text("cpu  10 20 30 40 5 6 7 8 9 10\ncpu0 1 2 3\n")
    assert noise.cpu_ticks() == (8, 126)
    (tmp_path / "stat").write_text("cpu  10 20\n")
    assert noise.cpu_ticks() is None


STEADY = [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("spread", "turns", "steal", "drop", "pace", "word"),
    [
        (11.0, STEADY, None, None, None, "samples spread by 11 %"),
        (0.0, [1.0, 1.2, 0.8], None, None, None, "turns disagree"),
        (0.0, STEADY, 9.0, 0.0, 0.0, "the host took 9 %"),
        (0.0, STEADY, 0.0, 40.0, None, "probe beside it was 40.0 % slower"),
        (0.0, STEADY, 0.0, -2.0, None, "probe beside it was 2.0 % faster"),
        (0.0, STEADY, None, None, -8.0, "the machine was 8.0 % slower"),
        (0.0, STEADY, None, None, 1.6, "the machine was 1.6 % faster"),
    ],
)
def test_each_disturbance_is_a_reason(spread, turns, steal, drop, pace, word):
    (reason,) = noise.reasons(spread, turns, steal, drop, pace)
    assert word in reason


def test_without_a_disturbance_there_is_no_reason():
    assert noise.reasons(3.0, STEADY, 0.1, 0.9, -0.9) == []
    assert noise.reasons(3.0, [1.0], None, None, None) == []


def test_the_probe_answers_with_a_speed():
    process = WorkerProcess(1, probe.COMMAND)
    try:
        assert process.ask("hello", 60, threads=1) == {}
        speeds = [process.ask("probe", 60)["gflop_per_s"] for _ in range(3)]
    finally:
        process.close()
    assert all(speed > 0 for speed in speeds)


def test_a_session_records_its_probe():
    with Session(probe_command=probe.COMMAND) as session:
        (record,) = session.measure(["cpu-ikj"], sized([32]), threads=1, rounds=3, budget_s=0.003)
    assert record["probe_gflop_per_s"] > 0
    assert record["probe_drop_percent"] < 100
    assert record["noisy"] == (record["noisy_because"] is not None)


def test_a_session_goes_on_without_a_probe_that_cannot_run():
    for command in (("/no/such/program",), ("false",)):
        with Session(probe_command=command) as session:
            (record,) = session.measure(["cpu-ikj"], sized([16]), threads=1, rounds=1, budget_s=0.001)
        assert record["status"] == "ok"
        assert record["probe_gflop_per_s"] is None


@pytest.mark.parametrize(("more_time", "enough", "turns"), [(1e3, 3, 3), (1e3, 5, 5), (0.0, 9, 3)])
def test_turns_go_on_until_they_agree_or_the_time_is_up(more_time, enough, turns, monkeypatch):
    monkeypatch.setattr(session_module, "MORE_TIME", more_time)
    monkeypatch.setattr(noise, "is_sure", lambda own: len(own) >= enough)
    taken = []
    monkeypatch.setattr(run.Run, "take_turn", lambda run, *given, own=run.Run.take_turn: (
        taken.append(run), own(run, *given)))  # fmt: skip
    with Session() as session:
        (record,) = session.measure(["cpu-ikj"], sized([16]), threads=1, rounds=3, budget_s=0.001)
    assert (record["status"], len(taken)) == ("ok", turns)


BINDING = """
import os, threading, time
from gemmlab.measure.binding import bind_threads, cpu_numbers
cpus = cpu_numbers()
release = threading.Event()
others = [threading.Thread(target=release.wait, daemon=True) for _ in cpus[1:]]
for thread in others:
    thread.start()
bind_threads(cpus)
places = [os.sched_getaffinity(thread.native_id) for thread in others] + [os.sched_getaffinity(0)]
assert sorted(map(tuple, places)) == [(cpu,) for cpu in cpus], places
late = threading.Thread(target=release.wait, daemon=True)
late.start()
assert os.sched_getaffinity(late.native_id) == os.sched_getaffinity(0)
bind_threads(cpus)
assert os.sched_getaffinity(late.native_id) != os.sched_getaffinity(0)
"""


@pytest.mark.skipif(len(cpu_numbers()) < 2, reason="one CPU: nowhere to bind threads to")
def test_threads_are_bound_to_cores_of_their_own():
    output_of(BINDING)


def test_one_cpu_needs_no_binding():
    bind_threads([])
    bind_threads([0])


@pytest.mark.parametrize(("backend", "bound"), [("cpu-ikj", True), ("opencl-local:gpu", False), ("cuda-cublas", False)])
def test_threads_of_a_device_are_left_alone(backend, bound, monkeypatch):
    asked = []
    monkeypatch.setattr(entrant, "WorkerProcess", lambda threads, command, bound: asked.append(bound))
    with suppress(AttributeError):  # None answers nothing
        entrant.Entrant(backend, 1, ())._started()
    assert asked == [bound]


def test_a_probe_of_the_cpu_does_not_count_against_a_device():
    on_device = entrant.Entrant("opencl-local", 1, (), resident=True)
    on_device.hello = {"on_cpu": False}
    turns = [Turn([1.0], probes=[10.0])] * 3
    found = run.Run(on_device, sized([16])[0], {}, turns=turns).record(usual_probe=100.0, pace=50.0)
    assert (found["probe_drop_percent"], found["turns"], found["noisy"]) == (90, 3, False)


def test_a_session_whose_machine_is_not_as_fast_as_known_is_noisy(monkeypatch):
    monkeypatch.setattr(noise, "LEAST_PROBES", 20)
    with Session(probe_command=probe.COMMAND, known_probe=1e9) as session:
        (record,) = session.measure(["cpu-ikj"], sized([16]), threads=1, rounds=1, budget_s=0.001)
        assert session.probe_gflop_per_s == pytest.approx(record["probe_gflop_per_s"], rel=0.9)
    assert "the machine was 100.0 % slower throughout than in the sessions before" in record["noisy_because"]


def test_a_short_session_does_not_tell_how_fast_the_machine_is():
    with Session(probe_command=probe.COMMAND, known_probe=1e9) as session:
        (record,) = session.measure(["cpu-ikj"], sized([16]), threads=1, rounds=1, budget_s=0.001)
        assert session.probe_gflop_per_s is None
    assert "the machine was" not in (record["noisy_because"] or "")
