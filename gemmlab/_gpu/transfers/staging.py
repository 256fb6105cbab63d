"""Transfers of large host arrays to and from a device, through pinned staging buffers.

A driver copies pageable memory on one thread, through its own pinned buffers, and the operating system maps the
pages of a new array one by one during the copy. Here several threads copy, beside the transfers of the device:

    host array  <- copied by threads ->  pinned buffers  <- copied by the device ->  device memory

One thread calls the driver; compiled threads copy for it, from the first piece of an array to the last without a pause.
(Threads of Python that call the driver themselves wait for each other, and threads that sleep between two pieces wake
too late: both had half the rate.) The array may have any strides: a tile of a matrix, or a transposed one. In device
memory it is row-major.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gemmlab._gpu.transfers._copies import Copies

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

PIECE_BYTES = 4 << 20  # at most; less of an array of a few pieces, so that copies and transfers overlap
LEAST_PIECE_BYTES = 1 << 20
MIN_BYTES = 8 << 20  # a smaller transfer ends before the copying threads have started
UNDER_WAY = 8  # pieces that the device has been given and not finished
MAX_THREADS = 8  # of each direction


class Staging:
    """Pinned buffers of one queue, and threads. They transfer one array at a time."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self.threads = max(1, min(MAX_THREADS, _cpus() // 2))
        self.buffers = [queue.pinned(PIECE_BYTES) for _ in range(self.threads + UNDER_WAY + 1)]
        self.copier = ThreadPoolExecutor(1, thread_name_prefix="gemmlab-staging")  # the first of the copying threads

    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a host array to the start of `memory`."""
        under_way: deque[Event] = deque()
        sent = 0
        with self.lock, self._copies(array, to_buffer=True) as (copies, pieces):
            copies.allow(len(self.buffers))
            for number, (piece, start) in enumerate(pieces):
                copies.wait_for(number)
                under_way.append(self.queue.start_upload(memory, start, self._buffer(number, piece)))
                if len(under_way) > UNDER_WAY:
                    under_way.popleft().wait()
                    sent += 1
                    copies.allow(len(self.buffers) + sent)
            for event in under_way:
                event.wait()

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a host array."""
        under_way: deque[Event] = deque()
        arrived = 0
        with self.lock, self._copies(array, to_buffer=False) as (copies, pieces):
            for number, (piece, start) in enumerate(pieces):
                if number >= len(self.buffers):
                    copies.wait_for(number - len(self.buffers))
                under_way.append(self.queue.start_download(self._buffer(number, piece), memory, start))
                if len(under_way) > UNDER_WAY:
                    under_way.popleft().wait()
                    arrived += 1
                    copies.allow(arrived)
            for event in under_way:
                event.wait()
                arrived += 1
                copies.allow(arrived)
            for number in range(max(0, len(pieces) - len(self.buffers)), len(pieces)):
                copies.wait_for(number)

    def _buffer(self, number: int, piece: HostArray) -> HostArray:
        return self.buffers[number % len(self.buffers)][: piece.nbytes]

    @contextmanager
    def _copies(self, array: HostArray, to_buffer: bool) -> Iterator[tuple[Copies, Sequence[tuple[HostArray, int]]]]:
        """The copies of an array, under way, and its pieces. At the end no thread copies any more."""
        pieces = list(_pieces(array, _piece_bytes(array)))
        copies = Copies([piece for piece, _ in pieces], self.buffers, to_buffer)
        running = self.copier.submit(copies.run, min(self.threads, max(1, len(pieces))))
        try:
            yield copies, pieces
        finally:
            copies.stop()  # after an error: nothing is written once the caller has seen it
            running.result()


def _cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _piece_bytes(array: HostArray) -> int:
    return max(LEAST_PIECE_BYTES, min(PIECE_BYTES, array.nbytes // MAX_THREADS))


def _pieces(array: HostArray, most: int) -> Iterator[tuple[HostArray, int]]:
    """Matrices or vectors of at most `most` bytes, each with its first byte in a row-major copy of the array."""
    if array.flags.c_contiguous:
        array = array.reshape(-1)
    row_bytes = array[:1].nbytes
    if array.ndim == 1 or (array.ndim == 2 and row_bytes <= most):
        step = most // max(1, row_bytes)
        for i in range(0, len(array), step):
            yield array[i : i + step], i * row_bytes
        return
    for i, row in enumerate(array):
        for piece, start in _pieces(row, most):
            yield piece, i * row_bytes + start
