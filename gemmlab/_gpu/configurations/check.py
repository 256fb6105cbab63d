"""Small products, which a configuration of a profile must get right before it is used.

A new driver may compile a kernel wrongly that was right when it was tuned. The product has more than one block of C in
both directions, odd edges, and whole numbers, so that its result is exact. A rung with another text for aligned
operands gets a second one. They run once for each configuration: that it has passed is kept beside the compiled
programs, where the runtime has them on disk, until the device, its driver, a kernel's text or gemmlab's version is
another. One that fails is named in a warning, and is not used.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gemmlab._errors import GemmlabError
from gemmlab._gpu import cache
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.ladder.rung import Rung, RungParams, row_major
from gemmlab._gpu.runtime import Device, Queue
from gemmlab._name import BackendName
from gemmlab._problem import Problem
from gemmlab._profile import Configuration

if TYPE_CHECKING:
    from gemmlab._gpu.backend import RungBackend

K = 131  # odd, and longer than two tiles of most kernels
VECTOR = 8  # elements: a multiple of every vector
LARGEST = 3  # of the numbers: sums of 131 products are exact in float16 too
Size: TypeAlias = tuple[int, int, int]

_checking = threading.RLock()
_reasons: dict[Hashable, str] = {}  # why a configuration is wrong; "" if it is right


def odd_size(columns: int, rows: int) -> Size:
    """An m x n x k product with more than one block of C in both directions, and remainders."""
    return rows + max(1, rows // 2) | 1, columns + max(1, columns // 2) | 1, K


def passes(backend: RungBackend, queue: Queue, dtype: str, one: Configuration) -> bool:
    """Whether a configuration gets the small product right, with a warning if not."""
    key = _key(backend, queue, dtype, one)
    with _checking:  # another thread waits for the result
        if key not in _reasons:
            _reasons[key] = ""  # the product below may come here again
            record = _record(backend, queue, dtype, one.parameters)
            if record is None or record.load() is None:
                if reason := _why_wrong(backend, queue, dtype, one.parameters):
                    _reasons[key] = _sentence(backend, dtype, one, reason)
                    warnings.warn(_reasons[key], stacklevel=2)
                elif record is not None:
                    record.store(b"")
        return not _reasons[key]


def has_not_failed(backend: RungBackend, queue: Queue, dtype: str, one: Configuration) -> bool:
    """Whether the configuration has passed, or has not been checked."""
    return not _reasons.get(_key(backend, queue, dtype, one))


def reasons(backend: RungBackend, queue: Queue, dtype: str) -> list[str]:
    """A sentence on each configuration that has failed for this backend, device and dtype."""
    wanted = _key(backend, queue, dtype)
    return [text for key, text in _reasons.items() if text and isinstance(key, tuple) and key[: len(wanted)] == wanted]


def forget() -> None:
    """Have every configuration that is not known to have passed checked again."""
    _reasons.clear()


def _key(backend: RungBackend, queue: Queue, dtype: str, *one: Configuration) -> tuple[Hashable, ...]:
    values = tuple(tuple(sorted(each.parameters.items())) for each in one)
    return (backend.rung.name, queue.device, dtype, *values)


def _sentence(backend: RungBackend, dtype: str, one: Configuration, reason: str) -> str:
    named = ", ".join(f"{name} {value}" for name, value in one.parameters.items())
    name = BackendName.of(backend.name).plain
    return f"{name}, {dtype}: the profile's {named} is not used, {reason}; `gemmlab tune {name}` finds another"


def _record(backend: RungBackend, queue: Queue, dtype: str, parameters: Mapping[str, int]) -> cache.Entry | None:
    """The entry of the disk cache that says that a configuration has passed; None where there is no cache."""
    device, rung = queue.device, backend.rung.on(queue.device.kind)
    resolved = rung.resolve(parameters, device.kind)
    cases = _cases(backend, queue, dtype, resolved)
    texts = [_texts(rung, device, dtype, values, size) for size, values in cases]
    return queue.cached(repr(texts), repr((dtype, cases)), "passed")


def _texts(rung: Rung, device: Device, dtype: str, parameters: RungParams, size: Size) -> list[tuple[str, str]]:
    """The texts that a product of this size needs, and their macros."""
    product = GemmSize(*size, 1)
    launches = rung.launches(parameters, dtype, product, row_major(product), device)
    return [(launch.text, repr(sorted(launch.macros.items()))) for launch in launches]


def _cases(
    backend: RungBackend, queue: Queue, dtype: str, resolved: dict[str, int]
) -> list[tuple[Size, dict[str, int]]]:
    """The sizes of the products, with their parameters."""
    rung, device = backend.rung.on(queue.device.kind), queue.device
    odd = odd_size(*rung.block(resolved))
    even, cases = rounded(odd), [(odd, resolved)]
    if _texts(rung, device, dtype, resolved, odd) != _texts(rung, device, dtype, resolved, even):
        in_shares = {"shares": 3} if "shares" in resolved else {}
        cases.append((even, {**resolved, **in_shares}))  # its text is another one where vectors fit
    return cases


def _why_wrong(backend: RungBackend, queue: Queue, dtype: str, parameters: Mapping[str, int]) -> str:
    rung, index = backend.rung, queue.device.index
    if queue.device not in backend.runtime.devices:
        return "its device is not one of the runtime's"
    there = type(backend)(backend.runtime, rung, str(index))
    cases = _cases(backend, queue, dtype, rung.resolve(parameters, queue.device.kind))
    try:
        return next(filter(None, (fault(there, size, values, dtype, size[0]) for size, values in cases)), "")
    except (GemmlabError, ValueError) as error:
        return " ".join(str(error).split())


def fault(
    backend: RungBackend, size: Size, parameters: Mapping[str, int], dtype: str,
    seed: int | None = None,
) -> str:  # fmt: skip
    """What is wrong with a product of whole numbers of this size; "" if nothing is."""
    m, n, k = size
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-LARGEST, LARGEST + 1, shape).astype(float) for shape in ((m, k), (k, n)))  # for BLAS
    out = np.full((m, n), np.nan, dtype)
    problem = Problem.from_call(a.astype(dtype), b.astype(dtype), out)
    backend.gemm(problem, **parameters).wait()
    return "" if np.array_equal(out, a @ b) else f"its exact product of {m} x {n} x {k} is wrong"


def rounded(size: Size) -> Size:
    """A size whose extents are multiples of every vector."""
    m, n, k = (-(-extent // VECTOR) * VECTOR for extent in size)
    return m, n, k
