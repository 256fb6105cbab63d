"""The ceilings measured in a process of their own, where no library's idle threads spin beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gemmlab.measure.process import child_command
from gemmlab.roofline.ceilings import measure_ceilings


def measure_ceilings_apart(
    *, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True
) -> list[dict[str, Any]]:
    """`measure_ceilings` in a fresh process.

    Raises
    ------
    RuntimeError
        If that process fails; the message is its last line.
    """
    wish = {"seconds": seconds, "threads": threads, "bandwidth": bandwidth}
    command = child_command("gemmlab.roofline.apart", json.dumps(wish))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"measuring the ceilings failed: {last}")
    records: list[dict[str, Any]] = json.loads(done.stdout)
    return records


def main() -> None:
    """In the fresh process: measure, and print the records."""
    print(json.dumps(measure_ceilings(**json.loads(sys.argv[1]))))
