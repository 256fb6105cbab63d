"""What a runtime is: devices, memory, compile, launch, event time, in this order in each runtime's file.

    opencl.py  sycl.py  cuda.py       the three; each is loaded when it is first asked for

A `Runtime` lists devices and opens them; a `Queue` is one device at work. The host code of the rungs
(`backend.py`) knows these two classes and nothing of the three. Whatever a driver raises comes out as a
`DeviceError` that says what to do.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._errors import BackendUnavailable, DeviceError
from gemmlab._gpu import cache
from gemmlab._gpu.staging import WORTH_BYTES, Staging

HostArray = npt.NDArray[Any]
Defines = Mapping[str, int | str]
KINDS = ("gpu", "accelerator", "cpu")  # in the order in which a runtime's devices are taken by default


@dataclass(frozen=True)
class Device:
    """One device as a runtime sees it. `index` counts GPUs first: 0 is what a bare backend name takes."""

    runtime: str
    index: int
    name: str
    kind: str
    platform: str
    driver: str
    compute_units: int
    group_limit: int  # work-items a work-group
    local_bytes: int  # local memory a work-group
    memory_bytes: int
    allocation_bytes: int  # the largest single allocation
    float64: bool
    handle: int = -1  # the runtime's own number

    @property
    def label(self) -> str:
        """The name in records: a CPU seen through a runtime is another machine than the CPU itself."""
        return self.name if self.kind == "gpu" else f"{self.name} ({self.platform})"


@dataclass(frozen=True)
class Build:
    """How a kernel came to be: "source" or "disk", and the seconds that took."""

    how: str
    seconds: float


class Event(ABC):
    """Work that a device was given."""

    @abstractmethod
    def wait(self) -> None:
        """Return when it is done; DeviceError if it failed."""

    @property
    @abstractmethod
    def kernel_s(self) -> float:
        """Seconds on the device, by its own clock. Waits."""


class Queue(ABC):
    """One device at work: what it is given is done in the order given.

    Safe to use from several threads. A queue that has `failed` is not given out again.
    """

    device: Device
    failed = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()  # a kernel's arguments and its launch belong together
        self.builds: list[Build] = []
        self._kernels: dict[Hashable, Any] = {}

    # memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Memory on the device; it goes back when the last reference does."""

    @abstractmethod
    def upload(self, memory: Any, array: HostArray) -> None:
        """Copy a C-contiguous host array to the start of `memory`; when this returns, the array may change."""

    @abstractmethod
    def download(self, array: HostArray, memory: Any) -> None:
        """Copy the start of `memory` into a C-contiguous host array, after all work given so far."""

    @abstractmethod
    def pinned(self, nbytes: int) -> HostArray:
        """Host memory, as bytes, that the device copies to and from without a detour; it goes back with the array."""

    stages = True  # whether `send` and `fetch` are there

    def send(self, memory: Any, start: int, piece: HostArray) -> Event:
        """Start copying pinned bytes to `memory`, `start` bytes into it."""
        raise NotImplementedError

    def fetch(self, piece: HostArray, memory: Any, start: int) -> Event:
        """Start copying bytes of `memory`, from `start` on, into pinned ones."""
        raise NotImplementedError

    def move_in(self, memory: Any, array: HostArray) -> None:
        """`upload`, by way of pinned memory where that pays."""
        if self._pays(array):
            with self.staging.lock:
                self.staging.upload(memory, array)
        else:
            self.upload(memory, array)

    def move_out(self, array: HostArray, memory: Any) -> None:
        """`download`, by way of pinned memory where that pays."""
        if self._pays(array):
            with self.staging.lock:
                self.staging.download(array, memory)
        else:
            self.download(array, memory)

    def _pays(self, array: HostArray) -> bool:
        return self.stages and self.device.kind == "gpu" and array.nbytes >= WORTH_BYTES

    @cached_property
    def staging(self) -> Staging:
        """Threads and pinned memory for large arrays."""
        return Staging(self.pinned, self.send, self.fetch)

    # compile

    def kernel(self, source: str, name: str, defines: Defines) -> Any:
        """The kernel `name` of a text with these macros: from memory, else from disk, else built and kept."""
        key = source, name, tuple(sorted(defines.items()))
        with self.lock:
            if key not in self._kernels:
                self._kernels[key] = self._loaded(source, name, defines)
            return self._kernels[key]

    def share_kernels(self, other: Queue) -> None:
        """Use one table of kernels, and one lock, with another queue of the same context."""
        self._kernels, self.lock = other._kernels, other.lock

    def _loaded(self, source: str, name: str, defines: Defines) -> Any:
        start = perf_counter()
        entry = cache.Entry(
            source=self.prelude() + source, options=repr(sorted(defines.items())), runtime=self.device.runtime,
            device=self.device.name, driver=self.device.driver, platform=self.device.platform, target=self.target(),
        ) if self.cached else None  # fmt: skip
        if entry is not None and (binary := entry.load()) is not None:
            try:
                kernel = self._from_binary(binary, name)
            except Exception:  # whatever a driver has against it: it is built again
                entry.drop()
            else:
                self.builds.append(Build("disk", perf_counter() - start))
                return kernel
        kernel, binary = self._from_source(source, name, defines)
        self.builds.append(Build("source", perf_counter() - start))
        if entry is not None and binary:
            entry.store(self._keepable(binary, name))
        return kernel

    cached = True  # whether programs of this runtime can be kept on disk

    def prelude(self) -> str:
        """Text that this runtime puts before every kernel's own: a dialect's macros."""
        return ""

    def target(self) -> str:
        """What else a binary depends on: versions of the compiler, the architecture."""
        return ""

    @abstractmethod
    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Any, bytes]:
        """Build; returns the kernel and the program's binary. DeviceError with the log if the text is refused."""

    def _keepable(self, binary: bytes, name: str) -> bytes:
        """The form of a binary that loads in the least time."""
        return binary

    @abstractmethod
    def _from_binary(self, binary: bytes, name: str) -> Any:
        """Load what `_from_source` gave."""

    # launch and event time

    @abstractmethod
    def launch(
        self, kernel: Any, groups: tuple[int, int, int], group: tuple[int, int, int], arguments: Sequence[Any]
    ) -> Event:
        """Start a kernel on so many groups of so many work-items, dimension 0 first.

        Arguments are memory, or NumPy scalars of the kernel's own types.
        """

    @abstractmethod
    def trouble(self, doing: str) -> AbstractContextManager[None]:
        """Turn what the driver raises inside the block into a DeviceError that says what to do."""


@dataclass(frozen=True)
class Adopted:
    """A device array of a user as a rung needs it, nothing copied.

    `memory` begins at `address` (of its own kind: equal for the same memory, apart for others), the array
    `start_bytes` into it; `strides` are in bytes.
    """

    array: Any
    queue: Queue
    memory: Any
    address: int
    start_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class Runtime(ABC):
    """OpenCL, SYCL or CUDA."""

    name: str
    package: str  # what it needs
    extra: str  # the extra of gemmlab that brings it
    no_device: str  # what to do where it sees no device

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Queue] = {}

    # devices

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices, in the order of KINDS. BackendUnavailable, with the fix, where there is none."""
        if find_spec(self.package) is None:
            raise BackendUnavailable(f"{self.package} is not installed; fix: pip install 'gemmlab[{self.extra}]'")
        try:
            found = self._find()
        except Exception as error:  # every driver has errors of its own
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise BackendUnavailable(f"{self.name} cannot be used: {what}; fix: {self.no_device}") from error
        if not found:
            raise BackendUnavailable(f"{self.name} sees no device; fix: {self.no_device}")
        return tuple(found)

    @abstractmethod
    def _find(self) -> list[Device]:
        """The devices, ordered and numbered by `numbered`."""

    def device(self, wanted: str) -> Device:
        """The device of an index, a kind ("gpu", "cpu") or a part of the name; "" is the first."""
        known = self.devices
        for device in known:
            text = f"{device.name} {device.platform}".lower()
            if wanted in ("", str(device.index), device.kind) or (
                not wanted.isdigit() and wanted not in KINDS and wanted.lower() in text
            ):
                return device
        listed = "; ".join(f"{device.index} {device.label} ({device.kind})" for device in known)
        raise BackendUnavailable(f"{self.name} has no device {wanted!r}; fix: take one of {listed}")

    def queue(self, device: Device) -> Queue:
        """The device at work, opened at the first call and after a failure."""
        with self._lock:
            queue = self._open.get(device.index)
            if queue is None or queue.failed:
                queue = self._open[device.index] = self._opened(device)
            return queue

    @abstractmethod
    def _opened(self, device: Device) -> Queue:
        """A queue on the device."""

    # device arrays of users

    @abstractmethod
    def adopt(self, array: Any) -> Adopted:
        """A user's array, as it is."""

    @abstractmethod
    def empty(self, like: Any, shape: tuple[int, ...]) -> Any:
        """A new row-major array of the same kind, dtype and device as `like`."""

    @abstractmethod
    def finish(self, out: Any, event: Event) -> None:
        """Have later work on `out` wait for the event, without blocking here."""

    @abstractmethod
    def array(self, device: Device, host: HostArray) -> Any:
        """A host array as an array of this runtime's usual kind, on the device."""

    @abstractmethod
    def values(self, array: Any) -> HostArray:
        """An array's values in host memory, once the work on it is done."""

    @abstractmethod
    def wait(self, array: Any) -> None:
        """Return when the work on an array is done."""


def numbered(devices: Sequence[Device]) -> list[Device]:
    """Devices in the order of KINDS, with their indices."""
    ordered = sorted(devices, key=lambda device: KINDS.index(device.kind))
    return [replace(device, index=index) for index, device in enumerate(ordered)]


def out_of_memory(device: Device, doing: str, error: Exception) -> DeviceError:
    """The error for a full device."""
    size = device.memory_bytes / 1e9
    return DeviceError(
        f"{device.label} ran out of memory {doing} ({' '.join(str(error).split())}): free arrays on it, or multiply "
        f"in pieces; it has {size:.3g} GB"
    )


def failed(device: Device, doing: str, error: Exception) -> DeviceError:
    """The error for anything else that a driver says; the next product opens the device anew."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return DeviceError(
        f"{device.label} failed {doing} ({what}): try again; if it stays so, look at the driver and "
        f"`gemmlab verify {device.runtime}-naive`"
    )


def build_failed(device: Device, log: str) -> DeviceError:
    """The error for a text that the device's compiler refuses, with its log."""
    return DeviceError(f"{device.label} cannot build the kernel; its compiler says:\n{log.strip()}")


