"""A device that is NumPy and works only when it is waited for: for tests of whatever measures devices.

As far as gemmlab can tell, its arrays are those of a package that it knows, so they go the way of real ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from gemmlab import _registry
from gemmlab._backend import Availability, FullBackend, Param
from gemmlab._gpu import device_arrays
from gemmlab._gpu.operands import DeviceOperand
from gemmlab._problem import Problem

LABEL = "Fake GPU"
MEMORY_BYTES = 1 << 20
KERNEL_S = 0.125


class FakeDeviceInfo:
    """What is asked of a `gemmlab._gpu.runtime.Device`."""

    label, memory_bytes = LABEL, MEMORY_BYTES


class Array:
    """What lives on the device; `work` is what is still to be done on it."""

    def __init__(self, values: Any) -> None:
        self.values, self.dtype, self.work = values, values.dtype, []

    def fill(self, value: float) -> None:
        FakeRuntime.wait(self)
        self.values.fill(value)

    @property
    def T(self) -> Array:
        return Array(self.values.T)


Array.__module__ = "pyopencl.array"


class Work:
    """A product under way: the handle of it, and its only event."""

    def __init__(self, run: Callable[[], Any], kernel_s: float) -> None:
        self.run, self.kernel_s, self.events, self.done = run, kernel_s, [self], False

    def wait(self) -> None:
        if not self.done:
            self.run()
        self.done = True


class FakePlans:
    """Executes what is planned; keeps nothing."""

    def key_of(self, *given: Any) -> Any:
        return given[3]

    def product(self, *given: Any) -> None:
        return None

    def execute(self, plan: Any, a: Array, b: Array, out: Array | None, events: list[Any] | None) -> Array:
        out = Array(np.full(plan.shape, np.nan, plan.dtype)) if out is None else out
        work = plan.prepared(a.values, b.values, out.values)
        out.work.append(work)
        if events is not None:
            events.append(work)
        return out


class FakeRuntime:
    """Counts what it brings to the device, and how often it waits."""

    name = "opencl"
    device = FakeDeviceInfo()
    plans = FakePlans()
    failed = False
    brought = waits = 0

    def check_process(self):
        pass

    def adopt(self, x: Array) -> DeviceOperand:
        address = x.values.__array_interface__["data"][0]
        return DeviceOperand(x, self, x.values, 0, (0, address), x.values.shape, x.values.strides, x.dtype)

    def array(self, device: Any, host: Any) -> Array:
        FakeRuntime.brought += 1
        return Array(host.copy())

    def values(self, x: Array) -> Any:
        self.wait(x)
        return x.values.copy()

    @staticmethod
    def wait(x: Array) -> None:
        FakeRuntime.waits += 1
        while x.work:
            x.work.pop(0).wait()


class Device(FullBackend):
    """NumPy's product on the device."""

    kind, summary, source, selector = "rung", "a device for tests", "", ""
    params: Mapping[str, Param] = {"size": Param("size", 4, (2, 4), "nothing")}
    kernel_s = KERNEL_S
    runtime = FakeRuntime()
    device = FakeRuntime.device

    def __init__(self, name: str) -> None:
        self.name = name

    def probe(self) -> Availability:
        return Availability(True, device=LABEL)

    def supports(self, problem: Problem) -> bool | str:
        return True

    def gemm(self, problem: Problem, **params: Any) -> Work:
        return self._work(problem.a, problem.b, problem.out)

    def planned(self, problem: Problem, params: Any) -> Any:
        return self._work

    def _work(self, a: Any, b: Any, out: Any) -> Work:
        return Work(partial(self.multiply, a, b, out), self.kernel_s)

    def multiply(self, a: Any, b: Any, out: Any) -> None:
        np.matmul(a, b, out=out)


class Clockless(Device):
    """Does not tell the time of its kernels."""

    kernel_s = float("nan")


class Idle(Device):
    """Leaves C as it is."""

    def multiply(self, a: Any, b: Any, out: Any) -> None:
        pass


class Builds(Device):
    """Is slow once, as one that compiles its kernel at the first call."""

    built = False

    def multiply(self, a: Any, b: Any, out: Any) -> None:
        time.sleep(0 if self.built else 0.1)
        self.built = True
        super().multiply(a, b, out)


DEVICES = (
    Device("opencl-fake:1"), Clockless("opencl-clockless"), Idle("opencl-idle"), Builds("opencl-builds"),
)  # fmt: skip


@contextmanager
def installed() -> Iterator[None]:
    """Have the devices above among the backends."""
    with ExitStack() as stack:
        for backend in DEVICES:
            stack.enter_context(_registry.registered(backend))
        stack.enter_context(mock.patch.object(device_arrays, "runtime_named", return_value=Device.runtime))
        yield
