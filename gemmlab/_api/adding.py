"""Products that are added up in one array, such as those of the blocks of k of a tile: in place, or by a temporary."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmlab import _front, _registry
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
    **options: Any,
) -> None:  # fmt: skip
    """Let `out` be the product, if it is the first; else add the product to it.

    `temporary` is memory for the product where the backend does not add; None: new memory each time.
    """
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
