"""The door to GPUs: which devices each runtime sees. No product runs on one yet.

A runtime is loaded only when it is asked about, so a machine without one pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Device:
    """One device as a runtime sees it, or, with an empty `name`, why the runtime sees none."""

    runtime: str
    name: str
    kind: str
    driver: str
    reason: str = ""


def devices() -> list[Device]:
    """Devices of every runtime; a runtime without one has a row that says why and what to do."""
    rows: list[Device] = []
    for runtime, (package, extra, ask) in _RUNTIMES.items():
        if find_spec(package) is None:
            reason = f"{package} is not installed: pip install 'gemmlab[{extra}]'"
            rows.append(Device(runtime, "", "", "", reason))
            continue
        try:
            found = ask()
        except Exception as error:  # every runtime and driver has errors of its own
            found = [Device(runtime, "", "", "", f"{type(error).__name__}: {error}".splitlines()[0])]
        rows += found or [Device(runtime, "", "", "", "no device found")]
    return rows


def _opencl() -> list[Device]:
    import pyopencl

    return [
        Device("opencl", device.name.strip(), _opencl_kind(device.type), platform.version)
        for platform in pyopencl.get_platforms()
        for device in platform.get_devices()
    ]


def _opencl_kind(bits: int) -> str:
    import pyopencl

    kinds = ("cpu", "gpu", "accelerator")
    return " ".join(kind for kind in kinds if bits & getattr(pyopencl.device_type, kind.upper())) or "other"


def _sycl() -> list[Device]:
    import dpctl

    return [
        Device("sycl", device.name, device.device_type.name, device.driver_version)
        for device in dpctl.get_devices()
    ]


def _cuda() -> list[Device]:
    import cupy

    version = str(cupy.cuda.runtime.driverGetVersion())
    return [
        Device("cuda", cupy.cuda.runtime.getDeviceProperties(index)["name"].decode(), "gpu", version)
        for index in range(cupy.cuda.runtime.getDeviceCount())
    ]


_RUNTIMES: dict[str, tuple[str, str, Callable[[], list[Device]]]] = {
    "opencl": ("pyopencl", "opencl", _opencl),
    "sycl": ("dpctl", "sycl", _sycl),
    "cuda": ("cupy", "cuda", _cuda),
}
