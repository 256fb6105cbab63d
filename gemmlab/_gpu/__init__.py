"""Products on devices: the GPU ladder, written once, on three runtimes.

    kernels/        the rungs' texts in OpenCL C, and cuda.h, which maps OpenCL C's words to CUDA's
    rungs.py        the ladder as data
    runtime.py      what a runtime is
    opencl.py  sycl.py  cuda.py      the three runtimes: devices, memory, compile, launch, event time
    staging.py      large host arrays, by way of pinned memory
    cache.py        compiled programs on disk; ptx.py makes machine code of NVIDIA's
    operands.py     where matrices lie in device memory
    traffic.py      bytes that each rung moves
    backend.py      what happens to a product, whichever the runtime
    vendor.py       oneMKL and cuBLAS; CLBlast in clblast.py
    arrays.py       arrays that users bring on a device

A runtime's package is imported when one of its backends is first asked for, so a machine without one pays nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Device, Runtime

RUNTIMES = ("opencl", "sycl", "cuda")
RUNG_NAMES = ("naive", "private", "local", "local4", "register", "register-global")
VENDORS = {"opencl": "clblast", "sycl": "onemkl", "cuda": "cublas"}


@functools.cache
def runtime_named(name: str) -> Runtime:
    """One of the three, loaded when it is first asked for."""
    if name == "opencl":
        from gemmlab._gpu.opencl import OpenCL

        return OpenCL()
    if name == "sycl":
        from gemmlab._gpu.sycl import Sycl

        return Sycl()
    from gemmlab._gpu.cuda import Cuda

    return Cuda()


def backend_named(name: str) -> DeviceBackend:
    """The backend of a name such as "opencl-local4" or, on a device, "opencl-local4:cpu"."""
    from gemmlab._gpu.backend import RungBackend
    from gemmlab._gpu.rungs import RUNGS

    plain, _, wanted = name.partition(":")
    runtime, _, way = plain.partition("-")
    if VENDORS[runtime] == way:
        from gemmlab._gpu.clblast import CLBlast
        from gemmlab._gpu.vendor import CuBLAS, OneMKL

        vendor = {"clblast": CLBlast, "onemkl": OneMKL, "cublas": CuBLAS}[way]
        return vendor(runtime_named(runtime), wanted)
    return RungBackend(runtime_named(runtime), next(rung for rung in RUNGS if rung.name == way), wanted)


def best_rung(runtime: str, wanted: str) -> str:
    """The rung that a runtime's family name stands for: the fastest one on the kind of device that was asked for."""
    from gemmlab._errors import BackendUnavailable

    try:
        on_cpu = runtime_named(runtime).device(wanted).kind == "cpu"
    except BackendUnavailable:
        on_cpu = False
    return f"{runtime}-{'local4' if on_cpu else 'register'}" + (f":{wanted}" if wanted else "")


def devices() -> dict[str, tuple[Device, ...] | str]:
    """Each runtime's devices, or the sentence that says why it has none and what to do."""
    from gemmlab._errors import BackendUnavailable

    found: dict[str, tuple[Device, ...] | str] = {}
    for name in RUNTIMES:
        try:
            found[name] = runtime_named(name).devices
        except BackendUnavailable as error:
            found[name] = str(error)
    return found
