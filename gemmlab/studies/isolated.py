"""Samples that each need a new process, and the records that are made from them.

A child process runs `main()` of `cold_start.py` or `memory_modes.py`. It gets a request as JSON, and its last line of
output is the answer, also as JSON. Children run one after another, so that nothing runs beside the one that measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from gemmlab._cpu import machine
from gemmlab._errors import BackendUnavailable, GemmlabError, UnsupportedProblem
from gemmlab._name import BackendName
from gemmlab._process.children import ChildFailed, ask_child
from gemmlab.measure.noise import summarise
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record

PATIENCE_S = 600.0
Answer = Record
Step = TypeVar("Step")


class NoAnswer(Exception):
    """A child did not do what was requested; the message is the reason in the record, beside the status."""

    def __init__(self, reason: str, status: str = "failed") -> None:
        super().__init__(reason)
        self.status = status


def ask(module: str, request: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Answer:
    """Start a child and return its answer; NoAnswer with the reason where there is none."""
    try:
        answer: Answer = ask_child(module, request, environ=environ, timeout_s=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {PATIENCE_S:g} s") from None
    except ChildFailed as failure:
        raise NoAnswer(f"its process ended (exit status {failure.status}): {failure}") from None
    if "error" in answer:
        raise NoAnswer(answer["error"], answer["status"])
    return answer


def in_turn(
    steps: Sequence[Step], rounds: int, show: Callable[[int, int, Step], None], ask_for: Callable[[Step, bool], Answer],
) -> Iterator[tuple[Step, list[Answer] | NoAnswer]]:  # fmt: skip
    """Each step and its answers from all rounds, or the first refusal. `ask_for` gets whether it is a step's first."""
    answers: dict[Step, list[Answer]] = {step: [] for step in steps}
    refused: dict[Step, NoAnswer] = {}
    for done, step in enumerate([*steps] * rounds):
        show(done, len(steps) * rounds, step)
        if step not in refused:
            try:
                answers[step].append(ask_for(step, not answers[step]))
            except NoAnswer as refusal:
                refused[step] = refusal
    for step in steps:
        yield step, refused.get(step, answers[step])


def reply(work: Callable[..., Answer]) -> None:
    """In the child: do what is requested, and print the answer, or the error of gemmlab that prevents it."""
    try:
        answer = work(**json.loads(sys.argv[1]))
    except GemmlabError as error:
        unsupported = isinstance(error, UnsupportedProblem | BackendUnavailable)
        answer = {"error": str(error), "status": "skipped" if unsupported else "failed"}
    print(json.dumps(answer))


def timed(backend: str, case: Case, samples_s: Sequence[float], error_over_bound: float, facts: Record) -> Record:
    """A record of samples; that of a wrong product has no time."""
    record = base(backend, case) | {"error_over_bound": error_over_bound} | facts
    if not error_over_bound <= 1:
        return record | {"status": "wrong", "reason": f"the error is {error_over_bound:.3g} times its bound"}
    record |= summarise(samples_s)
    return record | {"status": "ok", "gflop_per_s": case.gflop / max(record["median_s"], 1e-9)}


def untimed(backend: str, case: Case, why: NoAnswer, facts: Record | None = None) -> Record:
    """A record without a time."""
    device = {"device": machine.cpu_name()}
    return device | base(backend, case) | (facts or {}) | {"status": why.status, "reason": str(why)}


def base(backend: str, case: Case) -> Record:
    """What every record says of its product."""
    return {
        "kind": "gemm", "backend": BackendName.of(backend).plain, "params": {}, "problem": case.problem(),
        "gflop": case.gflop, "bytes_compulsory": case.bytes_compulsory,
    }  # fmt: skip
