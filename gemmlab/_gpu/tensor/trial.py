"""Whether a device has a matrix unit for a kind of product: it multiplies one small product, or it does not.

Neither a device's name nor what it says of itself tells it, and a compiler may take an instruction that gives zeros.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._errors import GemmlabError
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder.numbers import of_both
from gemmlab._gpu.runtime import Device
from gemmlab._gpu.tensor.async_rung import TENSOR_ASYNC
from gemmlab._gpu.tensor.kinds import TF32
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab._gpu.tensor.unit_rung import Params, UnitRung

RUNGS: dict[str, UnitRung] = {rung.name: rung for rung in (TENSOR, TENSOR_ASYNC)}
M, N, K = 64, 128, 128
PATIENCE = 1 << 16  # tries of a wait: thousands of times as many as it needs
LARGEST = 1  # of the whole numbers that are multiplied: every kind of product is exact, as bfloat16 too


def has_unit(device: Device, kind: str, name: str = TENSOR.name) -> bool:
    """Whether a device multiplies a kind of numbers by the rung of a name."""
    return RUNGS[name].demand(device) is None and failure(device, kind, name) is None


def with_what_works(device: Device, kind: str, rung: UnitRung, params: Params) -> Params:
    """The parameters, with others in place of what a device cannot do that a trial of the rung tells."""
    works = not rung.tried(params) or failure(device, kind, rung.name, **rung.tried(params)) is None
    return params if works else {**params, **rung.instead}


@cache
def failure(device: Device, kind: str, name: str = TENSOR.name, **more: int) -> str | None:
    """Why the unit cannot multiply a kind of numbers by the rung of a name, in half a sentence; None if it can."""
    from gemmlab._gpu import runtime_named

    runtime, rung = runtime_named(device.runtime), RUNGS[name]
    if device not in runtime.devices:
        return "is not here"
    stored, result = of_both(kind)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-LARGEST, LARGEST + 1, shape) for shape in ((M, K), (N, K)))
    expected = as_kept(a @ b.T, result)
    of_c, layouts = Layout(0, N, M * N), [Layout(0, K, M * K), Layout(0, K, N * K, transposed=True)]
    if rung.numbers[kind].itemsize == 2:  # the operands that may lie across k do: that asks more of the unit
        a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
        layouts = [Layout(0, M, M * K, transposed=True), Layout(0, N, N * K)]
    operands, c = [as_kept(x, stored) for x in (a, b)], np.zeros_like(expected)
    try:
        queue = runtime.queue(device).sibling()  # it may fail, and count as failed from then on
        memory = [queue.allocate(x.nbytes) for x in (*operands, c)]
        for place, x in zip(memory, operands, strict=False):
            queue.upload(place, x)
        launches = rung.launches({**rung.smallest, **more}, kind, GemmSize(M, N, K, 1), [*layouts, of_c], device)
        bounded = tuple(replace(one, macros={**one.macros, "PATIENCE": PATIENCE}) for one in launches)
        for event in queue.start(queue.prepared(replace(launches, kernels=bounded)), *memory):
            event.wait()
        queue.download(c, memory[2])
    except GemmlabError as error:
        return f"does not run its matrix unit's instruction for {kind}: {' '.join(str(error).split())[:200]}"
    return None if np.array_equal(c, expected) else f"gets a product of {kind} by its matrix unit wrong"


def as_kept(x: NDArray[np.int64], name: str) -> NDArray[Any]:
    """Whole numbers as the kernel keeps them. NumPy knows bfloat16 only where ml_dtypes is imported: here as bits."""
    if name == "bfloat16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(np.float32 if name == TF32 else name)
