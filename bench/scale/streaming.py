"""Large products of NumPy arrays on a GPU, against the bound of the work and of the transfers.

    python bench/scale/streaming.py cuda-cublas opencl-register --cases 8192 16384 32768@third 65536x65536x1024@third

A case is a square or m x n x k; `@third` limits the device's memory to a third of A, B and C. For each, host to host
with `out=` of pages that have been touched: the median of the calls, the bound and its share. The bound is the
longest of

    work        the same product on the device, by its events
    in, out     the bytes of A and B, and of C, once, at the rate of pinned transfers
    host        all three once, at the rates at which threads copy host memory to and from pinned buffers
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab
from gemmlab._gpu import streaming
from gemmlab._gpu.batches import GemmSize, Operand

PINNED_BYTES = 256 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backends", nargs="+")
    parser.add_argument("--cases", nargs="+", default=["8192", "16384"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-one-piece", action="store_true", help="also without streaming, where it fits")
    options = parser.parse_args()
    for name in options.backends:
        backend: Any = gemmlab.get_backend(name)
        queue = backend.queue
        up, down = pinned_rates(queue)
        there, back = copy_rates(queue)
        print(f"{name} on {queue.device.label}: pinned {up / 1e9:.1f} GB/s in, {down / 1e9:.1f} out; copies to pinned "
              f"memory {there / 1e9:.1f}, from it {back / 1e9:.1f}", flush=True)  # fmt: skip
        for case in options.cases:
            m, n, k, limited = parsed(case)
            a, b, out = random(m, k), random(k, n), np.full((m, n), np.nan, np.float32)
            inward, outward = a.nbytes + b.nbytes, out.nbytes
            bounds = {
                "work": work_s(backend, m, n, k), "in": inward / up, "out": outward / down,
                "host": inward / there + outward / back,
            }  # fmt: skip
            longest = max(bounds, key=bounds.__getitem__)
            gemmlab.config.device_memory = (inward + outward) // 3 if limited else None
            multiply = partial(gemmlab.matmul, a, b, out=out, backend=name)
            multiply()
            found = seconds(multiply, options.rounds)
            middle = median(found)
            print(f"  {case}: {middle:.4f} s ({min(found):.4f} to {max(found):.4f}), bound {bounds[longest]:.4f} by "
                  f"{longest}: {bounds[longest] / middle:.2f}", flush=True)  # fmt: skip
            print(f"    {gemmlab.explain(a, b, backend=name).rows[0][2]}; "
                  + ", ".join(f"{what} {time:.4f}" for what, time in bounds.items()), flush=True)  # fmt: skip
            rows = np.sort(np.random.default_rng().choice(m, 8, replace=False))
            columns = np.sort(np.random.default_rng().choice(n, 256, replace=False))
            error = gemmlab.verify.error_over_bound(a, b, out, rows=rows, columns=columns)
            print(f"    error at most {error:.2g} of its bound in {len(rows)} x {len(columns)} elements", flush=True)
            gemmlab.config.device_memory = None
            if options.in_one_piece and not limited:
                streaming.OVERLAP_PAYS_BYTES, kept = 1 << 60, streaming.OVERLAP_PAYS_BYTES
                whole = seconds(multiply, options.rounds)
                streaming.OVERLAP_PAYS_BYTES = kept
                print(f"    in one piece: {median(whole):.4f} s", flush=True)


def parsed(case: str) -> tuple[int, int, int, bool]:
    sizes, _, limit = case.partition("@")
    m, n, k = map(int, sizes.split("x") if "x" in sizes else [sizes] * 3)
    return m, n, k, limit == "third"


def random(rows: int, columns: int) -> np.ndarray:
    """Uniform in -1 to 1; of a large matrix, the rows of one block in another order each time."""
    rng = np.random.default_rng()
    block = rng.random((min(rows, 4096), columns), np.float32) * 2 - 1
    made = np.empty((rows, columns), np.float32)
    for i in range(0, rows, len(block)):
        np.copyto(made[i : i + len(block)], block[rng.permutation(len(block))][: rows - i])
    return made


def seconds(work: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return found


def best(work: Callable[[], object]) -> float:
    work()
    return min(seconds(work, 5))


def copy_rates(queue: Any) -> tuple[float, float]:
    """Bytes per second that as many threads as there are CPUs, at most 16, copy: to pinned buffers, and from them."""
    count, piece = min(16, os.cpu_count() or 1), 4 << 20
    host, buffers = np.ones(2 * PINNED_BYTES, np.uint8), [queue.pinned(piece) for _ in range(count)]
    threads = ThreadPoolExecutor(count)

    def copy(there: bool) -> object:
        def of_thread(number: int) -> None:
            for start in range(number * piece, host.size, count * piece):
                part = host[start : start + piece]
                np.copyto(*((buffers[number][: part.size], part) if there else (part, buffers[number][: part.size])))

        return list(threads.map(of_thread, range(count)))

    return host.size / best(lambda: copy(True)), host.size / best(lambda: copy(False))


def pinned_rates(queue: Any) -> tuple[float, float]:
    memory, pinned = queue.allocate(PINNED_BYTES), queue.pinned(PINNED_BYTES)
    up = best(lambda: queue.start_upload(memory, 0, pinned).wait())
    down = best(lambda: queue.start_download(pinned, memory, 0).wait())
    return PINNED_BYTES / up, PINNED_BYTES / down


def work_s(backend: Any, m: int, n: int, k: int) -> float:
    """Seconds of the product of device arrays, by the device's events."""
    queue = backend.queue
    a, b, c = (
        Operand(queue.allocate(4 * rows * columns), 0, columns) for rows, columns in ((m, k), (k, n), (m, n))
    )
    queue.copy_to_device(a.memory, random(m, k))
    queue.copy_to_device(b.memory, random(k, n))
    params = backend.rung.resolve({}, queue.device.kind) if hasattr(backend, "rung") else {"precision": "float32"}
    size = GemmSize(m, n, k, 1)
    return median(backend.multiply(queue, params, "float32", size, a, b, c).kernel_s for _ in range(4))


if __name__ == "__main__":
    main()
