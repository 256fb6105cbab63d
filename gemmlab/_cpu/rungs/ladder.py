"""The CPU rungs as backends: each row names its file, its source and its parameters.

A rung computes float32 and float64 products of any size. Block sizes that a call leaves open come from the
caches of the machine that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gemmlab._backend import Availability, FullBackend, Param, check_params
from gemmlab._cpu import isa, machine
from gemmlab._cpu._driver import (
    DEFAULT_SCHEDULE,
    SCHEDULES,
    Kernel,
    default_blocks,
    layout,
    leading_dimension,
)
from gemmlab._cpu.layouts import not_its_dtype, run_in_layouts
from gemmlab._cpu.rungs import tiled, traffic
from gemmlab._cpu.threads._threads import allowed_threads, default_threads
from gemmlab._problem import Problem

ITEMSIZE = {"float32": 4, "float64": 8}
USUAL_L1 = 32 << 10  # where the system does not tell
L1_WAY = 4096  # bytes: no larger than a page, since the set is looked up before the address is translated
ROW_PIECE = 2048  # bytes of a row of B in a block of `cpu-blocked`
WIDEST_OF_STRIPS = 1024  # the same in `cpu-blocked-local` and `cpu-register`, where L1 holds few rows
REPORT_R = "oneAPI matrix multiplication report, Nizhny Novgorod 2021"
GOTO = "Goto and van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34(3), 2008"
BLIS = "Van Zee and van de Geijn, BLIS, ACM TOMS 41(3), 2015"


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= 2**31


def size(name: str, choices: tuple[int, ...], meaning: str) -> Param:
    """A block size that a backend works out for itself where a call leaves it open."""
    return Param(name, None, choices, meaning, "a positive integer", _is_count)


SCHEDULE = Param(
    "schedule", DEFAULT_SCHEDULE, tuple(SCHEDULES), "how OpenMP deals rows of C out to the threads",
    "one of " + ", ".join(SCHEDULES), lambda value: value in tuple(SCHEDULES),
)  # fmt: skip
EDGES = (16, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
BLOCKS = (
    size("bs_r", EDGES, "rows of a block row of C; by default equal shares for the threads, up to a limit"),
    size("bs_c", EDGES, "columns of a block of B; by default from the caches and the width of vectors"),
    size("bs_k", EDGES, "rows of a block of B; by default as many as stay in the L1 cache"),
    SCHEDULE,
)


class Rung(FullBackend):
    """One rung of the CPU ladder."""

    kind, accumulates, is_compiled = "rung", True, True
    summary: str = ""
    band_flop = 1e9  # operations of the first band of a long product (_driver.pyx)

    def __init__(
        self, name: str, module: str, summary: str, source: str, loops: traffic.Loop, model: traffic.Model,
        params: tuple[Param, ...] = (), over: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.module, self.summary, self.source = name, module, summary, source
        self.loops, self.model = loops, model
        self.params: Mapping[str, Param] = {param.name: param for param in params}
        self.over = over or {}  # of the rung that this one improves on, what it does better

    @property
    def file(self) -> str:
        """The file with the rung's loops, from this folder."""
        return f"{self.module}.pyx"

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled rung, in the build for this CPU."""
        address = self.addresses()
        return Kernel(
            address["float32"], address["float64"], serial=not self.params, blocks=self.block_rule(),
            band_flop=self.band_flop,
        )  # fmt: skip

    def addresses(self) -> dict[str, int]:
        """The addresses of the rung's functions, by dtype."""
        found: dict[str, int] = isa.load("gemmlab._cpu.rungs", self.module).address
        return found

    def block_rule(self) -> tuple[int, ...]:
        """What block sizes follow from: a BlockRule of `blocks.pxd`, which has the rule and its reasons."""
        if self.name == "cpu-blocked-local":
            return 8 * isa.VECTOR_BYTES[isa.chosen()], WIDEST_OF_STRIPS, _l1(), L1_WAY, 0, 0, 1
        return ROW_PIECE, ROW_PIECE, _l1(), L1_WAY, 0, 0, 1

    def probe(self) -> Availability:
        """Available wherever the package was built."""
        _ = self.kernel
        return Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        return problem.dtype.name in ITEMSIZE or not_its_dtype(self.name, problem)

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in force for this problem, defaults filled in."""
        given = {name: value for name, value in params.items() if value is not None}
        check_params(self, given)
        if not self.params:
            return {}
        if "bs_r" not in self.params:
            return {"schedule": DEFAULT_SCHEDULE, **given}
        ldb = leading_dimension(problem.b) if layout(problem.b) == "C" else problem.n  # another layout is copied
        sizes = default_blocks(
            self.block_rule(), problem.dtype.itemsize, problem.m, problem.n, ldb, self.threads(problem)
        )
        return dict(zip(("bs_r", "bs_c", "bs_k"), sizes, strict=True)) | {"schedule": DEFAULT_SCHEDULE} | given

    def threads(self, problem: Problem) -> int:
        """Threads that one product of this problem runs on."""
        return allowed_threads(self._asked_threads(problem))

    def _asked_threads(self, problem: Problem) -> int:
        if not self.params:
            return 1
        return problem.threads or default_threads(2.0 * problem.m * problem.n * problem.k)

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        plan = self.resolve(problem, params)
        threads = self._asked_threads(problem)
        plan |= {"threads": threads, "accumulate": problem.accumulate}
        run_in_layouts(problem, "C", lambda a, b, out: self.kernel.run(a, b, out, **plan))

    def traffic(self, problem: Problem, machine: Mapping[str, int], **params: Any) -> dict[str, float]:
        """Modelled bytes that pass from each memory level towards the core, by `traffic.py`."""
        return self.model(problem, machine, self.resolve(problem, params))


class TiledRung(Rung):
    """A rung with a register tile; `copies` says whether B is copied, and `caches` whether each cache has a block."""

    def __init__(self, *row: Any, copies: bool = True, caches: bool = False, **named: Any) -> None:
        super().__init__(*row, **named)
        self.copies, self.caches = copies, caches
        if copies:
            self.band_flop = 1e10  # each band copies B anew

    @property
    def file(self) -> str:
        return f"tiles/{self.module}.hpp"

    def addresses(self) -> dict[str, int]:
        return tiled.addresses(self.module)

    def block_rule(self) -> tuple[int, ...]:
        rows, width = tiled.tile()
        if not self.copies:
            return width, WIDEST_OF_STRIPS, _l1(), traffic.LINE, 0, 0, rows  # a line in any place
        of_core = machine.readings()
        further = (of_core.l2, of_core.l3 or of_core.l2) if self.caches else (0, 0)
        return width, width, _l1(), 0, *further, rows


def _l1() -> int:
    return machine.caches().get("L1", USUAL_L1)


# The ladder, bottom rung first.
RUNGS = (
    Rung("cpu-naive", "naive", "i-j-k, one thread: the textbook's loop", "serial reference of all reports",
         traffic.NAIVE, traffic.naive),
    Rung("cpu-ikj", "ikj", "i-k-j: rows of B and C in memory order", f"{REPORT_R}, algorithm 1",
         traffic.IKJ, traffic.ikj, (SCHEDULE,), {"cpu-naive": "walks along rows of B and C"}),
    Rung("cpu-blocked", "blocked", "blocks: a block of B stays in L1", f"{REPORT_R}, algorithm 2",
         traffic.BLOCKED, traffic.blocked, BLOCKS, {"cpu-ikj": "keeps a block of B in L1"}),
    Rung("cpu-blocked-local", "blocked_local", "blocks, a row piece of C in a buffer", f"{REPORT_R}, appendix",
         traffic.BLOCKED_LOCAL, traffic.blocked_local, BLOCKS,
         {"cpu-blocked": "sums a piece of a row of C in a local buffer"}),
    TiledRung("cpu-register", "register", "blocks, a tile of several rows of C in registers", GOTO,
              traffic.REGISTER, traffic.register, BLOCKS,
              {"cpu-blocked-local": "keeps a tile of several rows of C in registers"}, copies=False),
    TiledRung("cpu-pack-b", "pack_b", "the tile reads B from a copy in panels", GOTO,
              traffic.PACK_B, traffic.pack_b, BLOCKS, {"cpu-register": "copies B into panels"}),
    TiledRung("cpu-pack-ab", "pack_ab", "the tile reads A and B from copies in panels", GOTO,
              traffic.PACK_AB, traffic.pack_ab, BLOCKS, {"cpu-pack-b": "copies A into panels too"}),
    TiledRung("cpu-five-loops", "five_loops", "a block for each cache, one copy of B for all threads", BLIS,
              traffic.FIVE_LOOPS, traffic.five_loops, BLOCKS,
              {"cpu-pack-ab": "has a block for each cache, and copies B once"}, caches=True),
)  # fmt: skip
