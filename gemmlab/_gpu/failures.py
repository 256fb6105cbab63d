"""The errors of drivers, as one line that says what to do."""

from __future__ import annotations

import re
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


def build_failed(device: Device, log: str, text: str = "") -> DeviceError:
    """The error for a text that the device's compiler rejects, with its log, and the lines that this names."""
    said = [f"{device.label} cannot build the kernel; its compiler says:", log.strip(), *_lines_named(log, text)]
    return DeviceError("\n".join(said))


def _lines_named(log: str, text: str) -> list[str]:
    """The first lines of a text with a name (`#line 1 "name"`) that a log names."""
    if (named := re.search(r'^#line 1 "(.*)"\n', text, re.MULTILINE)) is None:
        return []
    lines, name = text[named.end() :].splitlines(), named[1]
    numbers = dict.fromkeys(map(int, re.findall(rf"{re.escape(name)}\D{{1,3}}(\d{{1,6}})\b", log)))
    return [f"{name}:{number}: {lines[number - 1].strip()}" for number in numbers if 0 < number <= len(lines)][:5]


