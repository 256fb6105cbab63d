"""What a product launches on a device, run on the host: each kernel's text is compiled with `matrix_unit.h`."""

from __future__ import annotations

import ctypes
import subprocess
from hashlib import sha256

import numpy as np
from recorded_kernel import COMPILER, HEADER

from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import Place

UNIT = HEADER.with_name("matrix_unit.h")


def compiled(launch, folder, changed=lambda text: text):
    """The function of one kernel, whose text may be changed first."""
    memory, numbers, call = 0, 0, []
    for x in launch.arguments:
        is_memory = isinstance(x, Place)
        call.append(f"Memory{{memory[{memory}]}}" if is_memory else f"numbers[{numbers}]")
        memory, numbers = memory + is_memory, numbers + (not is_memory)
    macros = {"GROUP_X": launch.group[0], "GROUP_Y": launch.group[1], **launch.macros}
    given = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    text = launch.text
    for instructions in ("units/units.h", "units/maps.h", "units/warpgroups.h"):
        text = text.replace(kernel_text(instructions), "")
    text = changed(text)
    source = f'{given}#include "{UNIT}"\n{text}\n#define CALL {launch.name}({", ".join(call)})\nRUN\n'
    library = folder / sha256(source.encode()).hexdigest()[:16]
    if not library.exists():
        command = [COMPILER, "-std=c++17", "-w", "-O1", "-shared", "-fPIC", "-x", "c++", "-", "-o", library]
        subprocess.run(command, input=source, text=True, check=True)
    return ctypes.CDLL(str(library)).run


def start(launches, operands, folder, backwards=False, changed=lambda text: text):
    """Run all kernels, with A, B and C in these arrays; the workspace is poisoned first."""
    workspace = aligned(launches.workspace_bytes, np.uint8)
    workspace[:] = 0xFF
    places = dict(zip(Place, (*operands, workspace), strict=True))
    for one in launches:
        memory = [places[x].ctypes.data for x in one.arguments if isinstance(x, Place)]
        run(one, memory, folder, backwards, changed)


def run(launch, memory, folder, backwards=False, changed=lambda text: text):
    """Run one kernel, with its memory at these addresses."""
    numbers = [int(x) for x in launch.arguments if not isinstance(x, Place)]
    compiled(launch, folder, changed)(
        (ctypes.c_long * 3)(*launch.groups), int(backwards), (ctypes.c_void_p * len(memory))(*memory),
        (ctypes.c_long * len(numbers))(*numbers),
    )  # fmt: skip


def aligned(count, dtype, to=128):
    """An array of a dtype at a multiple of so many bytes."""
    raw = np.empty(count * np.dtype(dtype).itemsize + to, np.uint8)
    return raw[-raw.ctypes.data % to :][: count * np.dtype(dtype).itemsize].view(dtype)
