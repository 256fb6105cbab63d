"""The real worker, with backends that each do one thing: started by the tests as a session's worker."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import fake_device
import numpy as np

from gemmlab import _registry
from gemmlab._backend import Availability, Param
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import Problem
from gemmlab.measure.isolated import worker


class Good:
    """NumPy's product; the others differ from it by what their name says."""

    kind, summary, source = "rung", "a backend for tests", ""
    params: Mapping[str, Param] = {"size": Param("size", 4, (2, 4), "nothing")}

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def probe(self) -> Availability:
        return Availability(True)

    def supports(self, problem: Problem) -> bool | str:
        return True

    def gemm(self, problem: Problem, **params: Any) -> None:
        np.matmul(problem.a, problem.b, out=problem.out)

    def traffic(self, problem: Problem, machine: Mapping[str, int], **params: Any) -> dict[str, float]:
        return {"l1": 1.0, "dram": 2.0}


class Idle(Good):
    def gemm(self, problem: Problem, **params: Any) -> None:
        pass


class Off(Good):
    """Wrong in one element, in a column that a sample of columns need not hold."""

    def gemm(self, problem: Problem, **params: Any) -> None:
        super().gemm(problem)
        problem.out[problem.m // 3, problem.n // 3] += 1


class Later(Good):
    """Right the first time only."""

    calls = 0

    def gemm(self, problem: Problem, **params: Any) -> None:
        super().gemm(problem)
        Later.calls += 1
        if Later.calls > 1:
            problem.out[0, 0] += 1


class Dies(Good):
    """Ends its process from a size on."""

    def gemm(self, problem: Problem, **params: Any) -> None:
        if problem.n == 20:
            print("these were its last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        super().gemm(problem)


class Stillborn(Good):
    def probe(self) -> Availability:
        os._exit(3)


class Absent(Good):
    def probe(self) -> Availability:
        return Availability(False, "there is no such device", "buy one")


class Picky(Good):
    def supports(self, problem: Problem) -> bool | str:
        return "it does not do 20" if problem.n == 20 else True


class Raises(Good):
    def gemm(self, problem: Problem, **params: Any) -> None:
        raise UnsupportedProblem("not this one") if problem.n == 20 else RuntimeError("broken")


class Slow(Good):
    """At most 0.2 GFLOP/s."""

    def gemm(self, problem: Problem, **params: Any) -> None:
        time.sleep(2e-9 * problem.m * problem.n * problem.k / 0.2)
        super().gemm(problem)


class Hangs(Good):
    def gemm(self, problem: Problem, **params: Any) -> None:
        time.sleep(600)


class Chatty(Good):
    def gemm(self, problem: Problem, **params: Any) -> None:
        os.write(1, b"a library says hello\n")
        print("and so does Python")
        super().gemm(problem)


ALL = (Good, Idle, Off, Later, Dies, Stillborn, Absent, Picky, Raises, Slow, Hangs, Chatty)


def main() -> None:
    with contextlib.ExitStack() as stack:
        for backend in ALL:
            stack.enter_context(_registry.registered(backend()))
        stack.enter_context(fake_device.installed())
        worker.main()
