"""Transfers of large host arrays to and from a device, through pinned staging buffers.

A driver copies pageable memory on one thread, through its own pinned buffers, and the operating system maps the
pages of a new array one by one during the copy. Here several threads copy, beside the transfers of the device:

    host array  <- copied by threads ->  pinned buffer  <- copied by the device ->  device memory

One thread calls the driver, and compiled code copies for it: threads of Python that call the driver themselves wait for
each other, and take several times as long. The array may have any strides: a tile of a matrix, or a transposed one. In
device memory it is row-major.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmlab._gpu.transfers._copies import copy

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

PIECE_BYTES = 8 << 20  # at most; less of an array of a few pieces, so that copies and transfers overlap
LEAST_PIECE_BYTES = 1 << 20
MIN_BYTES = 8 << 20  # a smaller transfer ends before the copying threads have started
BUFFERS = 4
MAX_THREADS = 8  # of each direction


class Staging:
    """Pinned buffers of one queue. They transfer one array at a time."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self.buffers = [queue.pinned(PIECE_BYTES) for _ in range(BUFFERS)]
        self.threads = max(1, min(MAX_THREADS, _cpus() // 2))

    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a host array to the start of `memory`."""
        under_way: deque[Event] = deque()
        with self.lock:
            for number, (piece, start) in enumerate(_pieces(array, _piece_bytes(array))):
                if len(under_way) == BUFFERS:
                    under_way.popleft().wait()
                buffer = self.buffers[number % BUFFERS][: piece.nbytes]
                copy(_like(piece, buffer), piece, self.threads)
                under_way.append(self.queue.start_upload(memory, start, buffer))
            for event in under_way:
                event.wait()

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a host array."""
        under_way: deque[tuple[Event, HostArray, HostArray]] = deque()

        def finish_first() -> None:
            event, piece, buffer = under_way.popleft()
            event.wait()
            copy(piece, _like(piece, buffer), self.threads)

        with self.lock:
            for number, (piece, start) in enumerate(_pieces(array, _piece_bytes(array))):
                if len(under_way) == BUFFERS:
                    finish_first()
                buffer = self.buffers[number % BUFFERS][: piece.nbytes]
                under_way.append((self.queue.start_download(buffer, memory, start), piece, buffer))
            while under_way:
                finish_first()


def _cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _piece_bytes(array: HostArray) -> int:
    return max(LEAST_PIECE_BYTES, min(PIECE_BYTES, array.nbytes // (2 * BUFFERS)))


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


def _like(piece: HostArray, buffer: HostArray) -> HostArray:
    """The bytes of a buffer as an array of a piece's shape and dtype."""
    return buffer.view(piece.dtype).reshape(piece.shape)
