"""Two ways beside a device's queue: transfers to the device, and transfers from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._gpu.transfers.staging import End, Staging, Transfer, ignore
from gemmlab._process.forks import Pool

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Queue


class Lanes:
    """The lanes of one device, each with a separate queue; and the rates that were measured on them."""

    def __init__(self, queue: Queue) -> None:
        self.queues = queue.sibling(), queue.sibling()
        self.up, self.down = (Staging(lane) if queue.can_stage else Unstaged(lane) for lane in self.queues)
        self.threads = Pool(2, "gemmlab-lane")
        self.lock = threading.RLock()  # held by the product that uses them
        self.transfers: tuple[float, float, float] | None = None
        self.flop: dict[object, float] = {}

    @property
    def failed(self) -> bool:
        """Whether the driver has reported an error on one of the queues."""
        return any(lane.failed for lane in self.queues)


class Unstaged:
    """Transfers without staging buffers, for a runtime that cannot copy to a part of an allocation."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def uploads(self, transfers: Sequence[Transfer], begin: Callable[[int], None] = ignore, end: End = ignore) -> None:
        """As `Staging.uploads`; each has ended when `end` is called."""
        for number, (memory, array) in enumerate(transfers):
            begin(number)
            self.queue.upload(memory, np.ascontiguousarray(array))
            end(number, None)

    def downloads(
        self, transfers: Sequence[Transfer], begin: Callable[[int], None] = ignore, end: End = ignore,
        is_ready: object = None,
    ) -> None:  # fmt: skip
        """As `Staging.downloads`; each has ended when `end` is called."""
        for number, (memory, array) in enumerate(transfers):
            begin(number)
            contiguous = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
            self.queue.download(contiguous, memory)
            if contiguous is not array:
                np.copyto(array, contiguous)
            end(number, None)


_opening = threading.Lock()


def lanes_of(queue: Queue) -> Lanes:
    """The lanes beside a queue, opened at the first call."""
    with _opening:
        if queue.lanes is None:
            queue.lanes = Lanes(queue)
        lanes: Lanes = queue.lanes
        return lanes
