"""The steps of the GPP contest: from loops to a product, on CPU and device. Each is timed in separate processes.

The labels of the records are the steps: the forms of `gemmlab.workloads.gpp`, a device's with its arrays there already;
"with copies" and others, the fused form after the arrays have been brought in one of the memory modes; and "first call"
with the kernels built from source or loaded from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._gpu import runtime_named
from gemmlab._gpu.transfers.memory_modes import MODES
from gemmlab._name import BackendName
from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, text_table
from gemmlab.studies import isolated
from gemmlab.studies.cold_start import NO_CACHES
from gemmlab.studies.summary import wrapped
from gemmlab.workloads import gpp
from gemmlab.workloads.gpp_check import bound, check

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

BANDS, OCCUPIED, NODES_PER_GROUP = 512, 2, 20  # as in the contest and the mini-app's benchmarks
PROBE = 16  # a form is tried on so many times fewer bands, to see how long it would take
CAP_S = 5.0
ON_CPU = tuple(form.name for form in gpp.FORMS.values() if not form.on_device)
ON_DEVICE = tuple(form.name for form in gpp.FORMS.values() if form.on_device)
WITH, FIRST = "with ", "first call, "
Step = tuple[str, str]  # a backend of the contest, and a label
Call = Callable[[], tuple[float, gpp.SelfEnergy]]  # gives its seconds, too
# Sums that other versions of the mini-app print for constant inputs, and the numbers and potentials of these inputs.
PUBLISHED = (
    ("HeCBench, test", 0.025, "steps", 512, -0.096066 + 11.431852j),
    ("HeCBench, benchmark", 0.025, "steps", 32768, -24852.551547 + 2957453.638101j),
    ("Brookathon", 0.5, "one", 32768, -264241152.090614 + 1321205760.021389j),
    ("BerkeleyGW-Kernels-CPP, OpenMP", 0.5, "one", 32768, -264241149.849658 + 1321205773.349384j),
    ("BerkeleyGW-Kernels-CPP, serial", 0.5, "one", 32768, -264241220.914570 + 1321205332.084101j),
)


def measure(task: Task) -> None:
    """Records of every step at every size."""
    for number, square in enumerate(task.cases):
        rows = max(1, square.n // NODES_PER_GROUP)
        case = replace(square, m=rows, k=BANDS, n=square.n, dtype="complex128")
        steps = [step for name in task.contest for step in _steps(name)]

        def show(done: int, count: int, step: Step, number: int = number, n: int = square.n) -> None:
            task.progress(number * count + done, len(task.cases) * count, f"{step[1]} {n}")

        ask = partial(_ask, task, case.n)
        for (name, label), own in isolated.in_turn(steps, task.options.rounds, show, ask):
            labelled = replace(case, label=label)
            if isinstance(own, isolated.NoAnswer):
                task.keep(isolated.untimed(name, labelled, own))
            else:
                samples = [sample for answer in own for sample in answer["samples_s"]]
                facts = {"device": own[0]["device"], "calls_per_sample": 1, "transfers_counted": label.startswith(WITH)}
                task.keep(isolated.timed(name, labelled, samples, own[0]["error_over_bound"], facts))


def _steps(name: str) -> Iterator[Step]:
    runtime = BackendName.of(name).runtime
    if not runtime:
        yield from ((name, form) for form in ON_CPU)
        return
    yield from ((name, form) for form in ON_DEVICE)
    yield from ((name, f"{WITH}{mode}") for mode in MODES[runtime])
    yield from ((name, f"{FIRST}{kernel}") for kernel in ("source", "disk"))


def _ask(task: Task, ncouls: int, step: Step, is_first: bool) -> isolated.Answer:
    name, label = step
    request = {
        "label": label, "runtime": BackendName.of(name).device, "ncouls": ncouls,
        "threads": task.options.threads, "is_first": is_first,
        "budget_s": task.options.budget_s / task.options.rounds, "cap_s": task.options.cap_s or CAP_S,
    }  # fmt: skip
    if not label.startswith(FIRST):
        return isolated.ask(__name__, request)
    with TemporaryDirectory() as directory:
        environ = NO_CACHES | {"GEMMLAB_CACHE_DIR": directory}
        answer = isolated.ask(__name__, request, environ)
        return answer if label.endswith("source") else isolated.ask(__name__, request, environ)


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(
    label: str, runtime: str, ncouls: int, threads: int | None, is_first: bool, budget_s: float, cap_s: float
) -> isolated.Answer:
    """The times of one step, its error over its bound, and the device."""
    from gemmlab._cpu.machine import cpu_name

    problem = gpp.Problem.random(BANDS, OCCUPIED, ncouls, min(NODES_PER_GROUP, ncouls), seed=1)
    form = label if label in gpp.FORMS else "device-fused"
    on_device = gpp.FORMS[form].on_device
    backend = runtime if on_device else None

    def compute(part: gpp.Problem) -> gpp.SelfEnergy:
        return gpp.self_energy(part, form, backend, threads)

    if label.startswith(FIRST):
        samples, found = _samples(_timed(lambda: compute(problem)), 0.0)
    elif on_device:
        samples, found = _samples(_on_device(problem, label, form, runtime, threads), budget_s)
    else:
        _refuse_what_takes_long(problem, compute, cap_s)
        samples, found = _samples(_timed(lambda: compute(problem)), budget_s)
    error = check(problem, found, compute).error / bound(problem, form) if is_first else 0.0
    where = BackendName.of(runtime)
    device = runtime_named(where.runtime).device(where.selector).label if on_device else cpu_name()
    return {"samples_s": samples, "error_over_bound": error, "device": device}


def _timed(call: Callable[[], gpp.SelfEnergy], before: Callable[[], float] = lambda: 0.0) -> Call:
    """A call and its seconds, with those that something before it returns."""

    def timed() -> tuple[float, gpp.SelfEnergy]:
        seconds = before()
        start = perf_counter()
        found = call()
        return seconds + perf_counter() - start, found

    return timed


def _on_device(problem: gpp.Problem, label: str, form: str, runtime: str, threads: int | None) -> Call:
    """A call on a device, which has built the kernels; with transfers where the label says so."""
    mode = label.removeprefix(WITH) if label.startswith(WITH) else "copies"
    resident = gpp.DeviceProblem(problem, runtime, mode)

    def call() -> gpp.SelfEnergy:
        return gpp.self_energy(resident, form, threads=threads)

    call()
    return _timed(call, resident.bring) if label.startswith(WITH) else _timed(call)


def _samples(timed: Call, budget_s: float) -> tuple[list[float], gpp.SelfEnergy]:
    samples: list[float] = []
    while True:
        seconds, found = timed()
        samples.append(seconds)
        if sum(samples) >= budget_s:
            return samples, found


def _refuse_what_takes_long(
    problem: gpp.Problem, compute: Callable[[gpp.Problem], gpp.SelfEnergy], cap_s: float
) -> None:
    from gemmlab._errors import UnsupportedProblem

    fewer = problem.nb // PROBE
    part = replace(problem, aqsm=problem.aqsm[:fewer], aqsn=problem.aqsn[:fewer], nvband=min(fewer, OCCUPIED))
    compute(part)
    start = perf_counter()
    compute(part)
    if (expected := PROBE * (perf_counter() - start)) > cap_s:
        raise UnsupportedProblem(f"it would take about {expected:.2g} s, over the limit of {cap_s:g} s")


def blocks(records: Sequence[Record]) -> Iterator[str]:
    """What the steps' times do not show: errors, the index slip of the ports, and the range that overflows."""
    yield f"Errors at constant inputs, against the closed form\n\n{_errors()}"
    constant, random = (_of_slip(inputs) for inputs in ("constant", "random"))
    yield wrapped(
        "The index slip. Most public versions have aqsn[n, igp] where the Fortran original has aqsn[n, ig]. Constant "
        f"inputs, which all of them ship, hide that: ach differs by {constant:.1g}. Random ones show it: {random:.0%}."
    )
    ngpown, ncouls = 32768 // NODES_PER_GROUP, 32768
    items = BANDS * ngpown * ncouls
    yield wrapped(
        f"A range with a work-item for each band, row and column has {BANDS} x {ngpown} x {ncouls} = {items} of them. "
        f"Numbered in 32 bits, they begin again after {2**32}: {items % 2**32} numbers would be left. So the kernels "
        "have two dimensions, and a loop over the third."
    )


def _errors() -> str:
    problem = gpp.Problem.constant(16, OCCUPIED, 1024, NODES_PER_GROUP)
    true = problem.closed_form()[0]
    rows = [{"form": form, "error": f"{abs(gpp.self_energy(problem, form).ach[0] / true - 1):.1e}"} for form in ON_CPU]
    for name, value, potential, ncouls, printed in PUBLISHED:
        term = gpp.Problem.constant(1, 1, 1, 1, value * (1 + 1j)).closed_form()[0]  # arrays of all take a gigabyte
        count = ncouls // NODES_PER_GROUP
        columns = np.minimum((np.arange(count) + 1) * ncouls // count, ncouls - 1)  # of the rows, as in `gpp.Problem`
        true = term * BANDS * ncouls * (0.025 * columns if potential == "steps" else np.ones(count)).sum()
        rows.append({"form": f"{name}, as printed", "error": f"{abs(printed / true - 1):.1e}"})
    return text_table(rows, [Column("form", lambda row: row["form"], number=False),
                             Column("relative error", lambda row: row["error"])])  # fmt: skip


def _of_slip(inputs: str) -> float:
    """The relative difference of ach where aqsn is taken at the row's column."""
    if inputs == "constant":
        problem = gpp.Problem.constant(32, OCCUPIED, 640, NODES_PER_GROUP)
    else:
        problem = gpp.Problem.random(32, OCCUPIED, 640, NODES_PER_GROUP, seed=1)
    right = gpp.self_energy(problem).ach
    wrong = np.zeros_like(right)
    for p, column in enumerate(problem.columns):
        at_column = np.repeat(problem.aqsn[:, [column]], problem.ncouls, axis=1)
        wrong += gpp.self_energy(replace(problem.rows(p, p + 1), aqsn=at_column)).ach
    return float((abs(wrong - right) / abs(right)).max())
