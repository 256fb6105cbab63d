"""Run every test that draws its input with many seeds: no seed may fail.

    python tests/support/many_seeds.py [--seeds 300] [--slow 30] [PYTEST ARGUMENTS ...]

A test that takes over a second has `--slow` seeds. It takes hours, so it is not a part of `.ci/run`: run it on the
tests that a change touches, by their files. A failure says its seed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter

import pytest

FIRST, SLOW_S = 1, 1.0


class ManySeeds:
    """Repeats what draws, each time with another seed."""

    def __init__(self, seeds: int, slow: int) -> None:
        self.seeds, self.slow = seeds, slow

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        import randomness
        from _pytest.runner import runtestprotocol

        for repetition in range(self.seeds):
            item.config.option.seed = FIRST + repetition
            self._seed_hypothesis(FIRST + repetition)
            item._initrequest()
            start_s = perf_counter()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            took_s = perf_counter() - start_s
            failed = [report for report in reports if report.failed]
            after = randomness.RNG.bit_generator.state
            randomness.start(FIRST + repetition, item.nodeid)
            draws = randomness.RNG.bit_generator.state != after or hasattr(item.obj, "hypothesis")
            if failed or repetition == 0:
                for report in failed or reports:
                    report.sections.append(("seed", f"repeat with --seed {FIRST + repetition}"))
                    item.ihook.pytest_runtest_logreport(report=report)
            if failed or any(report.skipped for report in reports) or not draws:
                break
            if took_s > SLOW_S and repetition + 1 >= self.slow:
                break
        return True

    @staticmethod
    def _seed_hypothesis(seed):
        from hypothesis import core

        core.global_force_seed = seed


def pytest_configure(config):
    """In each process of pytest, this one and the workers."""
    seeds, slow = map(int, os.environ["MANY_SEEDS"].split())
    config.pluginmanager.register(ManySeeds(seeds, slow))


def main() -> int:
    """Hand the numbers down by the environment, since workers know no options of this file."""
    arguments, numbers = sys.argv[1:], {"--seeds": "300", "--slow": "30"}
    while arguments and arguments[0] in numbers:
        numbers[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    os.environ["MANY_SEEDS"] = " ".join(numbers.values())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, str(Path(__file__).parent))
    return int(pytest.main(["-p", "many_seeds", "-q", *arguments]))


if __name__ == "__main__":
    sys.exit(main())
