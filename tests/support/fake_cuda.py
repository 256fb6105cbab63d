"""A stand-in for `cupy.cuda` where no GPU is: as much as the CUDA runtime uses, in one thread.

It keeps a log of what it is asked, and does copies when their stream is waited for, not before. What `broken` holds
is raised by every later call, as by a context that is lost.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace


class RuntimeFailure(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class DriverFailure(RuntimeFailure):
    pass


class OutOfMemory(MemoryError):
    pass


class Part:
    """Made only while nothing is broken."""

    def __init__(self, cuda):
        self.cuda = cuda
        cuda.check()


class FakeDevice(Part):
    compute_capability = "90"

    def __init__(self, cuda, handle):
        self.cuda, self.handle = cuda, handle

    def __enter__(self):
        self.before, self.cuda.device = self.cuda.device, self.handle

    def __exit__(self, *error):
        self.cuda.device = self.before


class FakeStream(Part):
    def __init__(self, cuda):
        super().__init__(cuda)
        self.todo = []

    def use(self):
        self.cuda.current = self

    def synchronize(self):
        self.cuda.check()
        while self.todo:
            ctypes.memmove(*self.todo.pop(0))


class FakeMemory(Part):
    def __init__(self, cuda, nbytes):
        super().__init__(cuda)
        self.place = cuda.device, cuda.current
        self.buffer = ctypes.create_string_buffer(nbytes)

    def copy_from_host_async(self, address, nbytes, stream):
        stream.todo.append((self.buffer, address, nbytes))

    def copy_from_device_async(self, source, nbytes, stream):
        stream.todo.append((self.buffer, source.buffer, nbytes))

    def copy_to_host_async(self, address, nbytes, stream):
        stream.todo.append((address, self.buffer, nbytes))


class FakeEvent(Part):
    def record(self, stream):
        self.cuda.log.append(("record", self, stream))

    def synchronize(self):
        self.cuda.check()


class FakeModule(Part):
    def load(self, binary):
        assert self.cuda.device is not None
        if binary != self.cuda.program:
            raise DriverFailure(200, "CUDA_ERROR_INVALID_IMAGE")
        self.cuda.log.append(("load", self))

    def get_function(self, name):
        def function(grid, block, arguments, local_bytes, stream):
            self.cuda.check()
            self.cuda.log.append((name, grid, block, arguments, stream))

        return function


class FakeCuda:
    """Two devices of one kind; it loads `program` and no other."""

    def __init__(self):
        self.broken = self.device = None
        self.log, self.program = [], b"program"
        self.current = self.before = FakeStream(self)
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemory)
        self.driver = SimpleNamespace(CUDADriverError=DriverFailure)
        self.nvrtc = SimpleNamespace(getVersion=lambda: (13, 5), getSupportedArchs=lambda: (75, 80, 90, 100))
        self.runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeFailure,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 12090,
            getDeviceCount=lambda: 2,
            getDeviceProperties=lambda handle: {
                "name": b"NVIDIA H200", "multiProcessorCount": 132, "maxThreadsPerBlock": 1024,
                "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448, "totalGlobalMem": 150 * 10**9,
            },
            deviceGetAttribute=lambda which, handle: 1980000,
            memGetInfo=self.check,
            deviceCanAccessPeer=lambda handle, other: int(handle != other),
        )  # fmt: skip
        for name, kind in {"Device": FakeDevice, "Event": FakeEvent, "Module": FakeModule, "alloc": FakeMemory}.items():
            setattr(self, name, lambda *given, kind=kind: kind(self, *given))
        self.Stream = lambda non_blocking: FakeStream(self)
        self.get_current_stream = lambda: self.current
        self.get_elapsed_time = lambda first, last: 2.5

    def check(self):
        if self.broken is not None:
            raise self.broken
