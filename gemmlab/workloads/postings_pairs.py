"""The sizes of the intersections of all pairs of lists: a product, of a matrix of bits or of a sparse one.

    counts = A A^T, with A[t, d] = 1 where list t has document d

A product of bits takes T^2 / 2 words for every 64 documents, whatever the lists have; a sparse one takes a multiply-add
for every two lists of every document. So bits win where lists are long: from a density of about three in a thousand on.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from gemmlab._config import check_threads
from gemmlab._cpu.machine import free_memory_bytes
from gemmlab._cpu.threads._threads import max_threads
from gemmlab.workloads.postings_index import Index, Integers, kernels

WAYS = ("auto", "bits", "sparse")
MAX_BLOCK_BYTES = 256 << 20
MOST_WORDS, LEAST_WORDS = 512, 128  # of a row in a block; least: what the kernels take at once
PANEL = 32  # rows: 128 KiB of bits, which stay in L2
# Seconds for a word of two lists on one thread, and for a multiply-add of SciPy's sparse product, measured on two Zen 4
# cores; `gemmlab study pair-counts` measures them anew.
WORD_S = {"words": 3.5e-10, "adders": 1.7e-10, "vpopcnt": 7e-11}
MULTIPLY_ADD_S = 3.5e-8


def pair_counts(index: Index, method: str = "auto", threads: int | None = None) -> Integers:
    """How many numbers each two lists share.

    Parameters
    ----------
    index
        The lists.
    method
        "bits": bit matrices in blocks of documents of at most 256 MiB, multiplied by AND and population counts;
        "sparse": SciPy's product of sparse matrices, on one thread; "auto": what is expected to be faster, from the
        lists' lengths and the number of documents.
    threads
        At most so many, for "bits". Counts do not depend on it.

    Returns
    -------
    numpy.ndarray
        int64, a row and a column for each list; the diagonal has the lists' lengths.

    Raises
    ------
    ValueError
        No such method.
    MemoryError
        The matrix does not fit into free memory.

    >>> pair_counts(Index.from_lists([[1, 5, 9], [5, 6], [1, 9]])).tolist()
    [[3, 1, 2], [1, 2, 0], [2, 0, 2]]
    """
    if method not in WAYS:
        raise ValueError(f"no method {method!r}: choose one of {', '.join(WAYS)}")
    team = check_threads(threads) or max_threads()
    lists = len(index)
    if (needed := 8 * lists**2) > (free := free_memory_bytes()):
        raise MemoryError(f"{lists} x {lists} counts take {needed / 1e9:.3g} GB; {free / 1e9:.3g} GB are free")
    if method == "auto":
        method = "bits" if bits_s(index, team) <= sparse_s(index) else "sparse"
    return by_bits(index, team) if method == "bits" else by_sparse(index)


def bits_s(index: Index, threads: int = 1) -> float:
    """Expected seconds by bits."""
    return word_pairs(index) * WORD_S[kernels().countings()[-1]] / threads


def word_pairs(index: Index) -> float:
    """Words of 64 documents that are compared, for two lists each."""
    return len(index) * (len(index) + 1) / 2 * -(-index.documents // 64)


def sparse_s(index: Index) -> float:
    """Expected seconds of the sparse product, if all documents are in as many lists."""
    return MULTIPLY_ADD_S * (index.postings**2 / max(1, index.documents) + index.postings)


def by_bits(index: Index, threads: int, counting: str | None = None) -> Integers:
    """The counts, by AND and population counts."""
    counts = np.zeros((len(index), len(index)), np.int64)
    if index.postings:
        words = min(MOST_WORDS, max(LEAST_WORDS, MAX_BLOCK_BYTES // (8 * len(index)) // LEAST_WORDS * LEAST_WORDS))
        kernels().count_pairs(
            index.buffer, index.starts, index.lengths, index.documents, counts, counting or kernels().countings()[-1],
            words, PANEL, threads,
        )  # fmt: skip
        lower = np.tril_indices(len(index), -1)
        counts[lower] = counts.T[lower]
    return counts


def by_sparse(index: Index) -> Integers:
    """The counts, by SciPy's product of sparse matrices."""
    from scipy import sparse

    ids = np.concatenate([np.empty(0, np.uint32), *index]).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(index.lengths)])
    lists = sparse.csr_array((np.ones(len(ids), np.int64), ids, begins), shape=(len(index), max(1, index.documents)))
    counts: Integers = (lists @ lists.T).toarray()
    return counts


def ceiling_words_per_s(counting: str | None = None) -> float:
    """Words that one thread can AND and count each second, with its operands in L1: the best of 30 trials."""
    way, best = counting or kernels().countings()[-1], 0.0
    for words in (LEAST_WORDS, 2 * LEAST_WORDS, MOST_WORDS) * 10:
        rows = np.random.default_rng(0).integers(0, 2**63, 8 * words + 8).astype(np.uint64)
        times = 2**18 // words
        start = perf_counter()
        kernels().count_again(way, rows[-rows.ctypes.data // 8 % 8 :], words, times)
        best = max(best, 16 * words * times / (perf_counter() - start))
    return best
