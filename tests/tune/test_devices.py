"""gemmlab tune of a GPU rung, on PoCL: whatever a configuration does is its result, and the search goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_tuner
import numpy as np
import pytest
from fake_tuner import CRASH, ENDLESS, GOOD, GOOD_TOO, MODES, NO_KERNEL, SLOW_BUILD, WRONG, WRONG_WHEN_LARGE
from fresh_profile import profile_in
from helpers import ROOT
from randomness import RNG

import gemmlab
from gemmlab import CannotWrite, UnsupportedProblem, _profile, _registry, cli, tune
from gemmlab._gpu import configurations, devices, runtime_named
from gemmlab.tune.devices import DeviceSearch, workers
from gemmlab.tune.search import log, replay

pytestmark = pytest.mark.skipif(isinstance(devices()["opencl"], str), reason="no OpenCL device")

HOMES = [str(Path(fake_tuner.__file__).parent), str(ROOT)]
FAKE = (sys.executable, "-c", f"import sys; sys.path[:0] = {HOMES}; import fake_tuner; fake_tuner.main()")
SHAPE = (96, 64, 80)
ONE_MINUTE = {"dtypes": ["float32"], "shapes": [SHAPE], "minutes": 1.0}


@pytest.fixture(autouse=True)
def own_profile(monkeypatch, tmp_path):
    with profile_in(tmp_path, monkeypatch):
        yield


@pytest.fixture
def misbehaving(monkeypatch):
    """A function that has the rung with some modes among the backends, for the rest of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "COMMAND", FAKE)
        opened = []

        def register(*modes):
            scope = _registry.registered(fake_tuner.backend(*modes))
            scope.__enter__()
            opened.append(scope)

        yield register
        for scope in opened:
            scope.__exit__(None, None, None)


def outcomes(path):
    """The outcome, and the reason, of each mode."""
    _, entries = log.read(path)
    return {entry["values"][0]: (entry["outcome"], entry.get("reason", "")) for entry in entries}


@pytest.mark.exhaustive
def test_whatever_a_configuration_does_is_its_result(misbehaving, monkeypatch, tmp_path):
    misbehaving(*MODES)
    for limit in ("BUILD_S", "KERNEL_S"):
        monkeypatch.setattr(workers, limit, 5.0)
    monkeypatch.setattr(workers, "FIRST_S", 15.0)
    search = DeviceSearch(fake_tuner.NAME, **ONE_MINUTE, log=tmp_path / "log.jsonl")
    (found,) = search.run()
    seen = outcomes(search.log_path)
    assert found.parameters["mode"] in (GOOD, GOOD_TOO)
    assert (found.tried, found.failed) == (len(MODES), 6)
    assert found.speedup is not None
    assert seen.keys() == set(MODES)
    assert {mode: outcome for mode, (outcome, _) in seen.items() if outcome in ("measured", "slow")}.keys() == {
        GOOD, GOOD_TOO,
    }  # fmt: skip
    for mode, outcome, why in [
        (NO_KERNEL, "failed", "this mode has no kernel"), (WRONG, "wrong", "exact product"),
        (ENDLESS, "failed", "no answer within"), (CRASH, "failed", "SIGSEGV"), (SLOW_BUILD, "failed", "within 5 s"),
        (WRONG_WHEN_LARGE, "wrong", "times the bound"),
    ]:  # fmt: skip
        assert seen[mode][0] == outcome
        assert why in seen[mode][1], mode
    assert replay(search.log_path) == [found]
    a, b = RNG.random((2, 90, 90), np.float32)
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, b, backend=fake_tuner.NAME)
    assert calls[0].params == found.parameters


@pytest.mark.exhaustive
def test_a_real_rung_is_tuned_and_products_follow(tmp_path, capsys):
    path = tmp_path / "local4.jsonl"
    arguments = ["tune", "opencl-local4", "--dtype", "float32", "--sizes", "40x48x56", "--minutes", "0.05"]
    assert cli.main([*arguments, "--log", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("float32     40 x 48 x 56: ")
    assert f"stored in {_profile.path()}" in said.out
    assert str(path) in said.err
    (found,) = replay(path)
    key = configurations.device_key(runtime_named("opencl").devices[0])
    (kept,) = _profile.configurations(key, "opencl-local4", "float32")
    assert (kept.parameters, kept.shape) == (found.parameters, (40, 48, 56))
    with gemmlab.trace() as calls:
        gemmlab.matmul(np.ones((40, 56), np.float32), np.ones((56, 48), np.float32), backend="opencl-local4")
    assert calls[0].params == found.parameters
    before = len(log.read(path)[1])
    path.write_bytes(path.read_bytes() + b'{"seconds": 3, "dty')  # killed while it wrote
    assert cli.main(["tune", "--replay", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["parameters"] == found.parameters
    assert cli.main([*arguments, "--log", str(path)]) == 0
    header, entries = log.read(path)
    assert len(entries) > before
    tried = [tuple(one["values"]) for one in entries if not one.get("against_defaults")]
    assert len(tried) == len(set(tried))
    assert header["backend"] == "opencl-local4"


@pytest.mark.usefixtures("quick_builds")
def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    path = tmp_path / "log.jsonl"
    # a rung whose space takes minutes: a small one may be done before the signal comes
    command = [sys.executable, "-m", "gemmlab", "tune", "opencl-register", "--dtype", "float32", "--sizes", "32"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background job all would ignore it
    ours = subprocess.Popen(
        [*command, "--minutes", "5", "--log", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "GEMMLAB_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") > 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(ours.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = ours.communicate(timeout=60)
    assert ours.returncode == 130, err
    assert out.startswith("float32     32 x 32 x 32: ")
    assert "stored in" in out
    assert "interrupted" in err
    kept = json.loads((tmp_path / "profile.json").read_text())["devices"]
    assert [list(own) for own in kept.values()] == [["opencl-register"]]


def test_a_log_of_another_kernel_or_none_at_all_is_refused(misbehaving, tmp_path, capsys):
    misbehaving(GOOD)
    path = tmp_path / "log.jsonl"
    search = DeviceSearch(fake_tuner.NAME, **ONE_MINUTE, log=path)
    (found,) = search.run()
    assert (found.tried, found.speedup) == (1, 1.0)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(json.dumps(json.loads(lines[0]) | {"driver": "another"}) + "\n" + "".join(lines[1:]))
    with pytest.raises(log.CannotGoOn, match=r"is of another, not .*: give another --log"):
        DeviceSearch(fake_tuner.NAME, **ONE_MINUTE, log=path).run()
    for content in ("\n", "{}\n", "no log\n", lines[0] + '{"seconds": 3}\n', lines[0] + lines[1].replace("[", "{")):
        path.write_text(content)
        assert cli.main(["tune", "--replay", str(path)]) == 2
        assert "no log of gemmlab tune" in capsys.readouterr().err
    path.write_text("".join(lines))
    with log.Log(path, json.loads(lines[0])), pytest.raises(CannotWrite, match="another search"):
        log.Log(path, json.loads(lines[0]))


def test_a_full_log_ends_the_search(misbehaving, monkeypatch, tmp_path):
    misbehaving(GOOD, GOOD_TOO)
    monkeypatch.setattr(log, "MAX_BYTES", 10)
    search = DeviceSearch(fake_tuner.NAME, **ONE_MINUTE, log=tmp_path / "log.jsonl")
    assert search.run() == []
    assert not _profile.path().exists()


@pytest.mark.parametrize(("arguments", "why"), [
    (["cpu-ikj"], "does not follow the profile"),
    (["opencl-naive", "--rounds", "3"], "--rounds has no meaning with opencl-naive"),
    (["opencl-naive", "--sizes", "2*64"], "single products"),
    (["opencl-naive", "--dtype", "int8"], "does not multiply int8"),
    (["auto", "--minutes", "3"], "--minutes has no meaning with auto"),
    (["cpu-packed", "--sizes", "64x64x65"], "squares"),
    (["--replay", "no-such-file"], "no-such-file"),
])  # fmt: skip
def test_wrong_usage_is_one_line(arguments, why, capsys):
    assert cli.main(["tune", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_only_rungs_are_tuned():
    with pytest.raises(UnsupportedProblem):
        DeviceSearch("cpu-packed")
    assert tune.is_tunable_rung("opencl")
    assert not tune.is_tunable_rung("auto")


@pytest.mark.exhaustive
def test_on_a_gpu_costs_are_measured_and_kept(monkeypatch, tmp_path):
    describe = workers.Trials.describe

    def as_a_gpu(self):
        found = describe(self)
        return {**found, "device": found["device"] | {"kind": "gpu"}}

    monkeypatch.setattr(workers.Trials, "describe", as_a_gpu)
    search = DeviceSearch("opencl-register", ["float32"], [SHAPE], minutes=0.01, log=tmp_path / "log.jsonl")
    (found,) = search.run()
    entries = log.read(search.log_path)[1]
    ((dtype, values), cost) = next(iter(log.costs_of(entries).items()))
    assert dtype == "float32"
    assert dict(zip(search._names, values, strict=True)) == found.parameters
    assert min(cost.start_s, cost.alone_s, cost.busy_s) > 0
    key = configurations.device_key(search.backend.device)
    (kept,) = _profile.configurations(key, "opencl-register", "float32")
    assert kept.cost == cost
    assert found.tried == sum(entry["outcome"] != "costed" for entry in entries)
    again = DeviceSearch("opencl-register", ["float32"], [SHAPE], minutes=0.01, log=tmp_path / "log.jsonl")
    (later,) = again.run()
    of_the_first = [entry for entry in log.read(again.log_path)[1] if entry["outcome"] == "costed"
                    and tuple(entry["values"]) == values]  # fmt: skip
    assert len(of_the_first) == 1
    assert later.tried >= found.tried
