"""Which backend a product would go to, and why: explain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from gemmlab import _auto, _registry
from gemmlab._api import array_owner, einsum_product, foreign_operand, requested_backend, unwrapped
from gemmlab._api.foreign import takes_arrays_of
from gemmlab._api.packing import PACKED, home_of
from gemmlab._config import Scope, scope
from gemmlab._cpu import machine
from gemmlab._cpu.packed_backend.plan import Plan
from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._name import RUNTIMES, BackendName
from gemmlab._problem import Problem

if TYPE_CHECKING:
    from gemmlab._api.contraction_path import Step
    from gemmlab._backend import Params
    from gemmlab._gpu.backend import DeviceBackend

__all__ = ["Explanation", "explain"]


class Shared(Protocol):
    """How several devices or backends share a product."""

    @property
    def summary(self) -> str:
        """Half a line."""

    @property
    def loops(self) -> str:
        """Who computes what."""


@dataclass(frozen=True)
class Explanation:
    """Each backend considered for a product: taken, or why not. Prints as a table.

    Attributes
    ----------
    rows : tuple of (str, bool, str)
        A backend's name, whether it is taken, and why.
    plan : Plan or None
        How `cpu-packed` cuts the product, where it is taken: a named tuple, printed as one line below its row, above
        what the machine says of itself, from which its blocks follow. Of several devices or backends that share a
        product: who computes what.
    product : str
        The product that an einsum becomes: its sizes. Printed as the first line.
    """

    rows: tuple[tuple[str, bool, str], ...]
    plan: Plan | Shared | None = None
    product: str = ""

    def __str__(self) -> str:
        width = max(len(name) for name, _, _ in self.rows)
        lines = [self.product] if self.product else []
        for name, taken, why in self.rows:
            lines.append(f"{'->' if taken else '  '} {name:<{width}}  {why}")
            if taken and self.plan is not None:
                lines.append(f"   {'':<{width}}  plan: {self.plan.loops}")
                if isinstance(self.plan, Plan):
                    lines.append(f"   {'':<{width}}  machine: {machine.readings()}")
        return "\n".join(lines)

    __repr__ = __str__


def explain(
    a: Any, b: Any, *operands: Any, backend: str | None = None, dtype: Any = None, accumulate: bool = False
) -> Explanation:
    """Which backend would take `a @ b`, and why not the others.

    Parameters
    ----------
    a, b : array_like
        The operands; nothing is multiplied. Or the arguments of `einsum`: `explain("ij,jk->ik", a, b)`.
    backend, dtype, accumulate
        As for `matmul`.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> print(gemmlab.explain(np.eye(2, dtype=int), np.eye(2, dtype=int)).rows[0][0])
    cpu-packed
    """
    if isinstance(a, str):
        if accumulate:
            raise TypeError("gemmlab.einsum has no parameter 'accumulate'")
        return _explained_einsum((a, b, *operands), backend, dtype)
    if operands:
        raise TypeError("explain takes two operands, or the subscripts of an einsum and its operands")
    a, b = unwrapped((a, b))
    within = scope.get() or Scope()
    name = requested_backend(backend, within)
    if (row := _row_of_another_kind(a, b, name, accumulate, dtype)) is not None:
        return Explanation((row,))
    if array_owner(a, b) == "dlpack":
        from gemmlab._gpu.device_arrays import exchanged

        a, b = exchanged(a), exchanged(b)
    problem = Problem.from_call(a, b, dtype=dtype)
    problem.accumulate, problem.threads = accumulate, within.threads
    params = within.params if backend is None else {}  # as for `matmul`
    try:
        chosen = _registry.choose(problem, params) if name == "auto" else None
        wanted, best = (chosen.name, "") if chosen else _registry.choice(name, problem, params)
    except (BackendUnavailable, UnsupportedProblem):
        wanted = best = ""  # auto has nothing left: every row says why not
    names = dict.fromkeys([wanted] * bool(wanted) + _registry.names())  # one with a device is in no list
    rows = sorted((_considered(each, problem, wanted, name) for each in names), key=lambda row: not row[1])
    if rows[0][1]:
        rows[0] = wanted, True, _in_full(rows[0][2], best, wanted, problem, params)
    plan: Plan | Shared | None = _registry.get(wanted).plan(problem, **params) if rows[0][1] else None
    if rows[0][1] and (plan is not None or not (problem.out.size and problem.k)):
        candidate, _, why = rows[0]
        rows[0] = candidate, True, f"{why}; {plan.summary if plan is not None else 'an empty sum'}"
    return Explanation(tuple(rows), plan)


def _row_of_another_kind(a: Any, b: Any, name: str, accumulate: bool, dtype: Any) -> tuple[str, bool, str] | None:
    """The row for operands that leave no choice: packed, of Dask or Zarr, on a device, or with a dispatch."""
    if isinstance(b, PACKED):
        home, asked = home_of(b), _registry.resolve_name(name)
        taken = asked == home or (name == "auto" and not accumulate)
        return (home, True, "b is packed for it") if taken else (name, False, "takes no packed operand")
    if _registry.array_function(a, b) is not None:
        why = "does not add to out" if accumulate else "for each chunk, by gemmlab.dask; see gemmlab.dask.advise"
        return name, not accumulate, why
    if (kind := array_owner(a, b)) in _registry.AUTO_ON:
        return _row_on_device(a, b, str(kind), name, dtype)
    if (foreign := foreign_operand(a, b, None)) is not None:
        what, taken = type(foreign).__name__, name in ("auto", "cpu-numpy") and not accumulate
        return ("cpu-numpy", True, f"NumPy's own dispatch, for {what}") if taken else (name, False, f"takes no {what}")
    return None


def _row_on_device(a: Any, b: Any, runtime: str, asked: str, dtype: Any) -> tuple[str, bool, str]:
    """The row for device arrays. The best rung of a family depends on the product."""
    why = f"auto: what comes with arrays of {runtime}" if asked == "auto" else f"asked for as {asked}"
    name = _registry.AUTO_ON[runtime] if asked == "auto" else asked
    wanted = _registry.resolve_name(name)
    if not (found := _registry.availability(wanted)).ok:
        return wanted, False, _registry.why_not_here(found)
    chosen = _registry.get(wanted)
    if not takes_arrays_of(chosen, runtime):
        return wanted, False, f"takes no arrays of {runtime}"
    from gemmlab._gpu.device_arrays import problem_of

    scoped = scope.get() or Scope()
    try:
        problem = problem_of(cast("DeviceBackend", _registry.get(wanted)), a, b, dtype=dtype)
    except UnsupportedProblem as error:
        return wanted, False, str(error)
    best = ""
    if BackendName.of(name).plain in RUNTIMES:
        wanted, best = _registry.choice(name, problem, scoped.params)
    return wanted, True, _in_full(why, best, wanted, problem, scoped.params)


def _in_full(why: str, best: str, wanted: str, problem: Problem, params: Params) -> str:
    """The reason, why it is the best rung of its family, and what it says of how it will compute the product."""
    chosen = f"{why}: {best}" if best else why
    return "; ".join(filter(None, (chosen, _registry.get(wanted).forecast(problem, **params))))


def _explained_einsum(arguments: tuple[Any, ...], backend: str | None, dtype: Any) -> Explanation:
    product = einsum_product(arguments)
    if isinstance(product, tuple):
        return _explained_path(product, backend)
    if not isinstance(product, str):
        return replace(explain(product.a, product.b, backend=backend, dtype=dtype), product=product.summary)
    name = requested_backend(backend, scope.get() or Scope())
    if name in ("auto", "cpu-numpy"):
        return Explanation((("cpu-numpy", True, f"NumPy's einsum, because {product}"),))
    return Explanation(((name, False, f"does not take this einsum, because {product}"),))


def _explained_path(steps: tuple[Step, ...], backend: str | None) -> Explanation:
    """A row for each step: which backend takes it, whose product depends on what the steps before it give."""
    name = requested_backend(backend, scope.get() or Scope())
    is_named = name not in ("auto", "cpu-numpy")
    rows = []
    for i, step in enumerate(steps, 1):
        taken = name if step.is_product else "cpu-numpy"
        why = (
            "a product"
            if step.is_product
            else f"no product, which {name} does not take"
            if is_named
            else "no product: NumPy's einsum"
        )
        rows.append((f"{i}. {taken}", step.is_product or not is_named, f"{step.subscripts}: {why}"))
    return Explanation(tuple(rows), product=f"{len(steps)} steps, by the path of numpy.einsum_path")


def _considered(candidate: str, problem: Problem, wanted: str, asked: str) -> tuple[str, bool, str]:
    found = _registry.availability(candidate)
    if not found.ok:
        return candidate, False, _registry.why_not_here(found)
    try:
        why_not = _registry.refusal(_registry.get(candidate), problem)
    except Exception as error:  # a plugin's fault is a row, not the end of the table
        why_not = f"its supports() failed: {type(error).__name__}: {error}"
    if why_not is not None:
        return candidate, False, why_not
    if candidate != wanted:
        by_auto = asked == "auto"
        return candidate, False, _why_not_auto(candidate, problem, wanted) if by_auto else f"{asked} was asked for"
    return candidate, True, f"asked for as {asked}" if asked != "auto" else _why_auto(problem, wanted)


def _why_auto(problem: Problem, taken: str) -> str:
    if taken in _registry.faster_by_profile(problem):
        return "auto: gemmlab tune auto found it faster for products of this size here"
    if taken == _registry.AUTO[0]:
        kind = _auto.shape_class(problem.m, problem.n, problem.k, problem.batch)
        return f"auto: our own kernel for every dtype that it has; no measured row gives this product to NumPy ({kind})"
    if (row := _auto.row_of(problem)) is not None:
        ratios, records = " and ".join(f"{ratio:.2f}" for ratio in row.ratios), ", ".join(row.records)
        return (
            f"auto: NumPy is faster here for this class of shape, {row.shape_class}: cpu-packed had {ratios} of its "
            f"speed ({records}); backend='cpu-packed' keeps the promised bits"
        )
    return f"auto: {problem.dtype} goes to NumPy, no other backend handles it"


def _why_not_auto(candidate: str, problem: Problem, taken: str) -> str:
    if candidate not in _registry.AUTO:
        return "auto takes it only by name"
    if taken in _registry.faster_by_profile(problem):
        return f"auto: gemmlab tune auto found {taken} faster for products of this size here"
    if candidate == _registry.AUTO[0]:
        return f"auto: was measured to be slower here than {taken} for this class of shape"
    return "auto: was not measured to be faster here"
