"""Transfers of large host arrays to and from a device, through pinned staging buffers.

A driver copies pageable memory on one thread, through its pinned buffers, and the operating system maps the
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gemmlab._errors import DeviceError
from gemmlab._gpu.transfers import _copies
from gemmlab._process.forks import Pool

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

PIECE_BYTES = 4 << 20  # at most; less of a few small arrays, so that copies and transfers overlap
LEAST_PIECE_BYTES = 1 << 20
MIN_BYTES = 8 << 20  # a smaller transfer ends before the copying threads have started
UNDER_WAY = 8  # pieces that the device has been given and not finished
MAX_THREADS = 8  # of each direction

Transfer: TypeAlias = "tuple[Memory, HostArray]"  # an array, and the memory whose start it is copied to or from
End: TypeAlias = "Callable[[int, Event | None], None]"


class Piece(NamedTuple):
    """A part of the array of a transfer, and its first byte in the device's memory."""

    transfer: int
    memory: Memory
    host: HostArray
    start: int
    is_first: bool
    is_last: bool


def _always(number: int) -> bool:
    return True


def ignore(number: int, event: Event | None = None) -> None:
    pass


class Staging:
    """Pinned buffers of one queue, and threads. They do one series of transfers at a time."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self.threads = max(1, min(MAX_THREADS, _cpus() // 2))
        self.buffers = [queue.pinned(PIECE_BYTES) for _ in range(self.threads + UNDER_WAY + 1)]
        self.copier = Pool(1, "gemmlab-staging")  # the first of the copying threads

    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a host array to the start of `memory`."""
        self.uploads([(memory, array)])

    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a host array."""
        self.downloads([(memory, array)])

    def uploads(
        self, transfers: Sequence[Transfer], begin: Callable[[int], None] = ignore, end: End = ignore
    ) -> None:
        """Copy several arrays to the device, without a pause between them.

        `begin` is called with the number of each before it starts, `end` with the event of its last piece.
        """
        under_way: deque[Event] = deque()
        sent = 0
        with self.lock, self._copies(transfers, to_buffer=True) as (copies, pieces):
            copies.allow(len(self.buffers))
            with _ended(under_way):
                for number, piece in enumerate(pieces):
                    if piece.is_first:
                        begin(piece.transfer)
                    copies.wait_for(number)
                    event = self.queue.start_upload(piece.memory, piece.start, self._buffer(number, piece))
                    under_way.append(event)
                    if piece.is_last:
                        end(piece.transfer, event)
                    if len(under_way) > UNDER_WAY:
                        under_way.popleft().wait()
                        sent += 1
                        copies.allow(len(self.buffers) + sent)

    def downloads(
        self, transfers: Sequence[Transfer], begin: Callable[[int], None] = ignore, end: End = ignore,
        is_ready: Callable[[int], bool] = _always,
    ) -> None:  # fmt: skip
        """Copy the device's memory to several arrays. `begin` may block where `is_ready` says no."""
        under_way: deque[Event] = deque()
        arrived = 0
        with self.lock, self._copies(transfers, to_buffer=False) as (copies, pieces):

            def wait_for_all_but(count: int) -> None:
                nonlocal arrived
                while len(under_way) > count:
                    under_way.popleft().wait()
                    arrived += 1
                    copies.allow(arrived)

            with _ended(under_way):
                for number, piece in enumerate(pieces):
                    if piece.is_first:
                        if not is_ready(piece.transfer):
                            wait_for_all_but(0)
                        begin(piece.transfer)
                    if number >= len(self.buffers):
                        copies.wait_for(number - len(self.buffers))
                    event = self.queue.start_download(self._buffer(number, piece), piece.memory, piece.start)
                    under_way.append(event)
                    if piece.is_last:
                        end(piece.transfer, event)
                    wait_for_all_but(UNDER_WAY)
                wait_for_all_but(0)
            for number in range(max(0, len(pieces) - len(self.buffers)), len(pieces)):
                copies.wait_for(number)

    def _buffer(self, number: int, piece: Piece) -> HostArray:
        return self.buffers[number % len(self.buffers)][: piece.host.nbytes]

    @contextmanager
    def _copies(
        self, transfers: Sequence[Transfer], to_buffer: bool
    ) -> Iterator[tuple[_copies.Copies, Sequence[Piece]]]:
        """The copies of some arrays, under way, and their pieces. At the end no thread copies any more."""
        pieces = _all_pieces(transfers)
        copies = _copies.Copies([piece.host for piece in pieces], self.buffers, to_buffer)
        running = self.copier.submit(partial(copies.run, min(self.threads, max(1, len(pieces)))))
        try:
            yield copies, pieces
        finally:
            copies.stop()  # after an error: nothing is written once the caller has seen it
            running.result()


@contextmanager
def _ended(under_way: deque[Event]) -> Iterator[None]:
    """At the end of the block, wait for these events; after an error too, since their buffers are used again."""
    try:
        yield
    except BaseException:
        for event in under_way:
            with suppress(DeviceError):
                event.wait()
        raise
    for event in under_way:
        event.wait()


def _cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _all_pieces(transfers: Sequence[Transfer]) -> list[Piece]:
    total = sum(array.nbytes for _, array in transfers)
    most = max(LEAST_PIECE_BYTES, min(PIECE_BYTES, total // (2 * MAX_THREADS)))
    found = []
    for number, (memory, array) in enumerate(transfers):
        own = list(_pieces(array, most))
        for i, (host, start) in enumerate(own):
            found.append(Piece(number, memory, host, start, i == 0, i == len(own) - 1))
    return found


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
