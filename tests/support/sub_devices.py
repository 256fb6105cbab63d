"""Several OpenCL devices where there is one: the parts of a CPU device, or what PoCL makes of POCL_DEVICES."""

from __future__ import annotations

from contextlib import suppress

from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.opencl import OpenCL
from gemmlab._gpu.opencl_drivers import described, drivers_listed
from gemmlab._gpu.runtime import numbered


class OpenCLOn(OpenCL):
    """OpenCL on the devices of these handles alone."""

    def __init__(self, handles):
        super().__init__()
        self.given = list(handles)

    def _find(self):
        devices = numbered([described(number, handle) for number, handle in enumerate(self.given)])
        self._handles = [self.given[device.handle] for device in devices]
        return devices


def pocl_handles():
    """PoCL's devices; empty where there is no PoCL."""
    with suppress(ImportError), drivers_listed():
        import pyopencl as cl

        return [device for platform in cl.get_platforms() if platform.name == "Portable Computing Language"
                for device in platform.get_devices()]  # fmt: skip
    return []


def halves():
    """A CPU device of OpenCL in parts of one core each; empty where it cannot be parted."""
    with suppress(ImportError), drivers_listed():
        import pyopencl as cl

        for device in pocl_handles():
            with suppress(cl.Error):
                return device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[:2]
    return []


def all_of(runtime, rung, backend=None):
    """A rung on all devices of a runtime."""
    from gemmlab._gpu.backend import RungBackend
    from gemmlab.scale.devices import AllDevices

    kind = backend or RungBackend
    return AllDevices(runtime, lambda selector: kind(runtime, RUNGS[RUNG_NAMES.index(rung)], selector))
