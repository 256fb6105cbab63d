"""Readers of files: whatever a file holds, a value, or one line that names the file; nothing is left behind."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from mutations import mutated
from randomness import RNG

import gemmlab
from gemmlab import _profile
from gemmlab._config import Config, config
from gemmlab.measure import problems, records
from gemmlab.product import product
from gemmlab.product.job import open_matrix
from gemmlab.product.journal import SUM, Journal
from gemmlab.roofline.ceilings import cache as ceilings
from gemmlab.tune.search import log
from gemmlab.workloads.postings_index import Index, read_queries, write_queries

pytestmark = pytest.mark.exhaustive
OF_A_LARGE_ONE = "memory are too few", "its disk has"  # what is said of a matrix that may be as it is
LOGS = Path(__file__).parents[1] / "tune" / "logs"
RECORDS = Path(__file__).parents[2] / "docs" / "measured"
MUTATIONS = 2000
MAX_LETTERS = 420  # of a message: 300, and the names of files here


def check(error, path):
    """That an error is one line, of few letters, and names the file."""
    text = str(error)
    assert "\n" not in text, text
    assert len(text) <= MAX_LETTERS, len(text)
    assert path is None or path.name in text, text
    assert all(letter.isprintable() for letter in text), ascii(text)


def damage(path, read, allowed, content=None, count=MUTATIONS):
    """Read damaged versions of a file."""
    content = path.read_bytes() if content is None else content
    names = sorted(path.parent.iterdir())
    refused = 0
    for _ in range(count):
        path.write_bytes(mutated(content, RNG))
        try:
            with np.errstate(all="raise"):
                read(path)
        except allowed as error:
            refused += 1
            try:
                check(error, path)
            except AssertionError:
                print(path.read_bytes()[:2000])
                raise
        except BaseException:
            print(path.read_bytes()[:2000])
            raise
        assert sorted(path.parent.iterdir()) == names
    path.write_bytes(content)
    read(path)  # of what is whole
    print(f"{refused} of {count} were refused")
    return refused


def test_records(tmp_path):
    source = next(RECORDS.rglob("*.jsonl"))
    path = tmp_path / "some.jsonl"
    path.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:6]))
    damage(path, records.read, (ValueError,))


@pytest.mark.parametrize("name", sorted(one.name for one in LOGS.glob("*.jsonl")))
def test_logs_of_searches(tmp_path, name):
    path = tmp_path / "search.jsonl"
    path.write_bytes(b"".join((LOGS / name).read_bytes().splitlines(keepends=True)[:40]))
    damage(path, log.replay, (gemmlab.GemmlabError,))


def test_a_search_that_goes_on_from_a_damaged_log(tmp_path):
    lines = (LOGS / "opencl-register-pocl.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "search.jsonl"
    path.write_bytes(b"".join(lines[:40]))
    header = json.loads(lines[0])

    def go_on(path):
        with log.Log(path, header) as begun:
            begun.append({"seconds": 1.0, "dtype": "float32", "shape": None, "values": [1], "outcome": "failed"})

    damage(path, go_on, (gemmlab.GemmlabError,))


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "_cache_dir", tmp_path)
    yield tmp_path
    _profile._own.cache_clear()


def test_the_profile(cache_dir):
    one = _profile.Configuration({"tile_x": 8, "tile_y": 4}, (64, 64, 64), 12.5, "driver")
    _profile.store_configurations("a GPU", "opencl-tuned", {"float32": [one]})
    _profile.store("a CPU, v3", "cpu-packed", {"float32": {"kc": 256}})

    def read(path):
        _profile._own.cache_clear()
        assert _profile.parameters("a CPU, v3", "cpu-packed", "float32") in ({"kc": 256}, {}) or True
        _profile.configurations("a GPU", "opencl-tuned", "float32")
        _profile.is_tuned("a CPU, v3", "cpu-packed", "float32")

    damage(_profile.path(), read, ())


@pytest.mark.filterwarnings("ignore:the stored ceilings are not used")
def test_the_cache_of_ceilings(cache_dir):
    source = next(path for path in RECORDS.rglob("*.jsonl") if b'"ceiling"' in path.read_bytes())
    lines = [line for line in source.read_bytes().splitlines(keepends=True) if b'"kind": "ceiling"' in line][:4]
    ceilings.path().write_bytes(b"".join(lines))
    some = records.read(ceilings.path())

    def read(path):
        for record in ceilings.cached(some[0]["device"], some[0]["threads"]):
            ceilings.age([record])
        ceilings._read()
        ceilings.raise_peaks(some[:1])

    damage(ceilings.path(), read, ())


def test_an_index(tmp_path):
    path = tmp_path / "index.bin"
    Index.from_lists([[1, 5, 9], [], [5, 6], list(range(100))]).write(path)
    damage(path, Index.read, (ValueError,))


def test_queries(tmp_path):
    path = tmp_path / "queries.txt"
    write_queries(path, [[0, 1], [2, 3], [1, 2, 3]])
    damage(path, read_queries, (ValueError,))


@pytest.mark.parametrize("encoded", [b"\xef\xbb\xbf0 1\n", b"0 1\r\n", "\ufeff0 1".encode(), b"  0\t1  \n"], ids=ascii)
def test_queries_of_other_editors(tmp_path, encoded):
    path = tmp_path / "queries.txt"
    path.write_bytes(encoded)
    assert read_queries(path) == [[0, 1]]


@pytest.mark.parametrize("reader", [open_matrix, problems._open_matrix], ids=["product", "bench"])
def test_npy(tmp_path, reader):
    path = tmp_path / "a.npy"
    np.save(path, RNG.integers(1, 9, (8, 12)).astype("f4"))
    damage(path, reader, (ValueError, gemmlab.GemmlabError))


@pytest.mark.skipif(find_spec("zarr") is None, reason="needs zarr")
@pytest.mark.filterwarnings("ignore")  # Zarr's, of damaged metadata
@pytest.mark.parametrize("version", [3, 2])
def test_zarr(tmp_path, version):
    """Products of a damaged matrix: what can be planned with its metadata can be computed, or is one line."""
    import zarr

    folder = tmp_path / "a.zarr"
    array = zarr.create_array(str(folder), shape=(40, 30), chunks=(20, 15), dtype="f4", zarr_format=version)
    array[...] = RNG.integers(1, 9, (40, 30)).astype("f4")
    np.save(tmp_path / "b.npy", np.ones((30, 20), "f4"))
    path = next(folder / name for name in ("zarr.json", ".zarray") if (folder / name).exists())
    content = path.read_bytes()
    for _ in range(MUTATIONS // 4):
        path.write_bytes(mutated(content, RNG))
        try:
            with np.errstate(all="raise"):
                product(folder, tmp_path / "b.npy", tmp_path / "c.npy", memory="64MiB")
        except (ValueError, gemmlab.GemmlabError, OSError) as error:
            try:
                check(error, None if any(words in str(error) for words in OF_A_LARGE_ONE) else folder)
            except AssertionError:
                print(path.read_bytes()[:3000])
                raise
        except BaseException:
            print(path.read_bytes()[:3000])
            raise
        for left in tmp_path.glob("c.npy*"):
            if left.name.endswith("-journal") and (tmp_path / "c.npy.gemmlab-part").exists():
                continue  # begun, to be resumed when the chunks are mended
            assert left.name in ("c.npy", "c.npy.gemmlab-part"), left
        for left in tmp_path.glob("c.npy*"):
            left.unlink()


def signed(content):
    """A journal's lines with the checksums that they should have."""
    from hashlib import sha256

    lines, before = [], b""
    for line in content.splitlines():
        body = line.rpartition(SUM)[0] or line[:-1]
        before = sha256(before + body).hexdigest()[:16].encode()
        lines.append(body + SUM + before + b'"}\n')
    return b"".join(lines)


@pytest.fixture
def begun(tmp_path):
    """A product of files that was begun; the path of its journal."""
    for name, shape in (("a", (900, 400)), ("b", (400, 700))):
        np.save(tmp_path / f"{name}.npy", RNG.integers(-4, 4, shape).astype("f4"))
    seen = []

    def stop(*given):
        seen.append(given)
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        product(tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "c.npy", memory="2MiB", progress=stop)
    journal = tmp_path / "c.npy.gemmlab-journal"
    assert journal.exists()
    return journal


@pytest.mark.parametrize("sign", [True, False])
def test_a_journal(begun, sign):
    folder, content = begun.parent, begun.read_bytes()
    part = folder / "c.npy.gemmlab-part"
    written = part.read_bytes()
    expected = np.load(folder / "a.npy") @ np.load(folder / "b.npy")
    for _ in range(MUTATIONS):
        damaged = mutated(content, RNG)
        begun.write_bytes(signed(damaged) if sign else damaged)
        part.write_bytes(written)
        try:
            result = product(folder / "a.npy", folder / "b.npy", folder / "c.npy", memory="2MiB")
            assert result.ok == (folder / "c.npy").exists()  # a product that is found wrong has not its name
            assert not result.ok or np.array_equal(np.load(folder / "c.npy"), expected)
        except gemmlab.GemmlabError as error:
            check(error, folder / "c.npy")
            assert not (folder / "c.npy").exists()
        except BaseException:
            print(begun.read_bytes()[:2000])
            raise
        (folder / "c.npy").unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["GEMMLAB_DEVICE_MEMORY", "GEMMLAB_THREADS", "GEMMLAB_ISA", "GEMMLAB_BACKEND"])
def test_settings(name):
    refused = 0
    for _ in range(MUTATIONS):
        text = mutated(b"2GiB 12 threads", RNG).decode("utf-8", "replace").replace("\0", "")
        try:
            Config({name: text})
        except ValueError as error:
            refused += 1
            check(error, Path(name))
    print(f"{refused} refused")


@pytest.mark.parametrize(
    "size", ["9" * 40, "1" + "0" * 400, "9" * 40 + "GiB", 10**40, 10**5000, "1e5", "inf", "-3", "0", 2.5, True, ""],
    ids=range(12),
)
def test_sizes_of_memory(size):
    with pytest.raises(ValueError, match="size of memory") as caught:
        config.device_memory = size
    check(caught.value, None)


def test_it_is_a_journal(begun):
    assert signed(begun.read_bytes()) == begun.read_bytes()
    with Journal(begun) as journal:
        assert journal.header is not None


@pytest.mark.parametrize("reader", [
    records.read, log.replay, problems._open_matrix, open_matrix, Index.read, read_queries,
], ids=range(6))  # fmt: skip
@pytest.mark.parametrize("special", ["a pipe", "/dev/zero", "/dev/null"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, reader, special):
    path = Path(special)
    if special == "a pipe":
        os.mkfifo(path := tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match=r"no regular file|no .npy file") as caught:
        reader(path)
    check(caught.value, path)
