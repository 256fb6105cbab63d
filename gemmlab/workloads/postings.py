"""Posting lists: the documents of each term of a text collection, and queries for documents that have several terms.

    result[q] = the numbers that are in every list of query q

With a matrix A of lists x documents, and Q of queries x lists, both of zeros and ones, a document is in the result of
query q where (Q A)[q, d] is the number of the query's lists. A product reads every number of every list, though; an
intersection skips most of the long ones. Where a product is the honest tool is the size of the intersection of every
pair of lists, A A^T: `pair_counts`.

Source: Chinese GPU laboratory report, whose methods and grains the study `postings` repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab._config import check_threads
from gemmlab._cpu.threads._threads import max_threads
from gemmlab.workloads.postings_device import GRAINS, DeviceIndex, Found
from gemmlab.workloads.postings_index import Ids, Index, Query, Terms, kernels, read_queries, write_queries
from gemmlab.workloads.postings_made import generate, trigrams
from gemmlab.workloads.postings_pairs import pair_counts

__all__ = [
    "GRAINS", "METHODS", "DeviceIndex", "Found", "Index", "generate", "intersect", "pair_counts", "read_queries",
    "trigrams", "write_queries",
]  # fmt: skip

METHODS = {
    "auto": "lists two at a time, the shortest first, by merging or galloping, as their lengths ask for",
    "merge": "lists two at a time, in vectors: blocks of one against blocks of the other",
    "svs": "small versus small: each number of the shorter list is looked for in the longer one, by galloping",
    "adp": "adaptive: all lists at once; the first list without a number proposes its own next one",
    "skip": "galloping over the last number of each block of 32",
    "bucket": "a number is looked up in a bucket of numbers with the same leading bits",
    "bitmap": "words of 64 documents, with a summary of those that are not empty",
}


def intersect(
    index: Index, queries: Sequence[Query], method: str = "auto", backend: str = "cpu", grain: str = "coarse",
    threads: int | None = None,
) -> list[Ids]:  # fmt: skip
    """The numbers that all lists of each query share, in increasing order: a uint32 array for each query.

    Parameters
    ----------
    index
        The lists.
    queries
        A sequence of list numbers for each query. One that is repeated counts once; one alone gives a copy of its list.
    method
        On the CPU, a name of METHODS. "skip", "bucket" and "bitmap" build something for the whole index at their first
        call, which the index keeps; see `Index.structure`. A device has "auto" alone, a binary search.
    backend
        "cpu", or a runtime, "opencl", "sycl" or "cuda", or one of its devices, such as "opencl:1". To ask a
        device more than once, keep the index there with a `DeviceIndex`.
    grain
        On a device, a name of GRAINS.
    threads
        At most so many, on the CPU. Results do not depend on it.

    Raises
    ------
    ValueError
        No such method, backend, grain or list; a query without lists.
    gemmlab.BackendUnavailable, gemmlab.UnsupportedProblem
        No such device, or it has too little memory.

    >>> index = Index.from_lists([[1, 5, 9], [5, 6, 9], [0, 9]])
    >>> [found.tolist() for found in intersect(index, [[0, 1], [2, 0, 1]])]
    [[5, 9], [9]]
    """
    if method not in METHODS:
        raise ValueError(f"no method {method!r}: choose one of {', '.join(METHODS)}")
    if grain not in GRAINS:
        raise ValueError(f"no grain {grain!r}: choose one of {', '.join(GRAINS)}")
    team = check_threads(threads) or max_threads()
    if backend == "cpu":
        if grain != "coarse":
            raise ValueError(f"grain {grain!r} is of devices: leave it out on the CPU")
        asked = Terms(index, queries)
        found: list[Ids] = kernels().intersect(
            method, index.buffer, index.starts, index.lengths, asked.terms, asked.first, index.structure(method), team
        )
        return found
    if method != "auto":
        raise ValueError(f"method {method!r} is of the CPU: leave it out on {backend}")
    return DeviceIndex(index, backend).start(queries, grain).to_host()
