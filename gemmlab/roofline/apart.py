"""Ceilings measured in a process of their own, where no library's idle threads spin beside them.

A device has one of its own too, so that no two runtimes get into each other's way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gemmlab import _registry
from gemmlab.measure.process import child_command
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
    return _apart({"seconds": seconds, "threads": threads, "bandwidth": bandwidth})


def measure_device_ceilings_apart(backend: str, *, seconds: float = 4.0, bandwidth: bool = True) -> Records:
    """`measure_device_ceilings` in a fresh process, of the device that a backend multiplies on.

    Raises
    ------
    RuntimeError
        If that process fails; the message is its last line.
    """
    return _apart({"backend": backend, "seconds": seconds, "bandwidth": bandwidth})


def _apart(wish: dict[str, Any]) -> Records:
    command = child_command("gemmlab.roofline.apart", json.dumps(wish))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"measuring the ceilings failed: {last}")
    records: Records = json.loads(done.stdout.splitlines()[-1])  # a driver may have had something to say before
    return records


def main() -> None:
    """In the fresh process: measure, and print the records."""
    wish = json.loads(sys.argv[1])
    backend: Any = _registry.get(wish.pop("backend")) if "backend" in wish else None
    records = measure_ceilings(**wish) if backend is None else measure_device_ceilings(backend.queue, **wish)
    print(json.dumps(records))
