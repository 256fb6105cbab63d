"""The ways to bring operands to a device and the result back, around one and the same kernel, the `local` rung's.

    copies        pageable arrays, copied to device memory and back
    pinned        arrays in memory that the driver knows, copied likewise
    mapped        buffers in host memory: the host maps them, the device works on them in place
    svm           OpenCL's coarse-grained shared memory: the host maps it
    usm-shared    SYCL's shared memory: pages go where they are touched
    usm-host      SYCL's host memory: the device reads it over the bus
    managed       CUDA's managed memory: pages go where they are touched

With transfers, a sample begins when A and B stand where the host wrote them, and ends when the host has read a number
of each page of C. Without, the device has had them since an earlier product, and the host touches nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._errors import UnsupportedProblem
from gemmlab.measure.problems import Case, operands
from gemmlab.studies import children

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Queue
    from gemmlab.studies.engine import Task

Host = NDArray[Any]
MOST_BYTES = 256 << 20  # of all operands together: managed memory that outgrows a device can stop its host
FEWEST, MOST = 3, 200  # samples of a turn
PAGE = 1024  # numbers


class Copies:
    """Host arrays, and device memory that they are copied to and from."""

    def __init__(self, queue: Queue, edge: int) -> None:
        self.queue, self.edge = queue, edge
        self.device: Sequence[Any] = [queue.allocate(4 * edge * edge) for _ in range(3)]
        self.host: Sequence[Host] = [self.array() for _ in range(3)]

    def array(self) -> Host:
        """A host array."""
        return np.zeros((self.edge, self.edge), np.float32)

    def write(self, a: Host, b: Host) -> None:
        """Have the host write the operands."""
        for view, values in zip(self.host, (a, b), strict=False):
            np.copyto(view, values)

    def bring(self) -> None:
        """Have the device see what the host wrote."""
        for memory, view in zip(self.device[:2], self.host, strict=False):
            self.queue.upload(memory, view)

    def fetch(self) -> Host:
        """Have the host see what the device wrote."""
        self.queue.download(self.host[2], self.device[2])
        return self.host[2]


class Pinned(Copies):
    """The same, from memory that the driver knows."""

    def array(self) -> Host:
        return self.queue.pinned(4 * self.edge**2).view(np.float32).reshape(self.edge, self.edge)


class Shared(Copies):
    """Memory that host and device both work on, each at its time; a host array and a kernel's argument each."""

    def __init__(self, queue: Queue, edge: int) -> None:
        self.queue, self.edge = queue, edge
        pairs = [self.pair(4 * edge * edge) for _ in range(3)]
        self.device = [memory for memory, _ in pairs]
        self.host = [view.view(np.float32).reshape(edge, edge) for _, view in pairs]

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        """Memory as a kernel takes it, and its bytes as the host sees them."""
        raise NotImplementedError

    def bring(self) -> None:
        """Nothing: pages move by themselves, or stay."""

    def fetch(self) -> Host:
        return self.host[2]


class UsmShared(Shared):
    """SYCL's shared memory."""

    kind = "MemoryUSMShared"

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        from dpctl import memory

        queue: Any = self.queue
        made = getattr(memory, self.kind)(nbytes, queue=queue.queue)
        return made, np.ndarray(nbytes, np.uint8, buffer=made)


class UsmHost(UsmShared):
    """SYCL's host memory."""

    kind = "MemoryUSMHost"


class Managed(Shared):
    """CUDA's managed memory."""

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        import cupy

        queue: Any = self.queue
        with queue.at_work(f"allocating {nbytes} managed bytes"):
            memory = cupy.cuda.malloc_managed(nbytes)
        return memory, _bytes_at(memory.ptr, nbytes)


class CudaMapped(Shared):
    """CUDA's pinned memory, which has the same address on the device."""

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        import cupy

        view = self.queue.pinned(nbytes)
        address = view.ctypes.data
        whole = cupy.cuda.UnownedMemory(address, nbytes, view, self.queue.device.handle)
        return cupy.cuda.MemoryPointer(whole, 0), view


class ClMapped(Shared):
    """OpenCL buffers that the driver keeps in host memory; the host maps one for as long as it works on it."""

    def __init__(self, queue: Queue, edge: int) -> None:
        super().__init__(queue, edge)
        self.mapped: list[Any] = []

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        import pyopencl as cl

        queue: Any = self.queue
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        return cl.Buffer(queue.context, flags, nbytes), np.empty(nbytes, np.uint8)

    def view(self, memory: Any) -> Host:
        """Map memory for the host, until `bring`."""
        import pyopencl as cl

        queue: Any = self.queue
        both: Any = cl.map_flags.READ | cl.map_flags.WRITE
        array: Host
        array, _ = cl.enqueue_map_buffer(queue.queue, memory, both, 0, (self.edge, self.edge), np.dtype(np.float32))
        self.mapped.append(array.base)
        return array

    def write(self, a: Host, b: Host) -> None:
        for memory, values in zip(self.device, (a, b), strict=False):
            np.copyto(self.view(memory), values)

    def bring(self) -> None:
        queue: Any = self.queue
        for mapped in self.mapped:
            mapped.release(queue.queue)
        self.mapped = []

    def fetch(self) -> Host:
        return self.view(self.device[2])


class Svm(ClMapped):
    """OpenCL's coarse-grained shared memory."""

    def pair(self, nbytes: int) -> tuple[Any, Host]:
        import pyopencl as cl

        queue: Any = self.queue
        if not queue.queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
            raise UnsupportedProblem(f"{queue.device.label} has no shared virtual memory")
        array: Any = cl.svm_empty(queue.context, cl.svm_mem_flags.READ_WRITE, nbytes, np.dtype(np.uint8))
        return cl.SVM(array), array

    def view(self, memory: Any) -> Host:
        queue: Any = self.queue
        mapped = memory.map_rw(queue.queue)
        self.mapped.append(mapped)
        return np.asarray(mapped.array).view(np.float32).reshape(self.edge, self.edge)


MODES: dict[str, dict[str, type[Copies]]] = {
    "opencl": {"copies": Copies, "pinned": Pinned, "mapped": ClMapped, "svm": Svm},
    "sycl": {"copies": Copies, "pinned": Pinned, "usm-shared": UsmShared, "usm-host": UsmHost},
    "cuda": {"copies": Copies, "pinned": Pinned, "mapped": CudaMapped, "managed": Managed},
}


def measure(task: Task) -> None:
    """Records of every mode at every case, with transfers and without; modes take turns, each in a new process."""
    pairs = [(name, mode) for name in task.contest for mode in MODES[name.partition("-")[0]]]
    turns = [(case, turn) for case in task.cases for turn in range(task.options.rounds)]
    answers: dict[tuple[str, str, Case], list[dict[str, Any]]] = {}
    failed: dict[tuple[str, str, Case], children.NoAnswer] = {}
    for number, (case, _) in enumerate(turns):
        for place, (name, mode) in enumerate(pairs):
            task.progress(number * len(pairs) + place, len(turns) * len(pairs), f"{name} {mode} {case.label}")
            wish = {"backend": name, "mode": mode, "case": case.to_json(),
                    "budget_s": task.options.budget_s / task.options.rounds}  # fmt: skip
            if (name, mode, case) not in failed:
                try:
                    answers.setdefault((name, mode, case), []).append(_asked(case, wish))
                except children.NoAnswer as refusal:
                    failed[name, mode, case] = refusal
    for (name, mode, case), why in failed.items():
        task.keep(children.untimed(name, replace(case, label=mode), why))
    for (name, mode, case), own in answers.items():
        if (name, mode, case) not in failed:
            for record in _records(name, replace(case, label=mode), own):
                task.keep(record)


def _asked(case: Case, wish: dict[str, Any]) -> dict[str, Any]:
    if case.bytes_compulsory > MOST_BYTES:
        raise children.NoAnswer(f"its operands are over {MOST_BYTES >> 20} MiB", "skipped")
    return children.ask(__name__, wish)


def _records(name: str, case: Case, answers: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    error = max(answer["error_over_bound"] for answer in answers)
    for counted, key in ((True, "with_s"), (False, "without_s")):
        samples = [sample for answer in answers for sample in answer[key]]
        facts = {fact: answers[0][fact] for fact in ("device", "params")} | {"calls_per_sample": 1}
        yield children.timed(name, case, samples, error, transfers_counted=counted, **facts)


def main() -> None:
    """In the new process."""
    children.reply(times)


def times(backend: str, mode: str, case: dict[str, Any], budget_s: float) -> dict[str, Any]:
    """One mode's times of one product, with transfers and without."""
    import gemmlab
    from gemmlab._gpu.backend import Size
    from gemmlab._gpu.operands import Operand
    from gemmlab.measure.worker import check, seconds_a_call

    made: Any = gemmlab.get_backend(backend)
    a, b = operands(Case.from_json(case))
    edge, queue = len(a), made.queue
    plan = made.rung.plan({}, queue.device.kind)
    memory = MODES[made.runtime.name][mode](queue, edge)

    def multiply() -> None:
        places = [Operand(argument, 0, edge) for argument in memory.device]
        made.multiply(queue, plan, "float32", Size(edge, edge, edge, 1), *places).wait()

    def there_and_back() -> Host:
        memory.bring()
        multiply()
        c = memory.fetch()
        c.reshape(-1)[::PAGE].sum()
        return c

    memory.write(a, b)
    error = check(a, b, np.array(there_and_back()))  # it builds the kernel, too

    def with_transfers() -> float:
        memory.write(a, b)
        return seconds_a_call(there_and_back, 1)

    with_s = _samples(with_transfers, budget_s / 2)
    memory.bring()
    multiply()
    without_s = _samples(lambda: seconds_a_call(multiply, 1), budget_s / 2)
    return {
        "device": made.device.label, "params": dict(plan), "error_over_bound": error, "with_s": with_s,
        "without_s": without_s,
    }  # fmt: skip


def _samples(sample: Callable[[], float], budget_s: float) -> list[float]:
    samples: list[float] = []
    while len(samples) < FEWEST or (sum(samples) < budget_s and len(samples) < MOST):
        samples.append(sample())
    return samples


def _bytes_at(address: int, nbytes: int) -> Host:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
