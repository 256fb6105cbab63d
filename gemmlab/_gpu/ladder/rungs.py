"""The GPU ladder as data: the only place that names its rungs.

Each rung has a kernel source, parameters, defaults, its demands on the device, its launch geometry and its traffic
model. A parameter's name in capitals is a macro of the kernel source. `defaults` depend on the kind of device: a GPU
needs many small work-items, a CPU few large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from gemmlab._backend import Param, Params
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder import traffic, tuned
from gemmlab._gpu.ladder.numbers import NUMBERS

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

RungParams: TypeAlias = Mapping[str, int]
Shape: TypeAlias = tuple[int, int]  # x and y: columns and rows of C
Defines: TypeAlias = dict[str, int | str]  # macros and their values
MAX_GROUPS = 65535  # CUDA's limit on the y and z dimensions of a grid
MAX_REGISTERS = 2048  # elements per work-item: more than any device has, and compilers need minutes

REPORT_R = "oneAPI matrix multiplication report, Nizhny Novgorod 2021"
REPORT_O = "Chinese oneAPI exercise report"


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= 1024


def _count(name: str, meaning: str, *choices: int) -> Param:
    return Param(name, None, choices, meaning, "an integer from 1 to 1024", _is_count)


def _choice(name: str, meaning: str, *choices: int) -> Param:
    return Param(name, None, choices, meaning, f"one of {', '.join(map(str, choices))}", choices.__contains__)


GROUP_X = _count("group_x", "work-items of a group along a row of C", 4, 8, 16, 32, 64)
GROUP_Y = _count("group_y", "work-items of a group along a column of C", 1, 2, 4, 8, 16)
TILE_X = _count("tile_x", "columns of C per work-item", 1, 2, 4, 8, 16)
TILE_Y = _count("tile_y", "rows of C per work-item", 1, 2, 4, 8, 16)


def _group(params: RungParams) -> Shape:
    return params["group_x"], params["group_y"]


def _tile(params: RungParams) -> Shape:
    return params["tile_x"], params["tile_y"]


def _group_of_tiles(params: RungParams) -> Shape:
    """The block of C of a work-group in which each work-item computes one tile."""
    return params["group_x"] * params["tile_x"], params["group_y"] * params["tile_y"]


@dataclass(frozen=True)
class Rung:
    """One rung.

    `group` gives the work-items of a work-group, `block` the columns and rows of C that a work-group computes. `local`
    counts the elements in local memory per work-group, `registers` those in registers per work-item. `model` gives the
    memory traffic. `over` says of each rung that this one improves on what it does better.
    """

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    defaults: Mapping[str, RungParams]
    group: Callable[[RungParams], Shape]
    block: Callable[[RungParams], Shape]
    model: traffic.Model
    local: Callable[[RungParams], int] = lambda params: 0
    registers: Callable[[RungParams], int] = lambda params: 1
    over: Mapping[str, str] = field(default_factory=dict)

    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64")

    @property
    def text(self) -> str:
        """The kernel source, after the header that all rungs share."""
        return _with_header(f"{self.name.replace('-', '_')}.cl")

    def resolve(self, given: Params, kind: str) -> dict[str, int]:
        """All parameters for a kind of device: the given ones, and defaults for the rest."""
        chosen = {name: int(value) for name, value in given.items() if value is not None}
        return {**self.defaults["cpu" if kind == "cpu" else "gpu"], **chosen}

    def refusal(self, params: RungParams, dtype: str, device: Device) -> str | None:
        """Why the rung cannot run on a device with these parameters, in a sentence; None if it can."""
        x, y = self.group(params)
        local_bytes = self.local(params) * NUMBERS[dtype].sum_size
        named = ", ".join(f"{name}={value}" for name, value in params.items())
        if params.get("tile", 0) % params.get("per_item", 1):
            return f"tile must be a multiple of per_item, not {named}"
        if x * y > device.group_limit:
            return f"{named} makes groups of {x} x {y} work-items; {device.label} takes {device.group_limit}"
        if local_bytes > device.local_bytes and local_bytes > (limit := _local_limit(device)):
            return f"{named} needs {local_bytes} bytes of local memory; {device.label} has {limit} a group"
        if self.registers(params) > MAX_REGISTERS:
            return f"{named} needs {self.registers(params)} elements per work-item; the maximum is {MAX_REGISTERS}"
        return None

    def defines(self, params: RungParams, dtype: str) -> Defines:
        """The macros that the kernel source is compiled with."""
        x, y = self.group(params)
        macros = {name.upper(): value for name, value in params.items()}
        return {**macros, "GROUP_X": x, "GROUP_Y": y, "REAL": NUMBERS[dtype].sum_type}

    def layout(
        self, params: RungParams, dtype: str, size: GemmSize, a: Layout, b: Layout, c: Layout
    ) -> Defines:
        """More macros: how the operands lie in memory, for a rung that heeds it."""
        return {}

    def to_pack(self, params: RungParams, dtype: str, size: GemmSize, a: Layout, b: Layout) -> tuple[int, int]:
        """The leading dimensions of copies of A and B that are worth their time; 0 for no copy."""
        return 0, 0

    def fitted(self, params: dict[str, int], size: GemmSize, compute_units: int) -> dict[str, int]:
        """The parameters for a product, with those that depend on its size."""
        return params

    def takes_transposed(self, params: RungParams) -> bool:
        """Whether A and B may be column-major."""
        return False

    shares_k = False  # whether the kernel takes the number of `parts` as its last argument

    def parts(self, params: RungParams) -> int:
        """The work-groups that share the sums of one block of C; `add_parts` adds what each has found."""
        return 1

    def variants(self, params: RungParams, dtype: str) -> tuple[Defines, ...]:
        """The macros of every text that products of row-major matrices need."""
        return (self.defines(params, dtype),)

    def searched(self, kind: str) -> tuple[str, ...]:
        """The parameters that `gemmlab tune` varies on a kind of device; the others stay as in `defaults`."""
        return tuple(param.name for param in self.params)


def _local_limit(device: Device) -> int:
    """The local memory that a group may have; it is probed where that may be more than the device reports."""
    from gemmlab._errors import BackendUnavailable

    try:
        return _probed_limit(device)
    except BackendUnavailable:  # a device that is not here
        return device.local_bytes


@cache
def _probed_limit(device: Device) -> int:
    from gemmlab._errors import BackendUnavailable
    from gemmlab._gpu import runtime_named

    runtime = runtime_named(device.runtime)
    if device not in runtime.devices:
        raise BackendUnavailable(f"{device.label} is not here")
    return runtime.queue(device).static_local_bytes


class TunedRung(Rung):
    """The rung tuned: its text depends on the layout of the operands, it may share out k, and it has float16."""

    dtypes = ("float32", "float64", "float16")
    shares_k = True

    @property
    def text(self) -> str:
        return _with_header("tuned.cl", "stored.h")

    def refusal(self, params: RungParams, dtype: str, device: Device) -> str | None:
        return tuned.refusal(params, NUMBERS[dtype].sum_size, device.kind) or super().refusal(params, dtype, device)

    def defines(self, params: RungParams, dtype: str) -> Defines:
        own = {name: value for name, value in super().defines(params, dtype).items() if name != "SPLIT_K"}
        if dtype == "float16":
            own |= {"STORED": NUMBERS[dtype].c_type, "HALF": 1}
            own |= {"HALF_C": 1} if self.parts(params) == 1 else {"STORED_C": NUMBERS[dtype].sum_type}
        return tuned.defines(params, NUMBERS[dtype].sum_size) | own

    def layout(
        self, params: RungParams, dtype: str, size: GemmSize, a: Layout, b: Layout, c: Layout
    ) -> Defines:
        return tuned.layout(params, NUMBERS[dtype].sum_size, size, a, b, c)

    def to_pack(self, params: RungParams, dtype: str, size: GemmSize, a: Layout, b: Layout) -> tuple[int, int]:
        return tuned.to_pack(params, NUMBERS[dtype].sum_size, size, a, b)

    def fitted(self, params: dict[str, int], size: GemmSize, compute_units: int) -> dict[str, int]:
        return tuned.with_parts(params, size, compute_units)

    def takes_transposed(self, params: RungParams) -> bool:
        return bool(params["local_copy"])

    def parts(self, params: RungParams) -> int:
        return max(1, params["split_k"])

    def variants(self, params: RungParams, dtype: str) -> tuple[Defines, ...]:
        usual = self.defines(params, dtype)
        return (usual, {**usual, "A_WIDTH": 1, "B_WIDTH": 1, "C_WIDTH": 1}) if params["local_copy"] else (usual,)

    def searched(self, kind: str) -> tuple[str, ...]:
        every = super().searched(kind)
        return ("tile_x", "tile_y", "group_m", "vector_bytes") if kind == "cpu" else every[: every.index("split_k")]


@dataclass(frozen=True)
class OwnRung(Rung):
    """A rung whose kernel source is not one of ours: a plugin's, see `gemmlab.opencl_rung`."""

    own_text: str = ""

    @cached_property
    def text(self) -> str:
        """The kernel source, after the header that all rungs share."""
        return kernel_text("gemm.h") + self.own_text


@cache
def kernel_text(name: str, package: str = "gemmlab._gpu") -> str:
    """The content of a file in a package's `kernels/`."""
    from importlib.resources import files

    return files(package).joinpath("kernels", name).read_text(encoding="utf-8")


@cache
def _with_header(name: str, *more: str) -> str:
    """Cached, so that a table with sources as keys gets the same string every time and need not compare it."""
    return "".join(map(kernel_text, ("gemm.h", *more, name)))


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
         (_count("tile_x", "columns of a group's tile of C, and work-items along it", 8, 16, 32),
          _count("tile_y", "rows of a group's tile of C, and work-items along it", 4, 8, 16, 32),
          _count("tile_k", "k extent of a tile of A or B", 8, 16, 32)),
         {"gpu": {"tile_x": 32, "tile_y": 8, "tile_k": 32}, "cpu": {"tile_x": 16, "tile_y": 16, "tile_k": 16}},
         group=_tile, block=_tile, model=traffic.local,
         local=lambda params: params["tile_k"] * (params["tile_x"] + params["tile_y"]),
         over={"private": "shares tiles of A and B in local memory"}),
    Rung("local4", "as local, with four elements of a column of C per work-item", f"{REPORT_R}, block+",
         (_count("tile", "rows and columns of a group's tile of C, and the k extent of a tile", 8, 16, 32, 64),
          _count("per_item", "elements of a column of C per work-item", 2, 4, 8),
          _count("unroll", "unroll factor of the inner loop over k", 1, 2, 4, 8)),
         {"gpu": {"tile": 32, "per_item": 4, "unroll": 2}, "cpu": {"tile": 16, "per_item": 4, "unroll": 2}},
         group=lambda params: (params["tile"], params["tile"] // params["per_item"]),
         block=lambda params: (params["tile"], params["tile"]), model=traffic.local4,
         local=lambda params: 2 * params["tile"] ** 2,
         registers=lambda params: params["per_item"],
         over={"local": "computes several elements of C per work-item"}),
    Rung("register", "one tile of C per work-item, in registers; no local memory", REPORT_O,
         (TILE_X, TILE_Y,
          _count("length", "steps of k whose elements of A and B are loaded together", 1, 2, 4, 8, 16, 32, 64),
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
    TunedRung("tuned", "tiles for work-groups, warps and work-items, double buffers, wide accesses, parts of k",
              "CUTLASS; Boehm 2022",
              (TILE_X, TILE_Y,
               _choice("warp_y", "work-items of a warp along a column of C", 1, 2, 4, 8, 16, 32),
               _choice("quads", "whether every four work-items in a row compute 2 x 2 neighbouring tiles", 0, 1),
               _choice("serpentine", "whether odd rows of a work-item's tile are multiplied from right to left", 0, 1),
               _count("warps_x", "warps of a work-group along a row of C", 1, 2, 4, 8),
               _count("warps_y", "warps of a work-group along a column of C", 1, 2, 4, 8),
               _count("step_k", "k extent of a tile in local memory", 4, 8, 16, 32),
               _choice("buffers", "tiles in local memory, of each operand", 1, 2),
               _choice("pad", "elements between the columns of a tile", 0, 4, 8),
               _count("group_m", "tiles of C that groups compute down a column of C, before the next", 1, 4, 8, 16),
               Param("split_k", None, (0, 1, 2, 4), "work-groups that share the sums of a tile of C; 0 chooses",
                     "an integer from 0 to 1024", lambda value: value == 0 or _is_count(value)),
               _choice("vector_bytes", "bytes that are read or written at once", 8, 16, 32, 64),
               _choice("local_copy", "whether tiles go through local memory", 0, 1)),
              {"gpu": {"tile_x": 8, "tile_y": 8, "warp_y": 4, "quads": 0, "serpentine": 0, "warps_x": 2,
                       "warps_y": 4, "step_k": 8, "buffers": 2, "pad": 4, "group_m": 8, "split_k": 0,
                       "vector_bytes": 16, "local_copy": 1},
               "cpu": {"tile_x": 16, "tile_y": 6, "warp_y": 1, "quads": 0, "serpentine": 0, "warps_x": 1,
                       "warps_y": 1, "step_k": 1, "buffers": 1, "pad": 0, "group_m": 8, "split_k": 0,
                       "vector_bytes": 64, "local_copy": 0}},
              group=tuned.group, block=tuned.block, model=tuned.traffic, local=tuned.local,
              registers=tuned.registers,
              over={"register": "shares tiles in local memory by warps and reads them in vectors"}),
)  # fmt: skip
RUNG_NAMES = tuple(rung.name for rung in RUNGS)
# The rungs that a family name such as "opencl" chooses from, the fastest first, by kind of device (as in `defaults`).
FASTEST = {"gpu": ("tuned", "register", "private"), "cpu": ("tuned", "local4", "private")}
BEST_RUNG = "tuned"  # the first of them: what a family name stands for where no product is known
