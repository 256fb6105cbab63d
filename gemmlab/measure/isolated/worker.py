"""The process in which one backend is timed, alone with its libraries and its threads.

Two BLAS libraries or OpenMP runtimes in one process disturb each other, so each backend has a separate process. It
reads one JSON command a line and answers with one JSON object a line:

    hello          backend, threads, resident, cpus    load it, set its threads, say what it is
    prepare        case, params                        make the operands, run one product, check it
    prepare_again  case, params, call_s                make the operands anew; one call is known to take `call_s`
    time           budget_s, min_samples, max_samples, cold    time it
    release                                            check the last timed product, free the operands

With `resident`, a device's operands are on the device beforehand; on a CPU that changes nothing. `_process/children.py`
starts this process, `child_server.py` reads the commands. By hand: `python -m gemmlab.measure.isolated.worker`.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

import gemmlab
from gemmlab import _registry
from gemmlab._backend import ErrorBound
from gemmlab._cpu import machine
from gemmlab._cpu.baselines import thread_scope
from gemmlab._cpu.threads._threads import main_thread_is_bound
from gemmlab._name import BackendName
from gemmlab._problem import Array, Problem
from gemmlab._process.child_server import serve_timed
from gemmlab._process.children import Answer
from gemmlab.measure.environment import thread_pools
from gemmlab.measure.isolated.affinity import pin_threads
from gemmlab.measure.isolated.cold import CacheFlush
from gemmlab.measure.problems import Case, laid_out, operands
from gemmlab.verify.bounds import GAMMA, error_over_bound
from gemmlab.verify.dtypes import is_exact, poison
from gemmlab.verify.random_vector import row_ratios

MIN_SAMPLE_S = 0.5e-3  # thousands of ticks of any clock
_LONG_CALL_S = 50e-3  # is timed by one call
_VERY_LONG_CALL_S = 200e-3  # these need no warm-up
_WARM_UP_S, _STEADY = 50e-3, 0.97
CHECK_ALL = 128**3  # multiplications; up to here every element is checked
_CHECK_ROWS, _CHECK_COLUMNS = 16, 64
COMMANDS = ("hello", "prepare", "prepare_again", "time", "release")


class Product:
    """C = A @ B with all three in host memory, and C full of NaN, or of one odd integer.

    Calling `start` does the product; it is complete when `finish` has returned.
    """

    def __init__(
        self, backend: Any, a: Array, b: Array, params: dict[str, Any], layout: str = "C", name: str | None = None
    ) -> None:
        self.a, self.b, self._backend, self._params, self._poison = a, b, backend, params, poison(a.dtype)
        nothing = laid_out(np.full((*a.shape[:-1], b.shape[-1]), self._poison, a.dtype), layout)
        left, right, self._out = (self._placed(x) for x in (a, b, nothing))
        self.start = partial(gemmlab.matmul, left, right, out=self._out, backend=name or backend.name, **params)

    def finish(self) -> None:
        """Wait for the products started so far."""

    def poison(self) -> None:
        """Fill C with what it held first, so that what it holds later was computed later."""
        self._out.fill(self._poison)
        self.finish()

    def result(self) -> Array:
        """C in host memory."""
        return np.asarray(self._out)

    def error(self) -> float:
        """The largest error found in C, divided by the bound of the backend; over 1 is wrong."""
        bound = self._backend.error(Problem.from_call(self.a, self.b), **self._params)
        return check(self.a, self.b, self.result(), bound)

    def kernel_s(self) -> float | None:
        """Do the product once more, and return the device's time of its kernels; None where it has none."""
        with gemmlab.trace() as calls:
            self.start()
        kernel_s = calls[-1].kernel_s
        return None if kernel_s is None or math.isnan(kernel_s) else kernel_s

    def _placed(self, x: Array) -> Any:
        return x


class ResidentProduct(Product):
    """The same with all three on the device: a call starts the work and returns."""

    def poison(self) -> None:
        if self._out.dtype != np.float16:
            super().poison()
            return
        bits = np.array(self._poison, np.float16).view(np.uint16)  # pyopencl has no kernel that fills float16
        self._out.view(np.uint16).fill(bits[()])
        self.finish()

    def finish(self) -> None:
        from gemmlab._gpu import device_arrays

        device_arrays.wait(self._out)

    def result(self) -> Array:
        from gemmlab._gpu import device_arrays

        return np.asarray(device_arrays.to_host(self._out))

    def _placed(self, x: Array) -> Any:
        """The array on the device, column-major there if it is column-major here."""
        from gemmlab._gpu import device_arrays

        if BackendName.of(self._backend.name).shares:
            raise gemmlab.UnsupportedProblem(f"{self._backend.name} shares products of host arrays alone")
        if not (x.flags.c_contiguous or x.swapaxes(-1, -2).flags.c_contiguous):
            raise gemmlab.UnsupportedProblem("operands on a device are row-major or column-major here")
        if x.flags.c_contiguous or not x.T.flags.c_contiguous:
            return device_arrays.to_device(self._backend, x)
        return device_arrays.to_device(self._backend, x.T).T


class Worker:
    """One backend, and the product that it is working on."""

    def __init__(self) -> None:
        self._backend: Any = None
        self._current: Product | None = None
        self._call_s = 0.0

    @property
    def _product(self) -> Product:
        if self._current is None:
            raise RuntimeError("there is no product here: `prepare` comes first")
        return self._current

    def hello(self, backend: str, threads: int, resident: bool = False, cpus: Sequence[int] = ()) -> Answer:
        """Load the backend and set its threads, once for the life of this process; they are pinned to `cpus`."""
        self._backend = _registry.get(backend)  # with the libraries whose threads are set next
        self._auto = backend if backend == "auto" else None  # it may take another one for each product
        # Not gemmlab.config.threads: a baseline would be limited anew in every call, within its time.
        threadpoolctl.threadpool_limits(threads)
        self._on_cpu = not (self._backend.runtime is not None or BackendName.of(self._backend.name).on_runtime)
        self._resident = resident and not self._on_cpu
        self._cpus = cpus  # not read here: OpenMP has pinned this thread already
        gc.freeze()  # what exists now stays, so no collection needs to visit it
        answer: Answer = {"on_cpu": self._on_cpu, "thread_pools": thread_pools()}
        if self._on_cpu:
            scope = f"environment and threadpoolctl; reaches {thread_scope(self._backend.name)}"
            return answer | {"device": machine.cpu_name(), "thread_scope": scope}
        if BackendName.of(self._backend.name).shares:
            every, memory_bytes = self._backend.probe().device, machine.memory_bytes()  # of operands that stay here
            return answer | {"device": every, "memory_bytes": memory_bytes, "resident": self._resident}
        device = self._backend.device
        return answer | {"device": device.label, "memory_bytes": device.memory_bytes, "resident": self._resident}

    def prepare(self, case: Answer, params: Answer) -> Answer:
        """Run the case once into an `out` full of NaN, check the result, and see how long a call takes."""
        begun_s = perf_counter()
        product = self._new_product(case, params)
        operands_s = perf_counter() - begun_s
        a, b = product.a, product.b
        with gemmlab.trace() as calls:
            first_s = seconds_a_call(product.start, 1, product.finish)
        if self._auto:
            self._backend = _registry.get(calls[-1].backend)
        problem, error = Problem.from_call(a, b), product.error()
        call_s = first_s
        if error <= 1 and not self._on_cpu:
            call_s = seconds_a_call(product.start, 1, product.finish)  # the first may have built a kernel
        if error <= 1 and call_s <= _LONG_CALL_S:
            call_s = seconds_a_warm_call(product.start, product.finish)
        self._current, self._call_s = product, call_s
        return {
            "error_over_bound": error,
            "call_s": call_s,
            "operands_s": operands_s,
            "copies": calls[-1].copies,
            "params": dict(calls[-1].params),
            "threads": calls[-1].threads if self._on_cpu else None,
            "traffic": self._backend.traffic(problem, machine.caches(), **calls[-1].params) or None,
            "packing_share": self._backend.packing_share(problem, **params) if call_s <= _LONG_CALL_S else None,
        }

    def prepare_again(self, case: Answer, params: Answer, call_s: float) -> Answer:
        """Make the operands anew, also in a new process; `release` checks what is timed next."""
        self._current, self._call_s = self._new_product(case, params), call_s
        return {}

    def _new_product(self, case: Answer, params: Answer) -> Product:
        made = Case(**case)
        kind = ResidentProduct if self._resident else Product
        return kind(self._backend, *operands(made), params, made.layout[2], self._auto)

    def time(self, budget_s: float, min_samples: int, max_samples: int, cold: bool = False) -> Answer:
        """Time samples until the budget is spent, within these limits; on a device, one more call by its clock.

        With `cold`, a sample is one call, and the caches are emptied before it, on the budget too.
        """
        product = self._product
        product.poison()  # so `release` checks what was timed here
        if self._call_s < _VERY_LONG_CALL_S:
            warm_up(product.start, product.finish)  # back into the caches, after other backends' rounds
        if self._on_cpu:
            pin_threads(self._cpus)  # they exist now; the check may have started others
            main_thread_is_bound()
        calls = 1 if cold else calls_per_sample(self._call_s)
        flush = CacheFlush(self._cpus) if cold else None
        samples: list[float] = []
        start_s = perf_counter()
        while len(samples) < max_samples and (len(samples) < min_samples or perf_counter() - start_s < budget_s):
            if flush is not None:
                flush()
            samples.append(seconds_a_call(product.start, calls, product.finish))
        kernel_s = None if self._on_cpu else product.kernel_s()
        return {"samples_s": samples, "calls_per_sample": calls, "kernel_s": kernel_s}

    def release(self) -> Answer:
        """Check the result of the last call, and free the operands."""
        error = self._product.error()
        self._current = None
        gc.collect()
        return {"error_over_bound": error}


def seconds_a_call(start: Callable[[], object], calls: int, finish: Callable[[], None] = lambda: None) -> float:
    """Time `calls` calls together, and one wait for the end of what they started; return seconds for one of them."""
    start_ns = perf_counter_ns()
    for _ in repeat(None, calls):
        start()
    finish()
    return (perf_counter_ns() - start_ns) / 1e9 / calls


def seconds_a_warm_call(start: Callable[[], object], finish: Callable[[], None]) -> float:
    """Time calls, doubling their number until together they last for a sample."""
    calls = 1
    while (call_s := seconds_a_call(start, calls, finish)) * calls < MIN_SAMPLE_S:
        calls *= 2
    return call_s


def warm_up(start: Callable[[], object], finish: Callable[[], None]) -> None:
    """Call until a call is no more than a few per cent faster than the one before."""
    before_s, spent_s = math.inf, 0.0
    while spent_s < _WARM_UP_S:
        call_s = seconds_a_call(start, 1, finish)
        spent_s += call_s
        if call_s > _STEADY * before_s:
            return
        before_s = call_s


def calls_per_sample(call_s: float) -> int:
    """How many calls are timed together, so that a sample lasts at least `MIN_SAMPLE_S`."""
    return max(1, math.ceil(MIN_SAMPLE_S / max(call_s, 1e-9)))


def check(a: Array, b: Array, c: Array, bound: ErrorBound = GAMMA) -> float:
    """Return the largest error found, divided by its bound; over 1 is wrong.

    A small product is checked element by element. A large one is checked on a sample of rows and columns, and as a
    whole by a random vector (Freivalds). Where that vector finds a deviation, the rows with the largest are checked.
    """
    m, n = a.shape[-2], b.shape[-1]
    rng = np.random.default_rng(0)
    # One thread: the pool of NumPy's BLAS would go on spinning beside the backend's.
    with threadpoolctl.threadpool_limits(1):
        if a.size * n <= CHECK_ALL:
            return error_over_bound(a, b, c, error=bound)
        rows, columns = _some_of(m, _CHECK_ROWS, rng), _some_of(n, _CHECK_COLUMNS, rng)
        error = error_over_bound(a, b, c, rows=rows, columns=columns, error=bound)
        if error <= 1:
            of_rows = row_ratios(a, b, c, rng).reshape(-1, m).max(axis=0)
            if of_rows.max() > 1:
                if is_exact(c.dtype):
                    return math.inf
                error = error_over_bound(a, b, c, rows=np.argsort(of_rows)[-_CHECK_ROWS:], error=bound)
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
    serve_timed({name: getattr(worker, name) for name in COMMANDS})


if __name__ == "__main__":
    main()
