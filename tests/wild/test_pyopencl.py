"""Arrays of pyopencl from any allocator: the product, or one line."""

from __future__ import annotations

import numpy as np
import pytest
from devices import FIRST_PLACES
from helpers import output_of
from randomness import RNG

import gemmlab
from gemmlab._gpu import runtime_named

pytestmark = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")


@pytest.fixture
def queue():
    runtime = runtime_named("opencl")
    return runtime.queue(runtime.device("")).queue


def made(queue, allocator):
    from pyopencl import array

    a, b = (RNG.integers(-4, 4, shape).astype("f4") for shape in ((30, 40), (40, 20)))
    return a, b, *(array.to_device(queue, x, allocator=allocator) for x in (a, b))


@pytest.mark.parametrize("kind", ["ImmediateAllocator", "DeferredAllocator", "MemoryPool"])
@pytest.mark.parametrize("backend", ["auto", "opencl", "opencl-naive"])
def test_buffers(queue, backend, kind):
    from pyopencl import tools

    makers = {"ImmediateAllocator": lambda: tools.ImmediateAllocator(queue),
              "DeferredAllocator": lambda: tools.DeferredAllocator(queue.context),
              "MemoryPool": lambda: tools.MemoryPool(tools.ImmediateAllocator(queue))}  # fmt: skip
    a, b, x, y = made(queue, makers[kind]())
    for _ in range(3):
        assert np.array_equal(gemmlab.matmul(x, y, backend=backend).get(), a @ b)


class SharedVirtualMemory:
    """Memory as of pyopencl's SVM allocators, which some drivers do not survive."""

    svm_ptr, size = 4096, 1 << 20


@pytest.mark.parametrize("side", ["a", "b", "out"])
@pytest.mark.parametrize("backend", ["auto", "opencl", "opencl-naive"])
def test_shared_virtual_memory_is_one_line(queue, backend, side):
    from pyopencl import array

    _, _, x, y = made(queue, None)
    arrays = {"a": x, "b": y, "out": array.empty(queue, (30, 20), "f4")}
    kept, arrays[side].base_data = arrays[side].base_data, SharedVirtualMemory()
    with pytest.raises(gemmlab.UnsupportedProblem, match="in shared virtual memory: copy it into a buffer") as caught:
        gemmlab.matmul(arrays["a"], arrays["b"], out=arrays["out"], backend=backend)
    assert "\n" not in str(caught.value)
    arrays[side].base_data = kept


def test_a_driver_that_is_listed_twice_has_its_devices_once():
    """As where both a directory of drivers and the loader's own folder list it."""
    code = """
import pyopencl
platforms = pyopencl.get_platforms
pyopencl.get_platforms = lambda: platforms() * 2
from gemmlab._gpu import runtime_named
print(len(runtime_named("opencl").devices))
"""
    assert int(output_of(code)) == len(runtime_named("opencl").devices)
