"""The audit: runs every check on every dtype, and makes a table of the results."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from textwrap import fill
from typing import Literal

import numpy as np

from gemmlab import _registry
from gemmlab._api import matmul, trace
from gemmlab._backend import Backend
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import DType
from gemmlab.verify.checks import CHECKS, Check
from gemmlab.verify.context import CheckContext, Fault
from gemmlab.verify.dtypes import DTYPES, dtype_of

TWO = ("float32", "float64")
WIDTH = 80
_A_ROW = 2  # dtypes beside each other in a table

Status = Literal["passed", "failed", "not supported"]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Result:
    """The result of one check for one dtype.

    `error_over_bound` is the largest error divided by its bound; None if the check does not measure errors.
    `detail` says what failed, or which cases the backend does not support.
    """

    check: str
    dtype: str
    status: Status
    detail: str
    error_over_bound: float | None
    cases: int


@dataclass(frozen=True)
class Audit:
    """The results of `gemmlab.verify`; `print` shows them as a table."""

    backend: str
    seed: int
    thorough: bool
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """True if no check failed and at least one passed."""
        found = {result.status for result in self.results}
        return "failed" not in found and "passed" in found

    def to_dict(self) -> dict[str, object]:
        """The audit as plain data, ready for JSON."""
        return {**asdict(self), "passed": self.passed}

    @property
    def line(self) -> str:
        """The audit in one line: verdict, dtypes, checks, and the largest error."""
        failed = list(dict.fromkeys(result.check for result in self.results if result.status == "failed"))
        worst = max((result.error_over_bound or 0.0 for result in self.results), default=0.0)
        dtypes = len({result.dtype for result in self.results if result.status != "not supported"})
        cases = sum(result.cases for result in self.results)
        verdict = f"FAILED: {', '.join(failed)}" if failed else "passed" if self.passed else "FAILED: nothing passed"
        of = f"{dtypes} dtype{'s' * (dtypes != 1)}, error at most {worst:.2g} of the bound"
        return f"{self.backend}: {verdict}, {cases} cases in {of}"

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
    dtypes: Sequence[str] = TWO,
    seed: int | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
) -> Audit:
    """Audit the correctness of a backend; the vendors' libraries can be audited too.

    Every check runs in float32 and float64, or in the `dtypes` asked for, on new random inputs through
    `gemmlab.matmul`: exact products of integers, error bounds, NaN and infinity, layouts, overlap, empty sizes,
    batches, concurrent calls.

    Parameters
    ----------
    backend : str
        A name as for `gemmlab.matmul`.
    dtypes : sequence of str
        Names such as "int8"; `gemmlab.verify.dtypes.DTYPES` has them all.
    seed : int, optional
        The same seed gives the same inputs. Default: a new seed, which the audit reports.
    thorough : bool
        Test many more sizes and combinations.
    progress : callable, optional
        Called before each check as ``progress(checks_done, all_checks, name)``.

    Returns
    -------
    Audit
        `passed`, `results`, `to_dict()`; `print` gives a table.

    Raises
    ------
    UnknownBackend, BackendUnavailable
        The backend does not exist or cannot run here.
    ValueError
        For an unknown dtype.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.verify("cpu-naive").passed
    True
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    work = [(check, dtype_of(dtype)) for dtype in dtypes for check in CHECKS]
    results = []
    for done, (check, dtype) in enumerate(work):
        if progress is not None:
            progress(done, len(work), f"{check.name}, {dtype.name}")
        result = _run(check, _context(backend, dtype, check, seed, thorough))
        if result.cases or result.status != "passed":  # the check of parameters has no cases if there are none
            results.append(result)
    return Audit(backend, seed, thorough, tuple(results))


def supported(backend: str) -> list[str]:
    """The names of the dtypes that a backend does not refuse; bfloat16 only where ml_dtypes is installed."""
    found = []
    for name in DTYPES:
        try:
            ones = np.ones((2, 2), dtype_of(name))
        except ValueError:
            continue
        try:
            matmul(ones, ones, backend=backend)
        except UnsupportedProblem:
            continue
        except Exception:  # the checks report it
            pass
        found.append(name)
    return found or list(TWO)


def _context(backend: str, dtype: DType, check: Check, seed: int, thorough: bool) -> CheckContext:
    chosen = _registry.get(backend)
    return CheckContext(
        multiply=partial(matmul, backend=backend),
        dtype=dtype,
        params=chosen.params,
        blocks=_blocks(chosen, dtype),
        any_thread_count=chosen.kind == "rung" and backend != "auto",  # which may take NumPy
        accumulates=chosen.accumulates,
        thorough=thorough,
        # Each check has a separate random generator, so that a check can be repeated without the ones before it.
        rng=np.random.default_rng([seed, zlib.crc32(f"{check.name}, {dtype.name}".encode())]),
    )


def _blocks(backend: Backend, dtype: DType) -> list[int]:
    """The integer parameters: the defaults, and the values that the backend chooses for a product."""
    values: dict[str, int | str | None] = {name: param.default for name, param in backend.params.items()}
    ones = np.ones((64, 64), dtype)
    with trace() as calls, suppress(Exception):  # the checks report what is wrong with this product
        matmul(ones, ones, backend=backend.name)
    for call in calls:
        values |= call.params
    return [value for value in values.values() if isinstance(value, int)]


def _run(check: Check, context: CheckContext) -> Result:
    status: Status = "passed"
    detail = _refusal(context)
    if detail:
        return Result(check.name, context.dtype.name, "not supported", detail, None, 0)
    try:
        check.run(context)
    except Fault as fault:
        status, detail = "failed", str(fault)
    else:
        if context.refused:
            some = "; ".join(context.refused[:3]) + ("; ..." if len(context.refused) > 3 else "")
            detail = f"{len(context.refused)} of {context.cases} cases not supported: {some}"
            status = "not supported" if len(context.refused) == context.cases else "passed"
    return Result(check.name, context.dtype.name, status, detail, context.worst, context.cases)


def _refusal(context: CheckContext) -> str:
    """Why the backend does not support this dtype; empty if it does."""
    ones = np.ones((2, 2), context.dtype)
    with suppress(Exception):  # the checks report any other error
        try:
            context.multiply(ones, ones)
        except UnsupportedProblem as error:
            return str(error)
    return ""


def _table(results: Iterable[Result]) -> list[str]:
    texts: dict[str, dict[str, str]] = {}
    for result in results:
        worst = result.error_over_bound
        text = result.status.upper() if result.status == "failed" else result.status
        text += f", {worst:.2g} of bound" if worst else ""
        texts.setdefault(result.check, {})[result.dtype] = text
    dtypes = list(dict.fromkeys(dtype for by_dtype in texts.values() for dtype in by_dtype))
    lines = []
    for start in range(0, len(dtypes), _A_ROW):
        own = dtypes[start : start + _A_ROW]
        lines += [""] * bool(start) + [f"{'check':<24}" + "".join(f"{dtype:<28}" for dtype in own)]
        for name, by_dtype in texts.items():
            if any(dtype in by_dtype for dtype in own):
                lines.append(f"{name:<24}" + "".join(f"{by_dtype.get(dtype, ''):<28}" for dtype in own))
    return [line.rstrip() for line in lines]


def _note(result: Result) -> str:
    if not result.detail:
        return ""
    text = f"{result.check}, {result.dtype}: {result.detail}"
    return fill(text, WIDTH, subsequent_indent="    ")
