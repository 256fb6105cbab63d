"""How fast a device can be: a device is another machine than the CPU, and has separate ceilings.

    fma         chains of multiply-adds in registers, for each dtype; those of a matrix unit are in unit.py
    bandwidth   local: a small window of local memory
                L1: the same window of global memory, which the nearest cache then holds
                DRAM: global memory, far more of it than a cache holds
    transfer    to the device and from it, from ordinary (pageable) and from pinned host memory

The loops are in `gemmlab/roofline/kernels/`, in the dialect of the GPU ladder: one text for every runtime. Kernels are
timed by the device's clock, transfers by the host's. As on a CPU, a multiply-add rate is that of the fastest
sample, a bandwidth that of the median; one call is one launch, or one copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from gemmlab._cpu.machine import caches
from gemmlab._errors import DeviceError
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.numbers import NUMBERS
from gemmlab._gpu.plans.launches import Launches
from gemmlab._gpu.runtime import Device, Event, HostArray, Queue
from gemmlab.measure.isolated.worker import seconds_a_call
from gemmlab.measure.noise import summarise
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings import unit
from gemmlab.roofline.ceilings.bandwidth import largest_working_set

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MIN_SAMPLES, MAX_SAMPLES = 5, 50
LAUNCH_S = 5e-3  # long against what a runtime does before and after a kernel
GROUPS_A_UNIT = 8  # of a device's compute units
MOST_ITEMS = 1024  # of a work-group
CHAINS = (4, 8, 16)
STEPS = 8  # loads in flight together
PIECE_BYTES, WINDOW_BYTES = 256 * KIB, 8 * KIB
STREAMS = {"load": 1, "copy": 2, "triad": 3}
TRANSFER_BYTES = 256 * MIB
FACTOR, ADDEND = 0.999, 0.001
PACKAGE = "gemmlab.roofline"  # where the kernels are


@dataclass(frozen=True)
class Form:
    """How a loop is laid out: work-items a group, and numbers that a work-item handles at once."""

    group: int
    lanes: int
    dtype: str = "float32"

    @property
    def item_bytes(self) -> int:
        """What a work-item handles at once, in bytes."""
        return self.lanes * np.dtype(self.dtype).itemsize

    @property
    def defines(self) -> dict[str, int | str]:
        """The macros of every text."""
        real = NUMBERS[self.dtype].c_type
        lanes = f"{real}{self.lanes}" if self.lanes > 1 else real
        return {"REAL": real, "LANES": lanes, "STEPS": STEPS, "GROUP_X": self.group, "GROUP_Y": 1}


def arithmetic_forms(device: Device, dtype: str) -> list[Form]:
    """Forms to try. A CPU's compiler makes vectors from work-items, or keeps the vectors of the text: 64 bytes each."""
    if device.kind == "cpu":
        return [Form(16, 1, dtype), Form(1, 64 // np.dtype(dtype).itemsize, dtype)]
    return [Form(256, 1, dtype)]


def memory_form(device: Device) -> Form:
    """The widest loads: 64 bytes on a CPU; on a GPU 16, by work-items side by side."""
    return Form(1, 16) if device.kind == "cpu" else Form(128, 4)


def working_set(device: Device) -> int:
    """Bytes of global memory to read: far more than any device's last cache, within what the device can allocate."""
    far = largest_working_set(caches(), 1) if device.kind == "cpu" else 2 * GIB
    return min(far, device.memory_bytes // 8, device.allocation_bytes)


def measure_device_ceilings(queue: Queue, *, seconds: float = 4.0, bandwidth: bool = True) -> list[Record]:
    """Measure the ceilings of the device of a queue, within about `seconds` once the kernels are built.

    Each ceiling has at least 5 samples. Without `bandwidth`, multiply-adds alone are measured.

    Returns
    -------
    list of dict
        Records of kind ``"ceiling"`` (`docs/records.md`), to be completed by `gemmlab.measure.records.complete`.
        ``isa`` is the runtime.

    Raises
    ------
    DeviceError
        If the device fails, or its driver does not say how long a kernel took. Where there is no pinned memory, only
        those ceilings are missing.
    """
    dtypes, kinds = ("float32", "float64") if queue.device.float64 else ("float32",), unit.kinds_of(queue.device)
    parts = len(dtypes) + len(kinds) + (4 if bandwidth else 0)
    found = [_multiply_adds(queue, dtype, seconds / parts) for dtype in dtypes]
    found += [_by_unit(queue, kind, seconds / parts) for kind in kinds]
    if bandwidth:
        found += [*_windows(queue, seconds / parts), *_global_memory(queue, seconds / parts)]
        found += _transfers(queue, 2 * seconds / parts)
    return [{"kind": "ceiling", "isa": queue.device.runtime, "threads": None, **record} for record in found]


def _by_unit(queue: Queue, kind: str, seconds: float) -> Record:
    """The rate of a matrix unit, by the instruction that does best."""
    groups = GROUPS_A_UNIT * queue.device.compute_units
    out = queue.allocate(groups * MOST_ITEMS * 8)

    def measured(loop: Launches, flop: int) -> Record:
        def start(steps: int) -> Event:
            return queue.start(queue.prepared(unit.with_steps(loop, steps)), out, None, None)[0]

        steps = _steps_that_last(start)
        timing = _time(lambda: start(steps).kernel_s, seconds / 2)
        isa, rate = f"{queue.device.runtime} matrix unit", flop * steps / timing["min_s"] / 1e9
        return {"ceiling": "fma", "isa": isa, "dtype": kind, "gflop_per_s": rate, **timing}

    tried = [measured(loop, flop) for loop, flop in unit.loops(queue.device, kind, groups)]
    return max(tried, key=lambda record: float(record["gflop_per_s"]))


def _multiply_adds(queue: Queue, dtype: str, seconds: float) -> Record:
    """The multiply-add rate of the form and the number of chains that do best."""
    variants = [(form, chains) for form in arithmetic_forms(queue.device, dtype) for chains in CHAINS]
    tried = [_chains(queue, form, chains, seconds / len(variants)) for form, chains in variants]
    return max(tried, key=lambda record: float(record["gflop_per_s"]))


def _chains(queue: Queue, form: Form, chains: int, seconds: float) -> Record:
    groups, number = GROUPS_A_UNIT * queue.device.compute_units, np.dtype(form.dtype).type
    out = queue.allocate(groups * form.group * form.item_bytes)
    run = _loop(queue, "fma.cl", "multiply_adds", form, CHAINS=chains)

    def start(steps: int) -> Event:
        return run(groups, np.int32(steps), number(FACTOR), number(ADDEND), out)

    steps = _steps_that_last(start)
    timing = _time(lambda: start(steps).kernel_s, seconds)
    flop = 2 * steps * chains * form.lanes * form.group * groups
    return {"ceiling": "fma", "dtype": form.dtype, "gflop_per_s": flop / timing["min_s"] / 1e9, **timing}


def _global_memory(queue: Queue, seconds: float) -> Iterator[Record]:
    """Load, copy and triad over the same number of bytes."""
    form, total = memory_form(queue.device), working_set(queue.device)
    rounds = np.int32(PIECE_BYTES // (STEPS * form.group * form.item_bytes))

    def start(operation: str, streams: int, *memories: object) -> Event:
        run = _loop(queue, "stream.cl", operation, form)
        return run(total // streams // PIECE_BYTES, rounds, np.float32(FACTOR), *memories)

    def measured(operation: str, streams: int) -> Record:
        timing = _time(lambda: start(operation, streams, a, b, c).kernel_s, seconds / len(STREAMS))
        moved = total // streams // PIECE_BYTES * PIECE_BYTES * streams
        return _bandwidth("DRAM", operation, moved, moved, timing)

    a, b, c = (queue.allocate(total // streams) for streams in (1, 3, 2))
    ones = queue.allocate(form.item_bytes)
    queue.upload(ones, np.ones(form.lanes, np.float32))
    for memory, streams in ((a, 1), (b, 3), (c, 2)):
        start("fill", streams, ones, ones, memory).wait()
    for operation, streams in STREAMS.items():
        yield measured(operation, streams)


def _windows(queue: Queue, seconds: float) -> Iterator[Record]:
    """Loads from local memory, if a work-group can have a window of it, and from the nearest cache."""
    form, groups = memory_form(queue.device), GROUPS_A_UNIT * queue.device.compute_units
    round_bytes = STEPS * form.group * form.item_bytes
    whole = WINDOW_BYTES + round_bytes

    def measured(level: str) -> Record:
        macros = {"WINDOW": WINDOW_BYTES // form.item_bytes, "IN_LOCAL": int(level == "local")}
        run = _loop(queue, "local.cl", "read_again", form, **macros)

        def start(rounds: int) -> Event:
            return run(groups, np.int32(rounds), numbers, out)

        rounds = _steps_that_last(start)
        timing = _time(lambda: start(rounds).kernel_s, seconds / 2)
        return _bandwidth(level, "load", whole, groups * rounds * round_bytes, timing)

    numbers, out = queue.allocate(whole), queue.allocate(groups * form.group * form.item_bytes)
    queue.upload(numbers, np.ones(whole // 4, np.float32))
    if whole <= queue.device.local_bytes:
        yield measured("local")
    yield measured("L1")


def _transfers(queue: Queue, seconds: float) -> Iterator[Record]:
    """Copies to the device and from it, as a product's operands go."""
    device = queue.device
    nbytes = min(TRANSFER_BYTES, device.memory_bytes // 8, device.allocation_bytes)
    memory = queue.allocate(nbytes)

    def measured(kind: str, host: HostArray) -> Iterator[Record]:
        host.fill(1)  # pages exist from the first write on
        upload, download = partial(queue.upload, memory, host), partial(queue.download, host, memory)
        for operation, copy in (("to device", upload), ("from device", download)):
            timing = _time(partial(seconds_a_call, copy, 1), seconds / 4)
            where = {"operation": operation, "memory": kind, "working_set_bytes": nbytes}
            yield _rate("transfer", nbytes, timing) | where

    yield from measured("pageable", np.empty(nbytes, np.uint8))
    with suppress(DeviceError):
        yield from measured("pinned", queue.pinned(nbytes))


def _bandwidth(level: str, operation: str, working_set_bytes: int, moved: int, timing: Record) -> Record:
    where = {"level": level, "operation": operation, "working_set_bytes": working_set_bytes}
    return _rate("bandwidth", moved, timing) | {"dtype": "float32", **where}


def _rate(ceiling: str, moved: int, timing: Record) -> Record:
    return {"ceiling": ceiling, "gb_per_s": moved / timing["median_s"] / 1e9, **timing}


def _loop(queue: Queue, text: str, name: str, form: Form, **macros: int) -> Callable[..., Event]:
    """A kernel, to be called with the number of groups and its arguments."""
    source = kernel_text("ceiling.h", PACKAGE) + kernel_text(text, PACKAGE)
    kernel = queue.kernel(source, name, {**form.defines, **macros})

    def run(groups: int, *arguments: object) -> Event:
        return queue.launch(kernel, (groups, 1, 1), (form.group, 1, 1), arguments)

    return run


def _steps_that_last(start: Callable[[int], Event]) -> int:
    """How many steps a launch needs to last `LAUNCH_S`."""
    start(1).wait()  # some drivers finish building here
    steps = 64
    while (took := min(start(steps).kernel_s for _ in range(2))) < LAUNCH_S:
        steps = math.ceil(steps * min(10.0, max(1.2, LAUNCH_S / max(took, 1e-9))))
    return steps


def _time(take: Callable[[], float], seconds: float) -> Record:
    """Statistics of what `take` returns, the seconds of one call, over about `seconds`; the first call warms up."""
    begun = perf_counter()
    take()
    samples: list[float] = []
    while len(samples) < MIN_SAMPLES or (len(samples) < MAX_SAMPLES and perf_counter() - begun < seconds):
        samples.append(take())
    if not min(samples) > 0:
        raise DeviceError("the device does not say how long a kernel took: its driver has no profiling")
    return {"calls_per_sample": 1, **summarise(samples)}
