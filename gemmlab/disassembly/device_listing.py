"""The inner loop of a GPU rung on an NVIDIA GPU, or compiled for one that is not here: PTX, registers, occupancy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from textwrap import fill
from typing import Any

import numpy as np

from gemmlab import _registry
from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.cuda import compiled_for
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.rung import Rung, launch_without_device, row_major
from gemmlab._gpu.ladder.rungs import BEST_RUNG, RUNGS
from gemmlab._gpu.plans.launches import Launch
from gemmlab._gpu.tensor.kinds import TF32
from gemmlab._gpu.tensor.trial import RUNGS as OF_UNITS
from gemmlab._name import BackendName
from gemmlab._problem import Problem
from gemmlab._words import size
from gemmlab.disassembly.listing import EDGE
from gemmlab.disassembly.loops import Loop
from gemmlab.disassembly.occupancy import Occupancy, Resources, occupancy_of, resources_of
from gemmlab.disassembly.ptx import counts, inner_loop, kernel_in
from gemmlab.measure.table import WIDTH

ARCHITECTURE = re.compile(r"sm_\d+a?")
SHOWN = *RUNGS, *OF_UNITS.values()
ALIKE = 4  # instructions of one name in a row are one line


@dataclass(frozen=True)
class DeviceListing:
    """The inner loop of a kernel as PTX, what the kernel takes of a multiprocessor, and how many groups that holds."""

    backend: str
    dtype: str
    architecture: str
    params: Mapping[str, int]
    loop: Loop
    resources: Resources
    group: int  # work-items
    occupancy: Occupancy | None

    def to_dict(self) -> dict[str, object]:
        """For `--json`."""
        held = self.occupancy
        return {
            "backend": self.backend, "dtype": self.dtype, "isa": self.architecture, "parameters": dict(self.params),
            "function": self.loop.function.name, "counts": counts(self.loop.body), "work_items": self.group,
            "registers": self.resources.registers, "stack_bytes": self.resources.stack_bytes,
            "local_bytes": self.resources.local_bytes, "groups_at_a_time": held and held.groups,
            "occupancy": held and held.warps / held.most_warps, "limited_by": held and held.limit,
            "instructions": [{"text": one.text, "source": one.source} for one in self.loop.body],
        }  # fmt: skip

    def text(self) -> str:
        """In 80 columns: the loop's instructions with their lines, then the counts."""
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        head = f"{self.backend}, {self.dtype}, {self.architecture}" + f", with {params}" * bool(params)
        return "\n".join([fill(head, WIDTH), "", *self._lines(), "", *self._notes()])

    def _lines(self) -> list[str]:
        """The instructions; of many with one name in a row, the first and how many more."""
        source_width = max((len(one.source) for one in self.loop.body), default=0)
        room, lines = WIDTH - 4 - source_width, []
        for name, some in groupby(self.loop.body, key=lambda one: one.name):
            alike = list(some)
            for one in alike[: len(alike) if len(alike) <= ALIKE else 1]:
                text = one.text if len(one.text) <= room else one.text[: room - 1] + "…"
                lines.append(f"  {text:{room}}  {one.source}".rstrip())
            if len(alike) > ALIKE:
                lines.append(f"    … {len(alike) - 1} more {name}")
        return lines

    def _notes(self) -> list[str]:
        taken = self.resources
        done = ", ".join(f"{count} {kind}" for kind, count in counts(self.loop.body).items() if count)
        spilled = f"{size(taken.stack_bytes)} of spilled registers and arrays" if taken.stack_bytes else "no spills"
        notes = [f"An iteration of the inner loop: {done}.",
                 f"A work-item takes {taken.registers} registers, {spilled}; a work-group of {self.group} work-items "
                 f"takes {size(taken.local_bytes) if taken.local_bytes else 'none'} of local memory."]  # fmt: skip
        if (held := self.occupancy) is not None:
            notes.append(f"A multiprocessor holds {held.groups} work-groups at a time, {held.warps} of its "
                         f"{held.most_warps} warps: limited by {held.limit}.")  # fmt: skip
        return [fill(note, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for note in notes]


def on_nvidia(backend: str, dtype: str, isa: str | None) -> DeviceListing | None:
    """The inner loop of a GPU rung, for the device here, or for an architecture such as "sm_90" with NVRTC alone.

    None for a device whose driver does not compile to PTX.

    Raises
    ------
    UnsupportedProblem
        For a backend that is no rung, a dtype that it does not have, or an architecture for another runtime.
    BackendUnavailable
        Where there is no device and no architecture is given, or no NVRTC.
    """
    name = BackendName.of(backend)
    rung = next((one for one in SHOWN if one.name == (name.rung or BEST_RUNG)), None)
    if rung is None or name.shares:
        names = ", ".join(one.name for one in SHOWN)
        raise UnsupportedProblem(f"{backend} is no rung: gemmlab asm shows {names} of a runtime")
    if dtype not in rung.dtypes:
        raise UnsupportedProblem(f"{backend} multiplies {', '.join(rung.dtypes)}, not {dtype}")
    if isa is None:
        return _on_device_here(name, rung, dtype)
    if name.runtime != "cuda" or not ARCHITECTURE.fullmatch(isa):
        raise UnsupportedProblem(f"--isa {isa} is not for {backend}: cuda rungs take an architecture such as sm_90")
    whole = {"shares": 1} if "shares" in rung.defaults["gpu"] else {}
    params = rung.resolve({**whole, **rung.instead}, "gpu")  # no driver is asked
    kind = _kind(rung, dtype)
    launch = launch_without_device(rung, params, kind, EDGE, capability=_capability(isa))
    return _listing(name, rung, kind, isa, params, launch, *compiled_for(isa, launch.text, launch.macros))


def _kind(rung: Rung, dtype: str) -> str:
    """How a rung calls products of a dtype: matrix units multiply float32 as TF32."""
    return dtype if dtype in rung.numbers else TF32


def _capability(architecture: str) -> int:
    return int("".join(filter(str.isdigit, architecture)))


def _on_device_here(name: BackendName, rung: Rung, dtype: str) -> DeviceListing | None:
    found: Any = _registry.get(name.of_rung(rung.name))
    queue = found.queue  # raises where there is none
    operand = np.empty((EDGE, EDGE), dtype)
    kind, edges = _kind(rung, dtype), GemmSize(EDGE, EDGE, EDGE, 1)
    params = found.resolve(Problem.from_call(operand, operand), {"precision": TF32} if kind == TF32 else {})
    values = {name: value for name, value in params.items() if name != "precision"}
    launches = rung.on(queue.device.kind).launches(values, kind, edges, row_major(edges), queue.device)
    launch = next(one for one in launches if one.name == "gemm")
    made = queue.ptx_and_code(launch.text, launch.name, launch.macros)
    if made is None:
        return None
    return _listing(name, rung, kind, f"sm_{queue.device.compute_capability}", params, launch, *made)


def _listing(
    name: BackendName, rung: Rung, dtype: str, architecture: str, params: Mapping[str, int], launch: Launch, ptx: str,
    code: bytes,
) -> DeviceListing:  # fmt: skip
    texts = ("common/cuda.h",) * (name.runtime == "cuda") + rung.texts
    files = [(one, kernel_text(one).count("\n")) for one in texts]
    loop, resources, group = inner_loop(kernel_in(ptx, launch.name, files)), resources_of(code, ptx), prod(launch.group)
    if name.runtime == "cuda":
        resources = replace(resources, local_bytes=resources.local_bytes + launch.local_bytes)
    occupancy = occupancy_of(resources, group, _capability(architecture))
    return DeviceListing(str(name), dtype, architecture, params, loop, resources, group, occupancy)
