"""Transfers of large host arrays to and from a GPU, through pinned staging buffers.

A driver copies pageable memory on one thread, through its own pinned buffers, and the operating system maps the
pages of a new array one by one during the copy. Here several threads do both in parallel, each with its own buffer:

    host array  <- copied by a thread ->  its pinned buffer  <- copied by the device ->  device memory
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
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
        """Copy a C-contiguous host array to the start of `memory`."""

        def transfer(buffer: HostArray, piece: HostArray, start: int) -> None:
            np.copyto(buffer, piece)
            self.queue.start_upload(memory, start, buffer).wait()

        self._transfer(array, transfer)

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a C-contiguous host array."""

        def transfer(buffer: HostArray, piece: HostArray, start: int) -> None:
            self.queue.start_download(buffer, memory, start).wait()
            np.copyto(piece, buffer)

        self._transfer(array, transfer)

    def _transfer(self, array: HostArray, transfer: Callable[[HostArray, HostArray, int], None]) -> None:
        """Call `transfer` for every piece of the array; the threads take the pieces in turn."""
        host = array.reshape(-1).view(np.uint8)

        def transfer_pieces(thread: int) -> None:
            for start in range(thread * PIECE_BYTES, host.size, len(self.buffers) * PIECE_BYTES):
                piece = host[start : start + PIECE_BYTES]
                transfer(self.buffers[thread][: piece.size], piece, start)

        with self.lock:
            list(self.threads.map(transfer_pieces, range(len(self.buffers))))
