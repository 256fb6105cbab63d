"""Where OpenCL's loader finds the drivers.

pyopencl's wheel contains a loader, which searches only its folder for drivers. Before its first use, gemmlab
writes a directory of `.icd` files for it, which lists the system's drivers too, Intel's CPU runtime from its wheel, and
NVIDIA's library, which containers often have without an `.icd` file.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

SYSTEM_DRIVERS = Path("/etc/OpenCL/vendors")


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
