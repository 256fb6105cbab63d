"""Whether a device has a matrix unit for a kind of product: it multiplies one small product, or it does not.

Neither a device's name nor what it says of itself tells it, and a compiler may take an instruction that gives zeros.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gemmlab._errors import GemmlabError
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder.numbers import of_both
from gemmlab._gpu.runtime import Device
from gemmlab._gpu.tensor.kinds import TF32
from gemmlab._gpu.tensor.rung import TENSOR, no_unit

SMALLEST = {
    "tile_x": 32, "tile_y": 16, "warps_x": 1, "warps_y": 1, "step_bytes": 64, "stages": 2, "group_m": 1, "shares": 1,
}  # fmt: skip
M, N, K = 16, 16, 64
LARGEST = 4  # of the whole numbers that are multiplied: every kind of product is exact


def has_unit(device: Device, kind: str) -> bool:
    """Whether a device multiplies a kind of numbers by a matrix unit."""
    return no_unit(device) is None and failure(device, kind) is None


@cache
def failure(device: Device, kind: str) -> str | None:
    """Why the unit cannot multiply a kind of numbers, in half a sentence; None if it can."""
    from gemmlab._gpu import runtime_named

    runtime = runtime_named(device.runtime)
    if device not in runtime.devices:
        return "is not here"
    stored, result = (np.dtype(np.float32 if name == TF32 else name) for name in of_both(kind))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-LARGEST, LARGEST + 1, shape) for shape in ((M, K), (N, K)))
    c = np.zeros((M, N), result)
    layouts = Layout(0, K, M * K), Layout(0, K, N * K, transposed=True), Layout(0, N, M * N)
    try:
        queue = runtime.queue(device).sibling()  # it may fail, and count as failed from then on
        memory = [queue.allocate(x.nbytes) for x in (a.astype(stored), b.astype(stored), c)]
        for place, x in zip(memory, (a, b), strict=False):
            queue.upload(place, x.astype(stored))
        launches = TENSOR.launches(SMALLEST, kind, GemmSize(M, N, K, 1), layouts, device)
        for event in queue.start(queue.prepared(launches), *memory):
            event.wait()
        queue.download(c, memory[2])
    except GemmlabError as error:
        return f"does not run its matrix unit's instruction for {kind}: {' '.join(str(error).split())[:200]}"
    if not np.array_equal(c.astype(np.int64), (a @ b.T).astype(result).astype(np.int64)):
        return f"gets a product of {kind} by its matrix unit wrong"
    return None
