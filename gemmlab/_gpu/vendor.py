"""The vendors' libraries, the baselines of the GPU ladder, on the same memory and queues as the rungs.

    opencl-clblast   CLBlast, through its C library (clblast.py)
    sycl-onemkl      Intel's oneMKL, through dpnp.matmul
    cuda-cublas      NVIDIA's cuBLAS, through CuPy's handle

Device matrices whose layout the library accepts are not copied; others are copied first, and the copies are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any, TypeAlias

import numpy as np

from gemmlab._backend import Param, Params
from gemmlab._errors import BackendUnavailable, GemmlabError, UnsupportedProblem
from gemmlab._gpu import failures
from gemmlab._gpu.backend import DeviceBackend
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.cuda import CudaQueue
from gemmlab._gpu.ladder.numbers import NUMBERS, SUMS, Numbers, of_both
from gemmlab._gpu.ladder.rungs import RUNGS
from gemmlab._gpu.plans.launches import COPIED_AS
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Device, DeviceArray, Event, Memory, Native, Queue, Runtime
from gemmlab._gpu.sycl import SyclEvent, SyclQueue
from gemmlab._problem import Problem

INT32_MAX = 2**31 - 1
Library: TypeAlias = Any  # the loaded library: a module, or one that ctypes has opened


class Vendor(DeviceBackend):
    """A library that multiplies on a device."""

    kind = "baseline"
    params: Mapping[str, Param] = {}
    library_name: str

    def __init__(self, runtime: Runtime, selector: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{self.library_name}", selector)

    @property
    def summary(self) -> str:
        """The library and, if it is known, its version."""
        with suppress(GemmlabError):
            if self.probe().ok:
                return f"{self.source} {self.version()}".rstrip()
        return self.source

    @cached_property
    def library(self) -> Library:
        """The loaded library; BackendUnavailable, with the fix, if it is missing."""
        raise NotImplementedError

    def load(self) -> None:
        _ = self.library

    def version(self) -> str:
        """The version of the loaded library; "" if it is unknown."""
        raise NotImplementedError

    def accepts_layout(self, columns: int, ld: int) -> bool:
        return columns <= ld <= INT32_MAX

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        if size.k:
            return self.call(queue, params, dtype, size, layouts)
        # An empty sum, which not every library accepts: zeros, which are the same bytes in every dtype.
        itemsize = np.dtype(of_both(dtype)[1]).itemsize
        zeros = Numbers(itemsize, COPIED_AS[itemsize], itemsize, COPIED_AS[itemsize])
        naive, kind = replace(RUNGS[0], numbers={dtype: zeros}), queue.device.kind
        return queue.prepared(naive.launches(naive.resolve({}, kind), dtype, size, layouts, queue.device))

    def call(
        self, queue: Native, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        """C = A @ B by the library, ready but for memory; m, n, k and batch are at least 1."""
        raise NotImplementedError


class OneMKL(Vendor):
    """`dpnp.matmul`, which calls oneMKL's gemm, gemm_batch, gemv or dot."""

    library_name, source = "onemkl", "Intel oneMKL"

    @cached_property
    def library(self) -> Library:
        try:
            import dpnp
        except ImportError as error:
            raise BackendUnavailable(f"dpnp cannot be imported ({error}); fix: pip install 'gemmlab[sycl]'") from None
        return dpnp

    def version(self) -> str:
        version = ""
        with suppress(PackageNotFoundError):  # in conda the package has another name
            version = f"{version_of('onemkl-sycl-blas')} "
        return f"{version}through dpnp {self.library.__version__}"

    def accepts_layout(self, columns: int, ld: int) -> bool:
        """Only contiguous matrices: dpnp would copy others, and the copy would not be counted."""
        return ld == columns

    def call(
        self, queue: SyclQueue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        return OneMKLCall(self.library, queue, dtype, size, layouts)


class OneMKLCall:
    """One call of `dpnp.matmul`, complete but for the memory of A, B and C."""

    doing = "multiplying"

    def __init__(
        self, library: Library, queue: SyclQueue, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> None:
        self.library, self.queue, self.dtype = library, queue, dtype
        shapes = (size.m, size.k), (size.k, size.n), (size.m, size.n)
        self.views = []
        for x, (rows, columns) in zip(layouts, shapes, strict=True):
            axes = [(size.batch, x.batch_stride)] * (size.batch > 1) + [(rows, x.ld), (columns, 1)]
            shape, strides = zip(*((count, stride * NUMBERS[dtype].itemsize) for count, stride in axes), strict=True)
            self.views.append({"shape": shape, "offset": x.start, "strides": strides})

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> None:
        """Submit it after all work on the queues of A, B and C."""
        queue = self.queue
        with queue.lock:
            own, *others = queue.orders_of([a, b, c])
            for event in [event for order in others for event in order.submitted_events]:
                own.add_event_pair(event, event)  # dpnp waits for the events that its queue lists
            of_a, of_b, of_c = map(self._view, self.views, (a, b, c))
            self.library.matmul(of_a, of_b, out=of_c)
            submitted = own.submitted_events
            for order in others:
                order.add_event_pair(submitted, submitted)
        if events is not None:
            events.append(SubmittedWork(queue, submitted))

    def _view(self, view: dict[str, Any], memory: Memory) -> DeviceArray:
        array = self.library.ndarray(dtype=self.dtype, buffer=memory, **view)
        return array.to_device(self.queue.queue)  # no copy: dpnp needs all operands on one queue


class SubmittedWork(Event):
    """All work submitted to a queue so far. It has no time: dpnp returns no event of its product."""

    kernel_s = float("nan")

    def __init__(self, queue: SyclQueue, events: Sequence[Native]) -> None:
        self.events = [SyclEvent(queue, event) for event in events]

    def wait(self) -> None:
        for event in self.events:
            event.wait()


class CuBLAS(Vendor):
    """`cublasGemmEx` and, for a batch, `cublasGemmStridedBatchedEx`, on the queue's stream."""

    library_name, source = "cublas", "NVIDIA cuBLAS"
    dtypes = "float32", "float64", "float16", "bfloat16", "int8"
    sums: Mapping[str, str] = SUMS
    compute_types: Mapping[str, str] = {
        "float32": "CUBLAS_COMPUTE_32F", "tf32": "CUBLAS_COMPUTE_32F_FAST_TF32", "float64": "CUBLAS_COMPUTE_64F",
        "int32": "CUBLAS_COMPUTE_32I",
    }  # fmt: skip
    params: Mapping[str, Param] = {
        name: Param(
            name, None, ("float32", "tf32"), meaning, "float32 or tf32; float64 for float64",
            lambda value: value in CuBLAS.compute_types,
        )
        for name, meaning in {
            "precision": "of float32; tf32 uses tensor cores and keeps 10 bits after the binary point",
            "compute": "an older name of precision",
        }.items()
    }  # fmt: skip

    def accepts_transposed(self, device: Device) -> bool:
        return True

    @cached_property
    def library(self) -> Library:
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
        with queue.on_stream("asking cuBLAS for its version"):
            number = self.library.getVersion(queue.cuda.Device(queue.device.handle).cublas_handle)
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def supports(self, problem: Problem) -> bool | str:
        if self.stored(problem) == np.int8 == problem.dtype:
            return f"{self.name} multiplies int8 into int32: pass dtype='int32'"
        return super().supports(problem)

    def resolve(self, problem: Problem, params: Params) -> Params:
        """The precision, always explicit: CuPy's setting CUPY_TF32 has no effect here."""
        dtype = self.stored(problem).name
        sums = self.sums.get(dtype, dtype)
        precision = params.get("precision") or params.get("compute") or sums
        if precision != sums and (precision, dtype) != ("tf32", "float32"):
            raise ValueError(f"{self.name}: {dtype} is not multiplied in {precision}; omit precision")
        return {"precision": precision}

    def call(
        self, queue: Native, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> CublasCall:
        return CublasCall(self.library, queue, self.compute_types[params["precision"]], dtype, size, layouts)


# cudaDataType of <library_types.h>, which CuPy does not have in full.
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14}


class CublasCall:
    """One call of cuBLAS, complete but for the memory of A, B and C."""

    doing = "multiplying"

    def __init__(
        self, library: Library, queue: CudaQueue, compute: str, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> None:
        is_single, both = size.batch == 1, of_both(dtype)
        of_operands, of_c = (DATA_TYPES[name] for name in both)
        itemsizes = [np.dtype(name).itemsize for name in (both[0], *both)]
        self.library, self.queue, self.device = library, queue, queue.cuda.Device(queue.device.handle)
        self.function = library.gemmEx if is_single else library.gemmStridedBatchedEx
        self.scalars = np.array([1, 0], CuBLAS.sums.get(both[0], both[0]))  # alpha and beta
        one, a, b, c = self.scalars.ctypes.data, *layouts
        steps = [value for x in (a, b) for value in (x.start, x.ld, x.batch_stride)]
        if both[0] == "int8" and any(value % 4 for value in steps):
            raise UnsupportedProblem("cuBLAS takes int8 whose rows are multiples of 4 bytes long: use cuda-tensor")
        # cuBLAS is column-major: row-major C = A @ B is column-major C^T = B^T @ A^T.
        operations = [library.CUBLAS_OP_T if x.transposed else library.CUBLAS_OP_N for x in (b, a)]
        self.before = (*operations, size.n, size.m, size.k, one)
        self.starts = [x.start * itemsize for x, itemsize in zip(layouts, itemsizes, strict=True)]
        self.beta = one + self.scalars.itemsize
        self.after_a, self.after_b, self.after_c = (
            (data_type, x.ld) if is_single else (data_type, x.ld, x.batch_stride)
            for x, data_type in ((a, of_operands), (b, of_operands), (c, of_c))
        )
        count = () if is_single else (size.batch,)
        self.after = (*count, getattr(library, compute), library.CUBLAS_GEMM_DEFAULT)

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> None:
        """Submit it: to the queue's stream with `events`, else to the current stream of the current device."""
        if events is None:
            self._submit(a, b, c)
        else:
            events.append(self.queue.timed(self.doing, lambda stream: self._submit(a, b, c)))

    def _submit(self, a: Memory, b: Memory, c: Memory) -> None:
        """By CuPy's handle of this thread and device. It gets the settings that we need; others are restored."""
        cublas, (start_a, start_b, start_c) = self.library, self.starts
        wanted = cublas.CUBLAS_POINTER_MODE_HOST, cublas.CUBLAS_DEFAULT_MATH  # TF32 by the compute type alone
        with_ours = True
        try:
            handle = self.device.cublas_handle
            found = cublas.getPointerMode(handle), cublas.getMathMode(handle)
            with_ours = found == wanted
            if not with_ours:
                _set_modes(cublas, handle, *wanted)
            self.function(
                handle, *self.before, b.ptr + start_b, *self.after_b, a.ptr + start_a, *self.after_a,
                self.beta, c.ptr + start_c, *self.after_c, *self.after,
            )  # fmt: skip
        except cublas.CUBLASError as error:
            raise failures.failed(self.queue.device, "multiplying by cuBLAS", error) from error
        finally:
            if not with_ours:
                _set_modes(cublas, handle, *found)


def _set_modes(cublas: Library, handle: int, scalars: int, math: int) -> None:
    cublas.setPointerMode(handle, scalars)
    cublas.setMathMode(handle, math)
