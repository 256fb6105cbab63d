"""Where OpenCL's loader finds the drivers, and what they say of their devices.

pyopencl's wheel contains a loader, which searches only its folder for drivers. Before its first use, gemmlab
writes a directory of `.icd` files for it, which lists the system's drivers too, Intel's CPU runtime from its wheel, and
NVIDIA's library, which containers often have without an `.icd` file.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from gemmlab._gpu.runtime import Device, Native

SYSTEM_DRIVERS = Path("/etc/OpenCL/vendors")
SHORT_NAMES = {"Portable Computing Language": "PoCL", "Intel(R) OpenCL": "Intel OpenCL", "NVIDIA CUDA": "NVIDIA"}
SUB_GROUPS = "warp_size_nv", "wavefront_width_amd", "sub_group_sizes_intel"  # as each vendor calls them


@contextmanager
def drivers_listed() -> Iterator[None]:
    """Within the block, the loader sees a directory of all drivers, unless the user has set another directory."""
    # PoCL would compile a kernel again at its first launch, for that launch's size. That takes half a second, cannot
    # be cached, and gains nothing, because the kernel source declares the size of the work-groups.
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
    if "OCL_ICD_VENDORS" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as directory:
        for number, library in enumerate(_drivers()):
            Path(directory, f"{number}.icd").write_text(library)
        os.environ["OCL_ICD_VENDORS"] = directory
        try:
            yield
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def intels_cpu_runtime() -> list[str]:
    """The library of Intel's CPU runtime, if its wheel is installed."""
    with suppress(PackageNotFoundError):
        installed = files("intel-opencl-rt") or ()
        return [os.path.realpath(file.locate()) for file in installed if file.name == "libintelocl.so"]
    return []


def _drivers() -> list[str]:
    """The libraries in the system's `.icd` files, and those that have no such file."""
    found = []
    for icd in sorted(SYSTEM_DRIVERS.glob("*.icd")):
        with suppress(OSError):
            found.append(icd.read_text().strip())
    found += intels_cpu_runtime()
    nvidia = "libnvidia-opencl.so.1"
    if not any("nvidia-opencl" in library for library in found):
        with suppress(OSError):
            ctypes.CDLL(nvidia)
            found.append(nvidia)
    return found


def _compute_capability(device: Native) -> int | None:
    major, minor = (_extra(device, f"compute_capability_{part}_nv") for part in ("major", "minor"))
    return None if major is None or minor is None else 10 * major + minor


def _sub_group(device: Native) -> int | None:
    """Work-items that a GPU computes as one."""
    return next(filter(None, (_extra(device, name) for name in SUB_GROUPS)), None)


def _extra(device: Native, name: str) -> int | None:
    """What only some vendors say of a device: a number, or the largest of several."""
    import pyopencl as cl

    with suppress(cl.Error, AttributeError, TypeError, ValueError):
        found = getattr(device, name)
        return int(max(found) if isinstance(found, Sequence) else found)
    return None


def described(handle: int, device: Native) -> Device:
    """A device of pyopencl, which has a number there."""
    import pyopencl as cl

    kinds = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    platform = device.platform
    return Device(
        "opencl", 0,
        name=device.name.strip().removeprefix("pthread-").removeprefix("cpu-"),
        kind=next((kind for bit, kind in kinds.items() if device.type & bit), "accelerator"),
        platform=SHORT_NAMES.get(platform.name.strip(), platform.name.strip()),
        driver=f"{device.driver_version} ({platform.version.strip()})",
        compute_units=device.max_compute_units,
        group_limit=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        memory_bytes=device.global_mem_size,
        allocation_bytes=device.max_mem_alloc_size,
        float64=bool(device.double_fp_config),
        handle=handle,
        compute_capability=_compute_capability(device), sub_group=_sub_group(device),
        vector_bits=32 * int(device.native_vector_width_float), clock_mhz=device.max_clock_frequency,
    )  # fmt: skip
