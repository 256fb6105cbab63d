"""RT-emulated: float32 and float64 out of residues, float32 out of bfloat16 or float16 parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gemmlab._backend import ErrorBound, Params
from gemmlab._emulated import schemes
from gemmlab._emulated.backend import BySchemes
from gemmlab._emulated.schemes import UNIT, Scheme
from gemmlab._gpu import EMULATED
from gemmlab._gpu.backend import DeviceBackend
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.emulated.launches import (
    MOST_ROWS,
    REAL_OF,
    of_parts,
    of_residues,
    reals_of,
    rung_of_residues,
    unit_for,
)
from gemmlab._gpu.ladder.numbers import of_both
from gemmlab._gpu.plans.launches import Launches, Workspace
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Device, Queue, Runtime
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab._problem import Problem

WORKSPACE_PART, LEAST_EDGE = 4, 256  # of a device's memory; rows and columns of a piece of C
SLICE = 16  # numbers of k of one instruction
CUT_OFF = 40  # of half the distance of two numbers: what a unit loses of a slice's largest product, and some more


class EmulatedOnDevice(BySchemes, DeviceBackend):
    """Products of narrow numbers on a device, put together there."""

    source = "as cpu-emulated"
    dtypes = "float32", "float64", *REAL_OF

    def __init__(self, runtime: Runtime, selector: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{EMULATED}", selector)

    @property
    def summary(self) -> str:
        return "float32 and float64 out of products of int8, bfloat16 or float16 numbers"

    def supports(self, problem: Problem) -> bool | str:
        if max(reals_of(problem.dtype.name) * problem.m, problem.n) > MOST_ROWS:
            most = f"{MOST_ROWS // reals_of(problem.dtype.name)} rows and {MOST_ROWS} columns"
            return f"{self.name} takes up to {most} of C, not {problem.m} x {problem.n}"
        return super().supports(problem)

    def instruction(self, scheme: Scheme, problem: Problem) -> str:
        """Which narrow numbers are multiplied, and by what."""
        device = self._queue_for(problem).device
        if scheme.moduli:
            rung = rung_of_residues(problem.k, device)
            return f"int8 by {rung.instruction if rung else 'plain integers'}"
        unit = unit_for(scheme, device)
        return f"{of_both(unit.kind)[0]} by {TENSOR.instruction}" if unit else "float32 by plain code"

    def error(self, problem: Problem, **params: Any) -> ErrorBound:
        """The bound of the scheme in force, by the unit that multiplies its parts."""
        scheme = self.scheme(problem, params)
        if scheme.moduli or unit_for(scheme, self._queue_for(problem).device) is None:
            return super().error(problem, **params)
        return error_by_unit(scheme, problem.k * reals_of(problem.dtype.name))

    def _is_streamed(self, problem: Problem) -> bool:
        return False  # the scale of a row is that of all of it

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        scheme = Scheme(str(params["scheme"]), int(params.get("moduli", 0)))
        pieces = [
            piece for batch in range(size.batch)
            for piece in in_pieces(scheme, dtype, size, [x.skip(batch=batch) for x in layouts], queue.device)
        ]  # fmt: skip
        kernels = tuple(launch for piece in pieces for launch in piece.kernels)
        return queue.prepared(Launches(kernels, max((piece.workspace_bytes for piece in pieces), default=0)))


def in_pieces(
    scheme: Scheme, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
) -> Iterator[Launches]:
    """One product, or parts of C one after another where its workspace were a large part of the device's memory.

    An element of C depends on a row of A and a column of B alone, so its bits are the same.
    """
    workspace, first = Workspace(), of_residues if scheme.moduli else of_parts
    kernels = tuple(first(scheme, dtype, size, layouts, workspace, device))
    m, longest = size.m, max(size.m, size.n)
    if workspace.nbytes <= device.memory_bytes // WORKSPACE_PART or longest < 2 * LEAST_EDGE:
        yield Launches(kernels, workspace.nbytes)
        return
    a, b, c = layouts
    half = -(-longest // 2 // LEAST_EDGE) * LEAST_EDGE
    for begin, end in ((0, half), (half, longest)):
        if longest == m:
            part, sides = replace(size, m=end - begin), (a.skip(begin), b, c.skip(begin))
        else:
            part = replace(size, n=end - begin)
            sides = a, replace(b, start=b.start + begin), replace(c, start=c.start + begin)
        yield from in_pieces(scheme, dtype, part, sides, device)


def error_by_unit(scheme: Scheme, k: int) -> ErrorBound:
    """The bound of parts that a matrix unit multiplies; docs/precision/emulated.md derives it.

    It cuts off its sums of a slice of k, and these sums are added in float32.
    """
    plain = schemes.error_of(scheme, k, 4, False)
    sums = (-(-k // SLICE) + CUT_OFF) * UNIT[4]
    return replace(plain, bound=max(0.0, plain.bound or 0.0) - (k + 8) * UNIT[4] + sums * (1 + 2.0**-6))
