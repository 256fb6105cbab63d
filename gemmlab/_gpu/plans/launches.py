"""What one product launches, without the memory of its operands.

A rung says this by `RungBackend.launches_for`. It is filled with memory and launched once (`Launches.start`), or kept
in a plan and launched again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from gemmlab._gpu.batches import Layout
from gemmlab._gpu.runtime import Event, Kernel, Memory, Queue, WorkGroups


class Place(Enum):
    """An argument of a kernel that is memory: an operand's, or the workspace."""

    A, B, C, WORKSPACE = range(4)


Argument: TypeAlias = np.generic | Place


@dataclass(frozen=True)
class Launch:
    """One kernel: `groups` work-groups of `group` work-items, and arguments as the kernel declares them."""

    kernel: Kernel
    groups: WorkGroups
    group: WorkGroups
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Launches:
    """The kernels of one product, in their order, and the bytes of device memory that they share."""

    kernels: tuple[Launch, ...]
    workspace_bytes: int = 0

    def start(self, queue: Queue, operands: Sequence[Memory]) -> Event:
        """Launch all with the memory of A, B and C; the event of the last one, which knows the earlier ones."""
        memories = [*operands, queue.allocate(self.workspace_bytes) if self.workspace_bytes else None]
        *earlier, last = (
            queue.launch(
                one.kernel, one.groups, one.group,
                [memories[x.value] if isinstance(x, Place) else x for x in one.arguments],
            )
            for one in self.kernels
        )  # fmt: skip
        last.earlier = tuple(earlier)
        return last


def arguments_of(place: Place, x: Layout) -> tuple[Argument, ...]:
    """The arguments of a kernel for an operand: memory, start, ld, batch stride."""
    return place, *map(np.int64, (x.start, x.ld, x.batch_stride))
