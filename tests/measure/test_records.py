"""Records: whole files or none, and lines that say what is wrong with them."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import made_up_records as made
import numpy as np
import pytest
from helpers import DOCS

from gemmlab import CannotWrite
from gemmlab.measure import RecordFile, complete, read, write
from gemmlab.measure.records import KEYS, SCHEMA_VERSION, name_of

DOCUMENT = DOCS / "records.md"
ENVIRONMENT = {"python": "3.11"}
LATER = ("kernel_s", "memory")  # keys that the first files of version 1 lack
GONE = {"bytes_measured_dram": 1.0, "probe_drop_percent": 3.0, "steal_percent": 4.0}


def record(**given):
    made_up = {key: value for key, value in made.gemm("cpu-ikj", 8).items() if key in KEYS["gemm"]}
    return complete({**made_up, **given}, run_id="r", device="d", environment=ENVIRONMENT)


def keys_in_document(heading):
    section = DOCUMENT.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [key for row in rows for key in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_those_of_the_document(kind):
    documented = keys_in_document("Keys of every record") + keys_in_document(f'`kind: "{kind}"`')
    assert sorted(KEYS[kind]) == sorted(documented)


@pytest.mark.parametrize("kind", KEYS)
def test_complete_fills_every_key(kind):
    whole = complete({"kind": kind, "threads": 2}, run_id="r", device="d", environment=ENVIRONMENT)
    assert tuple(whole) == KEYS[kind]
    assert (whole["run_id"], whole["device"], whole["threads"], whole["median_s"]) == ("r", "d", 2, None)
    assert whole["time_utc"].endswith("+00:00")


@pytest.mark.parametrize("given", [{}, {"kind": "other"}, {"kind": "gemm", "gflops": 1}])
def test_complete_refuses_what_is_not_documented(given):
    with pytest.raises(ValueError, match=r"kind|gflops"):
        complete(given, run_id="r", device="d", environment={})


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "records.jsonl"
    write(path, [record(threads=1), record(threads=2)])
    assert [one["threads"] for one in read(path)] == [1, 2]
    assert os.listdir(tmp_path) == ["records.jsonl"]


@pytest.mark.parametrize("given", [record(), {"kind": "ceiling", "ceiling": "other"}], ids=["gemm", "ceiling"])
def test_a_file_of_an_earlier_gemmlab_reads_as_one_of_today(tmp_path, given):
    path = tmp_path / "r"
    today = complete(given, run_id="r", device="d", environment=ENVIRONMENT)
    earlier = {key: value for key, value in today.items() if key not in LATER} | {"schema_version": 1}
    path.write_text(json.dumps(earlier) + "\n")
    assert read(path) == [today]


def test_keys_of_version_1_that_are_gone_are_left_out_and_turns_are_rounds(tmp_path):
    today = record(rounds=7)
    earlier = {key: value for key, value in today.items() if key != "rounds"} | GONE
    (tmp_path / "r").write_text(json.dumps(earlier | {"schema_version": 1, "turns": 7}) + "\n")
    assert read(tmp_path / "r") == [today]


FILES = sorted((DOCS / "measured").rglob("*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DOCS)))
def test_published_records_are_read(path):
    versions = {json.loads(line)["schema_version"] for line in path.read_text(encoding="utf-8").splitlines()}
    assert versions <= {1, SCHEMA_VERSION}
    for one in read(path):
        assert set(KEYS[one["kind"]]) == set(one)
        assert one["schema_version"] == SCHEMA_VERSION


def test_the_name_of_a_record_says_whether_transfers_are_counted():
    counted = [name_of({"backend": "opencl-local", "transfers_counted": value}) for value in (None, False, True)]
    assert counted == ["opencl-local", "opencl-local", "opencl-local + transfers"]


def test_numpy_scalars_and_numbers_that_json_lacks(tmp_path):
    path = tmp_path / "r"
    params = {"size": np.int64(3), "on": np.True_, "ratio": np.float32(np.nan), "pair": (1, float("-inf"))}
    write(path, [record(params=params, error_over_bound=float("inf"))])
    line = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert line["params"] == {"size": 3, "on": True, "ratio": None, "pair": [1, None]}
    assert line["error_over_bound"] is None


def test_what_a_compiler_says_in_colour_can_be_read_again(tmp_path):
    write(tmp_path / "r", [record(status="failed", reason="\x1b[31merror\x1b[0m:\n\tno")])
    assert read(tmp_path / "r")[0]["reason"] == "?[31merror?[0m:\n\tno"


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "r"
    with RecordFile(path) as file:
        file.write(record())
        assert not path.exists()
        # A run that is killed leaves what it had under the other name.
        assert len(read(f"{path}.partial")) == 1
    assert len(read(path)) == 1


def test_an_interruption_keeps_what_was_measured(tmp_path):
    path = tmp_path / "r"

    def interrupted_run():
        with RecordFile(path) as file:
            file.write(record())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    assert len(read(path)) == 1


def test_without_records_an_earlier_file_stays(tmp_path):
    path = tmp_path / "r"
    write(path, [record(threads=7)])
    write(path, [])
    assert read(path)[0]["threads"] == 7
    write(tmp_path / "none", [])
    assert os.listdir(tmp_path) == ["r"]


def test_what_a_killed_run_has_left_is_kept(tmp_path):
    path = tmp_path / "r"
    for threads in (1, 2):
        (tmp_path / "r.partial").write_text(json.dumps(record(threads=threads)) + "\n")
        with pytest.warns(UserWarning, match=rf"r\.partial is of a run that was killed.*r\.killed-{threads}"):
            write(path, [record(threads=7)])
        assert read(tmp_path / f"r.killed-{threads}")[0]["threads"] == threads
    assert read(path)[0]["threads"] == 7
    assert sorted(os.listdir(tmp_path)) == ["r", "r.killed-1", "r.killed-2"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")
def test_two_runs_do_not_write_one_file(tmp_path):
    with RecordFile(tmp_path / "r") as first:
        first.write(record(threads=3))
        with pytest.raises(CannotWrite, match="another run is writing it"):
            RecordFile(tmp_path / "r")
    assert read(tmp_path / "r")[0]["threads"] == 3


def test_closing_twice_does_no_harm(tmp_path):
    file = RecordFile(tmp_path / "r")
    file.write(record())
    file.close()
    file.close()
    assert len(read(tmp_path / "r")) == 1


@pytest.mark.skipif(not hasattr(os, "symlink") or sys.platform == "win32", reason="needs symbolic links")
def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "store").mkdir()
    link = tmp_path / "r"
    link.symlink_to(tmp_path / "store" / "real")
    write(link, [record()])
    assert link.is_symlink()
    assert len(read(tmp_path / "store" / "real")) == 1


@pytest.mark.parametrize("path", ["folder", "file/below", "no/such/folder/r", "", "folder/", "nul\0byte"])
def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    with pytest.raises(CannotWrite) as caught:
        RecordFile(path)
    assert str(caught.value).startswith(f"cannot write {path}: ")
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir()) == ["file", "folder"]
    assert os.listdir("folder") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_protected_file_is_not_replaced(tmp_path):
    path = tmp_path / "r"
    path.touch(mode=0o400)
    with pytest.raises(CannotWrite, match="Permission denied"):
        RecordFile(path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_found_before_anything_is_measured():
    with pytest.raises(CannotWrite, match=r"^cannot write /dev/full: No space left on device$"):
        RecordFile("/dev/full")
    assert not os.path.exists("/dev/full.partial")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_that_fills_up_later_is_one_clear_line(tmp_path):
    file = RecordFile(tmp_path / "r")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file._file.fileno())
    os.close(full)
    with pytest.raises(CannotWrite, match="No space left"):
        file.write(record())
    with pytest.raises(CannotWrite, match="No space left"):
        file.close()
    assert not (tmp_path / "r").exists()


def test_a_null_device_takes_records():
    write(os.devnull, [record()])
    assert not os.path.exists(f"{os.devnull}.partial")


GOOD = json.dumps(record())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "not a record"),
        ("\xff", "not JSON"),
        ("[" * 100_000, "recursion"),
        ("{}", "schema_version is None"),
        (json.dumps({**json.loads(GOOD), "schema_version": 99}), "schema_version is 99"),
        (json.dumps({**json.loads(GOOD), "kind": ["gemm"]}), "kind is"),
        (json.dumps({**json.loads(GOOD), "environment": 3}), "environment is 3, not a JSON object"),
        ('{"schema_version": 1, "kind": "ceiling"}', "has no run_id"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    path = tmp_path / "r"
    path.write_text(f"{GOOD}\n\n{line}\n{GOOD}\n", encoding="latin-1")
    with pytest.raises(ValueError, match=says) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
