"""The work is done and the status is true whatever the streams of a command are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import run_python
from randomness import RNG

NAMES = ["ä.npy", "\udcff.npy", "a\x1b[31mred.npy", "a\nb.npy"]


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "a.npy", RNG.standard_normal((20, 30)))
    np.save(tmp_path / "b.npy", RNG.standard_normal((30, 10)))
    return tmp_path


def shell(files, command, out="c.npy", **environ):
    program = f"'{sys.executable}' -P -m gemmlab product a.npy b.npy --out \"$OUT\" {command}"
    environ = os.environ | {"OUT": out} | environ
    return subprocess.run(["sh", "-c", program], cwd=files, env=environ, capture_output=True, timeout=60, check=False)


def is_right(files, name="c.npy"):
    a, b = (np.load(files / one) for one in ("a.npy", "b.npy"))
    return np.allclose(np.load(files / name), a @ b)


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_closed_and_full_streams(files, streams):
    assert shell(files, streams).returncode == 0
    assert is_right(files)


def test_a_full_standard_output_is_status_2_and_the_product_is_there(files):
    done = shell(files, ">/dev/full")
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert is_right(files)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_cannot_be_printed(files, name, encoding):
    done = shell(files, "", out=name, PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert is_right(files, name)
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_message_is_one_line_without_control_characters(files, name):
    (files / name).write_text("no matrix")
    done = shell(files, "", out=name)
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("stream", ["object()", "None"])
def test_streams_of_another_kind(files, stream):
    code = f"""
import sys
from pathlib import Path
from gemmlab.cli import main
sys.stdout = {stream}
status = main(["product", "a.npy", "b.npy", "--out", "c.npy"])
sys.stdout = sys.__stdout__
print(status)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=files, capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr
    assert is_right(files)


def test_a_long_name_is_shortened():
    done = run_python("-m", "gemmlab", "product", "x" * 90_000, "b.npy", "--out", "c.npy")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) <= 310


@pytest.mark.parametrize("command", ["tune cpu-packed --replay LOG", "backends", "info"])
def test_tables_have_no_control_characters(tmp_path, command):
    lines = (Path(__file__).parents[1] / "tune" / "logs" / "cpu-packed-zen4.jsonl").read_text().splitlines()
    header = json.loads(lines[0])
    header["names"] = [f"{name}\x1b[31m" for name in header["names"]]
    (log := tmp_path / "log.jsonl").write_text("\n".join([json.dumps(header), *lines[1:], ""]))
    odd = {"GEMMLAB_CACHE_DIR": str(tmp_path / "a\x1b[31mred"), "GEMMLAB_BLOCK": "cuda-naive\x1b[0m"}
    done = run_python("-m", "gemmlab", *command.replace("LOG", str(log)).split(), **odd)
    assert "\x1b" not in done.stdout + done.stderr
    if "replay" in command:
        assert r"\x1b[31m" in done.stdout
