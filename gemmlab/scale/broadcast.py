"""B from one device to the others, where devices copy to each other: it leaves the host once.

Only for whole rows of one large product whose operands fit every device; the rest is left to each device's own backend,
which gets B from the host and can stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmlab._backend import Handle
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._problem import Problem


def can_be(backends: Sequence[DeviceBackend], problem: Problem) -> bool:
    """Whether B of this product goes from device to device."""
    return False


@contextmanager
def shared(
    backends: Sequence[DeviceBackend], parts: Sequence[Problem], params: Mapping[str, Any]
) -> Iterator[Callable[[int], Handle]]:
    """Within the block, a function that multiplies one of the parts by its backend."""

    def multiply(number: int) -> Handle:
        return backends[number].gemm(parts[number], **params)

    yield multiply
