"""`gemmlab tune opencl-register`, or any other rung of the GPU ladder: its fastest parameters on a device.

    search.py      the whole search: what is built, tried, logged and kept
    space.py       the configurations that a device can run, by the rung's data
    workers.py     the processes that build and try, with their time limits
    child.py       what such a process does: it builds one configuration, or checks and times one
"""

from __future__ import annotations

from gemmlab.tune.devices.search import MINUTES, DeviceSearch

__all__ = ["MINUTES", "DeviceSearch"]
