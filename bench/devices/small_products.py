"""The host time of small products of device arrays, called in a loop.

    python bench/devices/small_products.py opencl-register cuda-register cuda-cublas [--sizes 64,128,256]
        [--dtype float32] [--calls 1000] [--rounds 9] [--out FILE]

For each backend and size, without and with `out=`: microseconds a call on the host until the last call returns, and
until the queue is drained; the median of the rounds and their p20 to p80. In each round all ways of one size follow one
another, and the order turns round. Beside them, on the same arrays,

    cupy.matmul         for backends of CUDA, and our time over CuPy's, drained
    bare enqueue        for backends of OpenCL: pyopencl's enqueue of a kernel of the rung whose arguments are set

The last table has, in a new process for each backend, the milliseconds of the first product of the rung on an open
device with a program from the disk cache, and of a later one, both until the product is done.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab
from gemmlab._gpu.backend import DeviceBackend
from gemmlab._gpu.device_arrays import to_device, wait
from gemmlab._gpu.plans import table

Ways = dict[str, Callable[[], object]]


def ways_of(name: str, arrays: tuple[Any, Any, Any]) -> Ways:
    """What is timed for one backend."""
    a, b, out = arrays
    return {
        name: lambda: gemmlab.matmul(a, b, backend=name),
        f"{name} out=": lambda: gemmlab.matmul(a, b, out, backend=name),
    }


def references(runtime: str, backends: list[DeviceBackend], arrays: tuple[Any, Any, Any]) -> Ways:
    """What the library of the arrays needs itself."""
    a, b, out = arrays
    if runtime == "cuda":
        import cupy

        return {"cupy.matmul": lambda: cupy.matmul(a, b), "cupy.matmul out=": lambda: cupy.matmul(a, b, out=out)}
    if runtime != "opencl":
        return {}
    import pyopencl as cl

    from gemmlab._gpu.plans.on_opencl import Launcher

    def enqueue(launcher: Launcher) -> None:
        for kernel, size, group, _ in launcher.ready:
            cl.enqueue_nd_range_kernel(a.queue, kernel, size, group)

    ways: Ways = {}
    for backend in backends:
        table.forget_all()
        for _ in range(2):
            gemmlab.matmul(a, b, out, backend=backend.name)
        (plan,) = table._plans.values()
        if isinstance(plan.prepared, Launcher):
            ways[f"bare enqueue, {backend.name}"] = partial(enqueue, plan.prepared)
    return ways


def drain(array: Any) -> None:
    """Wait for the queue of an array."""
    if hasattr(array, "queue"):
        array.queue.finish()
    else:
        wait(array)


def measure(ways: Ways, out: Any, calls: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a call on the host and drained, round by round, for each way."""
    found: dict[str, dict[str, list[float]]] = {way: {"host": [], "drained": []} for way in ways}
    for call in ways.values():
        for _ in range(50):
            call()
    drain(out)
    for number in range(rounds):
        for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
            call, start = ways[way], perf_counter()
            for _ in range(calls):
                call()
            returned = perf_counter()
            drain(out)
            found[way]["host"].append((returned - start) / calls * 1e6)
            found[way]["drained"].append((perf_counter() - start) / calls * 1e6)
    return found


FIRST = """
import sys, time, numpy as np, gemmlab
from gemmlab._gpu.device_arrays import to_device, wait
name, dtype = sys.argv[1:]
backend = gemmlab.get_backend(name)
other = "private" if name.partition("-")[2] != "private" else "naive"
a = to_device(backend, np.ones((64, 64), dtype))
wait(gemmlab.matmul(a, a, backend=f"{backend.runtime.name}-{other}"))
seconds = []
for _ in range(20):
    start = time.perf_counter()
    wait(gemmlab.matmul(a, a, backend=name))
    seconds.append(time.perf_counter() - start)
builds = backend.runtime.adopt(a).queue.builds
print(1e3 * seconds[0], 1e3 * sorted(seconds[1:])[9], builds[-1].how if backend.kind == "rung" else "library")
"""


def first_launch(name: str, dtype: str) -> tuple[float, float, str]:
    """Milliseconds of the first and of a later product in a new process, and where its program came from."""
    for _ in range(2):  # the first process fills the cache
        command = [sys.executable, "-c", FIRST, name, dtype]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(answer[0]), float(answer[1]), answer[2]


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median, p20 and p80."""
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[4], tenths[1], tenths[7]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backends", nargs="+")
    parser.add_argument("--sizes", default="64,128,256")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out")
    given = parser.parse_args()
    rows = []
    backends: list[Any] = [gemmlab.get_backend(name) for name in given.backends]
    for runtime in dict.fromkeys(backend.runtime.name for backend in backends):
        own = [backend for backend in backends if backend.runtime.name == runtime]
        print(f"{runtime}: {own[0].device.label}, {own[0].device.driver}, {given.dtype}")
        print(f"  {'':36} {'host us':>8} {'p20-p80':>15} {'drained':>8} {'p20-p80':>15} {'ratio':>6}")
        for n in map(int, given.sizes.split(",")):
            hosts = np.random.default_rng(n).random((3, n, n)).astype(given.dtype)
            a, b, out = (to_device(own[0], host) for host in hosts)
            ways = references(runtime, own, (a, b, out))
            for backend in own:
                ways |= ways_of(backend.name, (a, b, out))
            for way, found in measure(ways, out, given.calls, given.rounds).items():
                host, drained = spread(found["host"]), spread(found["drained"])
                row = {"runtime": runtime, "device": own[0].device.label, "n": n, "way": way, "dtype": given.dtype}
                rows.append({**row, "host_us": host, "drained_us": drained})
                peer = f"cupy.matmul{' out=' if way.endswith('out=') else ''}"
                theirs = next((x["drained_us"][0] for x in rows if (x["n"], x["way"]) == (n, peer)), None)
                ratio = f"{drained[0] / theirs:6.2f}" if theirs and runtime == "cuda" else ""
                print(
                    f"  {n:4} {way:31} {host[0]:8.1f} {host[1]:7.1f}-{host[2]:<7.1f} "
                    f"{drained[0]:8.1f} {drained[1]:7.1f}-{drained[2]:<7.1f} {ratio}"
                )
    print("first product of a rung on an open device, and a later one, ms")
    for backend in backends:
        first, later, how = first_launch(backend.name, given.dtype)
        rows.append({"way": f"first {backend.name}", "first_ms": first, "later_ms": later, "program": how})
        print(f"  {backend.name:36} {first:8.2f} {later:8.2f}  ({how})")
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
