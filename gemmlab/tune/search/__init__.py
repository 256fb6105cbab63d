"""What every search shares, on a device or on the CPU's cores.

    space.py       the configurations that can run
    strategy.py    which configuration comes next
    ranking.py     which configuration is the fastest so far
    log.py         the log of a search, from which it goes on, and which is read without measuring
    clock.py       the time that a search has left

A configuration is a value for each parameter of a backend. It is checked before it is timed, and it is timed in turns
with the fastest so far: where the machine's clock changes, it changes for both.
"""

from __future__ import annotations

from gemmlab.tune.search.log import replay
from gemmlab.tune.search.ranking import Fastest

__all__ = ["Fastest", "replay"]
