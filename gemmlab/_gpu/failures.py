"""The errors of drivers, as one line that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab._errors import DeviceError

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device


def out_of_memory(device: Device, doing: str, error: Exception) -> DeviceError:
    """The error for a device without enough free memory."""
    size = device.memory_bytes / 1e9
    return DeviceError(
        f"{device.label} ran out of memory {doing} ({' '.join(str(error).split())}): free arrays on it, or multiply "
        f"in pieces; it has {size:.3g} GB"
    )


def failed(device: Device, doing: str, error: Exception) -> DeviceError:
    """The error for any other failure that a driver reports; the next product opens a new queue."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return DeviceError(
        f"{device.label} failed {doing} ({what}): try again; if it happens again, check the driver and "
        f"`gemmlab verify {device.runtime}-naive`"
    )


def build_failed(device: Device, log: str) -> DeviceError:
    """The error for a source that the device's compiler rejects, with its log."""
    return DeviceError(f"{device.label} cannot build the kernel; its compiler says:\n{log.strip()}")


