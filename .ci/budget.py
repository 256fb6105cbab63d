"""The CPU seconds of each step against its budget: python .ci/budget.py SECONDS FIXED RESULTS.xml ...

SECONDS has a line for each step: wall seconds, CPU seconds, lane, name. FIXED has a line for each compilation of
fixed.cpp: CPU seconds, lane. A step is counted in compilations of its own lane, so that a slower machine, or one whose
cores are shared, has the same budget. A step that takes more than `OVER` of its budget fails, and the tests that cost
most are listed: a change that adds minutes takes them away elsewhere, or raises the budget in the same commit and says
why.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path
from statistics import mean

OVER = 1.3
LISTED = 10
SMALL = 8  # compilations: a step of less is not worth a budget


def costliest(paths: list[str]) -> list[tuple[float, str]]:
    """The tests that cost most, by the CPU seconds that conftest.py notes."""
    found = []
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            cost = [float(x.get("value", 0)) for x in case.iter("property") if x.get("name") == "cpu_s"]
            found.append((sum(cost), f"{Path(path).stem}: {case.get('classname')}::{case.get('name')}"))
    return sorted(found, reverse=True)[:LISTED]


def main(seconds: str, fixed: str, *results: str) -> int:
    compilations = defaultdict(list)
    for line in Path(fixed).read_text().splitlines():
        cpu_s, lane = line.split()
        compilations[lane].append(float(cpu_s))
    kind = "avx512" if "avx512f" in Path("/proc/cpuinfo").read_text() else "avx2"
    budgets = json.loads((Path(__file__).parent / "budgets.json").read_text())[kind]
    over = 0
    print(f"{'s':>5} {'CPU s':>6} {'compilations':>12} {'budget':>6}  step ({kind})")
    for line in Path(seconds).read_text().splitlines():
        wall_s, cpu_s, lane, name = line.split(maxsplit=3)
        count = float(cpu_s) / mean(compilations[lane])
        budget = budgets.get(name)
        is_over = count > SMALL and (budget is None or count > OVER * budget)
        over += is_over
        print(f"{wall_s:>5} {cpu_s:>6} {count:12.1f} {budget or '':>6}  {name}{'  OVER ITS BUDGET' if is_over else ''}")
    print("\nThe tests that cost most, in CPU seconds:")
    for cost, name in costliest(list(results)):
        print(f"{cost:7.1f}  {name}")
    return over


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
