"""A GPU rung with one of its ideas less at a time, on squares and on a small C with a long k.

The label of a record is what its configuration lacks. "nothing" is the configuration that the rung takes for the
product on the device by itself, its fastest of `gemmlab tune`, or its defaults. All others
differ from it by one idea. An idea that it does not use is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

import gemmlab
from gemmlab._problem import Problem
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record
from gemmlab.measure.session import Session, Settings
from gemmlab.studies import isolated
from gemmlab.studies.study import rung_of

if TYPE_CHECKING:
    from gemmlab._gpu.backend import RungBackend
    from gemmlab.studies.engine import Task

Configuration: TypeAlias = dict[str, int]
NOTHING = "nothing"
DEEPER = 16  # C of the deep product has so many times fewer rows and columns than the square, and k is as much longer
CAP_S, QUICK_CAP_S = 5.0, 1.0

Ideas: TypeAlias = Mapping[str, Callable[[Configuration], Configuration]]

# What changes if an idea is left out, by rung and kind of device.
WITHOUT: Mapping[str, Mapping[str, Ideas]] = {
    "tuned": {
        "gpu": {
            "wide accesses": lambda best: {"vector_bytes": 8},
            "double buffers": lambda best: {"buffers": 1},
            "quads": lambda best: {"quads": 0},
            "serpentine": lambda best: {"serpentine": 0},
            "warp tiles": lambda best: {
                "warp_y": 1, "quads": 0, "warps_x": 1, "warps_y": best["warps_x"] * best["warps_y"]
            },
            "large tiles": lambda best: {"tile_x": 4, "tile_y": 4},
            "padding": lambda best: {"pad": 0},
            "tile order": lambda best: {"group_m": 1},
            "even waves": lambda best: {"shares": 1},
        },
        "cpu": {
            "wide vectors": lambda best: {"vector_bytes": 32},
            "rows of a tile": lambda best: {"tile_y": 1},
            "tile order": lambda best: {"group_m": 1},
        },
    },
    "tensor": {
        "gpu": {
            "stages": lambda best: {"stages": 2},
            "large tiles": lambda best: {"tile_x": 32, "tile_y": 32},
            "tile order": lambda best: {"group_m": 1},
            "even waves": lambda best: {"shares": 1},
        },
    },
    "tensor-async": {
        "gpu": {
            "boxes": lambda best: {"boxes": 0},
            "a stage more": lambda best: {"stages": best["stages"] - 1},
            "wide products": lambda best: {"columns": best["columns"] // 2},
            "two warpgroups": lambda best: {"warpgroups": 1},
            "tile order": lambda best: {"group_m": 1},
            "even waves": lambda best: {"shares": 1},
        },
    },
}


def measure(task: Task) -> None:
    """Records of every device at every square and its deep product, one for each configuration."""
    steps = [(name, case) for name in task.contest for square in task.cases for case in (square, deep(square))]
    with Session() as session:
        for number, (name, case) in enumerate(steps):

            def show(done: int, total: int, text: str, number: int = number) -> None:
                task.progress(number * total + done, len(steps) * total, text)

            _measure_one(task, session, name, case, show)


def _measure_one(
    task: Task, session: Session, name: str, case: Case, show: Callable[[int, int, str], None]
) -> None:
    """Measure one product with all configurations in turn."""
    backend = cast("RungBackend", gemmlab.get_backend(name))
    able: dict[str, Configuration] = {}
    for label, params in configurations(backend, case).items():
        device = backend.queue.device
        refusal = backend.rung.on(device.kind).refusal(params, case.dtype, device)
        if refusal is None:
            able[label] = params
        else:
            facts = {"device": backend.queue.device.label, "transfers_counted": False}
            task.keep(isolated.untimed(name, replace(case, label=label), isolated.NoAnswer(refusal, "skipped"), facts))

    def keep(record: Record) -> None:
        label = next((label for label, params in able.items() if params == record["params"]), case.label)
        task.keep({**record, "problem": {**record["problem"], "label": label}})

    options = task.options
    settings = Settings(
        params={name: list(able.values())}, threads=options.threads, transfers="without", rounds=options.rounds,
        budget_s=options.budget_s, cap_s=options.cap_s or (QUICK_CAP_S if options.quick else CAP_S),
    )  # fmt: skip
    session.measure([name], [case], settings, progress=show, on_record=keep)


def deep(square: Case) -> Case:
    """The product with a small C and a long k that is measured beside a square."""
    edge = max(1, square.m // DEEPER)
    return replace(square, m=edge, n=edge, k=square.k * DEEPER)


def configurations(backend: RungBackend, case: Case) -> dict[str, Configuration]:
    """The rung's configuration for a product, and those that lack one idea of it, by what they lack."""
    zero = np.zeros(1, case.dtype)
    a, b = np.broadcast_to(zero, (case.m, case.k)), np.broadcast_to(zero, (case.k, case.n))
    best = dict(backend.resolve(Problem.from_call(a, b), {}))
    ideas = WITHOUT[backend.rung.name]["cpu" if backend.queue.device.kind == "cpu" else "gpu"]
    return {NOTHING: best} | {idea: less for idea, change in ideas.items() if (less := best | change(best)) != best}


def shape_of(record: Record) -> str:
    """The extents of a product: a line of the study of one rung."""
    problem = record["problem"]
    return f"{problem['m']} x {problem['n']} x {problem['k']}"


def rung_and_shape_of(record: Record) -> str:
    """The same with the rung: a line of a study of several."""
    return f"{rung_of(record)}, {shape_of(record)}"
