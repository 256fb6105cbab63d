"""What a prediction takes from the device itself and never from another: its memory, and what a launch takes.

Both are of copies one after another: small ones take as long as a launch, large ones as their bytes.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import NamedTuple

from gemmlab._errors import GemmlabError
from gemmlab._gpu.batches import Layout
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import Launches, Place, copies
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Device, Memory, Queue

LARGE = 64 << 20  # bytes: beyond L2, and its copy besides
SMALL = 1 << 10
COUNT = 20  # copies one after another
COLUMNS = 256  # of the matrices that are copied
TIMES = 5
TEXT = "common/copy.cl"  # which copies
LEAST_S = 1e-9
SLOW_LAUNCH_S = 10e-6  # of a device that could not be asked


class Rates(NamedTuple):
    """The bytes per second that memory moves, and the seconds that a launch takes after another."""

    memory: float = math.inf
    launch_s: float = SLOW_LAUNCH_S


_known: dict[Device, Rates] = {}


def rates_of(queue: Queue) -> Rates:
    """Those of the device of a queue; probed at the first call."""
    if queue.device not in _known:
        _known[queue.device] = probed(queue)
    return _known[queue.device]


def probed(queue: Queue) -> Rates:
    """Those of a device, measured once on a machine: they choose parameters, on which the bits of a sum may depend.

    The defaults, and nothing is kept, where it cannot be asked, as without free memory.
    """
    text = kernel_text(TEXT)
    entry = queue.cached(text, repr((SMALL, LARGE, COUNT)), "rates")
    if entry is not None and (kept := entry.load()) is not None:
        return Rates(*map(float, kept.split()))
    try:
        own = queue.sibling()
        launch_s = _copy_s(own, SMALL)
        found = Rates(2 * LARGE / max(_copy_s(own, LARGE) - launch_s, LEAST_S), launch_s)
    except (GemmlabError, NotImplementedError):
        return Rates()
    if entry is not None:
        entry.store(" ".join(map(repr, found)).encode())
    return found


def _copy_s(queue: Queue, nbytes: int) -> float:
    """Seconds of one copy among others."""
    source, target = queue.allocate(nbytes), queue.allocate(nbytes)
    sides = [(place, Layout(0, COLUMNS, 0), 1) for place in (Place.A, Place.B)]
    copy = tuple(copies(4, (1, nbytes // 4 // COLUMNS, COLUMNS), *sides))
    once, often = (_seconds(queue, queue.prepared(Launches(count * copy)), source, target) for count in (1, 1 + COUNT))
    return max(0.0, often - once) / COUNT


def _seconds(queue: Queue, work: Prepared, source: Memory, target: Memory) -> float:
    """The least of some times, the first of which is not counted: memory is touched in it."""
    times = []
    for _ in range(TIMES):
        start = perf_counter()
        queue.start(work, source, target, target)[-1].wait()
        times.append(perf_counter() - start)
    return min(times[1:])
