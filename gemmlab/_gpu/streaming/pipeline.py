"""A product of host arrays in tiles: the work on one queue, the transfers beside it.

Three threads take the tiles in the same order:

    transfers to the device     waits until the slot is free: the work that read it last is done
    work (the caller)           waits until the tiles of A and B are there, and the slot of C is free
    transfers to the host       waits until the last block of k has been added

A slot is memory on the device for one tile. Every wait is for work that began earlier, so none waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._backend import Params
from gemmlab._errors import DeviceError
from gemmlab._gpu.batches import Operand
from gemmlab._gpu.rungs import C_TYPE, kernel_text
from gemmlab._gpu.streaming.lanes import lanes_of
from gemmlab._gpu.streaming.tiles import Tiles

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Event, HostArray, Memory, Queue

ADD_GROUP = 256
UP, DOWN = 0, 1


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


class Pipeline:
    """One streamed product."""

    def __init__(self, backend: DeviceBackend, queue: Queue, params: Params, dtype: np.dtype[np.generic], tiles: Tiles):
        self.backend, self.queue, self.params, self.dtype, self.tiles = backend, queue, params, dtype, tiles
        self.lanes = lanes_of(queue)
        item, t = dtype.itemsize * tiles.group, tiles
        self.a = Slots(queue, t.a_slots, t.m * t.k * item)
        self.b = Slots(queue, t.b_slots, t.k * t.n * item)
        self.c = [queue.allocate(t.m * t.n * item) for _ in range(t.c_slots)]
        self.transfers: list[Future[None]] = []
        self.partial = queue.allocate(t.m * t.n * item) if t.k < t.size.k else None

    def run(self, steps: Sequence[Step]) -> list[Event]:
        """Compute all steps; returns the events of the work."""
        started: list[Future[Event]] = [Future() for _ in steps]
        with self.lanes.lock:
            try:
                places = self._uploads(steps, started)
                return self._work(steps, places, started)
            except BaseException:
                for step in started:  # what waits for work that will not be started goes on, and ends
                    with suppress(InvalidStateError):
                        step.set_exception(DeviceError("the product was ended"))
                raise
            finally:
                for transfer in self.transfers:
                    transfer.cancel()
                wait(self.transfers)
                self.queue.failed |= self.lanes.failed

    def _submit(self, direction: int, work: Callable[..., None], *arguments: object) -> Future[None]:
        transfer = self.lanes.threads[direction].submit(work, *arguments)
        self.transfers.append(transfer)
        return transfer

    def _uploads(
        self, steps: Sequence[Step], started: Sequence[Future[Event]]
    ) -> list[tuple[Memory, Future[None], Memory, Future[None]]]:
        """Submit all transfers to the device; the memory and the transfer of each step's tiles of A and B."""
        last_use: dict[tuple[int, int], int] = {}  # of a slot of an operand: the last step that reads it
        transfers: dict[tuple[int, int], Future[None]] = {}
        places = []
        for number, step in enumerate(steps):
            found: list[object] = []
            for which, (slots, tile) in enumerate(((self.a, step.a), (self.b, step.b))):
                slot, there = slots.place((tile.__array_interface__["data"][0], tile.shape))
                if not there:
                    before = started[last_use[which, slot]] if (which, slot) in last_use else None
                    transfers[which, slot] = self._submit(UP, self._upload, slots.memories[slot], tile, before)
                last_use[which, slot] = number
                found += [slots.memories[slot], transfers[which, slot]]
            places.append(tuple(found))
        return places  # type: ignore[return-value]

    def _upload(self, memory: Memory, tile: HostArray, before: Future[Event] | None) -> None:
        if before is not None:
            before.result().wait()
        self.lanes.up.upload(memory, tile)

    def _download(self, tile: HostArray, memory: Memory, after: Event) -> None:
        after.wait()
        self.lanes.down.download(tile, memory)

    def _work(
        self, steps: Sequence[Step], places: Sequence[tuple[Memory, Future[None], Memory, Future[None]]],
        started: Sequence[Future[Event]],
    ) -> list[Event]:  # fmt: skip
        events: list[Event] = []
        downloads: list[Future[None]] = []
        for step, (a, a_is_there, b, b_is_there), start in zip(steps, places, started, strict=True):
            if step.first and len(downloads) >= len(self.c):
                downloads[-len(self.c)].result()  # then its slot is free
            a_is_there.result()
            b_is_there.result()
            c = self.c[len(downloads) % len(self.c)]
            events += self._multiply(step, a, b, c if step.first or self.partial is None else self.partial)
            if not step.first:
                events.append(self._add(c, step.c.size))
            start.set_result(events[-1])
            if step.last:
                downloads.append(self._submit(DOWN, self._download, step.c, c, events[-1]))
        for done in downloads:
            done.result()
        return events

    def _multiply(self, step: Step, a: Memory, b: Memory, c: Memory) -> list[Event]:
        from gemmlab._gpu.backend import GemmSize

        count, m, n = step.c.shape
        k = step.a.shape[-1]

        def operand(memory: Memory, tile: HostArray) -> Operand:
            _, rows, columns = tile.shape
            return Operand(memory, 0, columns, 0 if len(tile) == 1 else rows * columns)

        x, y, z = operand(a, step.a), operand(b, step.b), operand(c, step.c)
        most = self.backend.max_rows(self.params)
        return [
            self.backend.multiply(
                self.queue, self.params, self.dtype.name, GemmSize(min(most, m - i), n, k, count), x.skip(rows=i), y,
                z.skip(rows=i),
            )
            for i in range(0, m, most)
        ]  # fmt: skip

    def _add(self, c: Memory, count: int) -> Event:
        """Add the product of one block of k to the tile."""
        kernel = self.queue.kernel(kernel_text("add.cl"), "add", {"REAL": C_TYPE[self.dtype.name]})
        groups = -(-count // ADD_GROUP), 1, 1
        return self.queue.launch(kernel, groups, (ADD_GROUP, 1, 1), [c, self.partial, np.int64(count)])
