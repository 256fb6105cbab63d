"""The first call of a backend, each in a new process.

    source    nothing is kept: an empty folder for our programs, and the drivers' own caches off
    disk      our folder as the call before left it
    loaded    the second call of that process

Every round is a process for each of the first two. A sample is one call, NumPy arrays in and out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gemmlab.measure.problems import Case, operands
from gemmlab.measure.table import Column, seconds, text_table
from gemmlab.studies import children

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

NO_CACHES = {"CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0", "PYOPENCL_NO_CACHE": "1"}
NOT_KEPT = children.NoAnswer("the next process built it from its source again: nothing was kept on disk", "skipped")
Answers = dict[str, list[dict[str, Any]]]


def measure(task: Task) -> None:
    """Records of every backend at every case: one a stage."""
    steps = [(case, name) for case in task.cases for name in task.contest]
    for number, (case, name) in enumerate(steps):
        answers: Answers = {"source": [], "disk": []}
        try:
            for turn in range(task.options.rounds):
                done = number * task.options.rounds + turn
                task.progress(done, len(steps) * task.options.rounds, f"{name} {case.label}")
                with TemporaryDirectory() as folder:
                    for stage in answers:
                        wish = {"backend": name, "case": case.to_json(), "started_s": time.time()}
                        environ = NO_CACHES | {"GEMMLAB_CACHE_DIR": folder}
                        answers[stage].append(children.ask(__name__, wish, environ))
        except children.NoAnswer as why:
            task.keep(children.untimed(name, replace(case, label="source"), why))
            continue
        for record in _records(name, case, answers):
            task.keep(record)


def _records(name: str, case: Case, answers: Answers) -> list[dict[str, Any]]:
    source, disk = answers["source"], answers["disk"]
    facts = {key: disk[0][key] for key in ("device", "params")} | {"transfers_counted": True, "calls_per_sample": 1}

    def record(label: str, calls: list[dict[str, Any]], key: str, **more: Any) -> dict[str, Any]:
        error = max(call["error_over_bound"] for call in calls)
        samples = [call[key] for call in calls]
        return children.timed(name, replace(case, label=label), samples, error, **facts, **more)

    def first(label: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        return record(label, calls, "first_s", **{key: median(c[key] for c in calls) for key in ("build_s", "start_s")})

    if any(call["built"] for call in disk):
        kept = children.untimed(name, replace(case, label="disk"), NOT_KEPT, **facts)
    else:
        kept = first("disk", disk)
    return [first("source", source), kept, record("loaded", disk, "second_s")]


def breakdown(records: Sequence[Mapping[str, Any]]) -> str:
    """What a first call is made of, as a table."""
    rows = [record for record in records if record["start_s"] is not None]

    def rest_s(row: Mapping[str, Any]) -> float:
        return max(0.0, float(row["median_s"] - row["build_s"]))

    columns = [
        Column("backend", lambda row: str(row["backend"]), number=False),
        Column("kernel", lambda row: str(row["problem"]["label"]), number=False),
        Column("start-up", lambda row: seconds(row["start_s"])),
        Column("build or load", lambda row: seconds(row["build_s"])),
        Column("rest of the call", lambda row: seconds(rest_s(row))),
    ]
    heading = "What a first call is made of, after the start-up of process, imports and device"
    return f"{heading}\n\n{text_table(rows, columns)}" if rows else ""


def main() -> None:
    """In the new process."""
    children.reply(first_calls)


def first_calls(backend: str, case: dict[str, Any], started_s: float) -> dict[str, Any]:
    """Open the backend, call it twice, and say how long each took; `started_s` is when the process was asked for."""
    import gemmlab

    made: Any = gemmlab.get_backend(backend)
    queue = made.queue
    start_s = time.time() - started_s
    import numpy as np

    from gemmlab.measure.worker import check, seconds_a_call

    a, b = operands(Case.from_json(case))
    out = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    with gemmlab.trace() as calls:
        first_s = seconds_a_call(lambda: gemmlab.matmul(a, b, out=out, backend=backend), 1)
    builds = list(queue.builds)
    error = check(a, b, out)
    return {
        "device": made.device.label, "params": dict(calls[-1].params), "start_s": start_s, "first_s": first_s,
        "second_s": seconds_a_call(lambda: gemmlab.matmul(a, b, out=out, backend=backend), 1),
        "build_s": sum(build.seconds for build in builds), "built": any(build.how == "source" for build in builds),
        "error_over_bound": max(error, check(a, b, out)),
    }  # fmt: skip
