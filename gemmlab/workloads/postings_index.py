"""Posting lists in memory and in files, and queries in text.

A file has 32-bit little-endian numbers: for each list its length, then its numbers. So it can be mapped into memory as
it is. A file of queries has a line for each, with the numbers of its lists.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._cpu.machine import free_memory_bytes
from gemmlab._cpu.threads._threads import max_threads
from gemmlab._files import check_regular, replacing
from gemmlab.workloads._postings import Loops, walk

Ids = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.int64]
Query = Sequence[int]
Path_ = str | os.PathLike[str]
STRUCTURES = ("skip", "bucket", "bitmap")  # the methods that need something built


@cache
def kernels() -> Loops:
    """The compiled loops for the instruction set in force."""
    return Loops()


class Index:
    """Lists of document numbers, each in increasing order.

    Parameters
    ----------
    starts, lengths
        int64, one each for a list: where its first number stands in the buffer, and how many it has.
    buffer
        uint32, all numbers. It may be a memory map; it is not copied.
    check
        Whether to check the order of all numbers, which reads the whole buffer once.

    Attributes
    ----------
    starts, lengths, buffer : numpy.ndarray
        As given.

    Raises
    ------
    ValueError
        A list that is not inside the buffer, or numbers that are not in increasing order, with their place.

    >>> index = Index([0, 3], [3, 2], np.array([1, 5, 9, 5, 6], np.uint32))
    >>> index[1].tolist(), len(index), index.documents
    ([5, 6], 2, 10)
    """

    def __init__(
        self, starts: npt.ArrayLike, lengths: npt.ArrayLike, buffer: npt.ArrayLike, check: bool = True
    ) -> None:
        self.starts, self.lengths = _integers(starts, "starts"), _integers(lengths, "lengths")
        given = np.asanyarray(buffer)
        if given.dtype != np.uint32 or given.ndim != 1:
            raise ValueError(f"the buffer is an array of uint32 with one dimension, not {given.ndim} of {given.dtype}")
        self.buffer: Ids = np.ascontiguousarray(given, dtype="=u4")
        if self.starts.shape != self.lengths.shape or self.starts.ndim != 1:
            raise ValueError(f"starts and lengths are one number each for a list, not {self.starts.shape} and "
                             f"{self.lengths.shape}")  # fmt: skip
        outside = (self.starts < 0) | (self.lengths < 0) | (self.starts + self.lengths > self.buffer.size)
        if outside.any():
            t = int(outside.argmax())
            raise ValueError(
                f"list {t} has {self.lengths[t]} numbers from {self.starts[t]} on; the buffer has {self.buffer.size}"
            )
        self._structures: dict[str, dict[str, Any]] = {}
        if check:
            self.check()

    @classmethod
    def from_lists(cls, lists: Iterable[npt.ArrayLike]) -> Index:
        """An index of lists of integers in increasing order, which are copied.

        >>> Index.from_lists([[1, 5, 9], [5, 6]]).lengths.tolist()
        [3, 2]
        """
        arrays = [_ids(given, t) for t, given in enumerate(lists)]
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        starts = np.cumsum(lengths + 1) - lengths  # as in a file, with the lengths between
        parts = chain.from_iterable((np.array([len(ids)], np.uint32), ids) for ids in arrays)
        return cls(starts, lengths, np.concatenate([np.empty(0, np.uint32), *parts]))

    @classmethod
    def read(cls, path: Path_, check: bool = True) -> Index:
        """The index of a file, mapped into memory without a copy.

        Raises
        ------
        ValueError
            A file that is cut off, or numbers out of order: with the byte where. Without `check` only the first is
            seen, and of the file only the lengths are read.
        OSError
            A file that cannot be read.
        """
        check_regular(path)
        size = os.path.getsize(path)
        if size % 4:
            raise ValueError(f"{path}: cut off at byte {size}, in the middle of a number")
        buffer = np.memmap(path, "<u4", "r") if size else np.empty(0, np.uint32)
        starts, lengths, cut_off = walk(np.asarray(buffer, "=u4"))
        if cut_off >= 0:
            raise ValueError(
                f"{path}: list {len(starts) - 1} says at byte {4 * cut_off} that it has {lengths[-1]} numbers, and the "
                f"file ends {size // 4 - 1 - cut_off} numbers later"
            )
        index = cls(starts, lengths, buffer, check=False)
        if check:
            index.check(str(path))
        return index

    def write(self, path: Path_) -> None:
        """Write the index to a file; one that is there is replaced when all is written."""
        with replacing(Path(path)) as file:
            for length, ids in zip(self.lengths, self, strict=True):
                file.write(np.uint32(length).astype("<u4").tobytes())
                ids.astype("<u4", copy=False).tofile(file)

    def check(self, name: str = "") -> None:
        """ValueError with the place of the first number that is not more than the one before it in its list."""
        at = kernels().first_out_of_order(self.buffer, self.starts, self.lengths, max_threads())
        if at >= 0:
            t = int(np.flatnonzero((self.starts <= at) & (at < self.starts + self.lengths))[0])
            where = f"{name}: byte {4 * at}: list" if name else "list"
            raise ValueError(
                f"{where} {t} has {self.buffer[at]} after {self.buffer[at - 1]}, at {at - self.starts[t]}: numbers are "
                "in increasing order"
            )

    def __len__(self) -> int:
        """How many lists there are."""
        return len(self.starts)

    def __iter__(self) -> Iterator[Ids]:
        """The numbers of each list."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, t: int) -> Ids:
        """The numbers of list t, in the buffer."""
        if not -len(self) <= t < len(self):
            raise IndexError(f"there is no list {t}: the index has {len(self)}")
        start = int(self.starts[t])
        return self.buffer[start : start + int(self.lengths[t])]

    @cached_property
    def documents(self) -> int:
        """One more than the largest number in a list."""
        full = self.lengths > 0
        last = self.buffer[(self.starts + self.lengths - 1)[full]]
        return int(last.max()) + 1 if full.any() else 0

    @property
    def postings(self) -> int:
        """The numbers of all lists."""
        return int(self.lengths.sum())

    @cached_property
    def by_length(self) -> tuple[Integers, Integers]:
        """The lists from the shortest to the longest, and the place of each list among them."""
        order = np.argsort(self.lengths, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return order, places

    def structure(self, method: str) -> dict[str, Any]:
        """What a method needs besides the lists, built at the first call and kept with the index.

        `structure(method)["bytes"]` is what it takes: for "skip" a 32nd of the lists; for "bucket" up to a quarter; for
        "bitmap" up to twice the lists, and 12 bytes for each 4096 documents of each list.

        Raises
        ------
        MemoryError
            "bitmap" may take more than the memory that is free.
        """
        if method not in STRUCTURES:
            return {}
        if method not in self._structures:
            self._structures[method] = self._built(method)
        return self._structures[method]

    def _built(self, method: str) -> dict[str, Any]:
        lists = self.buffer, self.starts, self.lengths
        if method == "skip":
            built = kernels().skips(*lists, max_threads())
        elif method == "bucket":
            built = kernels().buckets(*lists, max(1, self.documents), max_threads())
        else:
            needed = len(self) * -(-self.documents // 4096) * 12 + 8 * self.postings
            if needed > (free := free_memory_bytes()):
                raise MemoryError(
                    f"bitmaps of this index may take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: choose "
                    "another method, such as auto"
                )
            built = kernels().bitmaps(*lists, max(1, self.documents), max_threads())
        return built | {"bytes": sum(part.nbytes for part in built.values())}


def _integers(given: npt.ArrayLike, name: str) -> Integers:
    array = np.asarray(given)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} are integers, not {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def _ids(given: npt.ArrayLike, t: int) -> Ids:
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"list {t} is to have integers in one dimension, not {array.ndim} of {array.dtype}")
    if array.size and not 0 <= array.min() <= array.max() < 2**32:
        raise ValueError(f"list {t} has numbers from {array.min()} to {array.max()}; allowed are 0 to {2**32 - 1}")
    return array.astype(np.uint32)


def read_queries(path: Path_) -> list[list[int]]:
    """The queries of a text file: a line each, with the numbers of its lists.

    Raises
    ------
    ValueError
        A line that has something else, or nothing, with its number.
    """
    queries = []
    check_regular(path)
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                terms = [int(word) for word in line.split()]
            except ValueError:
                terms = []
            if not terms:
                raise ValueError(f"{path}:{number}: a query is the numbers of its lists, not {line.strip()[:40]!r}")
            queries.append(terms)
    return queries


def write_queries(path: Path_, queries: Iterable[Query]) -> None:
    """Write queries to a text file, a line each."""
    Path(path).write_text("".join(" ".join(map(str, terms)) + "\n" for terms in queries), encoding="utf-8")


class Terms:
    """Queries as arrays: query q has the lists terms[first[q]:first[q + 1]], each once, the shortest first.

    Raises
    ------
    ValueError
        A query without lists, or with something that is not the number of a list.
    """

    def __init__(self, index: Index, queries: Sequence[Query]) -> None:
        if {type(queries), *map(type, queries)} & {str, bytes, bytearray}:
            raise ValueError("a query is a sequence of integers, not a text: read_queries reads a file of them")
        counts = np.fromiter(map(len, queries), np.int64, len(queries))
        if (counts == 0).any():
            raise ValueError(f"query {int((counts == 0).argmax())} has no lists")
        given = np.asarray(list(chain.from_iterable(queries)))
        if given.size and (given.ndim != 1 or given.dtype.kind not in "iu"):
            raise ValueError(f"a query is a sequence of integers, not of {given.dtype}")
        terms = given.astype(np.int64)
        query = np.repeat(np.arange(len(counts)), counts)
        wrong = (terms < 0) | (terms >= len(index))
        if wrong.any():
            at = int(wrong.argmax())
            raise ValueError(f"query {query[at]} has list {terms[at]}; the index has {len(index)}, from 0 on")
        order, places = index.by_length
        keys = np.sort(query << 32 | places[terms])  # by query, then by length
        if len(keys) > 1:
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        self.terms: Integers = order[keys & 0xFFFFFFFF]
        self.first: Integers = np.searchsorted(keys, np.arange(len(counts) + 1) << 32)
        self.shortest: Integers = index.lengths[self.terms[self.first[:-1]]]
