"""Samples that need a fresh process each, and the records that come of them.

A child is one of this folder's modules, run by its `main()`: it is given a wish as JSON, and its last line is the
answer, as JSON too. Children are started one after another, so that nothing runs beside the one that measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gemmlab import _registry
from gemmlab._cpu import machine
from gemmlab._errors import BackendUnavailable, GemmlabError, UnsupportedProblem
from gemmlab.measure.problems import Case
from gemmlab.measure.process import ChildFailed, ask_child
from gemmlab.measure.statistics import summarise

PATIENCE_S = 600.0


class NoAnswer(Exception):
    """A child did not do what was wished; the message is a sentence for the record, beside the status."""

    def __init__(self, reason: str, status: str = "failed") -> None:
        super().__init__(reason)
        self.status = status


def ask(module: str, wish: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Start a child and return its answer; NoAnswer with its last words where there is none."""
    try:
        answer: dict[str, Any] = ask_child(module, wish, environ=environ, patience_s=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {PATIENCE_S:g} s") from None
    except ChildFailed as failure:
        raise NoAnswer(f"its process ended (exit status {failure.status}): {failure}") from None
    if "error" in answer:
        raise NoAnswer(answer["error"], answer["status"])
    return answer


def reply(work: Callable[..., dict[str, Any]]) -> None:
    """In the child: do what is wished, and print the answer; what we have to say against it is an answer too."""
    try:
        answer = work(**json.loads(sys.argv[1]))
    except GemmlabError as error:
        unsupported = isinstance(error, UnsupportedProblem | BackendUnavailable)
        answer = {"error": str(error), "status": "skipped" if unsupported else "failed"}
    print(json.dumps(answer))


def timed(
    backend: str, case: Case, samples_s: Sequence[float], error_over_bound: float, **facts: Any
) -> dict[str, Any]:
    """A record of samples; of a product that is wrong, the record says that and no time."""
    record = base(backend, case) | {"error_over_bound": error_over_bound} | facts
    if not error_over_bound <= 1:
        return record | {"status": "wrong", "reason": f"the error is {error_over_bound:.3g} times its bound"}
    record |= summarise(samples_s)
    return record | {"status": "ok", "gflop_per_s": case.gflop / max(record["median_s"], 1e-9)}


def untimed(backend: str, case: Case, why: NoAnswer, **facts: Any) -> dict[str, Any]:
    """A record of what has no time."""
    return {"device": machine.cpu_name()} | base(backend, case) | facts | {"status": why.status, "reason": str(why)}


def base(backend: str, case: Case) -> dict[str, Any]:
    """What every record says of its product."""
    return {
        "kind": "gemm", "backend": _registry.plain(backend), "params": {}, "problem": case.problem(),
        "gflop": case.gflop, "bytes_compulsory": case.bytes_compulsory,
    }  # fmt: skip
