"""Intersections on a device: the index is there once, and all queries are computed in one launch.

`kernels/postings_*.cl` are one text for OpenCL, SYCL and CUDA, one kernel a file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu import RUNTIMES, runtime_named
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.runtime import Defines, Event, Memory
from gemmlab._name import BackendName
from gemmlab.workloads.postings_index import Ids, Index, Integers, Query, Terms

GRAINS = {
    "coarse": "all queries in one launch, a work-group for each chunk of a query's shortest list",
    "chunks": "the source's coarse grain: a launch a query, a work-item for each chunk, which scans the other lists",
    "chunks-exact": "the same; a search finds where the chunk begins in the other lists",
    "fine": "the source's fine grain: a launch for each number of the shortest list",
}
SOURCES_CHUNKS = 1024  # of a query, one for each of the source's work-items
MOST_AT_ONCE = 1 << 26  # numbers of the shortest lists in one batch of queries
DEFINES: dict[str, dict[str, int]] = {
    "gpu": {"GROUP_X": 256, "GROUP_Y": 1, "EACH": 4},
    "cpu": {"GROUP_X": 16, "GROUP_Y": 1, "EACH": 16},
}


class DeviceIndex:
    """An index whose lists are on a device, for any number of queries.

    Parameters
    ----------
    index
        The lists.
    backend
        A runtime, "opencl", "sycl" or "cuda", or one of its devices, such as "opencl:1".

    Raises
    ------
    ValueError
        No such runtime.
    gemmlab.BackendUnavailable
        The runtime has no such device.
    gemmlab.UnsupportedProblem
        The device has too little memory.
    """

    def __init__(self, index: Index, backend: str = "opencl") -> None:
        asked = BackendName.of(backend)
        name, selector = asked.plain, asked.selector
        if name not in RUNTIMES:
            raise ValueError(f"no backend {backend!r}: choose cpu, {', '.join(RUNTIMES)}, or a device such as opencl:1")
        runtime = runtime_named(name)
        self.index, self.device = index, runtime.device(selector)
        if index.buffer.nbytes > self.device.allocation_bytes:
            raise UnsupportedProblem(
                f"the index takes {index.buffer.nbytes} bytes; {self.device.label} has {self.device.allocation_bytes} "
                "in one piece: take backend cpu"
            )
        self.queue: Any = runtime.queue(self.device)
        self.defines = DEFINES["cpu" if self.device.kind == "cpu" else "gpu"]
        arrays: tuple[npt.NDArray[Any], ...] = index.buffer, index.starts, index.lengths.astype(np.uint32)
        self.lists = [self.memory(array) for array in arrays]
        self._workspace: dict[str, tuple[int, Memory]] = {}
        self._lock = threading.Lock()  # held while the kernels of a batch are started, which share the workspace

    def memory(self, array: npt.NDArray[Any]) -> Memory:
        """A copy of an array on the device."""
        memory = self.queue.allocate(max(array.nbytes, 4))
        if array.nbytes:
            self.queue.copy_to_device(memory, np.ascontiguousarray(array))
        return memory

    def workspace(self, name: str, count: int) -> Memory:
        """Memory for so many numbers between the kernels of a batch; the next batch, which runs later, has it again.

        It is made anew where it is too small.
        """
        size, memory = self._workspace.get(name, (0, None))
        if size < count or memory is None:
            memory = self.queue.allocate(4 * max(count, 1))
            self._workspace[name] = count, memory
        return memory

    def prepare(self, queries: Sequence[Query], grain: str = "coarse") -> Prepared:
        """Queries on the device, for any number of calls of `start`."""
        if grain not in GRAINS:
            raise ValueError(f"no grain {grain!r}: choose one of {', '.join(GRAINS)}")
        asked = Terms(self.index, queries)
        return Prepared(self, [_Batch(self, asked, part, grain) for part in _parts(asked.shortest)])

    def start(self, queries: Sequence[Query] | Prepared, grain: str = "coarse") -> Found:
        """Start looking for the numbers that all lists of each query share; they stay on the device.

        Queries that were prepared have their grain already.
        """
        prepared = queries if isinstance(queries, Prepared) else self.prepare(queries, grain)
        if prepared.resident is not self:
            raise ValueError("these queries were prepared for another index: prepare them for this one")
        with self._lock:
            return Found([batch.start() for batch in prepared.batches])


@dataclass(frozen=True)
class Prepared:
    """Queries on a device."""

    resident: DeviceIndex
    batches: Sequence[_Batch]


@dataclass(frozen=True)
class Part:
    """What some queries have found: the numbers of query q are ids[begins[q]:begins[q + 1]]."""

    queue: Any
    queries: int
    ids: Memory
    begins: Memory
    events: Sequence[Event]

    def to_host(self) -> list[Ids]:
        """The numbers of each query, as arrays of the host."""
        begins = np.empty(self.queries + 1, np.int32)
        self.queue.download(begins, self.begins)
        ids = np.empty(int(begins[-1]), np.uint32)
        if ids.size:
            self.queue.copy_to_host(ids, self.ids)
        return [ids[first:last].copy() for first, last in pairwise(begins.tolist())]


@dataclass(frozen=True)
class Found:
    """What queries have found, on a device."""

    parts: Sequence[Part]

    def wait(self) -> None:
        """Wait until all is found."""
        for part in self.parts[-1:]:  # a queue runs them in order
            part.events[-1].wait()

    @property
    def kernel_s(self) -> float:
        """Seconds of the kernels by the device's clock. Blocks until all is found."""
        return sum(event.kernel_s for part in self.parts for event in part.events)

    def to_host(self) -> list[Ids]:
        """The numbers of each query, as arrays of the host."""
        return [ids for part in self.parts for ids in part.to_host()]


def _parts(shortest: Integers) -> Iterator[slice]:
    """Queries in batches whose shortest lists have at most MOST_AT_ONCE numbers together, or of one query."""
    ends = np.cumsum(shortest)
    first = 0
    while first < len(shortest):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + MOST_AT_ONCE, "right")))
        yield slice(first, last)
        first = last


class _Batch:
    """Some queries, as `kernels/postings.h` describes them."""

    def __init__(self, resident: DeviceIndex, asked: Terms, part: slice, grain: str) -> None:
        self.resident, self.queue, self.grain = resident, resident.queue, grain
        self.shortest = asked.shortest[part]
        self.queries = len(self.shortest)
        self.widths = self._widths()
        first = asked.first[part.start : part.stop + 1]
        self.chunks = _sums(-(-self.shortest // self.widths))
        places = _sums(self.shortest)
        terms = asked.terms[first[0] : first[-1]]
        arrays = [first - first[0], self.chunks, places, self.widths, terms]
        self.asked = resident.memory(np.concatenate(arrays).astype(np.int32))
        self.room = int(places[-1])

    def start(self) -> Part:
        """Start the kernels."""
        count = int(self.chunks[-1])
        found = self.resident.workspace("found", self.room)
        counts, offsets = self.resident.workspace("counts", count), self.resident.workspace("offsets", count + 1)
        ids, begins = (self.queue.allocate(4 * max(size, 1)) for size in (self.room, self.queries + 1))
        shared = [np.int32(self.queries), self.asked, *self.resident.lists, found, counts]
        events = [
            *self._find(shared),
            self._launch("offsets", 1, [np.int32(count), counts, offsets]),
            self._launch("compact", max(1, count), [*shared, offsets, ids, begins]),
        ]
        return Part(self.queue, self.queries, ids, begins, events)

    def _widths(self) -> Integers:
        """The width of each query's chunks."""
        if self.grain == "fine":
            return np.ones_like(self.shortest)
        if self.grain.startswith("chunks"):
            return np.maximum(1, -(-self.shortest // SOURCES_CHUNKS))
        defines = self.resident.defines
        return np.full_like(self.shortest, defines["GROUP_X"] * defines["EACH"])

    def _find(self, shared: list[Any]) -> Iterator[Event]:
        if self.grain == "coarse":
            if count := int(self.chunks[-1]):
                yield self._launch("coarse", count, shared)
            return
        group = self.resident.defines["GROUP_X"]
        for q in range(self.queries):
            if self.grain == "fine":
                for number in range(int(self.shortest[q])):
                    yield self._launch("fine", 1, [np.int32(q), np.int32(number), *shared])
            elif groups := -(-int(self.chunks[q + 1] - self.chunks[q]) // group):
                exact = {"EXACT": 1} if self.grain == "chunks-exact" else {}
                yield self._launch("chunks", groups, [np.int32(q), *shared], exact)

    def _launch(self, name: str, groups: int, arguments: list[Any], more: Defines | None = None) -> Event:
        defines = {**self.resident.defines, **(more or {})}
        kernel = self.queue.kernel(source_of(name), name, defines)
        event: Event = self.queue.launch(kernel, (groups, 1, 1), (defines["GROUP_X"], 1, 1), arguments)
        return event


def _sums(counts: Integers) -> Integers:
    """The sum of the counts before each, and of all."""
    return np.concatenate([[0], np.cumsum(counts)])


@cache
def source_of(kernel: str) -> str:
    """The source of one kernel."""
    names = "device.h", "postings.h", f"postings_{kernel}.cl"
    return "".join(kernel_text(name, "gemmlab.workloads") for name in names)
