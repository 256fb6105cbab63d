"""Ways to bring operands to a device and the result back, each around the same kernel, that of the rung `local`.

    copies        pageable arrays, copied to device memory and back
    pinned        page-locked arrays, copied likewise
    mapped        buffers in host memory that the device reads and writes where they are
    svm           OpenCL's coarse-grained shared virtual memory
    usm-shared    SYCL's shared memory: pages move to where they are used
    usm-host      SYCL's host memory: the device reads it over the bus
    managed       CUDA's managed memory: pages move to where they are used

With transfers, a sample begins when the host has written A and B, and ends when it has read one number of each page of
C. Without transfers, the operands are on the device from an earlier product, and the host touches nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import gemmlab
from gemmlab._errors import UnsupportedProblem
from gemmlab.measure.problems import Case, operands
from gemmlab.measure.records import Record
from gemmlab.studies import isolated

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

Host = NDArray[Any]
Handle = Any  # of a runtime's own types, which have no stubs: a queue, a buffer, a pointer
MAX_BYTES = 256 << 20  # of all operands together: managed memory larger than the device's can stop the host
MIN_SAMPLES, MAX_SAMPLES = 3, 200  # of a round
PAGE = 1024  # numbers
Allocate = Callable[[Handle, int], tuple[Handle, Host]]  # from a queue and bytes
Mode = Callable[[Handle, int], "Copies"]  # from a queue and the edge of the matrices


class Copies:
    """Host arrays, and device memory that they are copied to and from."""

    def __init__(self, queue: Handle, edge: int) -> None:
        self.queue, self.edge = queue, edge
        self.device: Sequence[Handle] = [queue.allocate(4 * edge * edge) for _ in range(3)]
        self.host: Sequence[Host] = [self.array() for _ in range(3)]

    def array(self) -> Host:
        """A host array."""
        return np.zeros((self.edge, self.edge), np.float32)

    def write(self, a: Host, b: Host) -> None:
        """Let the host write the operands."""
        for view, values in zip(self.host, (a, b), strict=False):
            np.copyto(view, values)

    def bring(self) -> None:
        """Make what the host wrote visible to the device."""
        for memory, view in zip(self.device[:2], self.host, strict=False):
            self.queue.upload(memory, view)

    def fetch(self) -> Host:
        """Make what the device wrote visible to the host."""
        self.queue.download(self.host[2], self.device[2])
        return self.host[2]


class Pinned(Copies):
    """The same with page-locked host arrays."""

    def array(self) -> Host:
        return _matrix(self.queue.pinned(4 * self.edge**2), self.edge)


class Shared(Copies):
    """Memory that host and device both use; `allocate` gives it as a kernel's argument and as bytes of the host."""

    def __init__(self, allocate: Allocate, queue: Handle, edge: int) -> None:
        self.queue, self.edge = queue, edge
        pairs = [allocate(queue, 4 * edge * edge) for _ in range(3)]
        self.device = [memory for memory, _ in pairs]
        self.host = [_matrix(view, edge) for _, view in pairs]

    def bring(self) -> None:
        """Nothing: pages move by themselves, or not at all."""

    def fetch(self) -> Host:
        return self.host[2]


class Mapped(Shared):
    """OpenCL buffers in host memory, which the host maps for as long as it uses them."""

    def __init__(self, allocate: Allocate, queue: Handle, edge: int) -> None:
        super().__init__(allocate, queue, edge)
        self.mapped: list[Handle] = []

    def view(self, memory: Handle) -> Host:
        """Map memory for the host, until `bring`."""
        import pyopencl as cl

        both: Handle = cl.map_flags.READ | cl.map_flags.WRITE
        array: Host
        array, _ = cl.enqueue_map_buffer(self.queue.queue, memory, both, 0, (self.edge, self.edge), np.dtype("float32"))
        self.mapped.append(array.base)
        return array

    def write(self, a: Host, b: Host) -> None:
        for memory, values in zip(self.device, (a, b), strict=False):
            np.copyto(self.view(memory), values)

    def bring(self) -> None:
        for mapped in self.mapped:
            mapped.release(self.queue.queue)
        self.mapped = []

    def fetch(self) -> Host:
        return self.view(self.device[2])


class SharedVirtual(Mapped):
    """OpenCL's coarse-grained shared virtual memory."""

    def view(self, memory: Handle) -> Host:
        self.mapped.append(memory.map_rw(self.queue.queue))
        return _matrix(np.asarray(self.mapped[-1].array), self.edge)


def _matrix(view: Host, edge: int) -> Host:
    return view.view(np.float32).reshape(edge, edge)


def _usm(kind: str, queue: Handle, nbytes: int) -> tuple[Handle, Host]:
    from dpctl import memory

    made = getattr(memory, kind)(nbytes, queue=queue.queue)
    return made, np.ndarray(nbytes, np.uint8, buffer=made)


def _managed(queue: Handle, nbytes: int) -> tuple[Handle, Host]:
    import cupy

    with queue.on_stream(f"allocating {nbytes} managed bytes"):
        memory = cupy.cuda.malloc_managed(nbytes)
    return memory, np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(memory.ptr))


def _cuda_mapped(queue: Handle, nbytes: int) -> tuple[Handle, Host]:
    import cupy

    view = queue.pinned(nbytes)  # it has the same address on the device
    whole = cupy.cuda.UnownedMemory(view.ctypes.data, nbytes, view, queue.device.handle)
    return cupy.cuda.MemoryPointer(whole, 0), view


def _cl_mapped(queue: Handle, nbytes: int) -> tuple[Handle, Host]:
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    return cl.Buffer(queue.context, flags, nbytes), np.empty(nbytes, np.uint8)


def _svm(queue: Handle, nbytes: int) -> tuple[Handle, Host]:
    import pyopencl as cl

    if not queue.queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        raise UnsupportedProblem(f"{queue.device.label} has no shared virtual memory")
    array: Handle = cl.svm_empty(queue.context, cl.svm_mem_flags.READ_WRITE, nbytes, np.dtype(np.uint8))
    return cl.SVM(array), array


COPIES: dict[str, Mode] = {"copies": Copies, "pinned": Pinned}
MODES: dict[str, dict[str, Mode]] = {
    "opencl": COPIES | {"mapped": partial(Mapped, _cl_mapped), "svm": partial(SharedVirtual, _svm)},
    "sycl": COPIES | {f"usm-{kind.lower()}": partial(Shared, partial(_usm, f"MemoryUSM{kind}"))
                      for kind in ("Shared", "Host")},
    "cuda": COPIES | {"mapped": partial(Shared, _cuda_mapped), "managed": partial(Shared, _managed)},
}  # fmt: skip


def measure(task: Task) -> None:
    """Records of every mode at every case, with transfers and without; in each round, each mode in a new process."""
    rounds = task.options.rounds
    modes = [(name, mode) for name in task.contest for mode in MODES[name.partition("-")[0]]]
    for number, case in enumerate(task.cases):
        answers: dict[tuple[str, str], list[isolated.Answer]] = {key: [] for key in modes}
        failed: dict[tuple[str, str], isolated.NoAnswer] = {}
        for step, (name, mode) in enumerate(modes * rounds):
            done = number * len(modes) * rounds + step
            task.progress(done, len(task.cases) * len(modes) * rounds, f"{name} {mode} {case.label}")
            if (name, mode) not in failed:
                try:
                    answers[name, mode].append(_ask(name, mode, case, task.options.budget_s / rounds))
                except isolated.NoAnswer as refusal:
                    failed[name, mode] = refusal
        for (name, mode), own in answers.items():
            labelled = replace(case, label=mode)
            if (name, mode) in failed:
                task.keep(isolated.untimed(name, labelled, failed[name, mode]))
                continue
            for record in _records(name, labelled, own):
                task.keep(record)


def _ask(backend: str, mode: str, case: Case, budget_s: float) -> isolated.Answer:
    if case.bytes_compulsory > MAX_BYTES:
        raise isolated.NoAnswer(f"its operands are over {MAX_BYTES >> 20} MiB", "skipped")
    request = {"backend": backend, "mode": mode, "case": asdict(case), "budget_s": budget_s}
    return isolated.ask(__name__, request)


def _records(name: str, case: Case, answers: Sequence[isolated.Answer]) -> Iterator[Record]:
    error = max(answer["error_over_bound"] for answer in answers)
    for counted, key in ((True, "with_s"), (False, "without_s")):
        samples = [sample for answer in answers for sample in answer[key]]
        facts = {fact: answers[0][fact] for fact in ("device", "params")} | {"calls_per_sample": 1}
        yield isolated.timed(name, case, samples, error, facts | {"transfers_counted": counted})


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(backend: str, mode: str, case: Record, budget_s: float) -> isolated.Answer:
    """The times of one product in one mode, with transfers and without."""
    from gemmlab._gpu.backend import GemmSize
    from gemmlab._gpu.batches import Operand
    from gemmlab.measure.isolated.worker import check, seconds_a_call

    made: Handle = gemmlab.get_backend(backend)
    a, b = operands(Case(**case))
    edge, queue = len(a), made.queue
    plan = made.rung.resolve({}, queue.device.kind)
    memory = MODES[made.runtime.name][mode](queue, edge)

    def multiply() -> None:
        arguments = [Operand(argument, 0, edge) for argument in memory.device]
        made.multiply(queue, plan, "float32", GemmSize(edge, edge, edge, 1), *arguments).wait()

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
    while len(samples) < MIN_SAMPLES or (sum(samples) < budget_s and len(samples) < MAX_SAMPLES):
        samples.append(sample())
    return samples
