"""A time limit: how a campaign shares it out, and what a session does at its end. The clock is the test's."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import SUPPORT

import gemmlab
from gemmlab._config import config
from gemmlab.campaign import CAMPAIGNS, Campaign, carry_out, measuring, turns
from gemmlab.campaign.campaigns import LADDER_EDGE
from gemmlab.measure import Session, Settings, sized
from gemmlab.measure import session as session_module
from gemmlab.measure.measurement import NO_TIME, NO_TIME_FOR_ROUNDS, Measurement

HOMES = [str(Path(gemmlab.__file__).parents[1]), str(SUPPORT)]
FAKE = (sys.executable, "-c", f"import sys; sys.path[:0] = {HOMES}; import fake_worker; fake_worker.main()")


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(session_module, "perf_counter", made)
    monkeypatch.setattr(measuring, "perf_counter", made)
    monkeypatch.setattr(turns, "perf_counter", made)
    return made


@pytest.fixture
def slow_to_prepare(clock, monkeypatch):
    """Each operands take a second to make, and nothing else takes any time."""
    prepare = Measurement.prepare

    def prepared(self):
        clock.now += 1
        prepare(self)
        self.prepared["operands_s"] = 1.0

    monkeypatch.setattr(Measurement, "prepare", prepared)


def measured(limit_s, rounds=3):
    settings = Settings(threads=1, rounds=rounds, budget_s=0, limit_s=limit_s)
    with Session(worker_command=FAKE) as session:
        return session.measure(["good", "chatty"], sized([10, 20, 30]), settings)


@pytest.mark.usefixtures("slow_to_prepare")
class TestSession:
    def test_the_largest_products_are_left_out_so_that_all_others_have_every_round(self):
        found = {(r["problem"]["n"], r["backend"]): r for r in measured(limit_s=13.5)}
        assert len(found) == 6
        assert [found[case]["status"] for case in found] == ["ok"] * 4 + ["skipped"] * 2
        assert [r["rounds"] and min(r["rounds"], 3) for r in found.values()] == [3, 3, 3, 3, None, None]
        assert {r["reason"] for r in found.values()} == {None, NO_TIME_FOR_ROUNDS.format(3)}
        assert all(r["error_over_bound"] <= 1 for r in found.values() if r["status"] == "ok")

    @pytest.mark.parametrize("limit_s", [0.5, 2.5])
    def test_the_smallest_product_has_a_round_whatever_the_limit(self, limit_s):
        found = measured(limit_s)
        assert [(r["status"], r["rounds"]) for r in found[2:]] == [("skipped", None)] * 4
        assert [r["reason"] for r in found[:2]] == [None, NO_TIME if limit_s < 1 else None]

    def test_rows_whose_last_round_is_cut_are_noisy(self):
        found = measured(limit_s=3.5)
        assert [r["rounds"] for r in found[:2]] == [2, 1]
        assert [r["noisy_because"] for r in found[:2]] == [f"only {n} of 3 rounds were measured" for n in (2, 1)]

    def test_turns_of_something_else_come_before_rounds(self):
        asked = []
        settings = Settings(threads=1, rounds=3, budget_s=0)
        with Session(worker_command=FAKE) as session:
            session.measure(["good"], sized([10, 20]), settings, on_round=asked.append)
        assert asked == [0, 1, 2]

    def test_without_a_limit_all_rounds_are_taken(self):
        assert {r["rounds"] for r in measured(limit_s=float("inf"), rounds=2)} == {2}

    def test_a_limit_that_is_over_measures_nothing_and_says_so(self):
        assert [r["reason"] for r in measured(limit_s=-1.0)] == [NO_TIME] * 6


@pytest.fixture
def sessions(clock, monkeypatch, tmp_path):
    """What sessions are asked, with ceilings that take 30 seconds and products that take all they may."""
    asked = []

    class FakeSession(Session):
        def measure(self, backends, cases, settings, **_):
            asked.append((list(backends), [case.n for case in cases], settings))
            clock.now += settings.limit_s
            return []

    def ceilings(**_):
        clock.now += 30
        return [{"kind": "ceiling", "ceiling": "fma", "threads": 1, "gflop_per_s": (clock.now - 1000) // 30}]

    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(measuring, "Session", FakeSession)
    monkeypatch.setattr(turns, "isolated_ceilings", ceilings)
    return asked


class TestCampaign:
    LIMITED = Campaign(sized([10]), ["cpu-ikj"], Settings(threads=1), ceilings_s=8.0, limit_s=100.0)

    def test_products_have_what_the_ceilings_leave(self, sessions):
        carry_out(self.LIMITED, "a run", lambda *_: None, lambda _: None)
        ((backends, _, settings),) = sessions
        assert (backends, settings.limit_s) == (["cpu-ikj"], 100 - 30 - 30)

    def test_the_ladder_has_its_share_one_product_and_no_transfers(self, sessions):
        carry_out(replace(self.LIMITED, ladder=["opencl-naive"]), "a run", lambda *_: None, lambda _: None)
        ladder, main = sessions
        assert ladder[:2] == (["opencl-naive"], [LADDER_EDGE])
        assert (ladder[2].limit_s, ladder[2].transfers) == (100 - 30 - (1 - measuring.LADDER_SHARE) * 100, "without")
        assert main[2].limit_s == 100 - 30 - ladder[2].limit_s - 30

    def test_a_turn_is_taken_in_the_middle_and_at_the_end(self, sessions, monkeypatch):
        def measure(self, backends, cases, settings, on_round, **_):
            for number in range(settings.rounds):
                on_round(number)
            return []

        monkeypatch.setattr(measuring.Session, "measure", measure)
        records = []
        carry_out(replace(self.LIMITED, fresh=True), "a run", lambda *_: None, records.append)
        assert [record["gflop_per_s"] for record in records] == [1, 2, 3]

    def test_the_last_turn_is_left_out_where_the_time_is_over(self, sessions, clock, monkeypatch):
        monkeypatch.setattr(measuring.Session, "measure", lambda *_, **__: setattr(clock, "now", clock.now + 60) or [])
        records = []
        carry_out(self.LIMITED, "a run", lambda *_: None, records.append)
        assert len(records) == 1

    def test_progress_counts_seconds(self, sessions, clock):
        seen = []
        carry_out(self.LIMITED, "a run", lambda *step: seen.append(step), lambda _: None)
        assert seen[0] == (0, 100, "ceilings")
        assert all(done <= total == 100 for done, total, _ in seen)

    def test_only_the_quick_report_has_a_limit(self):
        limited = {name for name, make in CAMPAIGNS.items() if make(None, [], 1).limit_s < float("inf")}
        assert limited == {"quick"}

    @pytest.mark.parametrize(("load", "limit_s"), [(0.0, 103.0), (1.0, 103.0), (9.0, 91.0)])
    def test_a_busy_machine_has_more_time_for_the_page(self, monkeypatch, load, limit_s):
        monkeypatch.setattr("os.getloadavg", lambda: (load, 0, 0), raising=False)
        monkeypatch.setattr("os.cpu_count", lambda: 2)
        assert CAMPAIGNS["quick"](None, [], 1).limit_s == limit_s
