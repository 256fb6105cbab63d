"""`gemmlab tune opencl-register`, or any other rung of the GPU ladder: its fastest parameters on a device.

    search.py      the whole search: what is built, tried, logged and kept
    space.py       the configurations that can run, by the rung's own data
    strategy.py    which configuration comes next
    workers.py     the processes that build and try, with their time limits
    child.py       what such a process does: it builds one configuration, or checks and times one
    ranking.py     which configuration is the fastest so far
    log.py         the log of a search, from which it goes on, and which is read without a device

A configuration is a value for each parameter of a rung. It is checked before it is timed, and it is timed in turns
with the fastest so far: where the device's clock changes, it changes for both.
"""

from __future__ import annotations

from gemmlab.tune.devices.ranking import Fastest
from gemmlab.tune.devices.search import MINUTES, DeviceSearch, replay

__all__ = ["MINUTES", "DeviceSearch", "Fastest", "replay"]
