"""The cache of compiled programs: what comes back is what was kept, for this key, by this user; else nothing does."""

from __future__ import annotations

import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import output_of

from gemmlab._config import config
from gemmlab._errors import DeviceError
from gemmlab._gpu import cache
from gemmlab._gpu.cache import Entry
from gemmlab._gpu.runtime import Device, Queue
from gemmlab.cli import main

ENTRY = Entry("kernel text", "-D N=4", "opencl", "device", "driver 1", "platform", "sm_90")
BINARY = b"\x7fELF\n\x00 binary\n" * 50
POSIX = pytest.mark.skipif(os.name == "nt", reason="users and modes are POSIX's")
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The programs' folder, in a cache of the test's own."""
    monkeypatch.setattr(config, "cache_dir", tmp_path / "deep" / "cache")
    return tmp_path / "deep" / "cache" / "programs"


@pytest.fixture
def kept(folder):
    """The file of ENTRY, stored."""
    ENTRY.store(BINARY)
    (path,) = folder.iterdir()
    return path


def entries(count):
    return [replace(ENTRY, source=f"kernel {i}") for i in range(count)]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# What comes back


@pytest.mark.parametrize("binary", [BINARY, b"\n", b"no newline", bytes(range(256)) * 4096], ids=len)
def test_what_was_stored_is_loaded(binary):
    assert ENTRY.load() is None
    ENTRY.store(binary)
    assert ENTRY.load() == binary
    ENTRY.store(b"newer")
    assert ENTRY.load() == b"newer"


@pytest.mark.parametrize("field", [field.name for field in fields(Entry)])
def test_every_part_of_the_key_matters(field, kept):
    assert replace(ENTRY, **{field: getattr(ENTRY, field) + " "}).load() is None
    assert ENTRY.load() == BINARY


def test_parts_of_the_key_do_not_run_together():
    replace(ENTRY, source="ab", options="c").store(BINARY)
    assert replace(ENTRY, source="a", options="bc").load() is None


def test_a_program_of_another_version_of_gemmlab_is_not_loaded(kept, monkeypatch):
    monkeypatch.setattr("gemmlab._gpu.cache.__version__", "0.0.0")
    assert ENTRY.load() is None


def test_a_dropped_entry_is_gone(kept):
    ENTRY.drop()
    assert not kept.exists()
    ENTRY.drop()


# What does not


def test_a_program_cut_anywhere_is_not_loaded_and_can_be_stored_again(kept):
    whole = kept.read_bytes()
    for length in range(len(whole)):
        kept.write_bytes(whole[:length])
        assert ENTRY.load() is None, length
    kept.write_bytes(whole + b"\0")
    assert ENTRY.load() is None
    ENTRY.store(BINARY)
    assert ENTRY.load() == BINARY


def test_a_program_with_a_flipped_bit_is_not_loaded(kept):
    whole = kept.read_bytes()
    for i in range(len(whole)):
        kept.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        assert ENTRY.load() is None, i


def test_a_program_of_another_format_is_not_loaded(kept):
    whole = kept.read_bytes()
    assert whole.startswith(b"gemmlab-program 1 ")
    kept.write_bytes(whole.replace(b"program 1", b"program 2", 1))
    assert ENTRY.load() is None


def test_a_program_under_the_name_of_another_is_not_loaded(kept, folder):
    other = replace(ENTRY, driver="driver 2")
    other.store(b"of another driver")
    (path,) = set(folder.iterdir()) - {kept}
    os.replace(path, kept)
    assert ENTRY.load() is None


@POSIX
@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_may_have_written_is_not_loaded(bit, which, kept):
    path = kept if which == "file" else kept.parent
    path.chmod(mode(path) | bit)
    assert ENTRY.load() is None
    path.chmod(mode(path) & ~bit)
    assert ENTRY.load() == BINARY


@POSIX
@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_another_user_owns_is_not_loaded(which, kept):
    path = kept if which == "file" else kept.parent
    os.chown(path, 12345, -1)
    assert ENTRY.load() is None
    os.chown(path, os.geteuid(), -1)
    assert ENTRY.load() == BINARY


@POSIX
def test_a_folder_of_another_user_is_neither_read_nor_written_nor_cleared(kept, monkeypatch):
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert ENTRY.load() is None
    replace(ENTRY, source="other").store(BINARY)
    assert (cache.summary().programs, cache.clear().programs) == (0, 0)
    assert list(kept.parent.iterdir()) == [kept]


@POSIX
def test_nothing_is_put_where_others_may_write(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    ENTRY.store(BINARY)
    assert not list(folder.iterdir())


@POSIX
@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", None)], ids=["folder", "pipe"])
def test_what_is_no_file_is_not_loaded(make, kept):
    kept.unlink()
    make(kept)
    assert ENTRY.load() is None


# Where nothing can be kept


@pytest.mark.parametrize("place", ["/proc/no/such/home", "a file"])
def test_without_a_place_nothing_is_kept_and_nothing_raised(place, tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    monkeypatch.setattr(config, "cache_dir", tmp_path / place)
    ENTRY.store(BINARY)
    assert ENTRY.load() is None
    ENTRY.drop()
    assert (cache.summary().programs, cache.clear().programs) == (0, 0)


@POSIX
@pytest.mark.skipif(ROOT, reason="root may write everywhere")
@pytest.mark.parametrize("modes", [0o500, 0o000])
def test_a_folder_that_cannot_be_written_is_no_error(modes, kept):
    kept.parent.chmod(modes)
    try:
        replace(ENTRY, source="other").store(BINARY)
        assert replace(ENTRY, source="other").load() is None
        assert ENTRY.load() == (BINARY if modes else None)
        ENTRY.drop()
        cache.summary()
    finally:
        kept.parent.chmod(0o700)
    assert list(kept.parent.iterdir()) == [kept]


def fails(*_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("call", ["os.open", "os.replace", "pathlib.Path.mkdir"])
def test_a_disk_that_refuses_is_no_error(call, kept, monkeypatch):
    monkeypatch.setattr(call, fails)
    replace(ENTRY, source="other").store(BINARY)
    assert ENTRY.load() == BINARY
    assert list(kept.parent.iterdir()) == [kept]


def test_a_read_only_disk_is_still_read(kept, monkeypatch):
    monkeypatch.setattr(os, "utime", fails)
    assert ENTRY.load() == BINARY


def test_a_full_disk_keeps_nothing_and_leaves_nothing(tmp_path):
    pytest.importorskip("resource")
    output_of(
        """
import resource
from gemmlab._gpu.cache import Entry, config
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
entry = Entry("text", "", "", "", "", "", "")
entry.store(bytes(100_000))
assert entry.load() is None
assert not list((config.cache_dir / "programs").iterdir())
entry.store(bytes(1000))
assert entry.load() == bytes(1000)
""",
        GEMMLAB_CACHE_DIR=str(tmp_path),
    )


# Whole or not at all, private


def test_an_interrupted_store_leaves_what_was_there(kept, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ENTRY.store(b"newer")
    assert list(kept.parent.iterdir()) == [kept]
    assert ENTRY.load() == BINARY


def test_processes_that_store_the_same_program_at_once_do_not_meet(tmp_path):
    def store(byte):
        return output_of(
            f"""
from gemmlab._gpu.cache import Entry
entry = Entry("text", "", "", "", "", "", "")
for _ in range(100):
    entry.store(b"{byte}" * 200_000)
    found = entry.load()
    assert found is not None and len(found) == 200_000 and len(set(found)) == 1, "not whole"
""",
            GEMMLAB_CACHE_DIR=str(tmp_path),
        )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(store, "abc"))
    assert len(list((tmp_path / "programs").iterdir())) == 1


@POSIX
def test_only_the_user_can_read_what_is_kept(folder):
    before = os.umask(0)
    try:
        ENTRY.store(BINARY)
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert (mode(folder), mode(path)) == (0o700, 0o600)


# How much is kept


def test_the_least_recently_used_programs_make_room(kept, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * kept.stat().st_size + 10)
    kept.unlink()
    first, second, third, fourth = entries(4)
    for age, entry in ((30, first), (20, second), (10, third)):
        before = set(kept.parent.iterdir())
        entry.store(BINARY)
        (path,) = set(kept.parent.iterdir()) - before
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    assert first.load() == BINARY
    fourth.store(BINARY)
    assert [entry.load() is not None for entry in (first, second, third, fourth)] == [True, False, True, True]
    assert cache.summary().bytes <= cache.LIMIT_BYTES


def test_a_program_larger_than_the_cache_is_not_kept_and_pushes_nothing_out(kept, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", kept.stat().st_size)
    replace(ENTRY, source="large").store(BINARY + b"x")
    assert list(kept.parent.iterdir()) == [kept]


def test_what_a_killed_process_left_makes_room_too(kept, monkeypatch):
    rest = kept.with_name(kept.name + ".abc.tmp")
    rest.write_bytes(bytes(5000))
    os.utime(rest, (0, 0))
    assert (cache.summary().programs, cache.summary().bytes) == (1, kept.stat().st_size + 5000)
    monkeypatch.setattr(cache, "LIMIT_BYTES", 5000)
    replace(ENTRY, source="other").store(BINARY)
    assert not rest.exists()
    assert ENTRY.load() == BINARY


# Summary and clear


def test_clear_removes_what_is_ours_and_leaves_the_rest(kept):
    for entry in entries(3):
        entry.store(BINARY)
    left = kept.with_name(kept.name + ".abc.tmp")
    left.write_bytes(b"half")
    elsewhere = kept.parents[1] / kept.name
    elsewhere.touch()
    strangers = [kept.parent / name for name in ("notes.txt", "mine.program", f"{kept.name}.backup", "folder")]
    for path in strangers[:-1]:
        path.write_text("a stranger's")
    strangers[-1].mkdir()
    link = kept.with_name("0" * 64 + ".program")
    link.symlink_to(strangers[0])

    there = cache.summary()
    assert (there.folder, there.programs) == (kept.parent, 4)
    assert there.bytes == 4 * kept.stat().st_size + 4
    assert cache.clear() == there
    assert set(kept.parent.iterdir()) == {*strangers, link}
    assert elsewhere.exists()
    assert cache.summary() == cache.Summary(kept.parent, 0, 0) == cache.clear()


# As a runtime uses it


class FakeDriver(Queue):
    """Builds anything; refuses binaries that are not its own."""

    refuses = False

    def __init__(self, driver="1"):
        super().__init__(Device("opencl", 0, "device", "gpu", "platform", driver, 1, 256, 2**15, 2**30, 2**28, True))

    def _from_source(self, source, name, defines):
        if "error" in source:
            raise DeviceError("error: no")
        return f"{name} of {source}", f"{source} {sorted(defines.items())}".encode()

    def _from_binary(self, binary, name):
        if self.refuses:
            raise RuntimeError("CL_INVALID_BINARY")
        return f"{name} of {binary.decode().partition(' [')[0]}"


FakeDriver.__abstractmethods__ = frozenset()


def built(queue, source="text", **defines):
    assert queue.kernel(source, "gemm", defines) == f"gemm of {source}"
    return queue.builds[-1].how


def test_a_second_process_loads_what_the_first_built():
    assert [built(FakeDriver()) for _ in range(3)] == ["source", "disk", "disk"]
    assert built(FakeDriver(), N=4) == "source"
    assert built(FakeDriver("2")) == "source"


def test_a_binary_that_the_driver_refuses_is_built_again(folder):
    built(FakeDriver())
    queue = FakeDriver()
    queue.refuses = True
    assert built(queue) == "source"
    assert built(FakeDriver()) == "disk"


def test_a_corrupt_program_is_built_again(folder):
    built(FakeDriver())
    (path,) = folder.iterdir()
    path.write_bytes(b"garbage")
    assert [built(FakeDriver()), built(FakeDriver())] == ["source", "disk"]


def test_a_text_that_does_not_build_leaves_nothing(folder):
    with pytest.raises(DeviceError):
        FakeDriver().kernel("error", "gemm", {})
    assert not folder.exists()


def test_a_runtime_without_binaries_keeps_nothing(folder):
    queue = FakeDriver()
    queue.caches_programs = False
    assert built(queue) == "source"
    assert not folder.exists()


# The command line


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs a command with the cache in a folder of a short name: status, lines of output, and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "cache_dir", Path("cache"))

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, lines=out.splitlines(), err=err)

    return run


@pytest.mark.parametrize("show", [["cache"], ["cache", "show"]])
def test_cache_shows_what_is_kept(show, command):
    assert command(*show).out == "0 programs, 0.0 MiB in cache/programs\n"
    ENTRY.store(bytes(3 * 2**20))
    assert command(*show).out == "1 program, 3.0 MiB in cache/programs\n"
    there = json.loads(command(*show, "--json").out)
    assert there == {
        "folder": "cache/programs", "programs": 1, "bytes": cache.summary().bytes, "runtimes": ["opencl", "cuda"]
    }  # fmt: skip


def test_cache_clear_says_what_it_removed(command):
    for entry in entries(2):
        entry.store(bytes(2**20))
    done = command("cache", "clear")
    assert (done.status, done.out, done.err) == (0, "removed 2 programs, 2.0 MiB from cache/programs\n", "")
    assert cache.summary().programs == 0
    ENTRY.store(BINARY)
    assert json.loads(command("cache", "clear", "--json").out)["programs"] == 1
    assert command("cache", "clear").out == "removed 0 programs, 0.0 MiB from cache/programs\n"


def test_cache_clear_that_is_not_allowed_is_one_line_and_status_2(command, monkeypatch):
    ENTRY.store(BINARY)
    monkeypatch.setattr(Path, "unlink", fails)
    done = command("cache", "clear")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("gemmlab: [Errno")


def test_cache_does_not_know_other_actions(command):
    done = command("cache", "empty")
    assert (done.status, done.out) == (2, "")
    assert "invalid choice: 'empty'" in done.err


def test_cache_has_help_in_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = command("cache", "--help")
    assert (done.status, done.err) == (0, "")
    assert max(map(len, done.lines)) <= 80


def test_info_shows_the_cache_in_80_columns(command, monkeypatch):
    monkeypatch.setattr("gemmlab._gpu.devices", dict)  # the cache needs none
    ENTRY.store(bytes(2**20))
    done = command("info")
    assert done.status == 0
    at = done.lines.index(f"{'program cache':<20}1 program, 1.0 MiB in cache/programs;")
    assert done.lines[at + 1].strip() == "opencl and cuda (sycl programs cannot be stored)"
    assert max(len(line) for line in done.lines[at : at + 2]) <= 80
    there = json.loads(command("info", "--json").out)["program_cache"]
    assert there == json.loads(command("cache", "--json").out)


def test_the_environment_says_where_the_cache_is(tmp_path):
    shown = output_of("import gemmlab.cli as c; c.main(['cache'])", GEMMLAB_CACHE_DIR=str(tmp_path / "mine"))
    assert shown == f"0 programs, 0.0 MiB in {tmp_path / 'mine' / 'programs'}\n"
    assert not (tmp_path / "mine").exists()
