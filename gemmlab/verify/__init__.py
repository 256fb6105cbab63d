"""Is it right? Error bounds for products, and an audit of any backend.

    bounds.py    how large the error of a product may be, and how large it is
    cases.py     what a product is tried on: numbers, sizes, layouts in memory
    subject.py   a backend and a dtype under a check
    checks.py    the checks, each a promise and a function that tries it
    audit.py     all of them in turn, and the table

`gemmlab.verify("cpu-packed")` runs the audit.
"""

from __future__ import annotations

import sys
from types import ModuleType

from gemmlab.verify.audit import Audit, Progress, Result, verify
from gemmlab.verify.bounds import error_over_bound, freivalds, gamma

__all__ = ["Audit", "Result", "error_over_bound", "freivalds", "gamma", "verify"]


class _CallableModule(ModuleType):
    # `gemmlab.verify` is both this package and the public function: calling the module runs the audit.
    def __call__(
        self,
        backend: str = "auto",
        *,
        seed: int | None = None,
        thorough: bool = False,
        progress: Progress | None = None,
    ) -> Audit:
        return verify(backend, seed=seed, thorough=thorough, progress=progress)

    __call__.__doc__ = verify.__doc__


sys.modules[__name__].__class__ = _CallableModule
