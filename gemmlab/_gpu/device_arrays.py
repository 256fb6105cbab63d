"""Device arrays of users, and arrays of other libraries that DLPack exchanges without a copy.

The result is an array of the type that the user passed in. Only packages that the user has imported are imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu import runtime_named
from gemmlab._gpu.operands import DeviceOperand, new_operand
from gemmlab._gpu.runtime import DeviceArray, HostArray, Queue, Runtime
from gemmlab._gpu.transfers import dlpack
from gemmlab._problem import AnyArray, Problem, agreed, resolved_dtypes

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend

# Packages whose arrays are on a device, and the runtime that multiplies them.
OWNERS = {"pyopencl": "opencl", "dpnp": "sycl", "dpctl": "sycl", "cupy": "cuda"}
# DLPack's device types (dlpack.h), and the package that takes arrays on them without a copy.
DLPACK_CPU = 1
DLPACK = {2: "cupy", 13: "cupy", 14: "dpnp"}


def owner(x: object) -> str | None:
    """The runtime of a device array, "dlpack" for an array that DLPack can exchange, None for anything else."""
    if isinstance(x, np.ndarray | np.generic):
        return None
    root = type(x).__module__.partition(".")[0]
    if root in OWNERS and hasattr(x, "dtype"):
        return OWNERS[root]
    return "dlpack" if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") else None


def common_owner(operands: Sequence[object]) -> str | None:
    """The owner of all operands; None if all are host arrays, UnsupportedProblem if the owners differ."""
    owners = [owner(x) for x in operands]
    if len({*owners}) > 1 or ("dlpack" in owners and len({dlpack.library_of(x) for x in operands}) > 1):
        kinds = " and ".join(dict.fromkeys(f"{type(x).__module__}.{type(x).__qualname__}" for x in operands))
        raise UnsupportedProblem(f"operands of different kinds ({kinds}): bring all to one device and kind of array")
    return owners[0]


def exchanged(x: AnyArray) -> AnyArray:
    """Another library's array as one that gemmlab multiplies, in the same memory."""
    device = dlpack.device_of(x)
    if device == DLPACK_CPU:
        return dlpack.on_host(x)
    if device not in DLPACK:
        what = f"{type(x).__name__} is on a device of DLPack's type {device}"
        raise UnsupportedProblem(f"{what}, which gemmlab does not support: copy it to the host")
    try:
        known = import_module(DLPACK[device])
    except ImportError as error:
        raise BackendUnavailable(f"{type(x).__name__} needs {DLPACK[device]} here; fix: pip install it") from error
    return known.from_dlpack(x)


def problem_of(
    backend: DeviceBackend, a: DeviceArray, b: DeviceArray, out: DeviceArray | None = None, axes: object = None,
    dtype: DTypeLike | None = None,
) -> Problem:  # fmt: skip
    """The problem of multiplying arrays on one device, checked as NumPy's matmul does.

    Without `out`, that of the problem has a shape and strides, and no memory: whoever starts the product allocates it.
    `dtype` is that of the result, where it is not that of the operands: see `DeviceBackend.sums`.
    """
    backend.runtime.check_process()
    given = [backend.runtime.adopt(x) for x in (a, b, out) if x is not None]
    queue, of_out = _common_queue(backend, given, dtype), given[2] if out is not None else None
    resolved_dtypes(given[0], given[1], of_out, None, "same_kind")
    fitting = agreed(given[0], given[1], of_out, axes)
    result_dtype = np.dtype(dtype or given[0].dtype)
    result = new_operand(given[0], fitting.result_shape, result_dtype) if of_out is None else of_out
    view = fitting.as_matrices(result) if of_out is None else fitting.out
    problem = Problem(fitting.a, fitting.b, view)
    problem.queue, problem._result = queue, result
    problem.caller_out = None if view.can_be_written(fitting.a, fitting.b) else view
    return problem


def _common_queue(backend: DeviceBackend, given: Sequence[DeviceOperand], dtype: DTypeLike | None) -> Queue:
    """The queue for a product of these arrays; UnsupportedProblem if one product cannot take them."""
    first = given[0]
    if len({operand.queue.device for operand in given}) > 1:
        labels = " and ".join(dict.fromkeys(operand.queue.device.label for operand in given))
        raise UnsupportedProblem(f"operands on {labels}: bring them to one device")
    if backend.selector and (label := backend.device.label) != first.queue.device.label:
        raise UnsupportedProblem(f"{backend.name} is on {label}, the operands on {first.queue.device.label}")
    allowed = {first.dtype.name, backend.sums.get(first.dtype.name)}
    wanted = allowed if dtype is None else {np.dtype(dtype).name}
    if given[1].dtype != first.dtype or any(x.dtype.name not in allowed & wanted for x in given[2:]):
        dtypes = ", ".join(str(operand.dtype) for operand in given)
        raise UnsupportedProblem(f"on a device all operands have one dtype, not {dtypes}: convert with astype")
    if dtype is not None and np.dtype(dtype).name not in allowed:
        raise UnsupportedProblem(
            f"{backend.name} multiplies arrays of {first.dtype} on a device, not into {np.dtype(dtype)}: convert them "
            "with astype"
        )
    if any(operand.start_bytes % operand.dtype.itemsize for operand in given):
        raise UnsupportedProblem("an operand does not begin at a whole element of its memory: copy it")
    return first.queue


def to_device(backend: DeviceBackend, host: HostArray) -> DeviceArray:
    """Copy a host array to the backend's device, as an array of the runtime's usual type."""
    return backend.runtime.array(backend.device, np.ascontiguousarray(host))


def to_host(array: DeviceArray) -> HostArray:
    """Copy a device array to the host, after the work on it is done."""
    return _runtime_of(array).values(array)


def wait(array: DeviceArray) -> None:
    """Block until the work on a device array is done."""
    _runtime_of(array).wait(array)


def _runtime_of(array: DeviceArray) -> Runtime:
    runtime = runtime_named(str(owner(array)))
    runtime.check_process()
    return runtime
