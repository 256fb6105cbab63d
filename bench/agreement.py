"""Whether reports of one machine, one after the other, say the same wherever they mark no row as noisy.

    python bench/agreement.py [--runs 2] [--load] --out DIR [-- OPTIONS of gemmlab report]

Each run is `gemmlab report --quick` into a folder of its own. `--load` adds one beside which another process computes
for a minute. The table compares each run with the one before it: rows in both, the median of their differences, those
within 3 %, the same with every time counted in the probes beside it instead of seconds, which no change of the clock
alters, those that neither run marks, and of them those beyond 3 %, which are then named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import sleep

from gemmlab.measure.comparison import compare
from gemmlab.measure.records import name_of, read

AGREE_PERCENT = 3.0
LOAD_AFTER_S, LOAD_S = 45, 60
SPIN = "while True: pass"


def report(folder: Path, options: list[str], loaded: bool) -> Path:
    """Measure into the folder; the file of its records."""
    command = [sys.executable, "-m", "gemmlab", "report", "--quick", "--out", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        if loaded:
            sleep(LOAD_AFTER_S)
            with subprocess.Popen([sys.executable, "-c", SPIN]) as load:
                sleep(LOAD_S)
                load.kill()
    if running.returncode:
        sys.exit(f"agreement.py: status {running.returncode} of: {' '.join(command)}")
    return folder / "records.jsonl"


def apart(ratio: float) -> float:
    """By how many per cent two times of this ratio differ."""
    return 100 * abs(ratio - 1)


def print_row(before: Path, after: Path) -> None:
    """What two runs share."""
    pairs = compare(read(before), read(after)).products
    unmarked = [pair for pair in pairs if not pair.noisy]
    beyond = [pair for pair in unmarked if apart(pair.ratio) > AGREE_PERCENT]
    middle = median(apart(pair.ratio) for pair in pairs)
    within = sum(apart(pair.ratio) <= AGREE_PERCENT for pair in pairs)
    in_probes = sum(apart(pair.ratio_in_probes) <= AGREE_PERCENT for pair in pairs)
    title = f"{before.parent.name}, {after.parent.name}"
    print(
        f"{title:9} {len(pairs):4} {middle:12.1f} % {within:11} {in_probes:10} {len(unmarked):9} {len(beyond):15}",
        flush=True,
    )
    for pair in beyond:
        problem = pair.new["problem"]
        print(f"    {name_of(pair.new)} {problem['label']} {problem['dtype']}: {apart(pair.ratio):.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="how many (2)")
    parser.add_argument("--load", action="store_true", help="one more, with another process beside it")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for all of them")
    parser.add_argument("options", nargs="*", help="of gemmlab report, after --")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    print("runs      rows median apart  within 3 %  in probes  unmarked  of them beyond")
    names = [*map(str, range(1, asked.runs + 1)), *(["loaded"] if asked.load else [])]
    for before, after in pairwise(report(asked.out / name, asked.options, name == "loaded") for name in names):
        print_row(before, after)


if __name__ == "__main__":
    main()
