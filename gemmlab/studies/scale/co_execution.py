"""A device and the CPU on one product, host to host: the predicted gain, and the measured one.

The labels of the records are "together" and the backends alone. Each is timed in separate processes, in turn. The
prediction is made in each process before its first whole product, and the record has the median of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

import gemmlab
from gemmlab import _registry
from gemmlab._errors import UnsupportedProblem
from gemmlab._name import JOINT, BackendName
from gemmlab._problem import Array, Problem
from gemmlab._words import number
from gemmlab.analysis.findings import Claim, Finding
from gemmlab.measure.comparison import overlap
from gemmlab.measure.problems import Case, operands
from gemmlab.measure.records import Record
from gemmlab.scale.co_execution import CORRECTIONS, MIN_GAIN, CoExecution
from gemmlab.studies import isolated

if TYPE_CHECKING:
    from gemmlab.studies.curves import Scenario
    from gemmlab.studies.engine import Task
    from gemmlab.studies.study import Study

HOST = "cpu-packed"
TOGETHER, PREDICTED, BEST = "together", "predicted", "fastest alone"
CLEAR_GAIN = 1.15  # from this prediction on, the measured gain is held against it
SLACK = 0.10
CALL_S = 100e-6  # more than the checks and the look-up of a plan take, which a backend's compiled way does without
TRIAL = 16  # a backend is tried on so many times fewer rows, to see how long it would take
CAP_S, QUICK_CAP_S = 10.0, 1.0


def measure(task: Task) -> None:
    """Records of each device, of the CPU, and of both together, at every size."""
    devices = [name for name in task.contest if BackendName.of(name).on_runtime]
    for number_of_case, case in enumerate(task.cases):
        steps = list(dict.fromkeys(step for name in devices for step in (HOST, name, f"{name}{JOINT}{HOST}")))

        def show(done: int, count: int, step: str, i: int = number_of_case, n: int = case.n) -> None:
            task.progress(i * count + done, len(task.cases) * count, f"{step} {n}")

        for name, own in isolated.in_turn(steps, task.options.rounds, show, partial(_ask, task, case)):
            labelled = replace(case, label=TOGETHER if BackendName.of(name).members else BackendName.of(name).plain)
            if isinstance(own, isolated.NoAnswer):
                task.keep(isolated.untimed(name, labelled, own))
            else:
                task.keep(_record(name, labelled, own))


def _ask(task: Task, case: Case, step: str, is_first: bool) -> isolated.Answer:
    options = task.options
    return isolated.ask(__name__, {
        "backend": step, "case": asdict(case), "threads": options.threads, "is_first": is_first,
        "budget_s": options.budget_s / options.rounds,
        "cap_s": options.cap_s or (QUICK_CAP_S if options.quick else CAP_S),
    })  # fmt: skip


def _record(name: str, case: Case, own: Sequence[isolated.Answer]) -> Record:
    samples = [sample for answer in own for sample in answer["samples_s"]]
    parsed = BackendName.of(name)
    facts = {"device": own[0]["device"], "calls_per_sample": 1, "transfers_counted": parsed.on_runtime or None}
    if parsed.members:
        facts["params"] = {
            "predicted_gain": round(median(answer["predicted_gain"] for answer in own), 4),
            "share_of_cpu": round(median(answer["share_of_cpu"] for answer in own), 4),
        }
    return isolated.timed(name, case, samples, max(answer["error_over_bound"] for answer in own), facts)


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(
    backend: str, case: Record, threads: int | None, is_first: bool, budget_s: float, cap_s: float
) -> isolated.Answer:
    """The times of one product by one backend, or by several with what was predicted."""
    from gemmlab.measure.isolated.worker import check

    a, b = operands(Case(**case))
    out = np.full((len(a), b.shape[1]), np.nan, a.dtype)
    asked = BackendName.of(backend)
    for member in asked.members or (asked,):
        _refuse_what_takes_long(member.text, a, b, threads, cap_s)
    made = _registry.get(backend)
    multiply = partial(gemmlab.matmul, a, b, out, backend=backend, threads=threads)
    answer = _prediction(made, a, b, threads) if isinstance(made, CoExecution) else {}
    for _ in range(1 + CORRECTIONS if answer else 1):  # the split settles, and kernels are built
        multiply()
    error = check(a, b, out) if is_first else 0.0
    if isinstance(made, CoExecution):
        answer["share_of_cpu"] = _share_of_cpu(made, a, b, threads)
    devices = [one.device for one in made.backends] if isinstance(made, CoExecution) else [made.device]
    device = next(filter(None, devices), None)
    label = made.probe().device if device is None else device.label
    return answer | {"samples_s": _samples(multiply, budget_s), "error_over_bound": error, "device": label}


def _prediction(backend: CoExecution, a: Array, b: Array, threads: int | None) -> isolated.Answer:
    plan = backend.plan(Problem.from_call(a, b, threads=threads))
    return {"predicted_gain": 1.0 if plan is None or not plan.is_split else plan.gain}


def _share_of_cpu(backend: CoExecution, a: Array, b: Array, threads: int | None) -> float:
    plan = backend.plan(Problem.from_call(a, b, threads=threads))
    return 0.0 if plan is None else plan.shares[-1] / sum(plan.shares)


def _refuse_what_takes_long(name: str, a: Array, b: Array, threads: int | None, cap_s: float) -> None:
    part = a[: max(1, len(a) // TRIAL)]
    gemmlab.matmul(part, b, backend=name, threads=threads)  # it builds the kernels, too
    start = perf_counter()
    gemmlab.matmul(part, b, backend=name, threads=threads)
    if (expected := len(a) / len(part) * (perf_counter() - start)) > cap_s:
        raise UnsupportedProblem(f"{name} would take about {expected:.2g} s, over the limit of {cap_s:g} s")


def _samples(multiply: Callable[[], object], budget_s: float) -> list[float]:
    samples: list[float] = []
    while not samples or sum(samples) < budget_s:
        start = perf_counter()
        multiply()
        samples.append(perf_counter() - start)
    return samples


# From records alone


def derived(records: Sequence[Record]) -> list[Record]:
    """For the figure and the tables: the fastest backend alone, and what the prediction makes of its time."""
    alone = [record for record in records if record["problem"]["label"] != TOGETHER]
    found = [_as_line(record, BEST) for record in alone]
    for record in records:
        if record["problem"]["label"] == TOGETHER and (best := _best(record, alone)) is not None:
            seconds = best["median_s"] / record["params"]["predicted_gain"]
            found.append(_as_line(record, PREDICTED) | dict.fromkeys(("median_s", "p20_s", "p80_s"), seconds)
                         | {"gflop_per_s": record["gflop"] / seconds})  # fmt: skip
    return found


def _as_line(record: Record, label: str) -> Record:
    return {**record, "problem": {**record["problem"], "label": label}}


def _best(together: Record, alone: Sequence[Record]) -> Record | None:
    """The fastest of the backends that share this product."""
    names, n = {member.text for member in BackendName.of(together["backend"]).members}, together["problem"]["n"]
    own = [
        record for record in alone if record["backend"] in names and record["problem"]["n"] == n
        and (record["device"] == together["device"] or not BackendName.of(record["backend"]).on_runtime)
    ]  # fmt: skip
    return min(own, key=lambda record: float(record["median_s"]), default=None)


def as_predicted(study: Study, scenario: Scenario) -> list[Finding]:
    """Whether the measured gain is the predicted one; where none was predicted, whether nothing was lost."""
    return list(_findings(scenario))


def _findings(scenario: Scenario) -> Iterator[Finding]:
    for n, record in scenario.curves.get(TOGETHER, {}).items():
        best, gain = scenario.curves.get(BEST, {}).get(n), record["params"]["predicted_gain"]
        is_clear = gain >= CLEAR_GAIN
        theirs = f"predicted {number(gain)} times"
        band = f"{number(gain * (1 - SLACK))} to {number(gain * (1 + SLACK))} times" if is_clear else "not slower"
        claim = Claim(f"together over the fastest alone at N = {n}, speed-up", theirs, band)
        if best is None:
            yield claim.unjudged("neither has a time alone")
            continue
        found, low, high = (best[x] / record[y] for x, y in (("median_s",) * 2, ("p20_s", "p80_s"), ("p80_s", "p20_s")))
        ours = f"{number(found)} times ({number(low)} to {number(high)})"
        if is_clear:
            yield claim.judged(ours, low <= gain * (1 + SLACK) and high >= gain * (1 - SLACK))
        else:
            detail = f"; a split was {'' if gain >= MIN_GAIN else 'not '}made"
            lost = record["median_s"] - best["median_s"] > CALL_S and not overlap(best, record)
            yield claim.judged(ours, not lost, detail)
