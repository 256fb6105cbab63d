"""gemmlab.dask on a LocalCluster of two workers of one thread: python bench/scale/dask_products.py CASE

    zarr      from Zarr to Zarr: makes the inputs, multiplies, checks; memory of each worker, share of time in products
    chunks    against dask.array.matmul on chunks that are in the workers: bytes into tasks, seconds in turns
    first     what the first product of a fresh cluster takes beyond the second, also dask.array.matmul's
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
import zarr
from distributed import Client, LocalCluster, wait

import gemmlab.dask

CODECS: dict[str, Any] = {
    "none": None,
    "lz4": zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle", typesize=4),
    "zstd": "auto",
}
GIB = 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=("zarr", "chunks", "first"))
    parser.add_argument("--size", type=int, help="of the square matrices; 40000, 16000 and 6000")
    parser.add_argument("--chunk", type=int, help="their square chunks; 4000, and 1000")
    parser.add_argument("--memory", default="2GiB", help="of a worker")
    parser.add_argument("--backend", help="of the chunks")
    parser.add_argument("--codec", choices=CODECS, default="lz4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the arrays are written; a temporary one")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", da.core.PerformanceWarning)
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        with dask.config.set({"temporary-directory": str(folder)}):
            CASES[arguments.case](arguments, folder)
    finally:
        shutil.rmtree(folder)


def from_zarr_to_zarr(arguments: argparse.Namespace, folder: Path) -> None:
    size, chunk = arguments.size or 40_000, arguments.chunk or 4000
    a, b, c = (new_array(folder / name, size, chunk, arguments.codec) for name in ("a.zarr", "b.zarr", "c.zarr"))
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    for i, x in enumerate((a, b)):
        fill(x, np.random.default_rng([seed, i]))
    print(f"float32 {size} x {size}, chunks {chunk} x {chunk}, codec {arguments.codec}, seed {seed}")
    with cluster(arguments.memory) as client, peak_memory(client) as peaks:
        print(gemmlab.dask.advise(a, b, arguments.backend, out=c))
        start = time.perf_counter()
        gemmlab.dask.matmul(a, b, arguments.backend, out=c, progress=lambda *at: print(*at, flush=True))
        wall = time.perf_counter() - start
        spent = seconds_of_tasks(client)
    product = spent.get("gemmlab-product", 0.0)
    print(f"wall {wall:.1f} s, {2e-9 * size**3 / wall:.1f} GFLOP/s")
    print(f"seconds in products over 2 x wall time: {product / (2 * wall):.3f}")
    print("seconds of both workers:", {name: round(seconds, 1) for name, seconds in spent.items()})
    print("peak memory of the workers:", ", ".join(f"{peak / GIB:.3f} GiB" for peak in peaks.values()))
    print(f"largest error of C x against A (B x): {freivalds(a, b, c, seed):.3g} of its bound")


def against_dask(arguments: argparse.Namespace, folder: Path) -> None:
    size, chunk = arguments.size or 16_000, arguments.chunk or 1000
    print(f"float32 {size} x {size}, chunks {chunk} x {chunk}: random numbers, kept in the workers; C x is computed")
    ours = partial(gemmlab.dask.matmul, backend=arguments.backend)
    ways = {"gemmlab.dask.matmul": ours, "dask.array.matmul": da.matmul}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(arguments.rounds):
        for name in list(seconds)[:: 1 if turn % 2 == 0 else -1]:
            with cluster(arguments.memory) as client, peak_memory(client) as peaks:
                a, b = (da.random.default_rng(seed).random((size, size), chunks=chunk, dtype="f4") for seed in (1, 2))
                x = np.random.default_rng(3).choice([-1.0, 1.0], size)
                a, b = client.persist([a, b])
                wait([a, b])
                if turn == 0:
                    print(f"{name}: {bytes_into_tasks(ways[name], size, chunk) / 1e9:.2f} GB enter tasks")
                start = time.perf_counter()
                c = ways[name](a, b)
                of_c = c.map_blocks(lambda block, x, block_info=None: part(block, x, block_info), x, dtype="f8",
                                    chunks=(c.chunks[0], (1,) * c.numblocks[1])).sum(axis=1).compute()  # fmt: skip
                seconds[name].append(time.perf_counter() - start)
                right = (a @ (b @ x)).compute()
            error = np.abs(of_c - right).max() / np.abs(right).max()
            peak = max(peaks.values()) / GIB
            print(f"turn {turn}, {name}: {seconds[name][-1]:.1f} s, peak {peak:.2f} GiB, error {error:.2g}", flush=True)
    mine, theirs = seconds.values()
    print(f"median {statistics.median(mine):.1f} s against {statistics.median(theirs):.1f} s: "
          f"{statistics.median(t / o for o, t in zip(mine, theirs, strict=True)):.2f} times")  # fmt: skip


def first_products(arguments: argparse.Namespace, folder: Path) -> None:
    size, chunk = arguments.size or 6000, arguments.chunk or 1000
    print(f"float64 {size} x {size}, chunks {chunk} x {chunk}: seconds of a cluster's first two products")
    for name, multiply in {"gemmlab.dask.matmul": gemmlab.dask.matmul, "dask.array.matmul": da.matmul}.items():
        beyond = []
        for _ in range(arguments.rounds):
            with cluster(arguments.memory) as client:
                a, b = (da.random.default_rng(seed).random((size, size), chunks=chunk) for seed in (1, 2))
                a, b = client.persist([a, b])
                wait([a, b])
                seconds = []
                for _ in range(2):
                    start = time.perf_counter()
                    wait(client.persist(multiply(a, b)))
                    seconds.append(time.perf_counter() - start)
            beyond.append(seconds[0] - seconds[1])
            print(f"{name}: {seconds[0]:.2f}, {seconds[1]:.2f}", flush=True)
        print(f"{name}: the first takes {statistics.median(beyond):.2f} s more, median of {len(beyond)}")


CASES = {"zarr": from_zarr_to_zarr, "chunks": against_dask, "first": first_products}


def part(block: Any, x: Any, block_info: Any) -> Any:
    """The part of C x of one chunk of C."""
    columns = slice(*block_info[0]["array-location"][1])
    return (block.astype("f8") @ x[columns])[:, None]


def new_array(path: Path, size: int, chunk: int, codec: str) -> Any:
    return zarr.create_array(path, shape=(size, size), chunks=(chunk, chunk), dtype="f4", compressors=CODECS[codec])


def fill(x: Any, rng: np.random.Generator) -> None:
    """Uniform random numbers, chunk by chunk."""
    rows, columns = x.chunks
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            shape = min(rows, x.shape[0] - i), min(columns, x.shape[1] - j)
            x[i : i + rows, j : j + columns] = rng.random(shape, dtype="f4")


@contextmanager
def cluster(memory: str) -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=None) as two:  # noqa: SIM117
        with Client(two) as client:
            yield client


@contextmanager
def peak_memory(client: Client) -> Iterator[dict[int, int]]:
    """The most resident memory of each worker's process, sampled ten times a second."""
    pids = list(client.run(lambda: __import__("os").getpid()).values())
    peaks, done = dict.fromkeys(pids, 0), threading.Event()

    def sample() -> None:
        while not done.wait(0.1):
            for pid in pids:
                with suppress(psutil.NoSuchProcess):
                    peaks[pid] = max(peaks[pid], psutil.Process(pid).memory_info().rss)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def seconds_of_tasks(client: Client) -> dict[str, float]:
    """Seconds by what gemmlab's tasks measure, of all workers: Dask's metrics of tasks."""
    time.sleep(1.0)  # workers send them with their heartbeat
    metrics = client.run_on_scheduler(lambda dask_scheduler: dict(dask_scheduler.cumulative_worker_metrics))
    found: dict[str, float] = {}
    for key, value in metrics.items():
        if isinstance(key, tuple) and key[0] == "execute" and key[-1] == "seconds":
            found[str(key[2])] = found.get(str(key[2]), 0.0) + value
    return found


def bytes_into_tasks(multiply: Callable[[Any, Any], Any], size: int, chunk: int) -> int:
    """Bytes of all inputs of all tasks of a product, by its graph: chunks of operands, and partial sums."""
    a, b = (unknown_array(name, size, chunk) for name in "ab")
    (c,) = dask.optimize(multiply(a, b))

    def nbytes(key: Any) -> int:
        if key[0].startswith("part-of-gemmlab"):
            return int(c.chunks[0][key[1]] * c.chunks[1][key[2]] * 4)
        return chunk * chunk * 4  # of an operand, or a partial sum of Dask's

    return sum(nbytes(key) for keys in c.dask.get_all_dependencies().values() for key in keys)


def unknown_array(name: str, size: int, chunk: int) -> Any:
    """A Dask array of which only the chunks are known, so that no task of a product is joined with theirs."""
    blocks = range(size // chunk)
    graph = {(name, i, j): (np.ones, (chunk, chunk), "f4") for i in blocks for j in blocks}
    return da.Array(graph, name, ((chunk,) * len(blocks),) * 2, dtype="f4")


def freivalds(a: Any, b: Any, c: Any, seed: int) -> float:
    """The largest |C x - A (B x)| over its bound, for x of random signs, row of blocks by row of blocks."""
    size, rows = c.shape[0], c.chunks[0]
    x = np.random.default_rng([seed, 2]).choice([-1.0, 1.0], size)

    def by_rows(matrix: Any, function: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        return np.concatenate([function(matrix[i : i + rows].astype("f8")) for i in range(0, size, rows)])

    bx, magnitude = by_rows(b, lambda block: block @ x), by_rows(b, lambda block: np.abs(block).sum(axis=1))
    right = by_rows(a, lambda block: block @ bx)
    bound = by_rows(a, lambda block: np.abs(block) @ magnitude) * size * np.finfo("f4").eps
    return float((np.abs(by_rows(c, lambda block: block @ x) - right) / bound).max())


if __name__ == "__main__":
    main()
