"""Whether reports of one machine agree wherever they mark no row as noisy.

    python bench/agreement.py [--runs 10] [--load] --out DIR [-- OPTIONS of gemmlab report]

Each run is `gemmlab report --quick` into its own directory. With `--load`, every second one runs beside a process that
computes for a few seconds and sleeps for a few. All pairs of runs are compared, row by row. The table says how many
pairs of rows there are, how many of them nothing marks as noisy (neither record, nor the probes beside them), and how
many of those differ by more than 3 %.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import combinations
from pathlib import Path

from gemmlab.measure.comparison import compare
from gemmlab.measure.records import Record, read

AGREE_PERCENT = 3.0
LOAD = """
import time, random
while True:
    end = time.time() + random.uniform(1, 6)
    while time.time() < end: pass
    time.sleep(random.uniform(1, 12))
"""


def report(directory: Path, options: list[str], loaded: bool) -> list[Record]:
    """Measure into the directory; its records."""
    command = [sys.executable, "-m", "gemmlab", "report", "--quick", "--out", str(directory), *options]
    load = subprocess.Popen([sys.executable, "-c", LOAD]) if loaded else None
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    finally:
        if load is not None:
            load.kill()
            load.wait()
    return read(directory / "records.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="how many (2)")
    parser.add_argument("--load", action="store_true", help="every second one beside another process")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory for all of them")
    parser.add_argument("options", nargs="*", help="of gemmlab report, after --")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    runs = [report(asked.out / str(i), asked.options, asked.load and i % 2 == 1) for i in range(asked.runs)]
    pairs = [pair for old, new in combinations(runs, 2) for pair in compare(old, new).products]
    for name, some in (("all", pairs), ("unmarked", [pair for pair in pairs if not pair.noisy])):
        beyond = sum(100 * abs(pair.ratio - 1) > AGREE_PERCENT for pair in some)
        print(f"{name:<9} {len(some):>6} pairs of rows, {beyond:>5} beyond {AGREE_PERCENT:g} %")


if __name__ == "__main__":
    main()
