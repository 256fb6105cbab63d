"""CLBlast through its C library, on pyopencl's queues and buffers.

The library links to the system's OpenCL loader, and a wheel of pyopencl to one that it brings. They may meet: a
handle of OpenCL begins with its driver's own table of functions, and that is what either loader calls.

CLBlast thinks in columns: row by row, C = A @ B is asked for as C^T = B^T @ A^T, the same memory column by column.
Asked in rows, it would transpose A and C for its fast kernel; so it transposes one operand.
"""

from __future__ import annotations

import ctypes
import re
import threading
from contextlib import suppress
from ctypes.util import find_library
from functools import cached_property
from typing import Any

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu.backend import Size
from gemmlab._gpu.opencl import OpenCLEvent, OpenCLQueue
from gemmlab._gpu.operands import Operand
from gemmlab._gpu.vendor import INT32_MAX, Plan, Vendor
from gemmlab._problem import Problem

LIBRARY = "libclblast.so.1"
LETTERS = {"float32": ("S", ctypes.c_float), "float64": ("D", ctypes.c_double)}
COLUMN_MAJOR, AS_IT_IS, TRANSPOSED = 102, 111, 112
MOST_TILE = 128  # the largest of its tiles: what an edge is padded to
# What its calls may return, from clblast_c.h.
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
FULL = ("TempBufferAllocFailure", "OpenCLOutOfHostMemory")

# Releases before 1.6.1 keep what they have compiled in a table that two threads may break.
_one_at_a_time = threading.Lock()


class CLBlast(Vendor):
    """CLBlast's gemm and, for a stack, its batched ones."""

    way, source, transposes = "clblast", "CLBlast", True

    @cached_property
    def library(self) -> Any:
        try:
            with suppress(OSError):
                return ctypes.CDLL(LIBRARY)
            return ctypes.CDLL(find_library("clblast") or LIBRARY)
        except OSError as error:
            raise BackendUnavailable(f"CLBlast cannot be loaded ({error}); fix: apt install libclblast1") from None

    def version(self) -> str:
        """From the file's name, since the library does not say."""
        with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            if found := re.search(r"libclblast\.so\.([0-9.]*[0-9])", maps.read()):
                return found[1]
        return ""

    def supports(self, problem: Problem) -> bool | str:
        import pyopencl as cl

        if (verdict := super().supports(problem)) is not True:
            return verdict
        if _padded(problem.m, problem.n, problem.k) > INT32_MAX:
            return f"{self.name} counts in 32 bits: {problem.m} x {problem.n} x {problem.k} is too much in one piece"
        memories = () if problem.place is None else problem.place.memories
        if not all(isinstance(memory, cl.MemoryObjectHolder) for memory in memories):
            return f"{self.name} takes buffers, not shared virtual memory: copy the operands to plain arrays"
        return True

    def product(
        self, queue: OpenCLQueue, plan: Plan, dtype: str, size: Size, a: Operand, b: Operand, c: Operand
    ) -> OpenCLEvent:
        import pyopencl as cl

        last = max(_last(x, size.products, *shape) for x, *shape in _shaped(size, a, b, c))
        if last > INT32_MAX:
            raise UnsupportedProblem(f"{self.name} counts in 32 bits: an operand reaches to element {last}")
        most = INT32_MAX // _padded(size.m, size.n, size.k)
        with _one_at_a_time, queue.lock, queue.trouble("multiplying"):
            before = cl.enqueue_barrier(queue.queue)
            for i in range(0, size.products, most):
                piece = Size(size.m, size.n, size.k, min(most, size.products - i))
                status = self._call(queue, dtype, piece, *(x.moved(products=i) for x in (a, b, c)))
                if status:
                    name = STATUS.get(status, "of no name")
                    raise (cl.MemoryError if name in FULL else cl.RuntimeError)(f"CLBlast's status {status}, {name}")
            return Span(queue, before, cl.enqueue_marker(queue.queue))

    def _call(self, queue: OpenCLQueue, dtype: str, size: Size, a: Operand, b: Operand, c: Operand) -> int:
        count, many = ctypes.c_size_t, size.products
        # The strided function forgets start and step of what its fast kernel can read in place (so does 1.7.0): the
        # result is wrong. The one that takes a list of starts heeds them, but waits for the device.
        dense = all(
            (x.start, x.ld, x.step) == (0, columns, rows * columns) for x, rows, columns in _shaped(size, a, b, c)
        )
        kind = "" if many == 1 else "StridedBatched" if dense else "Batched"

        def placed(x: Operand) -> tuple[Any, ...]:
            memory, ld = ctypes.c_void_p(x.memory.int_ptr), count(x.ld)
            if kind == "Batched":
                return memory, (count * many)(*(x.start + i * x.step for i in range(many))), ld
            return (memory, count(x.start), ld, count(x.step))[: 4 if kind else 3]

        letter, real = LETTERS[dtype]
        one, zero = ((real * many)(*[x] * many) if kind == "Batched" else real(x) for x in (1, 0))
        handle = ctypes.c_void_p(queue.queue.int_ptr)
        status: int = getattr(self.library, f"CLBlast{letter}gemm{kind}")(
            COLUMN_MAJOR, *(TRANSPOSED if x.transposed else AS_IT_IS for x in (b, a)),
            count(size.n), count(size.m), count(size.k),
            one, *placed(b), *placed(a), zero, *placed(c), *([count(many)] if kind else []), ctypes.byref(handle), None,
        )  # fmt: skip
        return status


class Span(OpenCLEvent):
    """All that was put on a queue between two events: CLBlast tells of its last kernel only."""

    def __init__(self, queue: OpenCLQueue, before: Any, after: Any) -> None:
        super().__init__(queue, after)
        self.before = before

    @property
    def kernel_s(self) -> float:
        """Seconds from one to the other: on an idle device that counts the host's share, at first the compiler's."""
        import pyopencl as cl

        self.wait()
        with suppress(cl.Error):
            return float(self.event.profile.end - self.before.profile.end) * 1e-9
        return float("nan")


def _shaped(size: Size, a: Operand, b: Operand, c: Operand) -> tuple[tuple[Operand, int, int], ...]:
    """The operands with rows and columns as they lie."""
    shapes = (size.m, size.k), (size.k, size.n), (size.m, size.n)
    return tuple((x, *(shape[::-1] if x.transposed else shape)) for x, shape in zip((a, b, c), shapes, strict=True))


def _last(x: Operand, products: int, rows: int, columns: int) -> int:
    """The furthest element of a stack in its memory."""
    return x.start + (products - 1) * max(x.step, 0) + (rows - 1) * x.ld + columns - 1


def _padded(m: int, n: int, k: int) -> int:
    """Elements of the copies that CLBlast may make of one product's three matrices, in one buffer."""
    m, n, k = (-(-edge // MOST_TILE) * MOST_TILE for edge in (m, n, k))
    return m * k + k * n + m * n
