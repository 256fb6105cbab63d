"""Posting lists: every method, instruction set and device against NumPy; files, queries, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from devices import FIRST_PLACES, PLACES, nvrtc_here
from randomness import RNG, fresh_seed

from gemmlab import BackendUnavailable, UnsupportedProblem
from gemmlab._cpu import isa
from gemmlab._gpu import runtime_named
from gemmlab._gpu.cuda import compile_source
from gemmlab._gpu.kernels import kernel_text
from gemmlab.workloads import postings, postings_device, postings_index, postings_made
from gemmlab.workloads._postings import Loops
from gemmlab.workloads.postings import DeviceIndex, Index, generate, intersect, read_queries, trigrams, write_queries
from gemmlab.workloads.postings_index import Terms

pytestmark = pytest.mark.usefixtures("quick_kernels")

SIZES = (0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 1000, 4097)


def random_index(documents, lists=40):
    """Lists of all sorts of lengths, evenly spread or in runs."""

    def one():
        length = min(int(RNG.choice(SIZES)), documents)
        if RNG.random() < 0.3:
            first = RNG.integers(0, documents - length + 1)
            return np.arange(first, first + length)
        return np.sort(RNG.choice(documents, length, replace=False, shuffle=False))

    return Index.from_lists(one() for _ in range(lists))


def random_queries(index, count=60):
    return [RNG.integers(0, len(index), RNG.integers(1, 7)).tolist() for _ in range(count)]


def expected(index, queries):
    return [reduce(np.intersect1d, (np.asarray(index[t]) for t in terms)) for terms in queries]


def agree(found, queries, index):
    for ids, true, terms in zip(found, expected(index, queries), queries, strict=True):
        assert ids.dtype == np.uint32
        assert ids.flags.owndata
        assert ids.tolist() == true.tolist(), terms


@pytest.mark.parametrize("documents", [1, 60, 5000, 300_000, 2**32])
@pytest.mark.parametrize("method", postings.METHODS)
def test_every_method_against_numpy(method, documents):
    index = random_index(documents)
    queries = random_queries(index)
    agree(intersect(index, queries, method, threads=int(RNG.integers(1, 4))), queries, index)


@pytest.mark.parametrize("level", isa.available())
def test_every_instruction_set(level):
    loops = Loops(level)
    for documents in (40, 5000, 10**6):
        index = random_index(documents)
        queries = random_queries(index)
        plan = Terms(index, queries)
        for method in postings.METHODS:
            agree(loops.intersect(method, index.buffer, index.starts, index.lengths, plan.terms, plan.first,
                                  index.structure(method), 2), queries, index)  # fmt: skip


@pytest.mark.parametrize("ratio", [1, 8, pytest.param(100, marks=pytest.mark.exhaustive)])
def test_long_lists_of_all_ratios(ratio):
    index = Index.from_lists(postings_made.even(count, 0, 40_000 * ratio, RNG)
                             for count in (3000, 3000 * ratio, 3001, 3001 * ratio))  # fmt: skip
    queries = [[0, 1], [1, 0, 3], [2, 0], [0, 1, 2, 3], [3, 1]]
    for method in postings.METHODS:
        agree(intersect(index, queries, method), queries, index)


def test_files_are_mapped_and_written_as_they_were(tmp_path):
    index = random_index(10_000)
    index.write(tmp_path / "index")
    written = np.fromfile(tmp_path / "index", "<u4")
    assert written[0] == index.lengths[0]
    assert written.size == index.postings + len(index)
    again = Index.read(tmp_path / "index")
    assert isinstance(again.buffer.base, np.memmap)
    assert [ids.tolist() for ids in again] == [ids.tolist() for ids in index]
    queries = random_queries(index)
    agree(intersect(again, queries), queries, index)
    again.write(tmp_path / "index")  # onto itself
    assert np.fromfile(tmp_path / "index", "<u4").tolist() == written.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ([2, 5, 9, 4, 1, 2, 3], "list 1 says at byte 12 that it has 4 numbers, and the file ends 3 numbers later"),
        ([1, 5, 2], "list 1 says at byte 8 that it has 2 numbers, and the file ends 0 numbers later"),
        ([3, 1, 7, 7], "byte 12: list 0 has 7 after 7, at 2: numbers are in increasing order"),
        ([1, 9, 3, 1, 7, 5], "byte 20: list 1 has 5 after 7, at 2"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(tmp_path, numbers, says):
    path = tmp_path / "index"
    np.array(numbers, "<u4").tofile(path)
    with pytest.raises(ValueError, match=f"index: {says}"):
        Index.read(path)
    if "after" in says:
        assert Index.read(path, check=False).postings == len(numbers) - (1 if numbers[0] == 3 else 2)


def test_files_that_are_none(tmp_path):
    (tmp_path / "odd").write_bytes(b"\1\0\0\0\7\0")
    with pytest.raises(ValueError, match="odd: cut off at byte 6, in the middle of a number"):
        Index.read(tmp_path / "odd")
    (tmp_path / "empty").touch()
    assert len(Index.read(tmp_path / "empty")) == 0
    with pytest.raises(FileNotFoundError):
        Index.read(tmp_path / "missing")


def test_queries_are_lines_of_text(tmp_path):
    path = tmp_path / "queries"
    path.write_text("3 1 2 \n7 7 \n", encoding="utf-8")
    assert read_queries(path) == [[3, 1, 2], [7, 7]]
    write_queries(path, [[5], [1, 2]])
    assert read_queries(path) == [[5], [1, 2]]
    for text in ("1 2\n\n", "1 2\nx 3\n", "1 2\n1.5\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=":2: a query is the numbers of its lists"):
            read_queries(path)


def test_what_makes_no_sense_is_said():
    index = Index.from_lists([[1, 2], [3]])
    for queries, says in (
        ([[0], []], "query 1 has no lists"),
        ([[0], [0, 2]], "query 1 has list 2; the index has 2, from 0 on"),
        ([[-1]], "query 0 has list -1"),
        ([[0.5]], "integers, not of float64"),
        (["01"], "not a text"),
        ([[2**70]], "integers, not of object"),
    ):
        with pytest.raises(ValueError, match=says):
            intersect(index, queries)
    for arguments, says in (
        ({"method": "hash"}, "no method 'hash': choose one of auto, merge"),
        ({"grain": "sand"}, "no grain 'sand'"),
        ({"grain": "fine"}, "grain 'fine' is of devices"),
        ({"backend": "hip"}, "no backend 'hip': choose cpu, opencl"),
        ({"backend": "opencl", "method": "svs"}, "method 'svs' is of the CPU"),
        ({"threads": 0}, "threads must be"),
    ):
        with pytest.raises(ValueError, match=says):
            intersect(index, [[0]], **arguments)
    with pytest.raises(BackendUnavailable, match="no device '99'"):
        intersect(index, [[0]], backend="opencl:99")


def test_an_index_of_arrays_is_checked():
    buffer = np.arange(10, dtype=np.uint32)
    assert Index([2], [3], buffer)[0].tolist() == [2, 3, 4]
    assert np.shares_memory(Index([2], [3], buffer).buffer, buffer)
    for starts, lengths, given, says in (
        ([8], [3], buffer, "list 0 has 3 numbers from 8 on; the buffer has 10"),
        ([0, -1], [3, 1], buffer, "list 1 has 1 numbers from -1 on"),
        ([0], [3, 1], buffer, "one number each for a list"),
        ([0.5], [3], buffer, "starts are integers"),
        ([0], [3], buffer.astype(np.int64), "array of uint32 with one dimension, not 1 of int64"),
        ([0], [3], buffer[::-1].copy(), "list 0 has 8 after 9, at 1"),
    ):
        with pytest.raises(ValueError, match=says):
            Index(starts, lengths, given)
    for lists, says in (([[1.5]], "integers in one dimension"), ([[3], [-1, 2]], "list 1 has numbers from -1 to 2")):
        with pytest.raises(ValueError, match=says):
            Index.from_lists(lists)
    with pytest.raises(IndexError, match="no list 1: the index has 1"):
        Index([2], [3], buffer)[1]


def test_no_queries_and_no_lists():
    index = Index.from_lists([])
    assert (len(index), index.documents, index.postings) == (0, 0, 0)
    assert intersect(index, []) == []
    for method in postings.METHODS:
        assert intersect(Index.from_lists([[], [4]]), [[0, 1], [1]], method)[1].tolist() == [4]


def test_bitmaps_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(postings_index, "free_memory_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="choose another method, such as auto"):
        intersect(random_index(10**6), [[0, 1]], "bitmap")


@pytest.mark.parametrize("kind", [{"sigma": 0.0}, {}, {"rho": 1.0}, {"clustered": True}], ids=str)
def test_made_up_collections_have_the_statistics_of_the_source(kind):
    scale = 0.01
    index, queries = generate(**kind, scale=scale, seed=fresh_seed())
    assert (len(index), index.postings) == (1756, int(39_798_811 * scale))
    assert index.documents <= 25_205_175 * scale
    index.check()
    assert index.lengths.max() <= 25_205_175 * scale / 4
    arity, counts = np.unique([len(terms) for terms in queries], return_counts=True)
    assert dict(zip(arity.tolist(), counts.tolist(), strict=True)) == {2: 563, 3: 340, 4: 83, 5: 14}
    uses = np.bincount([t for terms in queries for t in terms], minlength=1756)
    assert np.bincount(uses)[[1, 2, 3, 24]].tolist() == [1369, 228, 69, 1]
    assert sum(len(set(terms)) < len(terms) for terms in queries) == 3
    if "sigma" in kind:
        assert np.ptp(index.lengths) <= 1
    if "rho" in kind:
        assert index.lengths[uses > 1].min() >= index.lengths[uses == 1].max()
    gaps = [np.diff(index[int(t)].astype(np.int64)) for t in np.argsort(index.lengths)[-20:]]
    spread = np.median([of_list.std() / of_list.mean() for of_list in gaps])  # 1 if they are even
    assert (spread > 1.4) == bool(kind.get("clustered"))


def test_one_seed_gives_one_collection():
    one, two, other = (generate(scale=0.001, seed=seed) for seed in (7, 7, 8))
    assert (one[0].buffer == two[0].buffer).all()
    assert one[1] == two[1]
    assert one[1] != other[1]
    with pytest.raises(ValueError, match="take another scale"):
        generate(scale=1e-5)


def test_trigrams_of_words():
    words = ["ape", "aperture", "rape", "tape", "tap"]
    index, queries = trigrams(words, queries=50, seed=fresh_seed())
    marked = [f"^{word}$" for word in sorted(words)]
    grams = sorted({word[i : i + 3] for word in marked for i in range(len(word) - 2)})
    assert [ids.tolist() for ids in index] == [[d for d, word in enumerate(marked) if gram in word] for gram in grams]
    for terms, ids in zip(queries, intersect(index, queries), strict=True):
        assert 2 <= len(terms) <= 5
        assert len(ids) >= 1


def test_english_words_are_the_known_collection():
    pytest.importorskip("english_words")
    index, queries = trigrams()
    assert (len(index), index.postings, index.documents, index.lengths.max()) == (11_844, 2_525_223, 264_494, 14_786)
    agree(intersect(index, queries), queries, index)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("grain", postings.GRAINS)
def test_every_grain_on_every_device(place, grain):
    for documents in (60, 300_000, 2**32):
        index = random_index(documents, lists=12 if grain == "fine" else 40)
        queries = random_queries(index, 5 if grain == "fine" else 60)
        agree(intersect(index, queries, backend=place, grain=grain), queries, index)


@pytest.mark.optimised
@pytest.mark.parametrize("place", FIRST_PLACES)
def test_an_index_on_a_device_answers_in_batches(place, monkeypatch):
    index, queries = generate(scale=0.002, seed=fresh_seed())
    resident = DeviceIndex(index, place)
    for most in (postings_device.MOST_AT_ONCE, 5000, 1):
        monkeypatch.setattr(postings_device, "MOST_AT_ONCE", most)
        found = resident.start(queries[:100])
        found.wait()
        assert found.kernel_s > 0
        agree(found.to_host(), queries[:100], index)
        prepared = resident.prepare(queries[:100])
        for found in (resident.start(prepared), resident.start(prepared)):
            agree(found.to_host(), queries[:100], index)
    with pytest.raises(ValueError, match="prepared for another index"):
        DeviceIndex(index, place).start(prepared)
    assert resident.start([]).to_host() == []
    with pytest.raises(ValueError, match="no grain 'sand'"):
        resident.start([[0]], "sand")


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_an_index_that_a_device_cannot_hold_is_refused(place, monkeypatch):
    runtime = runtime_named(place.partition(":")[0])
    small = replace(runtime.device("0"), allocation_bytes=10)
    monkeypatch.setattr(runtime, "device", lambda selector: small)
    with pytest.raises(UnsupportedProblem, match="has 10 in one piece: take backend cpu"):
        DeviceIndex(Index.from_lists([[1, 2, 3, 4]]), place)


def test_the_kernels_compile_for_nvidias_gpus():
    nvrtc_here()
    for name in ("coarse", "chunks", "fine", "offsets", "compact"):
        text = kernel_text("common/cuda.h") + postings_device.source_of(name)
        assert compile_source(text, postings_device.DEFINES["gpu"] | {"EXACT": 1}, "sm_90"), name
