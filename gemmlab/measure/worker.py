"""The process in which one backend is timed, alone with its libraries and its threads.

Two BLAS libraries or OpenMP runtimes in one process get into each other's way, so each backend has a
process of its own. It reads one JSON command a line and answers with one JSON object a line:

    hello    backend, threads, resident, cpus    load it, set its threads, say what it is
    prepare  case, params                        make the operands, run one product, check it
    again    case, params, call_s                make the operands anew; a call is known to take so long
    time     budget_s, min_samples, max_samples  time it
    release                                      check the last timed product, let go of the operands

`resident` has a device's operands be on the device beforehand; a CPU has no such difference. `process.py` starts it,
`serving.py` reads the commands; by hand, `python -m gemmlab.measure.worker` does.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

import gemmlab
from gemmlab._cpu import machine
from gemmlab._cpu.baselines import thread_scope
from gemmlab._problem import Problem
from gemmlab.measure.binding import bind_threads
from gemmlab.measure.counters import MemoryCounter
from gemmlab.measure.environment import thread_pools
from gemmlab.measure.problems import Case, operands
from gemmlab.measure.product import Product, ResidentProduct
from gemmlab.measure.serving import serve
from gemmlab.verify.bounds import error_over_bound, freivalds

SHORTEST_SAMPLE_S = 0.5e-3  # thousands of ticks of any clock
_LONG_CALL_S = 50e-3  # one of these is warm-up enough,
_COLD_CALL_S = 200e-3  # and these need none
_WARM_UP_S, _STEADY = 50e-3, 0.97
CHECK_ALL = 128**3  # multiplications; up to here every element is checked
_CHECK_ROWS, _CHECK_COLUMNS = 16, 64
COMMANDS = ("hello", "prepare", "again", "time", "release")


class Worker:
    """One backend, and the product that it is working on."""

    def hello(self, backend: str, threads: int, resident: bool = False, cpus: Sequence[int] = ()) -> dict[str, Any]:
        """Load the backend and set its threads, once for the life of this process; `cpus` are theirs."""
        self._backend: Any = gemmlab.get_backend(backend)  # with the libraries whose threads are set next
        # Not gemmlab.config.threads: a baseline would be limited anew in every call, on its time.
        threadpoolctl.threadpool_limits(threads)
        self._on_cpu = not hasattr(self._backend, "runtime")
        self._resident = resident and not self._on_cpu
        self._memory = MemoryCounter()
        self._cpus = cpus  # not asked here: OpenMP has bound this thread already
        gc.freeze()  # what there is now stays, and need not be looked through after each product
        return {"on_cpu": self._on_cpu, "thread_pools": thread_pools(), **self._machine()}

    def _machine(self) -> dict[str, Any]:
        """What the backend runs on; the memory of a CPU is the session's to know."""
        if self._on_cpu:
            scope = f"environment and threadpoolctl; reaches {thread_scope(self._backend.name)}"
            return {"device": machine.cpu_name(), "thread_scope": scope}
        device = self._backend.device
        return {"device": device.label, "memory_bytes": device.memory_bytes, "resident": self._resident}

    def prepare(self, case: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """Run the case once into an `out` full of NaN, check the result, and see how long a call takes."""
        product = self._new_product(case, params)
        a, b = product.a, product.b
        with gemmlab.trace() as calls:
            first_s = seconds_a_call(product.start, 1, product.finish)
        error = check(a, b, product.result())
        call_s = first_s
        if error <= 1 and not self._on_cpu:
            call_s = seconds_a_call(product.start, 1, product.finish)  # the first one may have built a kernel
        if error <= 1 and call_s <= _LONG_CALL_S:
            call_s = seconds_a_warm_call(product.start, product.finish)
        problem = Problem.from_call(a, b)
        traffic = self._traffic(problem, calls[-1].params)
        packing_share = self._packing_share(problem, params) if call_s <= _LONG_CALL_S else None
        self._product, self._call_s = product, call_s
        return {
            "error_over_bound": error,
            "first_s": first_s,
            "call_s": call_s,
            "copies": calls[-1].copies,
            "params": dict(calls[-1].params),
            "threads": calls[-1].threads if self._on_cpu else None,
            "traffic": traffic,
            "packing_share": packing_share,
        }

    def again(self, case: dict[str, Any], params: dict[str, Any], call_s: float) -> dict[str, Any]:
        """Make the operands anew, in a process that may be new too; what is timed next is checked by `release`."""
        self._product, self._call_s = self._new_product(case, params), call_s
        if _LONG_CALL_S <= call_s < _COLD_CALL_S:  # `time` warms up shorter ones
            seconds_a_call(self._product.start, 1, self._product.finish)
        return {}

    def _new_product(self, case: dict[str, Any], params: dict[str, Any]) -> Product:
        a, b = operands(Case.from_json(case))
        return (ResidentProduct if self._resident else Product)(self._backend, a, b, params)

    def time(self, budget_s: float, min_samples: int, max_samples: int) -> dict[str, Any]:
        """Time samples until the budget is spent, at least and at most so many; on a device, one call by its clock."""
        product = self._product
        product.poison()  # what `release` checks is then what was timed here
        if self._call_s < _LONG_CALL_S:
            warm_up(product.start, product.finish)  # back into the caches, after the turns of others
        if self._on_cpu:
            bind_threads(self._cpus)  # they are there now; the check may have had others started
        calls = calls_a_sample(self._call_s)
        samples: list[float] = []
        spent_s = 0.0
        before = self._memory.read()
        while len(samples) < max_samples and (len(samples) < min_samples or spent_s < budget_s):
            samples.append(seconds_a_call(product.start, calls, product.finish))
            spent_s += samples[-1] * calls
        after = self._memory.read()
        moved = None if before is None or after is None else (after - before) / (calls * len(samples))
        kernel_s = None if self._on_cpu else product.kernel_s()
        return {"samples_s": samples, "calls_per_sample": calls, "kernel_s": kernel_s, "dram_bytes": moved}

    def release(self) -> dict[str, Any]:
        """Check what the last call left, and let go of the operands."""
        error = check(self._product.a, self._product.b, self._product.result())
        del self._product
        gc.collect()
        return {"error_over_bound": error}

    def _traffic(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, float] | None:
        """Bytes that the backend's own model expects to pass from each memory level."""
        model = getattr(self._backend, "traffic", None)
        return None if model is None else dict(model(problem, machine.caches(), **params))

    def _packing_share(self, problem: Problem, params: Mapping[str, Any]) -> float | None:
        """The share of its time that the backend spends packing its operands, if it packs and can tell."""
        clocked = getattr(self._backend, "packing_share", None)
        return None if clocked is None else float(clocked(problem, **params))


def seconds_a_call(start: Callable[[], Any], calls: int, finish: Callable[[], None] = lambda: None) -> float:
    """Time `calls` calls together, and one wait for the end of what they started; return seconds for one of them."""
    start_ns = perf_counter_ns()
    for _ in repeat(None, calls):
        start()
    finish()
    return (perf_counter_ns() - start_ns) / 1e9 / calls


def seconds_a_warm_call(start: Callable[[], Any], finish: Callable[[], None]) -> float:
    """Time as many calls, doubled each time, as together last long enough to be believed."""
    calls = 1
    while (call_s := seconds_a_call(start, calls, finish)) * calls < SHORTEST_SAMPLE_S:
        calls *= 2
    return call_s


def warm_up(start: Callable[[], Any], finish: Callable[[], None]) -> None:
    """Call until a call is no faster than the one before, but for a few per cent: the state is steady."""
    before_s, spent_s = math.inf, 0.0
    while spent_s < _WARM_UP_S:
        call_s = seconds_a_call(start, 1, finish)
        spent_s += call_s
        if call_s > _STEADY * before_s:
            return
        before_s = call_s


def calls_a_sample(call_s: float) -> int:
    """How many calls are timed together so that one sample is no shorter than `SHORTEST_SAMPLE_S`."""
    return max(1, math.ceil(SHORTEST_SAMPLE_S / max(call_s, 1e-9)))


def check(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> float:
    """Return the largest error found, divided by its bound; over 1 is wrong.

    A small product is checked element by element. A large one is checked on a sample of rows and columns,
    and by a random vector; where that vector sees something odd, the rows it points at decide.
    """
    m, n = a.shape[-2], b.shape[-1]
    rng = np.random.default_rng(0)
    # One thread: the pool of NumPy's BLAS would be left spinning beside the backend's.
    with threadpoolctl.threadpool_limits(1):
        if a.size * n <= CHECK_ALL:
            return error_over_bound(a, b, c)
        rows, columns = _some_of(m, _CHECK_ROWS, rng), _some_of(n, _CHECK_COLUMNS, rng)
        error = error_over_bound(a, b, c, rows=rows, columns=columns)
        if error <= 1 and freivalds(a, b, c, rng) > 1:
            signs = rng.choice([-1.0, 1.0], (n, 1))
            with np.errstate(all="ignore"):
                oddness = np.abs(c @ signs - a @ (b @ signs)).reshape(-1, m)
            # NaN is the oddest: it sorts last.
            odd_rows = np.argsort(oddness.max(axis=0))[-_CHECK_ROWS:]
            error = error_over_bound(a, b, c, rows=odd_rows)
    return error


def _some_of(count: int, sample: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """At most `sample` indices below `count`, the first and the last among them."""
    if count <= sample:
        return np.arange(count)
    between = 1 + rng.choice(count - 2, sample - 2, replace=False)
    return np.concatenate([[0], between, [count - 1]])


def main() -> None:
    """Answer commands from standard input."""
    worker = Worker()
    serve({name: getattr(worker, name) for name in COMMANDS})


if __name__ == "__main__":
    main()
