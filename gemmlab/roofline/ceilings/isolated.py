"""Ceilings measured in an isolated process, where no library's idle threads spin beside the loops.

The threads of a CPU's loops are pinned to cores, far from each other: else the system may run two on one core for as
long as a level of memory is measured, and that level looks half as fast. A device is measured in a process without
pinning, and two runtimes never share one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from gemmlab import _registry
from gemmlab._config import config
from gemmlab._cpu.machine import usable_cpus
from gemmlab._process.children import OPENMP_AFFINITY, ChildFailed, ask_child
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings.cpu import measure_ceilings
from gemmlab.roofline.ceilings.device import measure_device_ceilings


def isolated_ceilings(*, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True) -> list[Record]:
    """`measure_ceilings` in a fresh process.

    Raises
    ------
    RuntimeError
        If that process fails; the message is its last line.
    """
    count = threads or config.threads or usable_cpus()  # counted here: a pinned thread sees its core alone
    return _in_child({"seconds": seconds, "threads": count, "bandwidth": bandwidth}, OPENMP_AFFINITY)


def isolated_device_ceilings(backend: str, *, seconds: float = 4.0, bandwidth: bool = True) -> list[Record]:
    """`measure_device_ceilings` in a fresh process, of a backend's device. RuntimeError as `isolated_ceilings`."""
    return _in_child({"backend": backend, "seconds": seconds, "bandwidth": bandwidth})


def _in_child(request: Mapping[str, object], environ: Mapping[str, str] | None = None) -> list[Record]:
    try:
        records: list[Record] = ask_child("gemmlab.roofline.ceilings.isolated", request, environ=environ)
    except ChildFailed as failure:
        raise RuntimeError(f"measuring the ceilings failed: {failure}") from None
    return records


def main() -> None:
    """In the fresh process: measure, and print the records."""
    request = json.loads(sys.argv[1])
    if "backend" in request:
        backend: Any = _registry.get(request.pop("backend"))  # of a device: it has a queue
        records = measure_device_ceilings(backend.queue, **request)
    else:
        records = measure_ceilings(**request)
    print(json.dumps(records))
