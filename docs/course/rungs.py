"""The rungs of both ladders in their order, as the course shows them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gemmlab._backend import Param
from gemmlab._cpu.rungs.ladder import rungs as cpu_rungs
from gemmlab._cpu.packed_backend.backend import Packed
from gemmlab._gpu import RUNTIMES
from gemmlab._gpu.rungs import RUNGS as GPU_RUNGS

ROOT = Path(__file__).parents[2]
CPU, KERNELS = ROOT / "gemmlab" / "_cpu", ROOT / "gemmlab" / "_gpu" / "kernels"
PACKED: Any = Packed()
PACKED_TEXTS = (CPU / "packed" / "loops.h", CPU / "packed" / "tile.h")
RUNTIME_NAMES = {"opencl": "OpenCL", "sycl": "SYCL", "cuda": "CUDA"}


@dataclass(frozen=True)
class Rung:
    """One rung.

    `page` names its page and `files` its text, the one with the head first. `backends` maps a runtime to the
    backend's name there; the CPU's is "". `defaults` has the parameters in force by kind of device.
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
    def title(self) -> str:
        """Its name on the CPU, or in the GPU ladder."""
        return self.page.removeprefix("gpu-")


@cache
def settings() -> dict[str, Any]:
    """What `course.toml` says."""
    return tomllib.loads((Path(__file__).parent / "course.toml").read_text(encoding="utf-8"))


def questions(rung: Rung) -> list[dict[str, str]]:
    """Its questions: `ask`, the command to `run`, and for some a `hint`."""
    found: list[dict[str, str]] = settings()["questions"].get(rung.page, [])
    return found


@cache
def ladders() -> dict[str, tuple[Rung, ...]]:
    """The CPU ladder and the GPU ladder, bottom rung first."""
    cpu: list[Rung] = []
    for number, backend in enumerate((*cpu_rungs(), PACKED), 1):
        files = (CPU / f"{backend.module}.pyx", *(PACKED_TEXTS if backend is PACKED else ()))
        before = cpu[-1] if cpu else None
        cpu.append(Rung(backend.name, "CPU", number, before, files, backend.summary, backend.source,
                        {"": backend.name}, tuple(backend.params.values()), {}))  # fmt: skip
    gpu: list[Rung] = []
    for number, row in enumerate(GPU_RUNGS, 1):
        names = {runtime: f"{runtime}-{row.name}" for runtime in RUNTIMES}
        file = KERNELS / f"{row.name.replace('-', '_')}.cl"
        before = gpu[-1] if gpu else None
        gpu.append(Rung(f"gpu-{row.name}", "GPU", number, before, (file,), row.summary, row.source,
                        names, row.params, row.defaults))  # fmt: skip
    return {"CPU": tuple(cpu), "GPU": tuple(gpu)}


def every() -> tuple[Rung, ...]:
    """The rungs of both ladders."""
    return tuple(rung for ladder in ladders().values() for rung in ladder)
