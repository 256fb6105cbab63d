"""The interface of a runtime: devices, memory, compile, launch, event time.

    opencl.py  sycl.py  cuda.py       the three runtimes, with their methods in this order; imported on first use

A `Runtime` lists the devices and opens them. A `Queue` executes work on one device. The host code of the rungs
(`backend.py`, `plans/`) uses only these two classes. An error that a driver raises becomes a `DeviceError` that says
what to do.
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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy.typing as npt

from gemmlab._errors import BackendUnavailable
from gemmlab._gpu import cache
from gemmlab._gpu.transfers.staging import MIN_BYTES, Staging
from gemmlab._process import forks

if TYPE_CHECKING:
    from gemmlab._gpu.operands import DeviceOperand
    from gemmlab._gpu.plans.launches import Launches
    from gemmlab._gpu.plans.table import Executor, Prepared

HostArray: TypeAlias = npt.NDArray[Any]
Defines: TypeAlias = Mapping[str, int | str]  # macros and their values
WorkGroups: TypeAlias = tuple[int, int, int]  # a number of work-groups or work-items for each dimension
# Objects of the runtimes' packages, which are optional: gemmlab cannot name their types.
Memory: TypeAlias = Any  # device memory: a pyopencl buffer, a dpctl USM allocation, a CuPy memory pointer
Kernel: TypeAlias = Any  # a compiled kernel
DeviceArray: TypeAlias = Any  # an array of pyopencl, dpnp, dpctl or CuPy
Native: TypeAlias = Any  # any other object: a device, context, queue, stream or event of the package

DEVICE_KINDS = ("gpu", "accelerator", "cpu")  # a runtime numbers its devices in this order


@dataclass(frozen=True)
class Device:
    """One device of a runtime. GPUs have the lowest indices; a backend name without a device uses index 0."""

    runtime: str
    index: int
    name: str
    kind: str
    platform: str
    driver: str
    compute_units: int
    group_limit: int  # maximum work-items per work-group
    local_bytes: int  # local memory per work-group
    memory_bytes: int
    allocation_bytes: int  # the largest single allocation
    float64: bool
    handle: int = -1  # the number that the runtime itself gives the device
    compute_capability: int | None = None  # of NVIDIA's devices, such as 90
    most_local_bytes: int = 0  # of a CUDA kernel whose launch says how much it has; else 0
    sub_group: int | None = None  # work-items that a GPU computes as one
    vector_bits: int | None = None  # of a CPU's vectors, as the runtime sees them
    clock_mhz: int = 0  # the largest, as the runtime says; 0 where it does not

    @property
    def label(self) -> str:
        """The name in records. A CPU used through a runtime has another label than the CPU itself."""
        return self.name if self.kind == "gpu" else f"{self.name} ({self.platform})"


@dataclass(frozen=True)
class Build:
    """Where a kernel came from, "source" (compiled) or "disk" (cached), and the seconds that took."""

    how: str
    seconds: float


class CompiledLaunch(NamedTuple):
    """One kernel, compiled, with its grid; an argument may be a `Place`, whose memory comes with each start."""

    kernel: Kernel
    groups: WorkGroups
    group: WorkGroups
    arguments: tuple[Any, ...]
    local_bytes: int = 0  # see `Launch`


class Event(ABC):
    """Work submitted to a device."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the work is done; DeviceError if it failed."""

    @property
    @abstractmethod
    def kernel_s(self) -> float:
        """Seconds on the device, measured by its clock. Blocks until the work is done."""


class Queue(ABC):
    """An in-order queue of one device.

    Safe to use from several threads. `Runtime.queue` replaces a queue that has `failed`.
    """

    device: Device
    failed = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()  # held while a kernel's arguments are set and it is launched
        self.builds: list[Build] = []
        self._kernels: dict[Hashable, Kernel] = {}
        self.lanes: Any = None  # see `streaming.lanes`

    def sibling(self) -> Queue:
        """Another queue on the same device and its memory, whose work runs beside this one's where the runtime can."""
        return self

    def after(self, event: Event) -> None:
        """Later work on this queue waits for an event of a sibling; the caller does not, where the runtime can that."""
        event.wait()

    def marker(self) -> Event | None:
        """All work submitted so far; None if work on other queues cannot overtake it."""
        return None

    # memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Memory on the device; freed with the last reference to it."""

    def free_bytes(self) -> int:
        """The free bytes of the device's memory; all of them where the runtime does not tell."""
        return self.device.memory_bytes

    @abstractmethod
    def upload(self, memory: Memory, array: HostArray) -> None:
        """Copy a C-contiguous host array to the start of `memory`. Blocks until the array has been read."""

    @abstractmethod
    def download(self, array: HostArray, memory: Memory) -> None:
        """Copy the start of `memory` into a C-contiguous host array, after all work submitted before."""

    @abstractmethod
    def pinned(self, nbytes: int) -> HostArray:
        """Pinned host memory, as an array of bytes; freed with the array."""

    can_stage = True  # whether `start_upload` and `start_download` are implemented

    def start_upload(self, memory: Memory, start: int, piece: HostArray) -> Event:
        """Start copying pinned bytes to `memory`, from its byte `start` on."""
        raise NotImplementedError

    def start_download(self, piece: HostArray, memory: Memory, start: int) -> Event:
        """Start copying bytes of `memory`, from its byte `start` on, to pinned bytes."""
        raise NotImplementedError

    def copy_to_device(self, memory: Memory, array: HostArray) -> None:
        """As `upload`; large arrays go through staging buffers."""
        (self.staging if self._staging_pays(array) else self).upload(memory, array)

    def copy_to_host(self, array: HostArray, memory: Memory) -> None:
        """As `download`; large arrays go through staging buffers."""
        (self.staging if self._staging_pays(array) else self).download(array, memory)

    def _staging_pays(self, array: HostArray) -> bool:
        is_large = array.nbytes >= MIN_BYTES
        return self.can_stage and self.device.kind == "gpu" and is_large and not forks.is_ending()

    @cached_property
    def staging(self) -> Staging:
        """Threads and pinned buffers for the transfer of large arrays."""
        return Staging(self)

    def can_read(self, other: Queue) -> bool:
        """Whether this device can copy from the memory of another: `copy_from`."""
        return False

    def copy_from(self, memory: Memory, other: Queue, source: Memory, nbytes: int) -> None:
        """Copy the start of another device's memory to the start of `memory`, not through the host. Blocks."""
        raise NotImplementedError

    # compile

    def kernel(self, source: str, name: str, defines: Defines) -> Kernel:
        """The kernel `name` of a source with these macros: from memory, else from disk, else compiled and cached."""
        key = source, name, tuple(sorted(defines.items()))
        with self.lock:
            if key not in self._kernels:
                self._kernels[key] = self._load_or_build(source, name, defines)
            return self._kernels[key]

    def ptx_and_code(self, source: str, name: str, defines: Defines) -> tuple[str, bytes] | None:
        """A kernel in PTX and as machine code; None where the driver does not compile to PTX."""
        return None

    def share_kernels(self, other: Queue) -> None:
        """Share the table of kernels and the lock of another queue of the same context."""
        self._kernels, self.lock = other._kernels, other.lock

    def _load_or_build(self, source: str, name: str, defines: Defines) -> Kernel:
        start = perf_counter()
        entry = self.cached(source, repr(sorted(defines.items())))
        if entry is not None and (binary := entry.load()) is not None:
            try:
                kernel = self._from_binary(binary, name)
            except Exception:  # a binary that the driver refuses is compiled again
                entry.drop()
            else:
                self.builds.append(Build("disk", perf_counter() - start))
                return kernel
        kernel, binary = self._from_source(source, name, defines)
        self.builds.append(Build("source", perf_counter() - start))
        if entry is not None and binary:
            entry.store(self._binary_to_cache(binary, name))
        return kernel

    def cached(self, source: str, options: str, kind: str = "program") -> cache.Entry | None:
        """The entry of the disk cache for what is made of a source on this device; None if this runtime has none."""
        if not self.caches_programs:
            return None
        device = self.device
        return cache.Entry(
            source=self.prelude() + source, options=options, runtime=device.runtime, device=device.name,
            driver=device.driver, platform=device.platform, target=self.target(), kind=kind,
        )  # fmt: skip

    @cached_property
    def static_local_bytes(self) -> int:
        """The largest local array that a kernel may declare: on some devices more than `device.local_bytes`."""
        from gemmlab._gpu.configurations.local_memory import probed

        return probed(self)

    caches_programs = True  # whether this runtime can cache programs on disk

    def prelude(self) -> str:
        """Source that this runtime puts before every kernel: the macros of its dialect."""
        return ""

    def target(self) -> str:
        """What else a binary depends on: the compiler's version, the architecture."""
        return ""

    @abstractmethod
    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Kernel, bytes]:
        """Compile; returns the kernel and the program's binary. DeviceError with the build log if that fails."""

    def _binary_to_cache(self, binary: bytes, name: str) -> bytes:
        """The form of a binary that loads fastest."""
        return binary

    @abstractmethod
    def _from_binary(self, binary: bytes, name: str) -> Kernel:
        """The kernel of a binary that `_from_source` or `_binary_to_cache` returned."""

    # launch and event time

    @abstractmethod
    def launcher(self, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> Prepared:
        """Compiled kernels with their arguments set, but for memory. The only way to launch on this runtime."""

    def prepared(self, launches: Launches) -> Prepared:
        """What a product launches, compiled."""
        kernels = [
            CompiledLaunch(
                self.kernel(one.text, one.name, one.macros), one.groups, one.group, one.arguments, one.local_bytes
            )
            for one in launches
        ]
        return self.launcher(kernels, launches.workspace_bytes)

    def start(self, prepared: Prepared, a: Memory, b: Memory, c: Memory) -> list[Event]:
        """Start what is prepared with the memory of A, B and C; an event for each kernel."""
        events: list[Event] = []
        with self.device_errors(prepared.doing):
            prepared.start(a, b, c, events)
        return events

    def launch(self, kernel: Kernel, groups: WorkGroups, group: WorkGroups, arguments: Sequence[object]) -> Event:
        """Launch one kernel: `groups` work-groups of `group` work-items, for dimensions 0, 1 and 2.

        Arguments are memory, or NumPy scalars of the types that the kernel declares.
        """
        one = CompiledLaunch(kernel, groups, group, tuple(arguments))
        return self.start(self.launcher([one], 0), None, None, None)[0]

    @abstractmethod
    def device_errors(self, doing: str) -> AbstractContextManager[None]:
        """Within the block, an error of the driver becomes a DeviceError. `doing` says what failed."""


class Runtime(ABC):
    """OpenCL, SYCL or CUDA."""

    name: str
    package: str  # the Python package that it needs
    extra: str  # the extra of gemmlab that installs the package
    no_device: str  # how to get a device, for the error message

    def __init__(self) -> None:
        self._lock = forks.Lock()
        self._open_queues: dict[int, Queue] = {}
        self._is_left_behind = False
        forks.tell(self)

    def forked(self) -> None:
        """In the child of a fork, drivers that its parent has loaded wait for threads that do not exist."""
        self._is_left_behind = self._is_left_behind or vars(self).pop("devices", None) is not None

    def check_process(self) -> None:
        """BackendUnavailable in the child of a fork whose parent had opened this runtime."""
        if self._is_left_behind:
            raise BackendUnavailable(
                f"{self.name} was opened before this process was forked, and its drivers do not work in a child; "
                f"fix: {forks.ADVICE}"
            )

    # devices

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices, in the order of DEVICE_KINDS. BackendUnavailable, with the fix, if there is none."""
        self.check_process()
        if find_spec(self.package) is None:
            raise BackendUnavailable(f"{self.package} is not installed; fix: pip install 'gemmlab[{self.extra}]'")
        try:
            found = self._find()
        except Exception as error:  # drivers raise errors of many types
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise BackendUnavailable(f"{self.name} cannot be used: {what}; fix: {self.no_device}") from error
        if not found:
            raise BackendUnavailable(f"{self.name} sees no device; fix: {self.no_device}")
        return tuple(found)

    @abstractmethod
    def _find(self) -> list[Device]:
        """The devices, in the order and with the indices of `numbered`."""

    def device(self, selector: str) -> Device:
        """The first device that matches an index, a kind ("gpu", "cpu") or a part of the name; "" matches all."""
        known = self.devices
        for device in known:
            text = f"{device.name} {device.platform}".lower()
            if selector in ("", str(device.index), device.kind) or (
                not selector.isdigit() and selector not in DEVICE_KINDS and selector.lower() in text
            ):
                return device
        listed = "; ".join(f"{device.index} {device.label} ({device.kind})" for device in known)
        raise BackendUnavailable(f"{self.name} has no device {selector!r}; fix: take one of {listed}")

    def queue(self, device: Device) -> Queue:
        """The queue of a device, opened at the first call and again after a failure."""
        self.check_process()
        with self._lock:
            queue = self._open_queues.get(device.index)
            if queue is None or queue.failed:
                queue = self._open_queues[device.index] = self._open_queue(device)
            return queue

    @abstractmethod
    def _open_queue(self, device: Device) -> Queue:
        """A new queue on the device."""

    # device arrays of users

    @property
    @abstractmethod
    def plans(self) -> Executor:
        """The module of `plans` that computes products of this runtime's arrays."""

    @abstractmethod
    def adopt(self, array: DeviceArray) -> DeviceOperand:
        """A user's array, without a copy."""

    @abstractmethod
    def array(self, device: Device, host: HostArray) -> DeviceArray:
        """Copy a host array to the device, as an array of this runtime's usual type."""

    @abstractmethod
    def values(self, array: DeviceArray) -> HostArray:
        """Copy an array to the host, after the work on it is done."""

    @abstractmethod
    def wait(self, array: DeviceArray) -> None:
        """Block until the work on an array is done."""


def numbered(devices: Sequence[Device]) -> list[Device]:
    """The devices in the order of DEVICE_KINDS, with their indices set."""
    ordered = sorted(devices, key=lambda device: DEVICE_KINDS.index(device.kind))
    return [replace(device, index=index) for index, device in enumerate(ordered)]
