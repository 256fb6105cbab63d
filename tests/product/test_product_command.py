"""`gemmlab product`: what it prints, in 80 columns, its exit statuses, and how it ends early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import runner
from randomness import RNG

from gemmlab.product import tiles

LITTLE = 1_300_000
# SIGINT may be ignored where the tests run, as in a shell's background.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from gemmlab.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def command(capsys):
    return runner(capsys)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two matrices in the working directory."""
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", RNG.standard_normal((330, 1100)))
    np.save("B.npy", RNG.standard_normal((1100, 290)))
    return tmp_path


def test_it_prints_plan_time_rate_check_and_file_in_80_columns(command, files):
    found = command("product", "A.npy", "B.npy", "--out", "C.npy", "--memory", LITTLE, "--backend", "cpu-packed")
    assert found.status == 0
    lines = found.out.splitlines()
    assert lines[0] == "A.npy of 330 x 1100 times B.npy of 1100 x 290"
    assert [line.split()[0] for line in lines[1:]] == [
        "plan", "files", "backend", "time", "rate", "check", "written"
    ]  # fmt: skip
    assert lines[-1] == "written   C.npy: 330 x 290, float64, 748 KiB"
    assert max(map(len, lines)) <= 80
    assert "100 % tile" in found.err
    np.testing.assert_allclose(np.load("C.npy"), np.load("A.npy") @ np.load("B.npy"), atol=1e-10)


def test_json_has_the_same(command, files):
    found = json.loads(command("product", "A.npy", "B.npy", "--out", "C.npy", "--memory", "3MiB", "--json").out)
    assert (found["m"], found["n"], found["k"], found["dtype"], found["ok"]) == (330, 290, 1100, "float64", True)
    assert found["path"] == "C.npy"
    assert found["plan"]["bytes_memory"] <= 3 << 20
    assert set(found["parts_s"]) == {"read", "multiply", "write", "check"}
    assert found["gflop_per_s"] > 0


def test_a_wrong_product_fails_and_says_what_to_do(command, files, monkeypatch):
    class Wrong(tiles.Multiplier):
        def add(self, step, a, b):
            super().add(step, a, b)
            self.sums(step)[...] += 1

    with monkeypatch.context() as patch:
        patch.setattr(tiles, "Multiplier", Wrong)
        found = command("product", "A.npy", "B.npy", "--out", "C.npy")
    assert found.status == 1
    assert "check     FAILED: error" in found.out
    journal = next(word for word in found.out.split() if word.endswith("-journal"))
    assert command("product", "A.npy", "B.npy", "--out", "C.npy").status == 1, "all tiles are there"
    Path(journal).unlink()
    assert command("product", "A.npy", "B.npy", "--out", "C.npy").status == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("A.npy", "A.npy", "--out", "C.npy"), "A.npy has 1100 columns and A.npy has 330 rows"),
        (("A.npy", "B.npy", "--out", "A.npy"), "would overwrite the input A.npy"),
        (("A.npy", "B.npy", "--out", "C.txt"), "must end in .npy or .zarr"),
        (("A.npy", "B.npy", "--out", "none/C.npy"), "there is no folder"),
        (("none.npy", "B.npy", "--out", "C.npy"), "none.npy: No such file"),
        (("A.npy", "B.npy", "--out", "C.npy", "--memory", "9KiB"), "give at least 1MiB"),
        (("A.npy", "B.npy", "--out", "C.npy", "--memory", "much"), "a size of memory must be"),
        (("A.npy", "B.npy", "--out", "C.npy", "--backend", "cpu-nothing"), "no backend is named"),
        (("A.npy", "B.npy", "--out", "C.npy", "--dask", "local"), "a name that ends in .zarr"),
        (("A.npy", "B.npy", "--out", "C.zarr", "--dask", "local", "--memory", "1GiB"), "leave it out with --dask"),
        (("A.npy", "B.npy"), "required: --out"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_one_line(command, files, arguments, says):
    found = command("product", *arguments)
    assert (found.status, found.out) == (2, "")
    assert says in found.err.splitlines()[-1]
    assert sorted(os.listdir()) == ["A.npy", "B.npy"]


def test_a_system_without_locks_is_one_line(files):
    """As on Windows, where Python has neither this module nor reads at an offset."""
    code = "import os, sys; sys.modules['fcntl'] = None; del os.preadv, os.pwritev\n" + COMMAND
    arguments = ("product", "A.npy", "B.npy", "--out", "C.npy")
    done = subprocess.run([sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "on Windows, run it in WSL" in done.stderr
    assert sorted(os.listdir()) == ["A.npy", "B.npy"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_a_signal_leaves_what_is_done_and_says_how_to_go_on(files, command, number, status):
    arguments = ("product", "A.npy", "B.npy", "--out", "C.npy", "--memory", str(LITTLE), "--backend", "cpu-naive")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = process.stderr.readline()
    assert first.startswith("0 % tile"), first + process.stderr.read()
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == status
    assert "C.npy is not finished: the same command goes on where this one was" in error
    assert not Path("C.npy").exists()
    assert Path("C.npy.gemmlab-part").exists()
    assert command(*arguments).status == 0


def test_what_was_resumed_is_said(files, command, monkeypatch):
    arguments = ("product", "A.npy", "B.npy", "--out", "C.npy", "--memory", LITTLE, "--backend", "cpu-packed")
    keep, count = tiles._keep, []

    def stop(*given):
        keep(*given)
        count.append(given)
        if len(count) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tiles, "_keep", stop)
        assert command(*arguments).status == 130
    found = command(*arguments)
    assert found.status == 0
    assert "% of the work was there, 2 of " in found.out
    changed = RNG.standard_normal((330, 1100))
    with monkeypatch.context() as patch:
        patch.setattr(tiles, "_keep", stop)
        count.clear()
        command(*arguments)
    np.save("A.npy", changed)
    found = command(*arguments)
    assert (found.status, len(found.err.splitlines())) == (2, 1)
    assert "time of change (ns) of A was" in found.err
    assert found.err.endswith("C.npy.gemmlab-journal to start over\n")
