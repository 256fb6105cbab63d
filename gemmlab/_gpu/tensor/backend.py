"""RT-tensor and RT-tensor-async: products by the matrix units of NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmlab._backend import ErrorBound, Param, Params
from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder.numbers import SUMS, into
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Queue, Runtime
from gemmlab._gpu.tensor import trial
from gemmlab._gpu.tensor.kinds import TF32
from gemmlab._gpu.tensor.unit_rung import UnitRung
from gemmlab._problem import Problem

PRECISION = Param(
    "precision", None, (TF32,), "of float32, which the unit reads with 10 bits after the binary point", TF32,
    lambda value: value == TF32,
)  # fmt: skip
TF32_ROUNDING = 2.0**-10  # the unit leaves out what is beyond its 10 bits


class TensorBackend(RungBackend):
    """A rung of matrix units on a device."""

    sums: Mapping[str, str] = SUMS
    rung: UnitRung

    def __init__(self, runtime: Runtime, rung: UnitRung, selector: str = "") -> None:
        super().__init__(runtime, rung, selector)
        self.params = {**self.params, PRECISION.name: PRECISION}

    def resolve(self, problem: Problem, params: Params) -> Params:
        """The parameters in force; of float32, the precision too, which has no default."""
        dtype, precision = self.stored(problem).name, params.get(PRECISION.name)
        if precision and dtype != "float32":
            raise ValueError(f"{self.name}: {dtype} is not multiplied in {precision}; omit precision")
        if dtype == "float32" and not precision:
            instead = f"pass that, or use {self.runtime.name}-tuned"
            raise UnsupportedProblem(f"{self.name} multiplies float32 with precision='tf32' alone: {instead}")
        found = super().resolve(problem, {name: x for name, x in params.items() if name != PRECISION.name})
        kind, device = TF32 if precision else into(dtype, problem.dtype.name), self._queue_for(problem).device
        if not params.keys() & self.rung.instead.keys():
            found = dict(trial.with_what_works(device, kind, self.rung, found))
        if not found["shares"]:
            size = GemmSize(problem.m, problem.n, problem.k, problem.batch)
            found = {**found, "shares": self.rung.shares_for(found, kind, size, device.compute_units)}
        return {**found, PRECISION.name: precision} if precision else found

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        kind = TF32 if params.get(PRECISION.name) else dtype
        if (why := trial.failure(queue.device, kind, self.rung.name, **self.rung.tried(params))) is not None:
            raise UnsupportedProblem(f"{queue.device.label} {why}: use {self.runtime.name}-tuned")
        return super().prepared(queue, {k: x for k, x in params.items() if k != PRECISION.name}, kind, size, layouts)

    def error(self, problem: Problem, **params: Any) -> ErrorBound:
        """docs/precision/tensor.md derives it."""
        stored = self.stored(problem)
        if stored.kind not in "fV" or stored == np.float64:
            return ErrorBound()
        sums = (problem.k + problem.k / 8 + 2) * 2.0**-23
        rounding = 2 * TF32_ROUNDING + TF32_ROUNDING**2 if params.get(PRECISION.name) else 0.0
        return ErrorBound(bound=(1 + rounding) * sums + rounding)

    def _is_streamed(self, problem: Problem) -> bool:
        return False  # parts of a sum would be rounded to the operands' dtype
