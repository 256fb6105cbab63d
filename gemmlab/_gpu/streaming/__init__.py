"""Large products of host arrays on a device, in tiles: transfers in both directions beside the work.

    tiles.py       the shape of the tiles, from a model of the time
    rates.py       what the model needs, measured: how fast the device multiplies, and the transfers
    lanes.py       the two ways beside the device's queue
    pipeline.py    the work: three queues, and memory for tiles that is used in turn

A product is streamed if it does not fit the device's memory, or `gemmlab.config.device_memory`, and, on a GPU, if it is
large enough for the overlap to pay. Every tile of C is computed with all of k where that fits, so that a rung gives the
bits that it gives in one piece.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gemmlab._config import config
from gemmlab._errors import DeviceError
from gemmlab._gpu.streaming.pipeline import Pipeline, steps_of
from gemmlab._gpu.streaming.rates import rates_of
from gemmlab._gpu.streaming.tiles import Size, Tiles, choose
from gemmlab._problem import sums_of
from gemmlab._process.forks import is_ending

if TYPE_CHECKING:
    from gemmlab._backend import Params
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Event, HostArray, Queue
    from gemmlab._problem import Problem

__all__ = ["forecast", "is_wanted", "largest_bytes", "limit_bytes", "multiply", "predicted_s"]

OVERLAP_PAYS_BYTES = 64 << 20  # of a GPU; below, one transfer after the other takes no longer
FREE_SHARE = 0.9  # of the free memory: drivers and other programs need some, too
HALVINGS = 4
LIMIT_STEP = 64 << 20
ROUNDED_UP = 16  # pyopencl's pool rounds up by less than a sixteenth


def is_wanted(queue: Queue, problem: Problem) -> bool:
    """Whether a product of host arrays goes through the device in tiles."""
    sizes = [_distinct_bytes(x) for x in (problem.a, problem.b, problem.out)]
    is_large = sum(sizes) >= OVERLAP_PAYS_BYTES
    if max(sizes) > largest_bytes(queue) or sum(sizes) > queue.device.memory_bytes:
        return True
    if (is_large or config.device_memory is not None) and sum(sizes) > limit_bytes(queue):  # which takes time to ask
        return True
    return is_large and queue.device.kind == "gpu" and queue.can_stage and not is_ending()


def multiply(backend: DeviceBackend, queue: Queue, problem: Problem, params: Params) -> list[Event]:
    """Fill `problem.out`; returns the events of the work. DeviceError if not even the smallest tiles fit."""
    if is_ending():
        raise DeviceError(
            f"this product needs tiles on {queue.device.label}, and threads for them, which a program that is ending "
            "does not get: multiply before its main thread ends"
        )
    limit = limit_bytes(queue)
    for halvings in range(HALVINGS + 1):
        tiles = _tiles(backend, queue, problem, params, limit >> halvings)
        try:
            pipeline = Pipeline(backend, queue, params, problem.dtype, tiles)
            break
        except DeviceError:  # other programs use the device, too
            if halvings == HALVINGS or config.device_memory is not None:
                raise
    return pipeline.run(list(steps_of(problem.a, problem.b, problem.out, tiles)))


def forecast(backend: DeviceBackend, queue: Queue, problem: Problem, params: Params) -> str:
    """The tiles and the predicted time, as the end of a sentence. Measures the device at the first call."""
    tiles = _tiles(backend, queue, problem, params, limit_bytes(queue))
    rows, columns, blocks = tiles.panels
    what = f"{rows} x {columns} tiles of {tiles.m} x {tiles.n}" + f", {blocks} blocks of k" * (blocks > 1)
    if tiles.group > 1:
        what = f"{tiles.group} products at a time"
    return f"streamed: {what}, {tiles.nbytes / 1e9:.3g} GB on the device, about {_seconds(tiles, problem):.2g} s"


def predicted_s(backend: DeviceBackend, queue: Queue, problem: Problem, params: Params) -> float:
    """The predicted seconds of a streamed product."""
    return _seconds(_tiles(backend, queue, problem, params, limit_bytes(queue)), problem)


def _seconds(tiles: Tiles, problem: Problem) -> float:
    return float(tiles.seconds * math.prod(problem.out.shape[:-3]))


def _tiles(backend: DeviceBackend, queue: Queue, problem: Problem, params: Params, limit: int) -> Tiles:
    batch = problem.out.shape[-3] if problem.out.ndim > 2 else 1
    size = Size(
        batch, problem.m, problem.n, problem.k, problem.dtype.itemsize, sums_of(problem.dtype) == problem.dtype
    )  # fmt: skip
    rates = rates_of(backend, queue, problem.dtype.name, params)
    all_of_it = 2 * sum(_distinct_bytes(x) for x in (problem.a, problem.b, problem.out))
    limit = min(limit // LIMIT_STEP * LIMIT_STEP or limit, all_of_it)  # so that the next call has the same
    return choose(size, limit - limit // ROUNDED_UP, largest_bytes(queue), rates)


def largest_bytes(queue: Queue) -> int:
    """The largest allocation: a little less than the device's, since pools of memory round up."""
    return queue.device.allocation_bytes - queue.device.allocation_bytes // ROUNDED_UP


def limit_bytes(queue: Queue) -> int:
    """The bytes that a product may take on the device."""
    free = int(FREE_SHARE * queue.free_bytes())
    return free if config.device_memory is None else min(free, config.device_memory)


def _distinct_bytes(x: HostArray) -> int:
    """The bytes of the matrices of a batch, without the repetitions that broadcasting made."""
    return int(math.prod(count for count, stride in zip(x.shape, x.strides, strict=True) if stride) * x.itemsize)
