"""Products that are added up in one array, such as those of the blocks of k of a tile: in place, or by a temporary."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmlab import _front, _registry
from gemmlab._api.calls import run
from gemmlab._config import Scope, scope
from gemmlab._cpu.threads.threadpool import follow_threadpoolctl
from gemmlab._problem import AnyArray, Array, DType, Problem


def adds(backend: str, dtype: DType) -> bool:
    """Whether products by this backend are added to an array of this dtype without a temporary."""
    name = _registry.resolve_name(backend)
    if not _registry.availability(name).ok:
        return False
    none = np.empty((0, 0), dtype)
    problem = Problem(none, none, none)
    problem.accumulate = True
    return _registry.refusal(_registry.get(name), problem) is None


def add_product(
    a: AnyArray, b: AnyArray, out: AnyArray, *, backend: str, is_first: bool, temporary: Array | None = None,
    whole_k: int = 0, **options: Any,
) -> None:  # fmt: skip
    """Let `out` be the product, if it is the first; else add the product to it.

    `temporary` is memory for the product where the backend does not add; None: new memory each time. `whole_k`: these
    are a block of k of a product of so much, cut at multiples of the backend's `block_of_k`; the sums, in the dtype of
    `out`, are then those of the whole product, to the last bit.
    """
    if whole_k:
        _add_block(a, b, out, backend, is_first, whole_k, **options)
        return
    options |= _registry.get(_registry.resolve_name(backend)).for_parts
    is_plain = type(a) is type(b) is type(out) is np.ndarray
    if is_plain and (is_first or adds(backend, out.dtype)):
        _front.matmul(a, b, out=out, backend=backend, accumulate=not is_first, **options)
        return
    product = _front.matmul(a, b, temporary, backend=backend, **options)
    if is_first:
        out[...] = product
    elif is_plain:
        with np.errstate(all="ignore"):
            np.add(out, product, out=out)
    else:
        out += product


def _add_block(a: Array, b: Array, out: Array, backend: str, is_first: bool, whole_k: int, threads: int | None) -> None:
    """In place, with operands that may be narrower than their sums in `out`."""
    follow_threadpoolctl()
    problem = Problem.from_call(a, b, out, dtype=out.dtype, threads=threads, accumulate=not is_first)
    problem.whole_k = whole_k
    run(_registry.get(backend), problem, {}, (scope.get() or Scope()).traces)
