"""Products on devices: the GPU ladder, written once in OpenCL C, on three runtimes.

    kernels/           the rungs' sources (.cl), gemm.h, which all rungs share, and cuda.h, which maps OpenCL C to CUDA
    rungs.py           the ladder as data; traffic.py models the bytes that each rung moves
    runtime.py         the interface of a runtime: devices, queues, events
    opencl.py  sycl.py  cuda.py        the three runtimes
    cache.py           the disk cache of compiled programs; ptx.py compiles NVIDIA's PTX to machine code for it
    staging.py         transfers of large host arrays through pinned memory
    batches.py         batches of matrices in device memory, split into launches
    backend.py         the host code of a product, the same for every runtime
    vendor.py          oneMKL and cuBLAS; CLBlast in clblast.py
    device_arrays.py   device arrays of users, and DLPack

A runtime's package is imported when one of its backends is first used, so a machine without it pays nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from gemmlab._gpu.rungs import BEST_RUNG, RUNG_NAMES, RUNGS

__all__ = ["RUNG_NAMES", "RUNTIMES", "VENDORS", "backend_named", "best_rung", "devices", "runtime_named"]

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Device, Runtime

RUNTIMES = ("opencl", "sycl", "cuda")
VENDORS = {"opencl": "clblast", "sycl": "onemkl", "cuda": "cublas"}


@functools.cache
def runtime_named(name: str) -> Runtime:
    """The runtime of a name, imported on first use."""
    if name == "opencl":
        from gemmlab._gpu.opencl import OpenCL

        return OpenCL()
    if name == "sycl":
        from gemmlab._gpu.sycl import Sycl

        return Sycl()
    from gemmlab._gpu.cuda import Cuda

    return Cuda()


def backend_named(name: str) -> DeviceBackend:
    """The backend of a name such as "opencl-local4" or, for a certain device, "opencl-local4:cpu"."""
    from gemmlab._gpu.backend import RungBackend

    family_and_rung, _, selector = name.partition(":")
    runtime, _, rung = family_and_rung.partition("-")
    if VENDORS[runtime] == rung:
        from gemmlab._gpu.clblast import CLBlast
        from gemmlab._gpu.vendor import CuBLAS, OneMKL

        vendor = {"clblast": CLBlast, "onemkl": OneMKL, "cublas": CuBLAS}[rung]
        return vendor(runtime_named(runtime), selector)
    return RungBackend(runtime_named(runtime), RUNGS[RUNG_NAMES.index(rung)], selector)


def best_rung(runtime: str, selector: str) -> str:
    """The backend that a runtime's family name selects: the fastest rung for the kind of device."""
    from gemmlab._errors import BackendUnavailable

    try:
        on_cpu = runtime_named(runtime).device(selector).kind == "cpu"
    except BackendUnavailable:
        on_cpu = False
    return f"{runtime}-{BEST_RUNG['cpu' if on_cpu else 'gpu']}" + (f":{selector}" if selector else "")


def devices() -> dict[str, tuple[Device, ...] | str]:
    """The devices of each runtime, or a sentence that says why it has none and what to do."""
    from gemmlab._errors import BackendUnavailable

    found: dict[str, tuple[Device, ...] | str] = {}
    for name in RUNTIMES:
        try:
            found[name] = runtime_named(name).devices
        except BackendUnavailable as error:
            found[name] = str(error)
    return found
