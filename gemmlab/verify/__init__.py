"""Correctness: error bounds for products, and an audit of any backend.

    dtypes.py    the dtypes that are checked
    bounds.py    the error of a product, and the bound on it; random_vector.py checks a large one in O(n^2)
    inputs.py    the inputs of the checks: values, sizes, layouts in memory
    context.py   what a check is given: a backend, a dtype and methods to test them
    checks.py    the checks, each a promise and a function that tests it
    running.py   runs one check; child.py does so in a separate process
    audit.py     all checks; the table of results

`gemmlab.verify("cpu-packed")` runs the audit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

from gemmlab.verify.audit import Audit, Progress, verify
from gemmlab.verify.bounds import error_over_bound, gamma
from gemmlab.verify.random_vector import freivalds
from gemmlab.verify.running import Result

__all__ = ["Audit", "Result", "error_over_bound", "freivalds", "gamma", "verify"]


class _CallableModule(ModuleType):
    # `gemmlab.verify` is both this package and the public function: calling the module runs the audit.
    def __call__(
        self,
        backend: str = "auto",
        *,
        dtypes: Sequence[str] = ("float32", "float64"),
        seed: int | None = None,
        thorough: bool = False,
        progress: Progress | None = None,
    ) -> Audit:
        return verify(backend, dtypes=dtypes, seed=seed, thorough=thorough, progress=progress)

    __call__.__doc__ = verify.__doc__


sys.modules[__name__].__class__ = _CallableModule
