"""CLBlast through its C library, on pyopencl's queues and buffers.

CLBlast links to the system's OpenCL loader; pyopencl's wheel contains another. Handles of the one are valid for the
other, because an OpenCL handle begins with its driver's function table, and both loaders call through that table.

CLBlast's fast kernel is column-major, so row-major C = A @ B is passed as column-major C^T = B^T @ A^T. A row-major
call would transpose A and C; this one transposes a single operand.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from ctypes.util import find_library
from functools import cached_property

from gemmlab._backend import Params
from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.opencl import OpenCLEvent, OpenCLQueue
from gemmlab._gpu.runtime import Device, Event, Memory, Native
from gemmlab._gpu.vendor import INT32_MAX, Library, Vendor
from gemmlab._problem import Problem

LIBRARY = "libclblast.so.1"
LETTERS = {"float32": ("S", ctypes.c_float), "float64": ("D", ctypes.c_double)}
COLUMN_MAJOR, NOT_TRANSPOSED, TRANSPOSED = 102, 111, 112
MAX_TILE = 128  # its largest tile: sizes are zero-padded to a multiple of it
# Status codes, from clblast_c.h.
STATUS = {
    -3: "OpenCLCompilerNotAvailable", -4: "TempBufferAllocFailure", -5: "OpenCLOutOfResources",
    -6: "OpenCLOutOfHostMemory", -11: "OpenCLBuildProgramFailure", -30: "InvalidValue", -36: "InvalidCommandQueue",
    -38: "InvalidMemObject", -42: "InvalidBinary", -45: "InvalidProgramExecutable", -48: "InvalidKernel",
    -52: "InvalidKernelArgs", -53: "InvalidLocalNumDimensions", -54: "InvalidLocalThreadsTotal",
    -55: "InvalidLocalThreadsDim", -61: "InvalidBufferSize", -63: "InvalidGlobalWorkSize",
    -1024: "NotImplemented", -1022: "InvalidMatrixA", -1021: "InvalidMatrixB", -1020: "InvalidMatrixC",
    -1017: "InvalidDimension", -1016: "InvalidLeadDimA", -1015: "InvalidLeadDimB", -1014: "InvalidLeadDimC",
    -1011: "InsufficientMemoryA", -1010: "InsufficientMemoryB", -1009: "InsufficientMemoryC",
    -2049: "InvalidBatchCount", -2046: "InvalidLocalMemUsage", -2044: "NoDoublePrecision", -2041: "DatabaseError",
    -2040: "UnknownError", -2039: "UnexpectedError",
}  # fmt: skip
OUT_OF_MEMORY = ("TempBufferAllocFailure", "OpenCLOutOfHostMemory")

# Releases before 1.6.1 cache compiled programs in a table that is not thread-safe.
_one_at_a_time = threading.Lock()


class CLBlast(Vendor):
    """CLBlast's gemm and, for a batch, its batched gemm."""

    library_name, source = "clblast", "CLBlast"

    def accepts_transposed(self, device: Device) -> bool:
        return True

    @cached_property
    def library(self) -> Library:
        try:
            with suppress(OSError):
                return ctypes.CDLL(LIBRARY)
            return ctypes.CDLL(find_library("clblast") or LIBRARY)
        except OSError as error:
            raise BackendUnavailable(f"CLBlast cannot be loaded ({error}); fix: apt install libclblast1") from None

    def version(self) -> str:
        """From the file's name: the library has no function for its version."""
        with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            if found := re.search(r"libclblast\.so\.([0-9.]*[0-9])", maps.read()):
                return found[1]
        return ""

    def supports(self, problem: Problem) -> bool | str:
        import pyopencl as cl

        if (verdict := super().supports(problem)) is not True:
            return verdict
        if _padded(problem.m, problem.n, problem.k) > INT32_MAX:
            return f"{self.name} indexes with 32 bits: {problem.m} x {problem.n} x {problem.k} is too large"
        memories = [] if problem.queue is None else [x.memory for x in problem.on_device]
        if not all(memory is None or isinstance(memory, cl.MemoryObjectHolder) for memory in memories):
            return f"{self.name} takes buffers, not shared virtual memory: copy the operands to plain arrays"
        return True

    def call(
        self, queue: OpenCLQueue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> CLBlastCall:
        last = max(_last(x, size.batch, *shape) for x, *shape in _shaped(size, *layouts))
        if last > INT32_MAX:
            raise UnsupportedProblem(f"{self.name} indexes with 32 bits: an operand extends to element {last}")
        return CLBlastCall(self.library, queue, dtype, size, layouts)


class CLBlastCall:
    """One product by CLBlast, complete but for the memory of A, B and C; more than one call where its indices end."""

    doing = "multiplying"

    def __init__(
        self, library: Library, queue: OpenCLQueue, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> None:
        self.library, self.queue, self.dtype, self.size, self.layouts = library, queue, dtype, size, layouts
        self.max_batch = INT32_MAX // _padded(size.m, size.n, size.k)

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> Native:
        """Enqueue it; an event after it."""
        import pyopencl as cl

        size, queue = self.size, self.queue
        with _one_at_a_time, queue.lock:
            before = cl.enqueue_barrier(queue.queue)
            for i in range(0, size.batch, self.max_batch):
                part = GemmSize(size.m, size.n, size.k, min(self.max_batch, size.batch - i))
                status = self._call(part, (a, b, c), [x.skip(batch=i) for x in self.layouts])
                if status:
                    name = STATUS.get(status, "unknown")
                    error = cl.MemoryError if name in OUT_OF_MEMORY else cl.RuntimeError
                    raise error(f"CLBlast's status {status}, {name}")
            after = cl.enqueue_marker(queue.queue)
        if events is not None:
            events.append(Span(queue, before, after))
        return after

    def _call(self, size: GemmSize, memories: Sequence[Memory], layouts: Sequence[Layout]) -> int:
        count, batch = ctypes.c_size_t, size.batch
        # The strided function (1.7.0 too) ignores the start and the stride of an operand that its fast kernel reads
        # without a copy, and returns a wrong result. The function with a list of offsets is right, but blocks.
        dense = all(
            (x.start, x.ld, x.batch_stride) == (0, columns, rows * columns)
            for x, rows, columns in _shaped(size, *layouts)
        )
        variant = "" if batch == 1 else "StridedBatched" if dense else "Batched"

        def arguments(memory: Memory, x: Layout) -> tuple[object, ...]:
            pointer, ld = ctypes.c_void_p(memory.int_ptr), count(x.ld)
            if variant == "Batched":
                return pointer, (count * batch)(*(x.start + i * x.batch_stride for i in range(batch))), ld
            return (pointer, count(x.start), ld, count(x.batch_stride))[: 4 if variant else 3]

        letter, real = LETTERS[self.dtype]
        one, zero = ((real * batch)(*[x] * batch) if variant == "Batched" else real(x) for x in (1, 0))
        handle = ctypes.c_void_p(self.queue.queue.int_ptr)
        of_a, of_b, of_c = map(arguments, memories, layouts)
        status: int = getattr(self.library, f"CLBlast{letter}gemm{variant}")(
            COLUMN_MAJOR, *(TRANSPOSED if x.transposed else NOT_TRANSPOSED for x in (layouts[1], layouts[0])),
            count(size.n), count(size.m), count(size.k), one, *of_b, *of_a, zero, *of_c,
            *([count(batch)] if variant else []), ctypes.byref(handle), None,
        )  # fmt: skip
        return status


class Span(OpenCLEvent):
    """All work between two events of a queue: CLBlast returns an event of its last kernel only."""

    def __init__(self, queue: OpenCLQueue, before: Native, after: Native) -> None:
        super().__init__(queue, after)
        self.before = before

    @property
    def kernel_s(self) -> float:
        """Seconds between the events. On an idle device they include host time, in the first call compilation."""
        import pyopencl as cl

        self.wait()
        with suppress(cl.Error):
            return float(self.event.profile.end - self.before.profile.end) * 1e-9
        return float("nan")


def _shaped(size: GemmSize, a: Layout, b: Layout, c: Layout) -> tuple[tuple[Layout, int, int], ...]:
    """The operands with their rows and columns as stored."""
    shapes = (size.m, size.k), (size.k, size.n), (size.m, size.n)
    return tuple((x, *(shape[::-1] if x.transposed else shape)) for x, shape in zip((a, b, c), shapes, strict=True))


def _last(x: Layout, products: int, rows: int, columns: int) -> int:
    """The index of the last element of a batch in its memory."""
    return x.start + (products - 1) * max(x.batch_stride, 0) + (rows - 1) * x.ld + columns - 1


def _padded(m: int, n: int, k: int) -> int:
    """Elements of the zero-padded copies of one product's matrices, which CLBlast may make in one buffer."""
    m, n, k = (-(-edge // MAX_TILE) * MAX_TILE for edge in (m, n, k))
    return m * k + k * n + m * n
