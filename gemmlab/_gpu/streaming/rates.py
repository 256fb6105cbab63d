"""How fast a device multiplies, and transfers to it and from it are: measured once in a process.

The transfers are those of the pipeline itself, from pageable memory through its staging buffers, one way at a time and
both at once. The work is a square product, larger each time until it takes long enough to be timed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._gpu.batches import GemmSize, Operand
from gemmlab._gpu.streaming.lanes import Lanes, lanes_of
from gemmlab._gpu.streaming.tiles import Rates

if TYPE_CHECKING:
    from gemmlab._backend import Params
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Queue

TRANSFER_BYTES = {"gpu": 128 << 20, "cpu": 4 << 20}
FIRST_N, LAST_N = 128, 4096
LONG_ENOUGH_S = 2e-3


def rates_of(backend: DeviceBackend, queue: Queue, dtype: str, params: Params) -> Rates:
    """The rates of a backend on a device; measured at the first call."""
    lanes = lanes_of(queue)
    with lanes.lock:
        if lanes.transfers is None:
            lanes.transfers = _transfer_rates(queue, lanes)
        key = backend.name, dtype, tuple(sorted(params.items()))
        if key not in lanes.flop:
            lanes.flop[key] = _flop_rate(backend, queue, dtype, params)
        return Rates(*lanes.transfers, lanes.flop[key])


def _transfer_rates(queue: Queue, lanes: Lanes) -> tuple[float, float, float]:
    """Bytes per second to the device, from it, and both at once."""
    nbytes = TRANSFER_BYTES["cpu" if queue.device.kind == "cpu" else "gpu"]
    there, back = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    memory, more = queue.allocate(nbytes), queue.allocate(nbytes)

    def up() -> None:
        lanes.up.uploads([(memory, there)])

    def down() -> None:
        lanes.down.downloads([(more, back)])

    def both() -> None:
        for done in [lanes.threads.submit(work) for work in (up, down)]:
            done.result()

    both()
    return nbytes / _best_s(up), nbytes / _best_s(down), 2 * nbytes / _best_s(both)


def _best_s(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(3):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return min(seconds)


def _flop_rate(backend: DeviceBackend, queue: Queue, dtype: str, params: Params) -> float:
    """Floating-point operations per second of a square product on the device."""
    n = FIRST_N
    while True:
        host = np.random.default_rng(n).random((n, n)).astype(dtype)
        a, b, c = (Operand(queue.allocate(host.nbytes), 0, n) for _ in range(3))
        for x in (a, b):
            queue.upload(x.memory, host)

        def work(a: Operand = a, b: Operand = b, c: Operand = c, n: int = n) -> None:
            backend.multiply(queue, params, dtype, GemmSize(n, n, n, 1), a, b, c).wait()

        work()  # it may compile
        seconds = _best_s(work)
        if seconds >= LONG_ENOUGH_S or n >= LAST_N:
            return 2 * n**3 / seconds
        n *= 2
