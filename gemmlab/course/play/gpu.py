"""A page for each GPU rung that plays a small product: what each warp asks for, the banks of local memory, the waves.

The kernel's own text goes into the page as data (`program.py`), and `program.js` runs it. Work-groups, blocks and the
modelled bytes are evaluated here, for each choice that the page has.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from gemmlab._gpu.ladder.rung import Rung as Kernel
from gemmlab._gpu.ladder.rung import launch_without_device
from gemmlab._gpu.ladder.rungs import RUNGS
from gemmlab._gpu.plans.launches import Launch
from gemmlab.course.play.page import page_of
from gemmlab.course.play.program import NUMBER_BYTES, program_of
from gemmlab.course.rungs import Rung

DTYPE = "float32"
SIZES = (16, 24, 32, 48, 64)
PADS = (0, 1, 4)
KERNELS = {f"gpu-{rung.name}": rung for rung in RUNGS}
# Values that a page offers, all of which go together. What is left out changes no access, or stays as in FIXED.
CHOICES: dict[str, tuple[int, ...]] = {
    "group_x": (4, 16, 32), "group_y": (1, 4, 8), "tile_x": (1, 2, 4, 8), "tile_y": (1, 2, 4, 8), "length": (1, 2, 4),
    "tile": (8, 16, 32), "per_item": (2, 4, 8), "tile_k": (8, 16, 32), "warp_y": (2, 4, 8), "warps_x": (1, 2),
    "warps_y": (1, 2), "step_k": (4, 8), "buffers": (1, 2), "pad": (0, 4), "group_m": (1, 4),
}  # fmt: skip
CHOICES_OF: dict[str, dict[str, tuple[int, ...]]] = {
    "local": {"tile_x": (8, 16, 32), "tile_y": (4, 8, 16)},
    "tuned": {"tile_x": (4, 8), "tile_y": (4, 8)},
}
FIXED = {"quads": 0, "serpentine": 0, "shares": 1, "vector_bytes": 16, "unroll": 1}
IN_THE_TEXT = ("QUADS", "EVEN_WAVES", "WIDE")  # macros in conditions of the preprocessor, and in the names of types


def moving_picture(rung: Rung) -> str:
    """The page of a GPU rung: it needs no other file, and no network."""
    return page_of("gpu", rung, data_of(rung), ("program", "controls", "gpu"), areas=list(enumerate("ABC")))


def data_of(rung: Rung) -> dict[str, Any]:
    """What the page knows of its rung: the program, the choices, and what follows from each."""
    kernel = KERNELS[rung.page]
    names = {**CHOICES, **CHOICES_OF.get(kernel.name, {})}
    parameters = {param.name: names[param.name] for param in rung.params if param.name not in FIXED}
    combinations = [dict(zip(parameters, chosen, strict=True)) for chosen in product(*parameters.values())]
    usual = launch_of(kernel, combinations[0], SIZES[0], 0)
    return {
        "program": program_of(kernel.text, {name: usual.macros[name] for name in IN_THE_TEXT if name in usual.macros}),
        "parameters": parameters, "sizes": SIZES, "pads": PADS, "bytes": NUMBER_BYTES,
        "constants": {name: value for name, value in usual.macros.items() if isinstance(value, int)},
        "layouts": {f"{n},{pad}": _layout_macros(kernel, combinations[0], n, pad) for n in SIZES for pad in PADS},
        "linear": launch_of(kernel, combinations[0], 4 * max(SIZES), 0).groups[1] == 1,
        "shapes": {_key(one): [*kernel.group(_all(kernel, one)), *kernel.block(_all(kernel, one))]
                   for one in combinations},
        "model": {_key(one): [_modelled(kernel, one, n) for n in SIZES] for one in combinations},
    }  # fmt: skip


def launch_of(kernel: Kernel, chosen: Mapping[str, int], n: int, pad: int) -> Launch:
    """The launch of a product of n x n matrices, whose rows are `pad` numbers longer than that."""
    return launch_without_device(kernel, _all(kernel, chosen), DTYPE, n, pad)


def _all(kernel: Kernel, chosen: Mapping[str, int]) -> dict[str, int]:
    usual = kernel.defaults["gpu"]
    return {**usual, **{name: x for name, x in {**FIXED, **chosen}.items() if name in usual}}


def _layout_macros(kernel: Kernel, chosen: Mapping[str, int], n: int, pad: int) -> dict[str, int]:
    """Macros that say how operands lie in memory."""
    others = kernel.defines(_all(kernel, chosen), DTYPE)
    macros = launch_of(kernel, chosen, n, pad).macros.items()
    return {name: value for name, value in macros if name not in others and isinstance(value, int)}


def _key(chosen: Mapping[str, int]) -> str:
    return ",".join(map(str, chosen.values()))


def _modelled(kernel: Kernel, chosen: Mapping[str, int], n: int) -> list[float]:
    """Bytes of global and of local memory by the model."""
    elements = kernel.model(n, n, n, _all(kernel, chosen))
    return [round(NUMBER_BYTES * elements.get(level, 0)) for level in ("l1", "local")]
