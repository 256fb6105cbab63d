"""The rungs of both ladders in order, with their files, parameters and questions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gemmlab._backend import Param
from gemmlab._cpu.packed_backend.backend import Packed
from gemmlab._cpu.rungs.ladder import RUNGS as CPU_RUNGS
from gemmlab._gpu.ladder.rungs import RUNGS as GPU_RUNGS
from gemmlab._name import RUNTIMES

ROOT = Path(__file__).parents[2]
CPU, KERNELS = ROOT / "gemmlab" / "_cpu", ROOT / "gemmlab" / "_gpu" / "kernels"
PACKED: Any = Packed()
PACKED_FILES = (CPU / "packed" / "macrokernel.hpp", CPU / "packed" / "microkernel.hpp")
CONTRAST = "register-global"  # a rung that only shows what the one before it gains: the next one does not build on it
MORE_CPU_FILES = {"cpu-register": ("tiles/tile.hpp",), "cpu-pack-b": ("tiles/panels.hpp",)}
MORE_FILES = {  # of the GPU ladder
    "tuned": ("tuned_cpu.cl", "common/tile_order.h", "common/stored.h"),
}
RUNTIME_NAMES = {"opencl": "OpenCL", "sycl": "SYCL", "cuda": "CUDA"}


@dataclass(frozen=True)
class Rung:
    """One rung.

    Attributes
    ----------
    page : name of its page, without the suffix.
    ladder : "CPU" or "GPU".
    number : position in the ladder, from 1.
    before : the previous rung, or None for the first.
    files : its source files; the first has the head with the loop nest.
    summary, source : the idea in one line, and the document that it is from.
    backends : the backend's name on each runtime; the runtime of CPU rungs is "".
    params : its parameters.
    defaults : the default parameters on each kind of device; empty for CPU rungs.
    """

    page: str
    ladder: str
    number: int
    before: Rung | None
    files: tuple[Path, ...]
    summary: str
    source: str
    backends: Mapping[str, str]
    params: tuple[Param, ...]
    defaults: Mapping[str, Mapping[str, Any]]

    @property
    def first(self) -> Rung | None:
        """The first rung of the ladder; None if it is this one."""
        rung = ladders()[self.ladder][0]
        return None if rung is self else rung

    @property
    def onwards(self) -> tuple[Rung, ...]:
        """The rungs of the ladder from its last one, the fastest, down to this one, without one for contrast."""
        fastest_first = tuple(one for one in reversed(ladders()[self.ladder]) if one.title != CONTRAST)
        return fastest_first[: fastest_first.index(self)] if self in fastest_first else fastest_first

    @property
    def moving_picture(self) -> str:
        """The file of its moving picture, beside its page."""
        return f"play-{self.page}.html"

    @property
    def title(self) -> str:
        """The backend's name on CPUs; the name without a runtime in the GPU ladder."""
        return self.page.removeprefix("gpu-")


@cache
def settings() -> dict[str, Any]:
    """The contents of `course.toml`."""
    return tomllib.loads((Path(__file__).parent / "course.toml").read_text(encoding="utf-8"))


def questions(rung: Rung) -> list[dict[str, str]]:
    """The questions of a rung: each has the text `ask`, the command `run`, and usually a `hint`."""
    entries: list[dict[str, str]] = settings()["questions"].get(rung.page, [])
    return entries


@cache
def ladders() -> dict[str, tuple[Rung, ...]]:
    """The CPU ladder and the GPU ladder, simplest rung first."""
    cpu: list[Rung] = []
    for number, backend in enumerate((*CPU_RUNGS, PACKED), 1):
        files = PACKED_FILES if backend is PACKED else tuple(
            CPU / "rungs" / name for name in (backend.file, *MORE_CPU_FILES.get(backend.name, ()))
        )  # fmt: skip
        before = cpu[-1] if cpu else None
        cpu.append(Rung(backend.name, "CPU", number, before, files, backend.summary, backend.source,
                        {"": backend.name}, tuple(backend.params.values()), {}))  # fmt: skip
    gpu: list[Rung] = []
    for number, row in enumerate(GPU_RUNGS, 1):
        names = {runtime: f"{runtime}-{row.name}" for runtime in RUNTIMES}
        files = tuple(KERNELS / name for name in (f"{row.name.replace('-', '_')}.cl", *MORE_FILES.get(row.name, ())))
        before = next((one for one in reversed(gpu) if one.title != CONTRAST), None)
        gpu.append(Rung(f"gpu-{row.name}", "GPU", number, before, files, row.summary, row.source,
                        names, row.params, row.defaults))  # fmt: skip
    return {"CPU": tuple(cpu), "GPU": tuple(gpu)}


def all_rungs() -> tuple[Rung, ...]:
    """The rungs of both ladders, the CPU's first."""
    return tuple(rung for ladder in ladders().values() for rung in ladder)
