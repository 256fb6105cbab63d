"""The libraries to be measured against, on the rungs' own memory and queues.

    opencl-clblast   CLBlast, through its C library (clblast.py)
    sycl-onemkl      Intel's oneMKL, through dpnp.matmul
    cuda-cublas      NVIDIA's cuBLAS, through CuPy's handle

Matrices on the device that lie as a library can take them are not moved; others are packed first, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

from gemmlab._backend import Param
from gemmlab._errors import BackendUnavailable, GemmlabError
from gemmlab._gpu import runtime as runtimes
from gemmlab._gpu.backend import DeviceBackend, RungBackend, Size
from gemmlab._gpu.cuda import CudaEvent, CudaQueue
from gemmlab._gpu.operands import Operand
from gemmlab._gpu.rungs import ITEMSIZE, RUNGS
from gemmlab._gpu.runtime import Event, Queue, Runtime
from gemmlab._gpu.sycl import SyclEvent, SyclQueue
from gemmlab._problem import Problem

INT32_MAX = 2**31 - 1
Plan = Mapping[str, Any]


class Vendor(DeviceBackend):
    """A library that multiplies on a device."""

    kind = "baseline"
    params: Mapping[str, Param] = {}
    way: str

    def __init__(self, runtime: Runtime, wanted: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{self.way}", wanted)

    @property
    def summary(self) -> str:
        """What it is, with its version where it can be known."""
        with suppress(GemmlabError):
            if self.probe().ok:
                return f"{self.source} {self.version()}".rstrip()
        return self.source

    @cached_property
    def library(self) -> Any:
        """What is called; BackendUnavailable, with the fix, where it is missing."""
        raise NotImplementedError

    def load(self) -> None:
        _ = self.library

    def version(self) -> str:
        """Of the loaded library; "" where it does not tell."""
        raise NotImplementedError

    def takes(self, columns: int, ld: int) -> bool:
        return columns <= ld <= INT32_MAX

    def multiply(self, queue: Queue, plan: Plan, dtype: str, size: Size, a: Operand, b: Operand, c: Operand) -> Event:
        if size.k == 0:  # an empty sum, which not every library takes
            naive = RungBackend(self.runtime, RUNGS[0])
            return naive.multiply(queue, naive.rung.plan({}, queue.device.kind), dtype, size, a, b, c)
        return self.product(queue, plan, dtype, size, a, b, c)

    def product(self, queue: Any, plan: Plan, dtype: str, size: Size, a: Operand, b: Operand, c: Operand) -> Event:
        """C = A @ B by the library; m, n, k and products are at least 1."""
        raise NotImplementedError


class OneMKL(Vendor):
    """`dpnp.matmul`, which takes oneMKL's gemm, gemm_batch, gemv or dot."""

    way, source = "onemkl", "Intel oneMKL"

    @cached_property
    def library(self) -> Any:
        try:
            import dpnp
        except ImportError as error:
            raise BackendUnavailable(f"dpnp cannot be imported ({error}); fix: pip install 'gemmlab[sycl]'") from None
        return dpnp

    def version(self) -> str:
        own = ""
        with suppress(PackageNotFoundError):  # conda has another name for it
            own = f"{version_of('onemkl-sycl-blas')} "
        return f"{own}through dpnp {self.library.__version__}"

    def takes(self, columns: int, ld: int) -> bool:
        """Dense matrices: dpnp would copy others, and nobody would count it."""
        return ld == columns

    def product(
        self, queue: SyclQueue, plan: Plan, dtype: str, size: Size, a: Operand, b: Operand, c: Operand
    ) -> Event:
        def view(x: Operand, rows: int, columns: int) -> Any:
            axes = [(size.products, x.step)] * (size.products > 1) + [(rows, x.ld), (columns, 1)]
            shape, strides = zip(*((count, stride * ITEMSIZE[dtype]) for count, stride in axes), strict=True)
            array = self.library.ndarray(shape, dtype, buffer=x.memory, offset=x.start, strides=strides)
            return array.to_device(queue.queue)  # the same memory: dpnp wants all operands on one queue

        with queue.lock, queue.trouble("multiplying"):
            own, *others = queue.orders_of([x.memory for x in (a, b, c)])
            for event in [event for order in others for event in order.submitted_events]:
                own.add_event_pair(event, event)  # dpnp waits for what its own queue lists
            self.library.matmul(view(a, size.m, size.k), view(b, size.k, size.n), out=view(c, size.m, size.n))
            under_way = own.submitted_events
            for order in others:
                order.add_event_pair(under_way, under_way)
            return UnderWay(queue, under_way)


class UnderWay(Event):
    """All that a queue has under way. No time: dpnp passes on no event, and oneMKL's own may be its last kernel's."""

    kernel_s = float("nan")

    def __init__(self, queue: SyclQueue, events: Sequence[Any]) -> None:
        self.events = [SyclEvent(queue, event) for event in events]

    def wait(self) -> None:
        for event in self.events:
            event.wait()


class CuBLAS(Vendor):
    """`cublasGemmEx` and, for a stack, `cublasGemmStridedBatchedEx`, on the queue's stream."""

    way, source, transposes = "cublas", "NVIDIA cuBLAS", True
    compute_types: Mapping[str, str] = {
        "float32": "CUBLAS_COMPUTE_32F", "tf32": "CUBLAS_COMPUTE_32F_FAST_TF32", "float64": "CUBLAS_COMPUTE_64F",
    }  # fmt: skip
    params: Mapping[str, Param] = {
        "compute": Param(
            "compute", None, ("float32", "tf32"),
            "what float32 is multiplied in; tf32, on tensor cores, keeps 10 bits after the point",
            "float32 or tf32; float64 for float64", lambda value: value in CuBLAS.compute_types,
        )
    }  # fmt: skip

    @cached_property
    def library(self) -> Any:
        try:
            from cupy.cuda import cublas
        except ImportError as error:
            reason = str(error).partition("\n")[0]
            fix = "pip install 'cupy-cuda13x[ctk]' (or 12x)"
            raise BackendUnavailable(f"cuBLAS cannot be loaded ({reason}); fix: {fix}") from None
        return cublas

    def version(self) -> str:
        queue = self.queue
        assert isinstance(queue, CudaQueue)
        with queue.at_work("asking cuBLAS for its version"), self._handle(queue) as handle:
            number = self.library.getVersion(handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """The compute type in force, always said: CuPy's own setting, CUPY_TF32, has no say here."""
        compute, dtype = params.get("compute") or problem.dtype.name, problem.dtype.name
        if compute != dtype and (compute, dtype) != ("tf32", "float32"):
            raise ValueError(f"{self.name}: {dtype} is not multiplied in {compute}; leave compute out")
        return {"compute": compute}

    def product(
        self, queue: CudaQueue, plan: Plan, dtype: str, size: Size, a: Operand, b: Operand, c: Operand
    ) -> CudaEvent:
        cublas, one_by_one = self.library, size.products == 1
        kind = {"float32": queue.cuda.runtime.CUDA_R_32F, "float64": queue.cuda.runtime.CUDA_R_64F}[dtype]
        one, zero = np.ones(1, dtype), np.zeros(1, dtype)

        def placed(x: Operand) -> tuple[int, ...]:
            lies = x.memory.ptr + x.start * ITEMSIZE[dtype], kind, x.ld
            return lies if one_by_one else (*lies, x.step)

        def work(stream: Any) -> None:
            with self._handle(queue) as handle:
                # cuBLAS knows columns only: row by row, C = A @ B is C^T = B^T @ A^T column by column.
                (cublas.gemmEx if one_by_one else cublas.gemmStridedBatchedEx)(
                    handle, *(cublas.CUBLAS_OP_T if x.transposed else cublas.CUBLAS_OP_N for x in (b, a)),
                    size.n, size.m, size.k,
                    one.ctypes.data, *placed(b), *placed(a), zero.ctypes.data, *placed(c),
                    *(() if one_by_one else (size.products,)),
                    getattr(cublas, self.compute_types[plan["compute"]]), cublas.CUBLAS_GEMM_DEFAULT,
                )  # fmt: skip

        return queue.timed("multiplying", work)

    @contextmanager
    def _handle(self, queue: CudaQueue) -> Iterator[int]:
        """CuPy's handle of this thread and device, set as we need it: it is as others have left it."""
        cublas = self.library
        try:
            handle = queue.cuda.Device(queue.device.handle).cublas_handle
            scalars, math = cublas.getPointerMode(handle), cublas.getMathMode(handle)
            cublas.setPointerMode(handle, cublas.CUBLAS_POINTER_MODE_HOST)
            cublas.setMathMode(handle, cublas.CUBLAS_DEFAULT_MATH)  # TF32 by the compute type alone
            try:
                yield handle
            finally:
                cublas.setPointerMode(handle, scalars)
                cublas.setMathMode(handle, math)
        except cublas.CUBLASError as error:
            raise runtimes.failed(queue.device, "multiplying by cuBLAS", error) from error
