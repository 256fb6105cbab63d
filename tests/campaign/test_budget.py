"""A time limit: how a campaign shares it out, and what a session does at its end. The clock is the test's."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import SUPPORT

import gemmlab
from gemmlab._config import config
from gemmlab.campaign import CAMPAIGNS, Campaign, carry_out, measuring
from gemmlab.campaign.campaigns import LADDER_EDGE
from gemmlab.measure import Session, Settings, sized
from gemmlab.measure import session as session_module
from gemmlab.measure.measurement import NO_TIME, Measurement

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
    return made


@pytest.fixture
def slow_to_prepare(clock, monkeypatch):
    """Each operands take a second to make, and nothing else takes any time."""
    prepare = Measurement.prepare

    def prepared(self):
        clock.now += 1
        prepare(self)

    monkeypatch.setattr(Measurement, "prepare", prepared)


def measured(limit_s, rounds=3):
    settings = Settings(threads=1, rounds=rounds, budget_s=0, limit_s=limit_s)
    with Session(worker_command=FAKE) as session:
        return session.measure(["good", "chatty"], sized([10, 20, 30]), settings)


@pytest.mark.usefixtures("slow_to_prepare")
class TestSession:
    def test_at_the_end_every_case_has_a_round_or_is_named(self):
        found = {(r["problem"]["n"], r["backend"]): r for r in measured(limit_s=3.5)}
        assert len(found) == 6
        assert [found[case]["status"] for case in found] == ["ok", "ok", "ok", "skipped", "skipped", "skipped"]
        assert [r["rounds"] for r in found.values()] == [1, 1, 1, None, None, None]
        assert {r["reason"] for r in found.values()} == {None, NO_TIME}
        assert all(r["error_over_bound"] <= 1 for r in found.values() if r["status"] == "ok")

    @pytest.mark.exhaustive
    def test_the_last_round_may_be_cut_and_rows_without_it_are_noisy(self):
        found = measured(limit_s=9.5 + 6)
        assert [r["rounds"] for r in found] == [3, 3, 3, 2, 2, 2]
        assert {r["noisy_because"] for r in found[3:]} == {"only 2 of 3 rounds were measured"}
        assert all("only" not in (r["noisy_because"] or "") for r in found[:3])

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
        return [{"kind": "ceiling", "ceiling": "fma", "threads": 1, "gflop_per_s": 1}]

    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(measuring, "Session", FakeSession)
    monkeypatch.setattr(measuring, "isolated_ceilings", ceilings)
    return asked


class TestCampaign:
    LIMITED = Campaign(sized([10]), ["cpu-ikj"], Settings(threads=1), ceilings_s=8.0, limit_s=100.0)

    def test_products_have_what_the_ceilings_leave(self, sessions):
        carry_out(self.LIMITED, "a run", lambda *_: None, lambda _: None)
        ((backends, _, settings),) = sessions
        assert (backends, settings.limit_s) == (["cpu-ikj"], 100 - 30 - measuring.LAST_PEAK_S)

    def test_the_ladder_has_its_share_one_product_and_no_transfers(self, sessions):
        carry_out(replace(self.LIMITED, ladder=["opencl-naive"]), "a run", lambda *_: None, lambda _: None)
        main, ladder = sessions
        assert main[2].limit_s == 100 - 30 - measuring.LAST_PEAK_S - measuring.LADDER_S
        assert ladder[:2] == (["opencl-naive"], [LADDER_EDGE])
        assert (ladder[2].limit_s, ladder[2].transfers) == (measuring.LADDER_S, "without")

    def test_the_last_peak_is_left_out_where_the_time_is_over(self, sessions, monkeypatch):
        monkeypatch.setattr(measuring, "LAST_PEAK_S", 0.0)
        records = []
        carry_out(self.LIMITED, "a run", lambda *_: None, records.append)
        assert len(records) == 1
        monkeypatch.setattr(measuring, "LAST_PEAK_S", 3.0)
        carry_out(replace(self.LIMITED, fresh=True), "a run", lambda *_: None, records.append)
        assert len(records) == 3

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
