"""How fast the matrix unit of a GPU is: products of small matrices, by each kind of instruction that the device has.

    unit.cl     the loops: of a warp from registers (mma.sync), of a warpgroup from local memory (wgmma)

TF32 has no ceiling of its own: a record of a float32 product does not say in its dtype that it was rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gemmlab._gpu.kernels import kernel_text, with_header
from gemmlab._gpu.ladder.rung import Defines
from gemmlab._gpu.plans.launches import Launch, Launches, Place
from gemmlab._gpu.runtime import Device
from gemmlab._gpu.tensor import trial
from gemmlab._gpu.tensor.async_rung import TENSOR_ASYNC
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab._gpu.tensor.unit_rung import WARP

KINDS = ("float16", "bfloat16", "int8", "float64")
CHAINS = 8
PACKAGE = "gemmlab.roofline"
OF_WARPS = 16 * 8  # elements of C of one product of a warp
ALONG_K: Defines = {"A_ALONG_K": 1, "B_ALONG_K": 1, "PAIRS": 0, "EVEN_WAVES": 0}


def kinds_of(device: Device) -> tuple[str, ...]:
    """The kinds of numbers that a device multiplies by a matrix unit."""
    return tuple(kind for kind in KINDS if trial.has_unit(device, kind))


def loops(device: Device, kind: str, groups: int) -> Iterator[tuple[Launches, int]]:
    """Each loop for a kind of numbers by so many work-groups, and the flop of one step; A's place is the results'."""
    capability: Defines = {"CAPABILITY": device.compute_capability or 0}
    yield _of_warps(kind, groups, capability)
    if kind in TENSOR_ASYNC.numbers and trial.failure(device, kind, TENSOR_ASYNC.name) is None:
        yield _of_warpgroups(kind, groups, capability)


def with_steps(loop: Launches, steps: int) -> Launches:
    """A loop of so many steps."""
    (launch,) = loop.kernels
    return Launches((replace(launch, arguments=(np.int32(steps), *launch.arguments[1:])),))


def _of_warps(kind: str, groups: int, macros: Defines) -> tuple[Launches, int]:
    params = TENSOR.resolve({}, "gpu")
    (items, _), numbers = TENSOR.group(params), TENSOR.numbers[kind]
    depth = 8 * max(1, 4 // numbers.itemsize)  # eight parts of k, each of 4 bytes or a double
    macros = TENSOR.defines(params, kind) | ALONG_K | macros | {"CHAINS": CHAINS}
    launch = _loop("multiply_adds", ("units/units.h",), macros, groups, items)
    return Launches((launch,)), 2 * OF_WARPS * depth * CHAINS * items // WARP * groups


def _of_warpgroups(kind: str, groups: int, macros: Defines) -> tuple[Launches, int]:
    params = TENSOR_ASYNC.resolve({}, "gpu")
    columns, rows = TENSOR_ASYNC.block_of(params, kind)
    items = 2 * rows  # no warpgroup copies
    macros = TENSOR_ASYNC.defines(params, kind) | ALONG_K | macros | {"GROUP_X": items}
    launch = _loop("multiply_tiles", TENSOR_ASYNC.texts[1:-1], macros, groups, items)
    flop = 2 * rows * columns * int(macros["STEP_K"]) * groups
    return Launches((replace(launch, local_bytes=TENSOR_ASYNC.local_bytes({**params, "stages": 1}, kind)),)), flop


def _loop(name: str, texts: tuple[str, ...], macros: Defines, groups: int, items: int) -> Launch:
    text = with_header(*texts) + kernel_text("unit.cl", PACKAGE)
    return Launch(text, name, macros, (groups, 1, 1), (items, 1, 1), (np.int32(0), Place.A))
