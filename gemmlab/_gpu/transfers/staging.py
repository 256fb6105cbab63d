"""Transfers of large host arrays to and from a device, through pinned staging buffers.

A driver copies pageable memory on one thread, through its own pinned buffers, and the operating system maps the
pages of a new array one by one during the copy. Here several threads do both in parallel, each with its own buffer:

    host array  <- copied by a thread ->  its pinned buffer  <- copied by the device ->  device memory

The array may have any strides: a tile of a matrix, or a transposed one. In device memory it is row-major.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import HostArray, Memory, Queue

PIECE_BYTES = 4 << 20
MAX_THREADS = 8
MIN_BYTES = 2 * PIECE_BYTES  # a smaller transfer ends before the threads have started


class Staging:
    """Threads with one pinned buffer each. They transfer one array at a time."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self.buffers = [queue.pinned(PIECE_BYTES) for _ in range(min(MAX_THREADS, os.cpu_count() or 1))]
        self.threads = ThreadPoolExecutor(len(self.buffers), thread_name_prefix="gemmlab-staging")

    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a host array to the start of `memory`."""

        def transfer(buffer: HostArray, piece: HostArray, start: int) -> None:
            np.copyto(_like(piece, buffer), piece)
            self.queue.start_upload(memory, start, buffer).wait()

        self._transfer(array, transfer)

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a host array."""

        def transfer(buffer: HostArray, piece: HostArray, start: int) -> None:
            self.queue.start_download(buffer, memory, start).wait()
            np.copyto(piece, _like(piece, buffer))

        self._transfer(array, transfer)

    def _transfer(self, array: HostArray, transfer: Callable[[HostArray, HostArray, int], None]) -> None:
        """Call `transfer` for every piece of the array; the threads take the pieces in turn."""
        pieces = list(_pieces(array))

        def transfer_pieces(thread: int) -> None:
            for piece, start in pieces[thread :: len(self.buffers)]:
                transfer(self.buffers[thread][: piece.nbytes], piece, start)

        with self.lock:
            list(self.threads.map(transfer_pieces, range(min(len(self.buffers), len(pieces)))))


def _pieces(array: HostArray) -> Iterator[tuple[HostArray, int]]:
    """The array in pieces that fit a buffer, and the byte at which each begins in a row-major copy of the array."""
    if array.flags.c_contiguous:
        array = array.reshape(-1)
    row_bytes = array[:1].nbytes
    if array.ndim == 1 or row_bytes <= PIECE_BYTES:
        step = PIECE_BYTES // max(1, row_bytes)
        for i in range(0, len(array), step):
            yield array[i : i + step], i * row_bytes
        return
    for i, row in enumerate(array):
        for piece, start in _pieces(row):
            yield piece, i * row_bytes + start


def _like(piece: HostArray, buffer: HostArray) -> HostArray:
    """The bytes of a buffer as an array of a piece's shape and dtype."""
    return buffer.view(piece.dtype).reshape(piece.shape)
