"""The audit: every check on every dtype, and a table of the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill

import numpy as np

from gemmlab.verify.checks import CHECKS
from gemmlab.verify.child import Auditor, Crashed
from gemmlab.verify.dtypes import dtype_of
from gemmlab.verify.running import TWO, Result

WIDTH = 80
_A_ROW = 2  # dtypes beside each other in a table

Progress = Callable[[int, int, str], None]


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
    batches, concurrent calls. The checks run in a separate process, whose crash is a failed check; backends that
    are registered in this process alone are audited here.

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
    for dtype in dtypes:
        dtype_of(dtype)
    return audit(Auditor(backend), dtypes, seed, thorough, progress)


def audit(
    auditor: Auditor, dtypes: Sequence[str] | None, seed: int | None, thorough: bool, progress: Progress | None
) -> Audit:
    """As `verify`; without dtypes, in all that the backend does not refuse."""
    entropy = np.random.SeedSequence(seed)  # ValueError for a negative seed
    if seed is None:
        seed = int(entropy.generate_state(1)[0])
    results: list[Result] = []
    name, dtype = "first products", "all"
    try:
        with auditor:
            work = [(dtype, number) for dtype in dtypes or auditor.supported() for number in range(len(CHECKS))]
            for done, (dtype, number) in enumerate(work):
                name = CHECKS[number].name
                if progress is not None:
                    progress(done, len(work), f"{name}, {dtype}")
                result = auditor.check(number, dtype, seed, thorough)
                if result.cases or result.status != "passed":  # the check of parameters has no cases if there are none
                    results.append(result)
    except Crashed as crash:
        results.append(Result(name, dtype, "failed", f"{crash}; the checks after it were not run", None, 0))
    return Audit(auditor.backend, seed, thorough, tuple(results))


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
