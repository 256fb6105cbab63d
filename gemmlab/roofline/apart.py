"""Ceilings measured in a process of their own, where no library's idle threads spin beside them.

Its threads are bound to cores, far from each other: else the system may leave two on one core for as long as a level
of memory is measured, and that level looks half as fast. A device has a process of its own too, unbound, so that no
two runtimes get into each other's way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from gemmlab import _registry
from gemmlab._config import config
from gemmlab._cpu.machine import usable_cpus
from gemmlab.measure.process import BOUND, ChildFailed, ask_child
from gemmlab.roofline.ceilings import measure_ceilings
from gemmlab.roofline.device_ceilings import measure_device_ceilings

Records = list[dict[str, Any]]


def measure_ceilings_apart(*, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True) -> Records:
    """`measure_ceilings` in a fresh process.

    Raises
    ------
    RuntimeError
        If that process fails; the message is its last line.
    """
    count = threads or config.threads or usable_cpus()  # asked here: a bound thread sees its own core alone
    return _apart({"seconds": seconds, "threads": count, "bandwidth": bandwidth}, BOUND)


def measure_device_ceilings_apart(backend: str, *, seconds: float = 4.0, bandwidth: bool = True) -> Records:
    """`measure_device_ceilings` in a fresh process, of the device that a backend multiplies on.

    Raises
    ------
    RuntimeError
        If that process fails; the message is its last line.
    """
    return _apart({"backend": backend, "seconds": seconds, "bandwidth": bandwidth})


def _apart(wish: dict[str, Any], environ: Mapping[str, str] | None = None) -> Records:
    try:
        records: Records = ask_child("gemmlab.roofline.apart", wish, environ=environ)
    except ChildFailed as failure:
        raise RuntimeError(f"measuring the ceilings failed: {failure}") from None
    return records


def main() -> None:
    """In the fresh process: measure, and print the records."""
    wish = json.loads(sys.argv[1])
    backend: Any = _registry.get(wish.pop("backend")) if "backend" in wish else None
    records = measure_ceilings(**wish) if backend is None else measure_device_ceilings(backend.queue, **wish)
    print(json.dumps(records))
