"""Transfers of large host arrays to and from a device, through pinned staging buffers.

A driver copies pageable memory on one thread, through its own pinned buffers, and the operating system maps the
pages of a new array one by one during the copy. Here several threads do both in parallel, each piece in its own buffer:

    host array  <- copied by threads ->  pinned buffers  <- copied by the device ->  device memory

The thread that asks for the transfer is the only one that calls the driver: calls of several threads wait for each
other there, and take many times as long. The array may have any strides: a tile of a matrix, or a transposed one. In
device memory it is row-major.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

PIECE_BYTES = 4 << 20  # at most; of a small array less, so that every thread gets a piece
LEAST_PIECE_BYTES = 1 << 20
MIN_BYTES = 8 << 20  # a smaller transfer ends before the threads have started
MAX_THREADS = 16
UNDER_WAY = 3  # transfers that the device has been given and not finished


@cache
def copying_threads() -> ThreadPoolExecutor:
    """The threads that copy, for all transfers of this process."""
    return ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), thread_name_prefix="gemmlab-staging")


class Staging:
    """Pinned buffers of one queue. They transfer one array at a time."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        count = UNDER_WAY + min(MAX_THREADS, os.cpu_count() or 1)
        self.buffers = [queue.pinned(PIECE_BYTES) for _ in range(count)]

    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a host array to the start of `memory`."""
        copies: deque[tuple[Future[None], HostArray, int, int]] = deque()
        transfers: deque[tuple[Event, HostArray]] = deque()

        def start_transfer() -> None:
            copy, buffer, start, nbytes = copies.popleft()
            copy.result()
            transfers.append((self.queue.start_upload(memory, start, buffer[:nbytes]), buffer))

        def end_transfer() -> HostArray:
            event, buffer = transfers.popleft()
            event.wait()
            return buffer

        with self.lock:
            free = list(self.buffers)
            try:
                for piece, start in _pieces(array, _piece_bytes(array)):
                    while not free:
                        while copies and len(transfers) < UNDER_WAY:
                            start_transfer()
                        free.append(end_transfer())
                    buffer = free.pop()
                    copy = copying_threads().submit(np.copyto, _like(piece, buffer), piece)
                    copies.append((copy, buffer, start, piece.nbytes))
                while copies:
                    start_transfer()
                while transfers:
                    end_transfer()
            finally:
                _finish(copy for copy, *_ in copies)

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a host array."""
        transfers: deque[tuple[Event, HostArray, HostArray]] = deque()
        copies: deque[tuple[Future[None], HostArray]] = deque()

        def end_transfer() -> None:
            event, buffer, piece = transfers.popleft()
            event.wait()
            copies.append((copying_threads().submit(np.copyto, piece, _like(piece, buffer)), buffer))

        def end_copy() -> HostArray:
            copy, buffer = copies.popleft()
            copy.result()
            return buffer

        with self.lock:
            free = list(self.buffers)
            try:
                for piece, start in _pieces(array, _piece_bytes(array)):
                    while not free:
                        free.append(end_copy())
                    buffer = free.pop()
                    event = self.queue.start_download(buffer[: piece.nbytes], memory, start)
                    transfers.append((event, buffer, piece))
                    if len(transfers) >= UNDER_WAY:
                        end_transfer()
                while transfers:
                    end_transfer()
                while copies:
                    end_copy()
            finally:
                _finish(copy for copy, _ in copies)


def _finish(copies: Iterator[Future[None]]) -> None:
    """Wait for copies that a failure has left: nothing is written once the caller has seen the error."""
    for copy in copies:
        copy.exception()


def _piece_bytes(array: HostArray) -> int:
    return max(LEAST_PIECE_BYTES, min(PIECE_BYTES, array.nbytes // MAX_THREADS))


def _pieces(array: HostArray, most: int) -> Iterator[tuple[HostArray, int]]:
    """The array in pieces of at most `most` bytes, and the byte at which each begins in a row-major copy of the array."""
    if array.flags.c_contiguous:
        array = array.reshape(-1)
    row_bytes = array[:1].nbytes
    if array.ndim == 1 or row_bytes <= most:
        step = most // max(1, row_bytes)
        for i in range(0, len(array), step):
            yield array[i : i + step], i * row_bytes
        return
    for i, row in enumerate(array):
        for piece, start in _pieces(row, most):
            yield piece, i * row_bytes + start


def _like(piece: HostArray, buffer: HostArray) -> HostArray:
    """The first bytes of a buffer as an array of a piece's shape and dtype."""
    return buffer[: piece.nbytes].view(piece.dtype).reshape(piece.shape)
