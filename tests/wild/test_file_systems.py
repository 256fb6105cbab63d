"""File systems without locks, without reserved space, without a sync of folders: NFS, FUSE, 9p, overlays."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from helpers import run_python
from randomness import RNG

RARER = [pytest.param(number, marks=pytest.mark.exhaustive) for number in (errno.ENOSYS, errno.EINVAL, errno.ENOLCK)]
LACKING = [errno.EOPNOTSUPP, *RARER]
SAFETY = {"flock": "has no locks", "posix_fallocate": "cannot reserve space", "fsync_folder": "cannot sync"}


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "a.npy", RNG.standard_normal((60, 70)))
    np.save(tmp_path / "b.npy", RNG.standard_normal((70, 50)))
    return tmp_path


def multiplied(files, **environ):
    a, b, out = (files / name for name in ("a.npy", "b.npy", "c.npy"))
    return run_python("-m", "gemmlab", "product", a, b, "--out", out, **environ)


@pytest.mark.parametrize("number", LACKING, ids=str)
@pytest.mark.parametrize("call", SAFETY)
def test_a_product_goes_on_without_what_is_lacking_and_says_so_once(call, number, files, failing_calls):
    done = multiplied(files, **failing_calls(**{call: number}))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAFETY[call]) == 1
    a, b, c = (np.load(files / name) for name in ("a.npy", "b.npy", "c.npy"))
    assert np.allclose(a @ b, c)
    assert sorted(path.name for path in files.iterdir()) == ["a.npy", "b.npy", "c.npy"]


FAULTS = [("fsync", errno.EIO), ("posix_fallocate", errno.ENOSPC), ("flock", errno.EIO)]


@pytest.mark.parametrize(("call", "number"), FAULTS)
def test_a_real_fault_is_one_line_and_no_product(call, number, files, failing_calls):
    done = multiplied(files, **failing_calls(**{call: number}))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (files / "c.npy").exists()


def test_only_another_run_is_said_to_be_one(files, failing_calls):
    done = multiplied(files, **failing_calls(flock=errno.EWOULDBLOCK))
    assert done.returncode == 2
    assert "another process works on this output" in done.stderr


@pytest.mark.exhaustive  # it measures
@pytest.mark.parametrize("number", LACKING[:2], ids=str)
def test_records_are_written_without_locks(number, tmp_path, failing_calls):
    out = tmp_path / "records.jsonl"
    options = "--backends", "cpu-packed", "--sizes", "16", "--rounds", "1", "--budget", "0.01", "--out", out
    done = run_python("-m", "gemmlab", "bench", *options, **failing_calls(flock=number))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has no locks") == 1
    assert out.read_text(encoding="utf-8").count("\n") >= 1
