"""The ways to bring operands to a device and the result back, each around the same kernel, that of the rung `local`.

`gemmlab/_gpu/transfers/memory_modes.py` lists and makes them.

With transfers, a sample begins when the host has written A and B, and ends when it has read one number of each page of
C. Without transfers, the operands are on the device from an earlier product, and the host touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import gemmlab
from gemmlab._gpu.transfers.memory_modes import MODES, Handle, Mode
from gemmlab._name import BackendName
from gemmlab.measure.problems import Case, operands
from gemmlab.measure.records import Record
from gemmlab.studies import isolated

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

Host = NDArray[Any]
MAX_BYTES = 256 << 20  # of all operands together: managed memory larger than the device's can stop the host
MIN_SAMPLES, MAX_SAMPLES = 3, 200  # of a round
PAGE = 1024  # numbers


class Operands:
    """A, B and C in one mode."""

    def __init__(self, mode: Mode, queue: Handle, edge: int) -> None:
        self.edge, self.regions = edge, [mode(queue, 4 * edge * edge) for _ in range(3)]

    def write(self, a: Host, b: Host) -> None:
        """Let the host write the operands."""
        for region, values in zip(self.regions, (a, b), strict=False):
            np.copyto(self._matrix(region.writable()), values)

    def bring(self) -> None:
        """Make what the host wrote visible to the device."""
        for region in self.regions[:2]:
            region.bring()
        self.regions[2].release()

    def fetch(self) -> Host:
        """Make what the device wrote visible to the host."""
        return self._matrix(self.regions[2].fetch())

    def _matrix(self, host: Host) -> Host:
        return host.view(np.float32).reshape(self.edge, self.edge)


def measure(task: Task) -> None:
    """Records of every mode at every case, with transfers and without; in each round, each mode in a new process."""
    rounds = task.options.rounds
    modes = [(name, mode) for name in task.contest for mode in MODES[BackendName.of(name).runtime]]
    for number, case in enumerate(task.cases):

        def show(done: int, count: int, step: tuple[str, str], number: int = number, label: str = case.label) -> None:
            task.progress(number * count + done, len(task.cases) * count, f"{' '.join(step)} {label}")

        ask = partial(_ask, case, task.options.budget_s / rounds)
        for (name, mode), own in isolated.in_turn(modes, rounds, show, ask):
            labelled = replace(case, label=mode)
            if isinstance(own, isolated.NoAnswer):
                task.keep(isolated.untimed(name, labelled, own))
                continue
            for record in _records(name, labelled, own):
                task.keep(record)


def _ask(case: Case, budget_s: float, step: tuple[str, str], is_first: bool) -> isolated.Answer:
    backend, mode = step
    if case.bytes_compulsory > MAX_BYTES:
        raise isolated.NoAnswer(f"its operands are over {MAX_BYTES >> 20} MiB", "skipped")
    request = {"backend": backend, "mode": mode, "case": asdict(case), "budget_s": budget_s}
    return isolated.ask(__name__, request)


def _records(name: str, case: Case, answers: Sequence[isolated.Answer]) -> Iterator[Record]:
    error = max(answer["error_over_bound"] for answer in answers)
    for counted, key in ((True, "with_s"), (False, "without_s")):
        samples = [sample for answer in answers for sample in answer[key]]
        facts = {fact: answers[0][fact] for fact in ("device", "params")} | {"calls_per_sample": 1}
        yield isolated.timed(name, case, samples, error, facts | {"transfers_counted": counted})


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(backend: str, mode: str, case: Record, budget_s: float) -> isolated.Answer:
    """The times of one product in one mode, with transfers and without."""
    from gemmlab._gpu.batches import GemmSize, Operand
    from gemmlab.measure.isolated.worker import check, seconds_a_call

    made: Handle = gemmlab.get_backend(backend)
    a, b = operands(Case(**case))
    edge, queue = len(a), made.queue
    plan = made.rung.resolve({}, queue.device.kind)
    memory = Operands(MODES[made.runtime.name][mode], queue, edge)

    def multiply() -> None:
        arguments = [Operand(region.memory, 0, edge) for region in memory.regions]
        made.multiply(queue, plan, "float32", GemmSize(edge, edge, edge, 1), *arguments).wait()

    def there_and_back() -> Host:
        memory.bring()
        multiply()
        c = memory.fetch()
        c.reshape(-1)[::PAGE].sum()
        return c

    memory.write(a, b)
    error = check(a, b, np.array(there_and_back()))  # it builds the kernel, too

    def with_transfers() -> float:
        memory.write(a, b)
        return seconds_a_call(there_and_back, 1)

    with_s = _samples(with_transfers, budget_s / 2)
    memory.bring()
    multiply()
    without_s = _samples(lambda: seconds_a_call(multiply, 1), budget_s / 2)
    return {
        "device": made.device.label, "params": dict(plan), "error_over_bound": error, "with_s": with_s,
        "without_s": without_s,
    }  # fmt: skip


def _samples(sample: Callable[[], float], budget_s: float) -> list[float]:
    samples: list[float] = []
    while len(samples) < MIN_SAMPLES or (sum(samples) < budget_s and len(samples) < MAX_SAMPLES):
        samples.append(sample())
    return samples
