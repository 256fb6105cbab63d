"""Large host arrays on their way to a GPU and back, by way of pinned memory.

A driver copies from ordinary memory on one thread, through pinned pieces of its own, and the pages of a new array
are made one by one meanwhile. Here several threads do both at once, each with a pinned piece of its own:

    host array  <- copied by a thread ->  its pinned piece  <- moved by the device ->  device memory
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

Host = npt.NDArray[Any]
Move = Callable[..., Any]  # starts a copy, and returns its event

PIECE_BYTES = 4 << 20
MOST_THREADS = 8
WORTH_BYTES = 2 * PIECE_BYTES  # less is over before the threads have begun


class Staging:
    """Threads with a pinned piece each. One array at a time: whoever moves one holds the lock.

    `pinned`, `send` and `fetch` are those of a queue.
    """

    def __init__(self, pinned: Callable[[int], Host], send: Move, fetch: Move) -> None:
        self.send, self.fetch = send, fetch
        self.lock = threading.Lock()
        self.pieces = [pinned(PIECE_BYTES) for _ in range(min(MOST_THREADS, os.cpu_count() or 1))]
        self.threads = ThreadPoolExecutor(len(self.pieces), thread_name_prefix="gemmlab-staging")

    def upload(self, memory: Any, array: Host) -> None:
        """Host to device."""

        def carry(piece: Host, part: Host, start: int) -> None:
            np.copyto(piece, part)
            self.send(memory, start, piece).wait()

        self._share_out(array, carry)

    def download(self, array: Host, memory: Any) -> None:
        """Device to host."""

        def carry(piece: Host, part: Host, start: int) -> None:
            self.fetch(piece, memory, start).wait()
            np.copyto(part, piece)

        self._share_out(array, carry)

    def _share_out(self, array: Host, carry: Callable[[Host, Host, int], None]) -> None:
        host = array.reshape(-1).view(np.uint8)

        def take_turns(thread: int) -> None:
            for start in range(thread * PIECE_BYTES, host.size, len(self.pieces) * PIECE_BYTES):
                part = host[start : start + PIECE_BYTES]
                carry(self.pieces[thread][: part.size], part, start)

        list(self.threads.map(take_turns, range(len(self.pieces))))
