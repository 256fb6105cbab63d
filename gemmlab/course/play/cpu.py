"""A page for each CPU rung that plays a small product: what is touched, what each cache holds, what is moved.

A rung's loops go into the page as data (`_cpu/rungs/traffic.py`), and `replay.js` runs them as
`roofline/replay.h` does; the accesses of `cpu-packed` are recorded from its compiled loops. The models are evaluated
here, for each choice that the page has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from gemmlab import _registry
from gemmlab._cpu.rungs.traffic import ABOVE, LINE, Access, Loop
from gemmlab._problem import Problem
from gemmlab.course.play.page import page_of
from gemmlab.course.rungs import Rung
from gemmlab.roofline.simulation import LOOPS, recorded, registers

DTYPE = "float32"
SIZES = (8, 16, 24, 32, 48)
BLOCKS = {"bs_r": (4, 8, 16), "bs_c": (8, 16, 32), "bs_k": (4, 8, 16)}
PADS = (0, 1, 16)
WAYS = {"L1": 4, "L2": 8, "L3": 16}
CACHES = {"L1": (512, 1024, 2048), "L2": (4096, 8192), "L3": (32768,)}  # bytes
SHOWN = ("A, by rows", "B, by rows", "C, by rows")
COPIES = ("the copy of a block of A, in panels", "the copy of a block of B, in panels")
WHAT = {
    True: "The rung's loops run here on small caches, without their numbers, on one thread.",
    False: "These are the accesses that the compiled kernel made on this machine, on one thread.",
}


def moving_picture(rung: Rung) -> str:
    """The page of a CPU rung: it needs no other file, and no network."""
    nest = LOOPS.get(rung.page)
    titles = (*SHOWN, *(COPIES if nest and _copies(nest) else ()))
    scripts = "replay", "controls", "cpu"
    return page_of("cpu", rung, data_of(rung), scripts, what=WHAT[nest is not None], areas=list(enumerate(titles)))


def data_of(rung: Rung) -> dict[str, Any]:
    """What the page knows of its rung: loops or recorded accesses, the choices, and the model's bytes for each."""
    nest = LOOPS.get(rung.page)
    blocks = {name: BLOCKS[name] for name in BLOCKS if name in {param.name for param in rung.params}} if nest else {}
    machine = dict(zip(("tile_rows", "tile_bytes", "strip_bytes"), registers(), strict=True))
    machine["number_bytes"] = np.dtype(DTYPE).itemsize
    caches = {name: [[nbytes, nbytes // LINE // WAYS[name], WAYS[name]] for nbytes in sizes]
              for name, sizes in CACHES.items()}  # fmt: skip
    return {
        "nest": None if nest is None else _as_data(nest), "machine": machine, "sizes": SIZES, "blocks": blocks,
        "pads": PADS, "caches": caches, "model": dict(_models(rung, blocks)),
        "recorded": {} if nest else {n: _recorded(n) for n in SIZES},
    }  # fmt: skip


def _as_data(one: Loop | Access) -> dict[str, Any]:
    made = asdict(one)
    return made | {"body": [_as_data(each) for each in one.body]} if isinstance(one, Loop) else made


def _copies(one: Loop | Access) -> bool:
    """Whether a rung copies a block."""
    return any(map(_copies, one.body)) if isinstance(one, Loop) else one.packed


def _models(rung: Rung, blocks: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, list[float]]]:
    """The bytes that each cache moves by the model, for each choice of the page."""
    backend = _registry.get(rung.page)
    for n in SIZES:
        problem = Problem.from_call(np.empty((n, n), DTYPE), np.empty((n, n), DTYPE))
        for chosen in product(*blocks.values()):
            for (i, l1), (j, l2) in product(enumerate(CACHES["L1"]), enumerate(CACHES["L2"])):
                sizes = {"L1": l1, "L2": l2, "L3": CACHES["L3"][0]}
                moved = backend.traffic(problem, sizes, **dict(zip(blocks, chosen, strict=True)))
                yield ",".join(map(str, (n, *chosen, i, j))), [moved[level] for level in ABOVE]


def _recorded(n: int) -> dict[str, Any]:
    accesses, workspace = recorded(n, n, n, DTYPE, {})
    return {"accesses": [int(x) for access in accesses for x in access], "workspace_lines": -(-workspace // LINE)}
