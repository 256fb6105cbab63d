"""One product on several devices, or on a CPU and a device together.

    blocks.py         how C is cut: along a batch, into rows, or into rows and columns
    lines.py          time as a line over rows, rows that end together, and what a product should take
    rates.py          the lines of backends, measured on slices of a product
    parts.py          the parts of a product as problems, and running them at once
    broadcast.py      B from one device to the others, where devices copy to each other
    devices.py        AllDevices: a backend on all devices of a runtime ("opencl-local:all")
    co_execution.py   CoExecution: several backends on one product ("cpu-packed+opencl-local")

Backends are handed in: the registry, which is above, makes them of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab._name import BackendName
from gemmlab.scale.lines import Prediction, predicted

if TYPE_CHECKING:
    from gemmlab.scale.devices import AllDevices

__all__ = ["Prediction", "all_devices", "predicted"]


def all_devices(name: str) -> AllDevices:
    """The backend of a name such as "opencl-local:all"."""
    from gemmlab._gpu import backend_named, runtime_named
    from gemmlab.scale.devices import AllDevices

    parsed = BackendName.of(name)
    return AllDevices(runtime_named(parsed.runtime), lambda selector: backend_named(parsed.on(selector)))
