"""A product of host arrays in tiles: the work on one queue, the transfers on two others beside it.

Three threads submit it, in the same order of tiles:

    transfers to the device     a tile follows the work that read its slot last
    work (the caller)           follows the transfers of its tiles of A and B, and the transfer from the slot of C
    transfers to the host       a tile follows the work that added its last block of k

A slot is memory on the device for one tile. The queues wait for each other on the device, where the runtime can that;
the threads wait only until what their queue is to wait for has been submitted. That is always work on an earlier tile,
so none waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab._backend import Params
from gemmlab._errors import DeviceError
from gemmlab._gpu.batches import GemmSize, Operand
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.numbers import NUMBERS
from gemmlab._gpu.streaming.lanes import lanes_of
from gemmlab._gpu.streaming.tiles import Tiles

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

ADD_GROUP = 256


@dataclass(frozen=True)
class Step:
    """One tile of C and one block of k: views of the host's arrays. `first` and `last` say which block of k."""

    a: HostArray
    b: HostArray
    c: HostArray
    first: bool
    last: bool


class Slots:
    """Memory for tiles of one operand. The tile that was used least recently makes room for a new one."""

    def __init__(self, queue: Queue, count: int, nbytes: int) -> None:
        self.memories = [queue.allocate(nbytes) for _ in range(count)]
        self.used: dict[object, int] = {}  # the slot of each tile that is there, the one used last at the end

    def place(self, key: object) -> tuple[int, bool]:
        """The slot of a tile, and whether the tile is there already."""
        there = key in self.used
        if there:
            slot = self.used.pop(key)
        elif len(self.used) < len(self.memories):
            slot = len(self.used)
        else:
            slot = self.used.pop(next(iter(self.used)))
        self.used[key] = slot
        return slot, there


def steps_of(a: HostArray, b: HostArray, c: HostArray, tiles: Tiles) -> Iterator[Step]:
    """The steps of a batch of products, in the order of `tiles`."""
    for product in _products(a, b, c, tiles.group):
        x, y, z = product
        for i, j, p in tiles.steps():
            extents = zip((i, j, p), (tiles.m, tiles.n, tiles.k), strict=True)
            rows, columns, ks = (slice(at * extent, (at + 1) * extent) for at, extent in extents)
            last = (p + 1) * tiles.k >= x.shape[-1]
            yield Step(x[..., rows, ks], y[..., ks, columns], z[..., rows, columns], p == 0, last)


def _products(
    a: HostArray, b: HostArray, c: HostArray, group: int
) -> Iterator[tuple[HostArray, HostArray, HostArray]]:
    """The batch in groups along its last leading axis; an operand that is the same for a whole group is there once."""
    if c.ndim == 2:
        yield a[None], b[None], c[None]
        return
    for index in np.ndindex(c.shape[:-3]):
        for first in range(0, c.shape[-3], group):
            some = slice(first, first + group)
            x, y, z = a[index][some], b[index][some], c[index][some]
            yield x[:1] if x.strides[0] == 0 else x, y[:1] if y.strides[0] == 0 else y, z


@dataclass
class Series:
    """The transfers of one direction: memory and tile of each, and the event with which it will end."""

    transfers: list[tuple[Memory, HostArray]] = field(default_factory=list)
    ends: list[Future[Event | None]] = field(default_factory=list)

    def add(self, memory: Memory, tile: HostArray) -> int:
        """The number of a new transfer."""
        self.transfers.append((memory, tile))
        self.ends.append(Future())
        return len(self.ends) - 1

    def end(self, number: int, event: Event | None) -> None:
        """A transfer has been submitted, or, without an event, has ended."""
        self.ends[number].set_result(event)


class Pipeline:
    """One streamed product."""

    def __init__(self, backend: DeviceBackend, queue: Queue, params: Params, dtype: np.dtype[np.generic], tiles: Tiles):
        self.backend, self.queue, self.params, self.dtype, self.tiles = backend, queue, params, dtype, tiles
        self.lanes = lanes_of(queue)
        item, t = dtype.itemsize * tiles.group, tiles
        self.a = Slots(queue, t.a_slots, t.m * t.k * item)
        self.b = Slots(queue, t.b_slots, t.k * t.n * item)
        self.c = [queue.allocate(t.m * t.n * item) for _ in range(t.c_slots)]
        self.partial = queue.allocate(t.m * t.n * item) if t.k < t.size.k else None
        self.up, self.down = Series(), Series()
        self.work: list[Future[Event]] = []  # the last event of each step
        self.failure: BaseException | None = None

    def run(self, steps: Sequence[Step]) -> list[Event]:
        """Compute all steps; returns the events of the work."""
        self.work = [Future() for _ in steps]
        needs, followed = self._planned(steps)
        last = [number for number, step in enumerate(steps) if step.last]
        up_lane, down_lane = self.lanes.queues

        def begin_upload(number: int) -> None:
            if (step := followed[number]) is not None:
                up_lane.after(self.work[step].result())

        def begin_download(number: int) -> None:
            down_lane.after(self.work[last[number]].result())

        def is_computed(number: int) -> bool:
            return self.work[last[number]].done()

        with self.lanes.lock:
            if (earlier := self.queue.marker()) is not None:  # a pool may give memory that earlier work still uses
                for lane_queue in self.lanes.queues:
                    lane_queue.after(earlier)
            lanes = [
                self._lane(self.lanes.up.uploads, self.up.transfers, begin_upload, self.up.end),
                self._lane(self.lanes.down.downloads, self.down.transfers, begin_download, self.down.end, is_computed),
            ]
            events: list[Event] = []
            try:
                events = self._submit(steps, needs)
            except BaseException as error:
                self._fail(error)
            self._wait_for(lanes)
            self.queue.failed |= self.lanes.failed
            if self.failure is not None:
                self._drain()
                raise self.failure
            return events

    def _wait_for(self, lanes: Sequence[Future[None]]) -> None:
        """Wait for both; at Ctrl-C too, since they write into the caller's array."""
        while True:
            try:
                wait(lanes)
                return
            except BaseException as error:
                self._fail(error)

    def _drain(self) -> None:
        """Wait for the work that was submitted: the next product gets its memory."""
        submitted = [step for step in self.work if step.done() and step.exception() is None]
        for step in submitted[-1:]:
            with suppress(DeviceError):
                step.result().wait()

    def _planned(self, steps: Sequence[Step]) -> tuple[list[tuple[int, int]], list[int | None]]:
        """Fill the series. For each step its two transfers; for each transfer the step that it follows."""
        last_reader: dict[tuple[int, int], int] = {}  # by operand and slot
        current: dict[tuple[int, int], int] = {}  # the transfer that filled it
        needs, followed = [], []
        for number, step in enumerate(steps):
            both = []
            for which, (slots, tile) in enumerate(((self.a, step.a), (self.b, step.b))):
                slot, there = slots.place((tile.__array_interface__["data"][0], tile.shape))
                if not there:
                    current[which, slot] = self.up.add(slots.memories[slot], tile)
                    followed.append(last_reader.get((which, slot)))
                last_reader[which, slot] = number
                both.append(current[which, slot])
            needs.append((both[0], both[1]))
            if step.last:
                self.down.add(self.c[len(self.down.ends) % len(self.c)], step.c)
        return needs, followed

    def _lane(self, transfer: Callable[..., None], *arguments: object) -> Future[None]:
        def run() -> None:
            try:
                transfer(*arguments)
            except BaseException as error:
                self._fail(error)

        return self.lanes.threads.submit(run)

    def _fail(self, error: BaseException) -> None:
        """Every wait for what will not come ends with the error; the caller gets the first."""
        self.failure = self.failure or error
        every: list[Future[Any]] = [*self.work, *self.up.ends, *self.down.ends]
        for awaited in every:
            with suppress(InvalidStateError):
                awaited.set_exception(error)

    def _submit(self, steps: Sequence[Step], needs: Sequence[tuple[int, int]]) -> list[Event]:
        events: list[Event] = []
        followed: set[Future[Event | None]] = set()
        tile = 0

        def follow(end: Future[Event | None]) -> None:
            if end not in followed and (event := end.result()) is not None:
                self.queue.after(event)
            followed.add(end)

        for number, (step, (a, b)) in enumerate(zip(steps, needs, strict=True)):
            follow(self.up.ends[a])
            follow(self.up.ends[b])
            if step.first and tile >= len(self.c):
                follow(self.down.ends[tile - len(self.c)])
            c = self.c[tile % len(self.c)]
            target = c if step.first or self.partial is None else self.partial
            events += self._multiply(step, self.up.transfers[a][0], self.up.transfers[b][0], target)
            if not step.first:
                events.append(self._add(c, step.c.size))
            self.work[number].set_result(events[-1])
            tile += step.last
        return events

    def _multiply(self, step: Step, a: Memory, b: Memory, c: Memory) -> list[Event]:
        count, m, n = step.c.shape
        k = step.a.shape[-1]

        def operand(memory: Memory, tile: HostArray) -> Operand:
            _, rows, columns = tile.shape
            return Operand(memory, 0, columns, 0 if len(tile) == 1 else rows * columns, is_tile=True)

        x, y, z = operand(a, step.a), operand(b, step.b), operand(c, step.c)
        size = GemmSize(m, n, k, count)
        return [*self.backend.multiply(self.queue, self.params, self.dtype.name, size, x, y, z).events]

    def _add(self, c: Memory, count: int) -> Event:
        """Add the product of one block of k to the tile."""
        kernel = self.queue.kernel(kernel_text("common/add.cl"), "add", {"REAL": NUMBERS[self.dtype.name].c_type})
        groups = -(-count // ADD_GROUP), 1, 1
        return self.queue.launch(kernel, groups, (ADD_GROUP, 1, 1), [c, self.partial, np.int64(count)])
