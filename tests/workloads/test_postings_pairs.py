"""All pairs of lists: bits by every way to count, and the sparse product, against NumPy's integers."""

from __future__ import annotations

import numpy as np
import pytest
from randomness import RNG

from gemmlab._cpu import isa
from gemmlab.workloads import postings_pairs
from gemmlab.workloads._postings import Loops
from gemmlab.workloads.postings import Index, pair_counts
from gemmlab.workloads.postings_made import even


def random_index(lists, documents):
    return Index.from_lists(even(int(RNG.integers(0, documents + 1)), 0, documents, RNG) for _ in range(lists))


def expected(index):
    matrix = np.zeros((len(index), max(1, index.documents)), np.int64)
    for t, ids in enumerate(index):
        matrix[t, ids] = 1
    return matrix @ matrix.T


@pytest.mark.parametrize(("lists", "documents"), [(1, 1), (3, 64), (33, 5000), (70, 40_000), (9, 70_001)])
def test_every_way_counts_the_same(lists, documents):
    index = random_index(lists, documents)
    true = expected(index)
    for method in postings_pairs.WAYS:
        found = pair_counts(index, method, threads=int(RNG.integers(1, 4)))
        assert found.dtype == np.int64
        assert (found == true).all(), method


@pytest.mark.parametrize("level", isa.available())
def test_every_instruction_set_counts_the_same(level):
    loops = Loops(level)
    index = random_index(41, 50_000)
    for counting in loops.countings():
        for words in (128, 512):
            found = np.zeros((41, 41), np.int64)
            lists = index.buffer, index.starts, index.lengths, index.documents
            loops.count_pairs(*lists, found, counting, words, 8, 2)
            assert (np.triu(found) == np.triu(expected(index))).all(), counting


def test_auto_takes_bits_for_long_lists_and_the_sparse_product_for_short_ones(monkeypatch):
    for lengths, taken in ((20_000, "by_bits"), (20, "by_sparse")):
        index = Index.from_lists(even(lengths, 0, 200_000, RNG) for _ in range(30))
        for way in ("by_bits", "by_sparse"):
            monkeypatch.setattr(postings_pairs, way, lambda *arguments, way=way: way)
        assert pair_counts(index) == taken


def test_what_cannot_be_is_said(monkeypatch):
    index = Index.from_lists([[1], []])
    with pytest.raises(ValueError, match="no method 'dense': choose one of auto, bits, sparse"):
        pair_counts(index, "dense")
    monkeypatch.setattr(postings_pairs, "free_memory_bytes", lambda: 10)
    with pytest.raises(MemoryError, match="2 x 2 counts take"):
        pair_counts(index)
    monkeypatch.undo()
    assert pair_counts(Index.from_lists([])).shape == (0, 0)
    assert pair_counts(index).tolist() == [[1, 0], [0, 0]]


def test_blocks_have_at_most_256_mib(monkeypatch):
    """Also where there are so many lists that a block has fewer words of each."""
    index = random_index(20, 30_000)
    true = expected(index)
    monkeypatch.setattr(postings_pairs, "MAX_BLOCK_BYTES", 20 * 8 * 200)
    assert (postings_pairs.by_bits(index, 1) == true).all()


def test_the_ceiling_is_a_rate():
    assert 1e8 < postings_pairs.ceiling_words_per_s("words") < 1e12
