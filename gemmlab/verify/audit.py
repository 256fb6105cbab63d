"""The audit: every check on every dtype, and the table that says what came out."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from textwrap import fill
from typing import Any, Literal

import numpy as np

from gemmlab._api import get_backend, matmul, trace
from gemmlab._backend import Backend
from gemmlab._errors import UnsupportedProblem
from gemmlab.verify.checks import CHECKS, Check
from gemmlab.verify.subject import Fault, Subject

DTYPES = ("float32", "float64")
WIDTH = 80

Status = Literal["passed", "failed", "not supported"]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Result:
    """What one check found for one dtype.

    `error_over_bound` is the largest error seen, divided by its bound; None where a check measures none.
    `detail` says what broke, or which cases the backend refused.
    """

    check: str
    dtype: str
    status: Status
    detail: str
    error_over_bound: float | None
    cases: int


@dataclass(frozen=True)
class Audit:
    """The outcome of `gemmlab.verify`; `print` it for a table."""

    backend: str
    seed: int
    thorough: bool
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed and something was supported."""
        found = {result.status for result in self.results}
        return "failed" not in found and "passed" in found

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, ready for JSON."""
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        how = f"seed {self.seed}, thorough" if self.thorough else f"seed {self.seed}"
        lines = [f"{self.backend}: {verdict} ({how})", "", *_table(self.results)]
        notes = [note for result in self.results if (note := _note(result))]
        if notes:
            lines += ["", *dict.fromkeys(notes)]
        return "\n".join(lines)


def verify(
    backend: str = "auto",
    *,
    seed: int | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
) -> Audit:
    """Audit the correctness of a backend, the vendor's own included.

    Every check runs in float32 and float64 on fresh random input through `gemmlab.matmul`: exact products
    of integers, error bounds, NaN and infinity, layouts, overlap, empty sizes, stacks, concurrent calls.

    Parameters
    ----------
    backend : str
        A name as for `gemmlab.matmul`.
    seed : int, optional
        Repeats an audit on the same input. Default: a new one, which the audit tells.
    thorough : bool
        Try many more sizes and combinations.
    progress : callable, optional
        Called before each check as ``progress(checks_done, checks_in_all, name)``.

    Returns
    -------
    Audit
        `passed`, `results`, `to_dict()`; `print` gives a table.

    Raises
    ------
    UnknownBackend, BackendUnavailable
        There is nothing to audit.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.verify("cpu-naive").passed
    True
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    work = [(check, dtype) for dtype in DTYPES for check in CHECKS]
    results = []
    for done, (check, dtype) in enumerate(work):
        if progress is not None:
            progress(done, len(work), f"{check.name}, {dtype}")
        result = _run(check, _subject(backend, dtype, check, seed, thorough))
        if result.cases or result.status != "passed":  # a backend without parameters has none to try
            results.append(result)
    return Audit(backend, seed, thorough, tuple(results))


def _subject(backend: str, dtype: str, check: Check, seed: int, thorough: bool) -> Subject:
    chosen = get_backend(backend)
    return Subject(
        multiply=partial(matmul, backend=backend),
        dtype=np.dtype(dtype),
        params=chosen.params,
        blocks=_blocks(chosen, dtype),
        any_thread_count=chosen.kind == "rung",
        thorough=thorough,
        # Each check has its own numbers: one that fails can be repeated without those before it.
        rng=np.random.default_rng([seed, zlib.crc32(f"{check.name}, {dtype}".encode())]),
    )


def _blocks(backend: Backend, dtype: str) -> list[int]:
    """Whole-number parameters in force: the defaults, and what the backend works out for a product."""
    in_force: dict[str, Any] = {name: param.default for name, param in backend.params.items()}
    ones = np.ones((64, 64), dtype)
    with trace() as calls, suppress(Exception):  # what is wrong with this product is for the checks to say
        matmul(ones, ones, backend=backend.name)
    for call in calls:
        in_force |= call.params
    return [value for value in in_force.values() if isinstance(value, int)]


def _run(check: Check, subject: Subject) -> Result:
    status: Status = "passed"
    detail = _refusal(subject)
    if detail:
        return Result(check.name, subject.dtype.name, "not supported", detail, None, 0)
    try:
        check.run(subject)
    except Fault as fault:
        status, detail = "failed", str(fault)
    else:
        if subject.refused:
            some = "; ".join(subject.refused[:3]) + ("; ..." if len(subject.refused) > 3 else "")
            detail = f"{len(subject.refused)} of {subject.cases} cases not supported: {some}"
            status = "not supported" if len(subject.refused) == subject.cases else "passed"
    return Result(check.name, subject.dtype.name, status, detail, subject.worst, subject.cases)


def _refusal(subject: Subject) -> str:
    """Why the backend does not do this dtype; empty if it does."""
    ones = np.ones((2, 2), subject.dtype)
    with suppress(Exception):  # anything but a refusal is for the checks to say
        try:
            subject.multiply(ones, ones)
        except UnsupportedProblem as error:
            return str(error)
    return ""


def _table(results: Iterable[Result]) -> list[str]:
    rows: dict[str, dict[str, str]] = {}
    for result in results:
        worst = result.error_over_bound
        text = result.status.upper() if result.status == "failed" else result.status
        text += f", {worst:.2g} of bound" if worst else ""
        rows.setdefault(result.check, {})[result.dtype] = text
    dtypes = list(dict.fromkeys(dtype for row in rows.values() for dtype in row))
    lines = [f"{'check':<24}" + "".join(f"{dtype:<28}" for dtype in dtypes)]
    lines += [f"{name:<24}" + "".join(f"{row.get(d, ''):<28}" for d in dtypes) for name, row in rows.items()]
    return [line.rstrip() for line in lines]


def _note(result: Result) -> str:
    if not result.detail:
        return ""
    text = f"{result.check}, {result.dtype}: {result.detail}"
    return fill(text, WIDTH, subsequent_indent="    ")
