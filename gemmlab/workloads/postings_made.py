"""Collections to measure with: made up ones with the statistics of the source's, and a real one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab.workloads.postings_index import Ids, Index, Integers

# The source's collection, GOV2, and its queries: how many have how many terms, and how many terms are used how often.
LISTS, POSTINGS, DOCUMENTS = 1756, 39_798_811, 25_205_175
QUERIES_BY_TERMS = {2: 563, 3: 340, 4: 83, 5: 14}
TERMS_BY_USES = {1: 1369, 2: 228, 3: 69, 4: 46, 5: 13, 6: 10, 7: 9, 8: 3, 9: 3, 11: 1, 12: 1, 13: 2, 20: 1, 24: 1}
QUERIES_WITH_A_REPEATED_TERM = 3
LEAF = 256  # numbers: a cluster as small as this is drawn evenly
GRAM = 3


def generate(
    sigma: float = 1.7, rho: float = 0.0, clustered: bool = False, scale: float = 1.0, seed: int = 0
) -> tuple[Index, list[list[int]]]:
    """A collection and 1000 queries with the statistics of the source's.

    Parameters
    ----------
    sigma
        Lengths are lognormal with this deviation of their logarithm; with 0 all are equal. No list has more than a
        quarter of the documents.
    rho
        The correlation between the ranks of a list's length and of its use in queries, about; from -1 to 1.
    clustered
        Whether a list's documents come in clusters of clusters; else they are drawn evenly.
    scale
        Of postings and documents; 1 has 39.8 million in 25.2 million documents. There are 1756 lists at any scale.
    seed
        Of the random numbers.

    >>> index, queries = generate(sigma=0, scale=0.001)
    >>> len(index), index.postings, len(queries)
    (1756, 39798, 1000)
    """
    rng = np.random.default_rng(seed)
    documents, postings = int(DOCUMENTS * scale), int(POSTINGS * scale)
    uses = np.repeat(list(TERMS_BY_USES), list(TERMS_BY_USES.values()))
    rng.shuffle(uses)
    lengths = _lengths(sigma, postings, documents // 4, rng)
    lengths[np.argsort(_related(uses, rho, rng))] = np.sort(lengths)
    draw = _clustered if clustered else even
    index = Index.from_lists(draw(int(length), 0, documents, rng) for length in lengths)
    return index, _queries(uses, rng)


def _lengths(sigma: float, postings: int, most: int, rng: np.random.Generator) -> Integers:
    """Lognormal lengths with this sum, none over `most`."""
    if not LISTS <= postings <= LISTS * most:
        raise ValueError(f"{LISTS} lists of 1 to {most} numbers cannot have {postings} together: take another scale")
    shape = np.exp(sigma * rng.standard_normal(LISTS))
    low, high = 0.0, float(postings) / shape.min() + 1
    for _ in range(200):  # the factor, by bisection: capped lengths make the others longer
        factor = (low + high) / 2
        lengths = np.clip(np.floor(factor * shape), 1, most).astype(np.int64)
        low, high = (factor, high) if lengths.sum() <= postings else (low, factor)
    lengths = np.clip(np.floor(low * shape), 1, most).astype(np.int64)
    while missing := postings - int(lengths.sum()):
        shorter = np.flatnonzero(lengths < most)
        lengths[rng.permutation(shorter)[:missing]] += 1
    return lengths


def _related(uses: npt.NDArray[Any], rho: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Scores of lists, by which lengths are dealt: normal numbers correlated with the ranks of their uses."""
    by_use = np.empty(LISTS)
    by_use[np.lexsort((rng.random(LISTS), uses))] = np.sort(rng.standard_normal(LISTS))
    related: npt.NDArray[np.float64] = rho * by_use + np.sqrt(1 - rho * rho) * rng.standard_normal(LISTS)
    return related


def even(count: int, first: int, last: int, rng: np.random.Generator) -> Ids:
    """Distinct numbers from `first` to below `last`, in order, all sets of them equally likely."""
    if count > (last - first) // 2:  # those that are left out are fewer
        kept = np.ones(last - first, bool)
        kept[even(last - first - count, 0, last - first, rng)] = False
        return (np.flatnonzero(kept) + first).astype(np.uint32)
    found = np.empty(0, np.uint32)
    while found.size < count:
        more = rng.integers(first, last, count + count // 16 + 8 - found.size, dtype=np.uint32)
        found = np.unique(np.concatenate([found, more]))
    return np.delete(found, rng.choice(found.size, found.size - count, replace=False))


def _clustered(count: int, first: int, last: int, rng: np.random.Generator) -> Ids:
    """Distinct numbers in clusters of clusters: each half of them in a part of a random size, and every other time one
    of the parts is drawn evenly.

    After Anh and Moffat (2010), whose clusters end at ten numbers.
    """
    found, todo = [], [(count, first, last, False)]
    while todo:
        count, first, last, is_even = todo.pop()
        if is_even or count <= LEAF:
            found.append(even(count, first, last, rng))
            continue
        left, at = count // 2, rng.random()
        middle = first + left + int(rng.integers(last - first - count + 1))
        todo += [(count - left, middle, last, 0.25 <= at < 0.5), (left, first, middle, at < 0.25)]
    return np.concatenate(found)


def _queries(uses: npt.NDArray[Any], rng: np.random.Generator) -> list[list[int]]:
    """All uses of the terms, dealt to the queries until as many queries repeat a term as in the source."""
    sizes = np.repeat(list(QUERIES_BY_TERMS), list(QUERIES_BY_TERMS.values()))
    rng.shuffle(sizes)
    ends = np.cumsum(sizes)[:-1]
    while True:
        dealt = [terms.tolist() for terms in np.split(rng.permutation(np.repeat(np.arange(LISTS), uses)), ends)]
        if sum(len(set(terms)) < len(terms) for terms in dealt) == QUERIES_WITH_A_REPEATED_TERM:
            return dealt


def trigrams(words: Iterable[str] | None = None, queries: int = 1000, seed: int = 0) -> tuple[Index, list[list[int]]]:
    """Words as documents, and the three letters in a row that they contain as terms; queries ask for parts of words.

    Parameters
    ----------
    words
        They are sorted. Without them, the 264 494 English words of the package `english-words`.
    queries
        So many: parts of random words, of two to five trigrams.
    seed
        Of the queries.

    Raises
    ------
    ModuleNotFoundError
        The package is not installed.

    >>> index, _ = trigrams(["ape", "aperture", "tape"])
    >>> len(index), index.documents
    (11, 3)
    """
    rng = np.random.default_rng(seed)
    marked = [f"^{word}$" for word in sorted(set(_english() if words is None else words))]
    letters = np.frombuffer("".join(marked).encode("utf-32-le"), np.uint32).astype(np.uint64)
    sizes = np.fromiter(map(len, marked), np.int64, len(marked))
    document = np.repeat(np.arange(len(marked)), sizes)
    inside = document[: 1 - GRAM] == document[GRAM - 1 :]
    grams = (letters[:-2] << 42 | letters[1:-1] << 21 | letters[2:])[inside]
    terms, term = np.unique(grams, return_inverse=True)
    pairs = np.unique(term * len(marked) + document[: 1 - GRAM][inside])
    ids = (pairs % len(marked)).astype(np.uint32)
    index = Index.from_lists(np.split(ids, np.cumsum(np.bincount(pairs // len(marked), minlength=len(terms)))[:-1]))
    first = np.concatenate([[0], np.cumsum(np.maximum(sizes - GRAM + 1, 0))])  # each word's first trigram
    asked: list[list[int]] = []
    while len(asked) < queries:
        word, count = int(rng.integers(len(marked))), int(rng.integers(2, 6))
        if (room := int(first[word + 1] - first[word]) - count) >= 0:
            begin = first[word] + int(rng.integers(room + 1))
            asked.append(term[begin : begin + count].tolist())
    return index, asked


def _english() -> Iterable[str]:
    try:
        from english_words import get_english_words_set
    except ModuleNotFoundError:
        raise ModuleNotFoundError("english-words is not installed; fix: pip install 'gemmlab[test]'") from None
    words: set[str] = get_english_words_set(["web2", "gcide"], lower=True)
    return words


def small(seed: int = 0) -> tuple[Index, list[list[int]]]:
    """The source's small set: 1000 lists of 50 to 100 numbers (here of a thousand documents), 300 queries of five."""
    rng = np.random.default_rng(seed)
    index = Index.from_lists(even(int(rng.integers(50, 101)), 0, 1000, rng) for _ in range(1000))
    return index, [rng.choice(1000, 5, replace=False).tolist() for _ in range(300)]
