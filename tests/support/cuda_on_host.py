"""CUDA by a stand-in for CuPy whose kernels run on the host; see `on_host.py`."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace

from fake_cuda import FakeCuda
from on_host import run

from gemmlab._gpu.cuda import Cuda, CudaQueue
from gemmlab._gpu.plans.launches import Launch, Place
from gemmlab._gpu.tensor import trial


class OnHost:
    """A compiled kernel."""

    ptr = 1234

    def __init__(self, folder, text, name, macros):
        self.folder, self.given, self.calls = folder, (text, name, macros), []

    def __call__(self, groups, group, arguments, local_bytes, stream):
        self.calls.append(local_bytes)
        operands = [x for x in arguments if hasattr(x, "buffer")]
        places = [Place.WORKSPACE if hasattr(x, "buffer") else x for x in arguments]
        launch = Launch(*self.given, groups, group, tuple(places), local_bytes)
        run(launch, [ctypes.addressof(x.buffer) for x in operands], self.folder)


@contextmanager
def cuda_on_host(monkeypatch, folder):
    """The runtime, and the stand-in; kernels are compiled to a folder."""
    fake, kernels = FakeCuda(), {}
    fake.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    fake.driver.funcSetAttribute = lambda *given: fake.log.append(given)
    runtime = Cuda()
    runtime.cupy = SimpleNamespace(cuda=fake)
    runtime.devices = tuple(runtime._find())
    monkeypatch.setattr("gemmlab._gpu.runtime_named", lambda name: runtime)

    def kernel(queue, text, name, macros):
        return kernels.setdefault((text, name, *sorted(macros.items())), OnHost(folder, text, name, macros))

    monkeypatch.setattr(CudaQueue, "kernel", kernel)
    trial.failure.cache_clear()
    yield runtime, fake
    trial.failure.cache_clear()
