"""The GPU ladder as data: the only place that names its rungs.

`defaults` depend on the kind of device: a GPU needs many small work-items, a CPU few large ones.
"""

from __future__ import annotations

from dataclasses import replace

from gemmlab._gpu.ladder import traffic
from gemmlab._gpu.ladder.rung import Rung, RungParams, Shape, count
from gemmlab._gpu.ladder.tuned import TUNED
from gemmlab._gpu.ladder.tuned_cpu import TUNED as TUNED_ON_CPU

REPORT_R = "oneAPI matrix multiplication report, Nizhny Novgorod 2021"
REPORT_O = "Chinese oneAPI exercise report"

GROUP_X = count("group_x", "work-items of a group along a row of C", 4, 8, 16, 32, 64)
GROUP_Y = count("group_y", "work-items of a group along a column of C", 1, 2, 4, 8, 16)
TILE_X = count("tile_x", "columns of C per work-item", 1, 2, 4, 8, 16)
TILE_Y = count("tile_y", "rows of C per work-item", 1, 2, 4, 8, 16)


def _group(params: RungParams) -> Shape:
    return params["group_x"], params["group_y"]


def _tile(params: RungParams) -> Shape:
    return params["tile_x"], params["tile_y"]


def _group_of_tiles(params: RungParams) -> Shape:
    """The block of C of a work-group in which each work-item computes one tile."""
    return params["group_x"] * params["tile_x"], params["group_y"] * params["tile_y"]


RUNGS = (
    Rung("naive", "one work-item per element of C, accumulated in global memory", f"{REPORT_R}, algorithm 3",
         (GROUP_X, GROUP_Y),
         {"gpu": {"group_x": 32, "group_y": 8}, "cpu": {"group_x": 64, "group_y": 1}},
         group=_group, block=_group, model=traffic.in_global_memory),
    Rung("private", "the sum in a private variable", f"{REPORT_R}, algorithm 4",
         (GROUP_X, GROUP_Y),
         {"gpu": {"group_x": 32, "group_y": 8}, "cpu": {"group_x": 64, "group_y": 1}},
         group=_group, block=_group, model=traffic.private, over={"naive": "sums in a register"}),
    Rung("local", "tiles of A and B in local memory", f"{REPORT_R}, algorithm 5; Xiao et al. 2020",
         (count("tile_x", "columns of a group's tile of C, and work-items along it", 8, 16, 32),
          count("tile_y", "rows of a group's tile of C, and work-items along it", 4, 8, 16, 32),
          count("tile_k", "k extent of a tile of A or B", 8, 16, 32)),
         {"gpu": {"tile_x": 32, "tile_y": 8, "tile_k": 32}, "cpu": {"tile_x": 16, "tile_y": 16, "tile_k": 16}},
         group=_tile, block=_tile, model=traffic.local,
         local=lambda params: params["tile_k"] * (params["tile_x"] + params["tile_y"]),
         over={"private": "shares tiles of A and B in local memory"}),
    Rung("local4", "as local, with four elements of a column of C per work-item", f"{REPORT_R}, block+",
         (count("tile", "rows and columns of a group's tile of C, and the k extent of a tile", 8, 16, 32, 64),
          count("per_item", "elements of a column of C per work-item", 2, 4, 8),
          count("unroll", "unroll factor of the inner loop over k", 1, 2, 4, 8)),
         {"gpu": {"tile": 32, "per_item": 4, "unroll": 2}, "cpu": {"tile": 16, "per_item": 4, "unroll": 2}},
         group=lambda params: (params["tile"], params["tile"] // params["per_item"]),
         block=lambda params: (params["tile"], params["tile"]), model=traffic.local4,
         local=lambda params: 2 * params["tile"] ** 2,
         registers=lambda params: params["per_item"],
         rule=lambda params: "tile must be a multiple of per_item" if params["tile"] % params["per_item"] else None,
         over={"local": "computes several elements of C per work-item"}),
    Rung("register", "one tile of C per work-item, in registers; no local memory", REPORT_O,
         (TILE_X, TILE_Y,
          count("length", "steps of k whose elements of A and B are loaded together", 1, 2, 4, 8, 16, 32, 64),
          GROUP_X, GROUP_Y),
         {"gpu": {"tile_x": 8, "tile_y": 8, "length": 2, "group_x": 8, "group_y": 8},
          "cpu": {"tile_x": 8, "tile_y": 8, "length": 1, "group_x": 8, "group_y": 1}},
         group=_group, block=_group_of_tiles, model=traffic.register,
         registers=lambda params: (params["tile_x"] * params["tile_y"]
                                   + params["length"] * (params["tile_x"] + params["tile_y"])),
         over={"local4": "keeps a tile of C per work-item in registers",
               "register-global": "sums its tile in registers"}),
    Rung("register-global", "the same tile, accumulated in global memory", f"{REPORT_O}, general strategy",
         (TILE_X, TILE_Y, GROUP_X, GROUP_Y),
         {"gpu": {"tile_x": 8, "tile_y": 8, "group_x": 8, "group_y": 8},
          "cpu": {"tile_x": 8, "tile_y": 8, "group_x": 8, "group_y": 1}},
         group=_group, block=_group_of_tiles, model=traffic.in_global_memory),
    replace(TUNED, cpu=TUNED_ON_CPU, defaults={**TUNED.defaults, **TUNED_ON_CPU.defaults}),
)  # fmt: skip
RUNG_NAMES = tuple(rung.name for rung in RUNGS)
# The rungs that a family name such as "opencl" chooses from, the fastest first, by kind of device (as in `defaults`).
FASTEST = {"gpu": ("tuned", "register", "private"), "cpu": ("tuned", "local4", "private")}
BEST_RUNG = "tuned"  # the first of them: what a family name stands for where no product is known
