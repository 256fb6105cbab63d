"""The GPU ladder as data: of each rung its text, its parameters, what it needs of a device, and its launch geometry.

A parameter's name in capitals is the macro that the text sees. What is left open comes from `defaults`, by the
kind of device: a GPU wants many small work-items, a CPU few large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from gemmlab._backend import Param
from gemmlab._gpu.runtime import Device

Plan = Mapping[str, int]
Shape = tuple[int, int]  # x and y: columns and rows of C
ITEMSIZE = {"float32": 4, "float64": 8}
C_TYPE = {"float32": "float", "float64": "double"}
MOST_GROUPS = 65535  # CUDA's limit on rows of groups and on products in one launch
MOST_REGISTERS = 2048  # numbers a work-item: past what any device keeps, and compilers take minutes

REPORT_R = "oneAPI matrix multiplication report, Nizhny Novgorod 2021"
REPORT_O = "Chinese oneAPI exercise report"


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= 1024


def _count(name: str, meaning: str, *choices: int) -> Param:
    return Param(name, None, choices, meaning, "an integer from 1 to 1024", _is_count)


GROUP_X = _count("group_x", "work-items of a group along a row of C", 4, 8, 16, 32, 64)
GROUP_Y = _count("group_y", "work-items of a group along a column of C", 1, 2, 4, 8, 16)
TILE_X = _count("tile_x", "columns of C that a work-item makes", 1, 2, 4, 8, 16)
TILE_Y = _count("tile_y", "rows of C that a work-item makes", 1, 2, 4, 8, 16)


def _group(plan: Plan) -> Shape:
    return plan["group_x"], plan["group_y"]


def _tile(plan: Plan) -> Shape:
    return plan["tile_x"], plan["tile_y"]


def _of_items(plan: Plan) -> Shape:
    """The piece of C that a group makes whose work-items make a tile each."""
    return plan["group_x"] * plan["tile_x"], plan["group_y"] * plan["tile_y"]


@dataclass(frozen=True)
class Rung:
    """One rung.

    `group` gives the work-items of a group, `piece` the columns and rows of C that a group makes; `local` and
    `registers` count the numbers that a group holds in local memory and a work-item in registers.
    """

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    defaults: Mapping[str, Plan]
    group: Callable[[Plan], Shape]
    piece: Callable[[Plan], Shape]
    local: Callable[[Plan], int] = lambda plan: 0
    registers: Callable[[Plan], int] = lambda plan: 1

    @property
    def text(self) -> str:
        """The kernel's text, with what all rungs share before it."""
        return _with_what_rungs_share(f"{self.name.replace('-', '_')}.cl")

    def plan(self, params: Mapping[str, Any], kind: str) -> dict[str, int]:
        """The parameters in force on a kind of device, defaults filled in."""
        given = {name: int(value) for name, value in params.items() if value is not None}
        return {**self.defaults["cpu" if kind == "cpu" else "gpu"], **given}

    def obstacle(self, plan: Plan, dtype: str, device: Device) -> str | None:
        """Why this plan cannot run on a device, in a sentence; None if it can."""
        x, y = self.group(plan)
        local_bytes = self.local(plan) * ITEMSIZE[dtype]
        named = ", ".join(f"{name}={value}" for name, value in plan.items())
        if plan.get("tile", 0) % plan.get("per_item", 1):
            return f"tile must be a multiple of per_item, not {named}"
        if x * y > device.group_limit:
            return f"{named} makes groups of {x} x {y} work-items; {device.label} takes {device.group_limit}"
        if local_bytes > device.local_bytes:
            return f"{named} needs {local_bytes} bytes of local memory; {device.label} has {device.local_bytes} a group"
        if self.registers(plan) > MOST_REGISTERS:
            return f"{named} has a work-item hold {self.registers(plan)} numbers; the most is {MOST_REGISTERS}"
        return None

    def defines(self, plan: Plan, dtype: str) -> dict[str, int | str]:
        """The macros that the text is compiled with."""
        x, y = self.group(plan)
        own = {name.upper(): value for name, value in plan.items()}
        return {**own, "GROUP_X": x, "GROUP_Y": y, "REAL": C_TYPE[dtype]}


@cache
def kernel_text(name: str, package: str = "gemmlab._gpu") -> str:
    """A file of a package's `kernels/`."""
    return files(package).joinpath("kernels", name).read_text(encoding="utf-8")


@cache
def _with_what_rungs_share(name: str) -> str:
    """The same string each time: whoever looks a kernel up by its text need not read that again."""
    return kernel_text("gemm.h") + kernel_text(name)


RUNGS = (
    Rung("naive", "an element of C a work-item, summed in global memory", f"{REPORT_R}, algorithm 3",
         (GROUP_X, GROUP_Y),
         {"gpu": {"group_x": 32, "group_y": 8}, "cpu": {"group_x": 64, "group_y": 1}},
         group=_group, piece=_group),
    Rung("private", "the sum in a private variable", f"{REPORT_R}, algorithm 4",
         (GROUP_X, GROUP_Y),
         {"gpu": {"group_x": 32, "group_y": 8}, "cpu": {"group_x": 64, "group_y": 1}},
         group=_group, piece=_group),
    Rung("local", "tiles of A and B in local memory", f"{REPORT_R}, algorithm 5; Xiao et al. 2020",
         (_count("tile_x", "columns of a group's tile of C, and work-items along it", 8, 16, 32),
          _count("tile_y", "rows of a group's tile of C, and work-items along it", 4, 8, 16, 32),
          _count("tile_k", "steps of k that a tile of A or B covers", 8, 16, 32)),
         {"gpu": {"tile_x": 32, "tile_y": 8, "tile_k": 32}, "cpu": {"tile_x": 16, "tile_y": 16, "tile_k": 16}},
         group=_tile, piece=_tile,
         local=lambda plan: plan["tile_k"] * (plan["tile_x"] + plan["tile_y"])),
    Rung("local4", "the same, four elements of a column a work-item", f"{REPORT_R}, block+",
         (_count("tile", "rows and columns of a group's tile of C, and steps of k of a tile", 8, 16, 32, 64),
          _count("per_item", "elements of a column that a work-item makes", 2, 4, 8),
          _count("unroll", "steps of k that the inner loop is unrolled by", 1, 2, 4, 8)),
         {"gpu": {"tile": 32, "per_item": 4, "unroll": 2}, "cpu": {"tile": 16, "per_item": 4, "unroll": 2}},
         group=lambda plan: (plan["tile"], plan["tile"] // plan["per_item"]),
         piece=lambda plan: (plan["tile"], plan["tile"]),
         local=lambda plan: 2 * plan["tile"] ** 2,
         registers=lambda plan: plan["per_item"]),
    Rung("register", "a tile of C a work-item, in registers; no local memory", REPORT_O,
         (TILE_X, TILE_Y,
          _count("length", "steps of k whose numbers of A and B are brought at once", 1, 2, 4, 8, 16, 32, 64),
          GROUP_X, GROUP_Y),
         {"gpu": {"tile_x": 8, "tile_y": 8, "length": 2, "group_x": 8, "group_y": 8},
          "cpu": {"tile_x": 8, "tile_y": 8, "length": 1, "group_x": 8, "group_y": 1}},
         group=_group, piece=_of_items,
         registers=lambda plan: plan["tile_x"] * plan["tile_y"] + plan["length"] * (plan["tile_x"] + plan["tile_y"])),
    Rung("register-global", "the same tile, summed in global memory", f"{REPORT_O}, general strategy",
         (TILE_X, TILE_Y, GROUP_X, GROUP_Y),
         {"gpu": {"tile_x": 8, "tile_y": 8, "group_x": 8, "group_y": 8},
          "cpu": {"tile_x": 8, "tile_y": 8, "group_x": 8, "group_y": 1}},
         group=_group, piece=_of_items),
)  # fmt: skip
