"""A product that was killed goes on where it was, with the bits of an undisturbed one, or says why it cannot."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from randomness import RNG
from sweeps import swept

from gemmlab import CannotWrite, UnsupportedProblem, _profile, _registry, config
from gemmlab._backend import Availability
from gemmlab._cpu import isa
from gemmlab.product import CannotResume, identity, job, plan, product, sums
from gemmlab.product.job import open_matrix
from gemmlab.product.journal import Journal

MEMORY = {"npy": 1_300_000, "zarr": 7_400_000}  # of which files take 6 MiB
PROGRAM = """
import sys
from gemmlab.product import product
a, b, c, memory = sys.argv[1:]
if c.endswith("zarr"):
    import zarr
print("ready", flush=True)
found = product(a, b, c, memory=memory, backend="cpu-naive")
print(found.tiles_found, len(found.plan.tiles), found.ok, flush=True)
"""


class Stop(Exception):
    """Ends a product, as a signal would."""


@pytest.fixture
def files(tmp_path):
    """Two matrices whose product is of many tiles in little memory."""
    np.save(tmp_path / "a.npy", RNG.standard_normal((330, 1100)))
    np.save(tmp_path / "b.npy", RNG.standard_normal((1100, 290)))
    return tmp_path


def multiplied(files, name="c.npy", **options):
    options = {"memory": MEMORY[name.rpartition(".")[2]], "backend": "cpu-naive"} | options
    return product(files / "a.npy", files / "b.npy", files / name, **options)


def interrupted(files, name="c.npy", tiles=3, **options):
    """The product, ended when so many tiles were whole."""

    def stop(done, total, doing):
        if int(doing.split()[1]) >= tiles:
            raise Stop

    with pytest.raises(Stop):
        multiplied(files, name, progress=stop, **options)


def content(path):
    """The bytes of a file, or of a folder's files by name."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return path.read_bytes()


def in_zarr_too(kind):
    if kind == "zarr":
        pytest.importorskip("zarr")
    return kind


# Killed


def start(files, name):
    """A process that multiplies, when it is about to begin."""
    arguments = map(str, (files / "a.npy", files / "b.npy", files / name, MEMORY[name.rpartition(".")[2]]))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


@pytest.mark.parametrize(("kind", "times"), swept([("npy", 3), ("npy", 14), ("zarr", 6)]))
def test_killed_at_random_moments_and_resumed(files, kind, times):
    name = f"c.{in_zarr_too(kind)}"
    process, began = start(files, f"undisturbed.{kind}"), time.perf_counter()
    out, error = process.communicate(timeout=60)
    whole = time.perf_counter() - began
    assert out.split()[0] == "0", error
    killed = found = 0
    while killed < times:
        process = start(files, name)
        time.sleep(RNG.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        if process.returncode == 0:  # it was faster
            shutil.rmtree(files / name) if kind == "zarr" else (files / name).unlink()
            continue
        killed += 1
        journal = files / f"{name}.gemmlab-journal"
        found = max(found, journal.read_bytes().count(b'"tile"') if journal.exists() else 0)
        if killed % 3 == 0:
            out, error = start(files, name).communicate(timeout=60)
            assert out.split()[2:] == ["True"], error
            assert content(files / name) == content(files / f"undisturbed.{kind}")
            assert not journal.exists()
            shutil.rmtree(files / name) if kind == "zarr" else (files / name).unlink()
    out, error = start(files, name).communicate(timeout=60)
    assert out.split()[2:] == ["True"], error
    assert content(files / name) == content(files / f"undisturbed.{kind}")
    assert {path.name for path in files.iterdir()} == {"a.npy", "b.npy", name, f"undisturbed.{kind}"}
    print(f"the longest journal at a kill: {found} tiles")


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_tiles_that_were_whole_are_not_computed_again(files, kind):
    name = f"c.{in_zarr_too(kind)}"
    undisturbed = multiplied(files, f"undisturbed.{kind}")
    interrupted(files, name, 2)
    interrupted(files, name, 3)
    found = multiplied(files, name)
    assert (found.ok, found.tiles_found) == (True, 3)
    assert found.gflop < undisturbed.gflop
    assert content(files / name) == content(files / f"undisturbed.{kind}")


# Within a tile


@pytest.fixture
def in_bands(monkeypatch):
    """Each step keeps its sums, and a tile has several bands."""
    monkeypatch.setattr(sums.PartialSums, "is_due", lambda self, *seconds: True)
    monkeypatch.setattr(plan, "LEAST_BAND", 64)
    monkeypatch.setattr(plan, "BAND_FLOP", 0)


def ended_after(files, steps, name="c.npy", **options):
    """The product, ended when so many steps were done."""
    count = []

    def stop(done, total, doing):
        count.append(done)
        if len(count) == steps:
            raise Stop

    with pytest.raises(Stop):
        multiplied(files, name, progress=stop, memory="1GB", **options)


@pytest.mark.parametrize("backend", ["cpu-naive", "cpu-packed", "cpu-numpy"])
@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_a_tile_goes_on_where_it_was(files, in_bands, kind, backend):
    name = f"c.{in_zarr_too(kind)}"
    undisturbed = multiplied(files, f"undisturbed.{kind}", memory="1GB", backend=backend)
    assert len(undisturbed.plan.tiles) == 1
    for done in (1, 2, 1):
        ended_after(files, done, name, backend=backend)
    found = multiplied(files, name, memory="1GB", backend=backend)
    assert (found.ok, found.tiles_found) == (True, 0)
    assert found.share_found == pytest.approx(4 * 64 / 330)
    assert content(files / name) == content(files / f"undisturbed.{kind}")
    assert not (files / f"{name}.gemmlab-sums").exists()


def test_a_tile_goes_on_in_any_block_of_k(files, in_bands, monkeypatch):
    """Also where a kill came while a copy was written: it names the other."""
    options = {"backend": "cpu-packed"}
    undisturbed = multiplied(files, "undisturbed.npy", **options)
    bands = len(undisturbed.plan.bands(undisturbed.plan.tm, undisturbed.plan.tn))
    depths = len(undisturbed.plan.depths)
    assert depths * bands > 3
    for steps in range(1, depths * bands):

        def stop(done, total, doing, left=[steps]):  # noqa: B006
            left[0] -= 1
            if not left[0]:
                raise Stop

        with pytest.raises(Stop):
            multiplied(files, progress=stop, **options)
        journal = Journal(files / "c.npy.gemmlab-journal")
        part, whole = journal.part, journal.whole
        os.close(journal._descriptor)
        kept = files / "c.npy.gemmlab-sums"
        if part:
            torn = np.fromfile(kept)
            half = undisturbed.plan.tm * undisturbed.plan.tn
            torn[: half] = np.nan if part.copy else torn[:half]
            torn[half:] = torn[half:] if part.copy else np.nan
            torn.tofile(kept)
        found = multiplied(files, **options)
        assert found.ok
        assert found.share_found > 0
        assert (found.tiles_found, bool(whole)) == (len(whole), not part or part.tile > 0)
        assert content(files / "c.npy") == content(undisturbed.path)
        (files / "c.npy").unlink()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_without_the_partial_sums_a_tile_begins_anew(files, in_bands, damage):
    undisturbed = multiplied(files, "undisturbed.npy", memory="1GB")
    ended_after(files, 2)
    kept = files / "c.npy.gemmlab-sums"
    if damage == "short":
        os.truncate(kept, 1000)
    else:
        kept.unlink()
    found = multiplied(files, memory="1GB")
    assert (found.ok, found.share_found) == (True, 0)
    assert content(files / "c.npy") == content(undisturbed.path)


PARTS = [[0, 99, 0], [7, 1, 0], [0, 1, 2], [0, -1, 0], [0, 1], [0, 1, "a"], None, "abc"]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_part_that_cannot_be_refuses_to_resume(files, in_bands, part):
    ended_after(files, 2)
    with Journal(files / "c.npy.gemmlab-journal") as journal:
        journal._append({"part": part})
        journal._append({"part": part})  # a last line that is damaged would be ignored
    with pytest.raises(CannotResume, match="journal"):
        multiplied(files, memory="1GB")


def test_a_disk_that_is_full_is_done_without_partial_sums(files, in_bands, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sums, "write_at", full)
    assert multiplied(files, memory="1GB").ok
    assert sorted(os.listdir(files)) == ["a.npy", "b.npy", "c.npy"]


def test_sums_are_kept_before_ten_seconds_or_a_twentieth_are_lost():
    kept = sums.PartialSums(Path("none"), 0)
    kept._took_s = 0.5
    for all_s in (60, 240, 4000):
        assert not kept.is_due(1.0, 0.5, all_s)
        assert kept.is_due(0.04 * max(200, all_s), 0.5, all_s)
    kept._took_s = 30.0  # a slow disk: not all of the time is spent on it
    assert not kept.is_due(60.0, 1.0, 240.0)
    assert kept.is_due(200.0, 1.0, 240.0)


def test_a_kill_after_the_check_needs_the_name_only(files, monkeypatch):
    for name in ("c.npy", "c.zarr") if find_spec("zarr") else ("c.npy",):
        kept = multiplied(files, f"undisturbed{Path(name).suffix}")
        with monkeypatch.context() as patch:
            patch.setattr(job.Output, "finish", _stop)
            with pytest.raises(Stop):
                multiplied(files, name)
        assert not (files / name).exists()
        assert multiplied(files, name).tiles_found == len(kept.plan.tiles)
        assert content(files / name) == content(kept.path)
        with monkeypatch.context() as patch:  # and after the name was given
            patch.setattr(Journal, "remove", _stop)
            with pytest.raises(Stop):
                multiplied(files, name)
        assert multiplied(files, name).ok
        assert not (files / f"{name}.gemmlab-journal").exists()


def _stop(*_):
    raise Stop


@pytest.mark.parametrize("cut", ["half", "no end", "garbage"])
def test_a_torn_last_line_is_ignored(files, cut):
    undisturbed = multiplied(files, "undisturbed.npy")
    interrupted(files, tiles=3)
    journal = files / "c.npy.gemmlab-journal"
    text = journal.read_bytes()
    last = text.splitlines(keepends=True)[-1]
    assert last.startswith(b'{"tile": 2, ')
    journal.write_bytes({"half": text[:-5], "no end": text[:-1], "garbage": text[: -len(last)] + b"\0\0\n"}[cut])
    found = multiplied(files)
    assert found.tiles_found == 2
    assert content(files / "c.npy") == content(undisturbed.path)


def test_a_torn_first_line_begins_anew(files):
    undisturbed = multiplied(files, "undisturbed.npy")
    interrupted(files)
    journal = files / "c.npy.gemmlab-journal"
    journal.write_bytes(journal.read_bytes()[:100])
    assert multiplied(files).tiles_found == 0
    assert content(files / "c.npy") == content(undisturbed.path)


def test_what_a_kill_left_in_a_tile_is_overwritten(files):
    undisturbed = multiplied(files, "undisturbed.npy")
    interrupted(files, tiles=2)
    out = open_matrix(files / "c.npy.gemmlab-part", writable=True)
    for rows, columns in undisturbed.plan.tiles[2:]:
        out.write(rows, columns, np.full((rows[1] - rows[0], columns[1] - columns[0]), np.nan))
    out.close()
    assert multiplied(files).ok
    assert content(files / "c.npy") == content(undisturbed.path)


def test_a_line_follows_its_tile_to_the_disk(files, monkeypatch):
    """What the journal says of a tile is written after the tile was synced, and is synced itself."""
    happened = []
    fsync, append = os.fsync, Journal._append
    monkeypatch.setattr(os, "fsync", lambda descriptor: (happened.append(_name_of(descriptor)), fsync(descriptor)))
    monkeypatch.setattr(Journal, "_append", lambda self, entry: (happened.append(entry), append(self, entry)))
    found = multiplied(files)
    assert len(found.plan.tiles) > 2
    for number in range(len(found.plan.tiles)):
        line = happened.index({"tile": number})
        assert happened[line - 1 : line + 2 : 2] == ["c.npy.gemmlab-part", "c.npy.gemmlab-journal"]


def _name_of(descriptor):
    return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name


# Refused


def changed(path):
    """The same matrix in a file of another time."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def transposed(path):
    """The same numbers, size and time under another header."""
    status = path.stat()
    text = path.read_bytes().replace(b"'fortran_order': False", b"'fortran_order': True ")
    path.write_bytes(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def longer(path):
    with open(path, "ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize(("change", "says"), [(changed, "time of change"), (transposed, "header"), (longer, "bytes")])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_another_input_refuses_to_resume(files, operand, change, says):
    interrupted(files)
    change(files / f"{operand}.npy")
    with pytest.raises(CannotResume, match=rf"{says} .*of {operand.upper()} .*was .* is now .*delete .*-journal to"):
        multiplied(files)
    (files / "c.npy.gemmlab-journal").unlink()
    assert multiplied(files).tiles_found == 0


def test_an_input_in_zarr_that_has_changed_refuses_to_resume(files):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(files / "a.zarr", shape=(330, 1100), dtype="f8", chunks=(64, 1100))
    array[:] = np.load(files / "a.npy")
    options = {"memory": "16MiB", "backend": "cpu-naive"}

    def stop(done, total, doing):
        raise Stop

    with pytest.raises(Stop):
        product(files / "a.zarr", files / "b.npy", files / "c.npy", progress=stop, **options)
    array[0, 0] = 1
    with pytest.raises(CannotResume, match="of A"):
        product(files / "a.zarr", files / "b.npy", files / "c.npy", **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"backend": "cpu-ikj"}, "backend was cpu-naive and is now cpu-ikj"), ({"memory": "3MiB"}, "memory was 1300000")],
    ids=str,
)
def test_another_way_refuses_to_resume(files, options, says):
    interrupted(files)
    with pytest.raises(CannotResume, match=says):
        multiplied(files, **options)
    assert multiplied(files, memory=None).tiles_found > 0, "the plan is that of the journal"


def test_another_profile_refuses_to_resume(files, monkeypatch, tmp_path):
    monkeypatch.setattr(config, "_cache_dir", tmp_path / "cache")
    _profile._own.cache_clear()
    interrupted(files, backend="cpu-packed")
    _profile.store(isa.profile_name(), "cpu-packed", {"float32": {"kc": 192}})
    _profile.store(isa.profile_name(), "cpu-packed", {"float64": {"kc": 192}})
    with pytest.raises(CannotResume, match=r'profile was \{\} and is now \{"kc": 192\}'):
        multiplied(files, backend="cpu-packed")
    _profile._own.cache_clear()


@pytest.mark.parametrize("name", ["compiled modules (SHA-256)", "numpy", "gemmlab", "processor"])
def test_another_build_refuses_to_resume(files, monkeypatch, name):
    interrupted(files)
    own = identity.of_build()
    monkeypatch.setattr(identity, "of_build", lambda: own | {name: "another"})
    with pytest.raises(CannotResume, match="and is now another"):
        multiplied(files)


def test_threads_are_compared_for_a_library_alone(files):
    interrupted(files, backend="cpu-numpy", memory="2MiB", threads=1)
    with pytest.raises(CannotResume, match="threads was 1 and is now 2"):
        multiplied(files, backend="cpu-numpy", memory="2MiB", threads=2)
    (files / "c.npy.gemmlab-journal").unlink()
    interrupted(files, backend="cpu-packed", threads=1)
    assert multiplied(files, backend="cpu-packed", threads=2).tiles_found == 3


def test_the_memory_of_a_device_is_compared_where_there_is_one(monkeypatch):
    """What is streamed to a device is cut by it."""
    cpu, device = (_Backend(name) for name in ("cpu-packed", "opencl-local:gpu"))
    monkeypatch.setattr(_registry, "availability", lambda name: Availability(True, device="a device"))
    monkeypatch.setattr(config, "_device_memory", None)
    before = [identity.of_backend(one, np.dtype("f4"), None) for one in (cpu, device)]
    monkeypatch.setattr(config, "_device_memory", 1 << 30)
    after = [identity.of_backend(one, np.dtype("f4"), None) for one in (cpu, device)]
    assert before[0] == after[0]
    assert before[1] == after[1] | {"device memory": "what is free"}
    assert after[1]["device memory"] == 1 << 30


class _Backend:
    kind = "rung"

    def __init__(self, name):
        self.name = name


def test_a_resumed_product_says_that_the_device_memory_differs(files, monkeypatch):
    pytest.importorskip("pyopencl")
    if not _registry.availability("opencl-local").ok:
        pytest.skip("no OpenCL device")
    monkeypatch.setattr(config, "_device_memory", 1 << 30)
    interrupted(files, backend="opencl-local", memory="2MiB", tiles=1)
    monkeypatch.setattr(config, "_device_memory", 1 << 29)
    with pytest.raises(CannotResume, match="device memory was 1073741824 and is now 536870912"):
        multiplied(files, backend="opencl-local", memory="2MiB")


def test_backends_that_share_a_product_are_refused(files):
    with pytest.raises(UnsupportedProblem, match=r"^the shares of cpu-packed\+opencl-local differ .*: name one of"):
        multiplied(files, backend="cpu-packed+opencl-local")
    assert sorted(os.listdir(files)) == ["a.npy", "b.npy"]


def test_a_damaged_journal_and_a_lost_output_refuse_to_resume(files):
    interrupted(files)
    journal = files / "c.npy.gemmlab-journal"
    text = journal.read_bytes()
    first, rest = text.split(b"\n", 1)
    for damaged, says in (
        (first + b"\n{]\n" + rest, "damaged in line 2"),
        (json.dumps(json.loads(first) | {"journal": 0}).encode() + b"\n" + rest, "another version"),
        (first + b"\n" + rest.split(b"\n", 1)[1], "damaged in line 2"),
        (b'{"tile": [1]}\n', "damaged"),
        (b"null\n", "damaged"),
    ):
        journal.write_bytes(damaged)
        with pytest.raises(CannotResume, match=f"{says}.*delete"):
            multiplied(files)
    journal.write_bytes(text)
    (files / "c.npy.gemmlab-part").unlink()
    with pytest.raises(CannotResume, match="gemmlab-part is missing"):
        multiplied(files)


LINES = [
    b'{"checked": null}',
    b'{"tile": [1]}',
    b'{"tile": 7}',
    b'{"tile": 7, "sha256": "0123456789abcdef"}',
    b"3",
    b"[" * 9000,
]


@pytest.mark.parametrize("line", LINES, ids=["checked", "a list", "a tile", "a checksum", "a number", "deep"])
def test_a_line_that_nobody_wrote_counts_for_nothing(files, line):
    undisturbed = multiplied(files, "undisturbed.npy")
    interrupted(files)
    journal = files / "c.npy.gemmlab-journal"
    journal.write_bytes(journal.read_bytes() + line + b"\n")
    assert multiplied(files).tiles_found == 3
    assert content(files / "c.npy") == content(undisturbed.path)


def test_what_was_checked_once_is_checked_again_before_it_has_its_name(files, monkeypatch):
    for where in "part", "name":  # killed before the output had its name, and after
        with monkeypatch.context() as patch:
            patch.setattr(job.Output, "finish", _stop) if where == "part" else patch.setattr(Journal, "remove", _stop)
            with pytest.raises(Stop):
                multiplied(files)
        out = files / ("c.npy.gemmlab-part" if where == "part" else "c.npy")
        size = out.stat().st_size
        with open(out, "r+b") as file:
            file.seek(size // 2)
            file.write(bytes(size // 4))
        found = multiplied(files)
        assert not found.ok
        assert found.path == out
        (files / "c.npy.gemmlab-journal").unlink()
        out.unlink()


def test_an_input_that_changes_meanwhile_is_found(files):
    def touch(done, total, doing):
        changed(files / "a.npy")

    with pytest.raises(CannotResume, match="time of change"):
        multiplied(files, progress=touch)
    assert not (files / "c.npy").exists()


def test_two_processes_do_not_work_on_one_output(files):
    def second(done, total, doing):
        with pytest.raises(CannotWrite, match="another process works on this output"):
            multiplied(files)

    assert multiplied(files, progress=second).ok


def test_a_journal_that_its_owner_removes_meanwhile_is_not_taken(files, monkeypatch):
    import fcntl

    path = files / "c.npy.gemmlab-journal"
    lock, calls = fcntl.flock, []

    def late(descriptor, how):
        if not calls:
            path.unlink()  # its owner has finished
        calls.append(descriptor)
        return lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert multiplied(files).ok
    assert len(calls) == 2


# An output that cannot be


@pytest.mark.parametrize("how", ["name", "hard link", "symbolic link", "dotted name", "temporary name", "journal"])
def test_an_output_that_is_an_input_is_refused(files, how):
    before = content(files / "a.npy")
    source, out = files / "a.npy", files / "c.npy"
    if how == "name":
        out = source
    elif how == "hard link":
        os.link(source, out)
    elif how == "symbolic link":
        out.symlink_to(source)
    elif how == "dotted name":
        out = files / ".." / files.name / "a.npy"
    else:
        source = files / {"temporary name": "c.npy.gemmlab-part", "journal": "c.npy.gemmlab-journal"}[how]
        os.link(files / "a.npy", source)
    with pytest.raises(ValueError, match=r"the output would overwrite the input .*: choose another name"):
        product(source, files / "b.npy", out)
    assert content(files / "a.npy") == before == content(source)


def test_an_output_inside_an_input_is_refused(files):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(files / "a.zarr", shape=(330, 1100), dtype="f8")
    for out in (files / "a.zarr", files / "a.zarr" / "c.npy", files / "a.zarr" / "c" / "c.zarr"):
        with pytest.raises(ValueError, match="overwrite the input"):
            product(files / "a.zarr", files / "b.npy", out)


def test_what_is_no_matrix_is_not_replaced(files):
    (files / "d.npy").mkdir()
    (files / "d.zarr").mkdir()
    (files / "d.zarr" / "letter.txt").write_text("keep me")
    (files / "e.zarr").write_text("keep me")
    for name in ("d.npy", "d.zarr", "e.zarr"):
        with pytest.raises(CannotWrite, match="choose another name"):
            multiplied(files, name)
    for text in (b"keep me", b""):
        (files / "f.npy").write_bytes(text)
        with pytest.raises(CannotWrite, match=r"f\.npy exists and is no \.npy file: choose another name"):
            multiplied(files, "f.npy")
        assert (files / "f.npy").read_bytes() == text
    with pytest.raises(CannotWrite, match="there is no folder"):
        product(files / "a.npy", files / "b.npy", files / "none" / "c.npy")
    with pytest.raises(ValueError, match=r"must end in \.npy or \.zarr"):
        product(files / "a.npy", files / "b.npy", files / "c.txt")


def test_a_disk_without_the_space_says_so_before_the_work(files, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(CannotWrite, match=r"needs 0\.000766 GB and its disk has 1e-06 GB free: make room"):
        multiplied(files)
    assert sorted(os.listdir(files)) == ["a.npy", "b.npy"]


def test_space_is_reserved_before_the_work(files, monkeypatch):
    def full(descriptor, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CannotWrite, match=r"no space left .*: nothing was begun"):
        multiplied(files)
    assert sorted(os.listdir(files)) == ["a.npy", "b.npy"]
    monkeypatch.undo()
    interrupted(files, tiles=1)
    part = (files / "c.npy.gemmlab-part").stat()
    assert part.st_blocks * 512 >= part.st_size == 330 * 290 * 8 + 128


def test_a_disk_that_fills_midway_keeps_the_tiles(files, monkeypatch):
    zarrs = pytest.importorskip("gemmlab.product.zarrs")
    pytest.importorskip("zarr")
    write, count = zarrs.ZarrMatrix.write, []

    def full(self, *tile):
        count.append(tile)
        if len(count) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *tile)

    undisturbed = multiplied(files, "undisturbed.zarr")
    monkeypatch.setattr(zarrs.ZarrMatrix, "write", full)
    with pytest.raises(CannotWrite, match=r"no space left .*: 2 of .* tiles are kept; make room, and run the same"):
        multiplied(files, "c.zarr")
    found = multiplied(files, "c.zarr")
    assert found.tiles_found == 2
    assert content(found.path) == content(undisturbed.path)
