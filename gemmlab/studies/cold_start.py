"""The first call of a backend, in three stages.

    source    a new process with an empty cache directory, and with the drivers' caches off
    disk      the next process, with the cache directory as the one before left it
    loaded    the second call in that process

A sample is one call, from NumPy arrays to NumPy arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import gemmlab
from gemmlab.measure.problems import Case, operands
from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, seconds, text_table
from gemmlab.studies import isolated

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab.studies.engine import Task

NO_CACHES = {"CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0", "PYOPENCL_NO_CACHE": "1"}
NOT_CACHED = isolated.NoAnswer("the next process built it from source again: nothing was cached on disk", "skipped")
Answers = dict[str, list[isolated.Answer]]  # by stage


def measure(task: Task) -> None:
    """Records of every backend at every case, one for each stage."""
    steps = [(case, name) for case in task.cases for name in task.contest]
    rounds = task.options.rounds
    for number, (case, name) in enumerate(steps):
        answers: Answers = {"source": [], "disk": []}
        try:
            for done in range(number * rounds, (number + 1) * rounds):
                task.progress(done, len(steps) * rounds, f"{name} {case.label}")
                with TemporaryDirectory() as directory:
                    for stage in answers:
                        request = {"backend": name, "case": asdict(case), "started_s": time.time()}
                        environ = NO_CACHES | {"GEMMLAB_CACHE_DIR": directory}
                        answers[stage].append(isolated.ask(__name__, request, environ))
        except isolated.NoAnswer as why:
            task.keep(isolated.untimed(name, replace(case, label="source"), why))
            continue
        for record in _records(name, case, answers):
            task.keep(record)


def _records(name: str, case: Case, answers: Answers) -> Iterator[Record]:
    disk = answers["disk"]
    facts = {key: disk[0][key] for key in ("device", "params")} | {"transfers_counted": True, "calls_per_sample": 1}
    for stage, calls, key in (("source", answers["source"], "first_s"), ("disk", disk, "first_s"),
                              ("loaded", disk, "second_s")):  # fmt: skip
        own = replace(case, label=stage)
        if stage == "disk" and any(call["built"] for call in calls):
            yield isolated.untimed(name, own, NOT_CACHED, facts)
            continue
        parts = {} if stage == "loaded" else {
            part: median(call[part] for call in calls) for part in ("build_s", "start_s")
        }  # fmt: skip
        error = max(call["error_over_bound"] for call in calls)
        yield isolated.timed(name, own, [call[key] for call in calls], error, facts | parts)


def breakdown(records: Sequence[Record]) -> Iterator[str]:
    """The parts of a first call, as a table."""
    rows = [record for record in records if record["start_s"] is not None]
    columns = [
        Column("backend", lambda row: str(row["backend"]), number=False),
        Column("kernel", lambda row: str(row["problem"]["label"]), number=False),
        Column("start-up", lambda row: seconds(row["start_s"])),
        Column("build or load", lambda row: seconds(row["build_s"])),
        Column("rest of the call", lambda row: seconds(max(0.0, row["median_s"] - row["build_s"]))),
    ]
    if rows:
        yield f"The parts of a first call, after the start of process and device\n\n{text_table(rows, columns)}"


def main() -> None:
    """In the new process."""
    isolated.reply(first_calls)


def first_calls(backend: str, case: Record, started_s: float) -> isolated.Answer:
    """Open the backend, call it twice, and time both; `started_s` is when the process was started."""
    made: DeviceBackend = gemmlab.get_backend(backend)  # type: ignore[assignment]
    queue = made.queue
    start_s = time.time() - started_s
    import numpy as np

    from gemmlab.measure.isolated.worker import check, seconds_a_call

    a, b = operands(Case(**case))
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
