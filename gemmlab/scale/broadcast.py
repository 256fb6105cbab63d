"""B from the first device to the others, where these can read its memory: it leaves the host once.

For whole rows of one large product whose parts fit the devices. Everything else is left to each device's backend,
which gets B from the host and can stream. While B is under way to the first device, the others get their rows of A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from gemmlab._backend import Handle, Params

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend, Uploaded
    from gemmlab._problem import Problem

MIN_BYTES = 64 << 20  # of B; less is at every device within milliseconds anyway

B = Future["Uploaded"]  # B on the first device, once it is there


def can_be(backends: Sequence[DeviceBackend], problem: Problem) -> bool:
    """Whether B goes from device to device in this product."""
    from gemmlab._gpu.streaming import largest_bytes, limit_bytes

    count, b = len(backends), problem.b
    if count < 2 or problem.out.ndim > 2 or problem.m < count or b.nbytes < MIN_BYTES:
        return False
    rows = -(-problem.m // count)
    sizes = [b.nbytes, *(problem.dtype.itemsize * rows * columns for columns in (problem.k, problem.n))]
    first, *others = (backend.queue for backend in backends)
    if not all(queue.can_read(first) for queue in others):
        return False
    memory = min(map(limit_bytes, (first, *others)))
    return bool(sum(sizes) <= memory and max(sizes) <= min(map(largest_bytes, (first, *others))))


def jobs(
    backends: Sequence[DeviceBackend], parts: Sequence[Problem], params: Params
) -> list[Callable[[], Handle]]:
    """A function for each part, whole rows of one product, that multiplies it; they must run at once."""
    arrived: B = Future()
    first = partial(_with_b_from_host, backends[0], parts[0], params, arrived)
    others = [partial(_with_b_from, backends[0], *one, params, arrived)
              for one in zip(backends[1:], parts[1:], strict=True)]  # fmt: skip
    return [first, *others]


def _with_b_from_host(backend: DeviceBackend, part: Problem, params: Params, arrived: B) -> Handle:
    from gemmlab._gpu.backend import uploaded

    try:
        b = uploaded(backend.queue, part.b, part)
    except BaseException as error:
        arrived.set_exception(error)
        raise
    arrived.set_result(b)
    return backend.multiply_host(part, backend.resolve(part, params), lambda: b)


def _with_b_from(
    source: DeviceBackend, backend: DeviceBackend, part: Problem, params: Params, arrived: B
) -> Handle:
    def b() -> Uploaded:
        there, layout = arrived.result()
        memory = backend.queue.allocate(part.b.nbytes)
        backend.queue.copy_from(memory, source.queue, there, part.b.nbytes)
        return memory, layout

    return backend.multiply_host(part, backend.resolve(part, params), b)
