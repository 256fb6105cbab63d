"""A right operand that is taken apart once, for many products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gemmlab._emulated.schemes import Scheme


class NarrowOperand:
    """What `gemmlab.pack(b, backend="cpu-emulated")` returns: the narrow numbers of a matrix, and a copy of it.

    Attributes
    ----------
    shape, dtype
        As of the matrix.
    nbytes : int
        Of the narrow numbers and the copy.
    scheme : Scheme
        What it was taken apart by.
    """

    def __init__(self, plain: NDArray[Any], scheme: Scheme, parts: Any, special: NDArray[np.bool_]) -> None:
        self.plain, self.scheme, self.parts, self.special = plain, scheme, parts, special
        self.shape, self.dtype, self.placeholder = plain.shape, plain.dtype, plain

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        held = [self.plain, self.special]
        for x in self.parts:
            held += x if isinstance(x, list) else [] if x is None else [x]
        return sum(x.nbytes for x in held)

    def __repr__(self) -> str:
        return f"<matrix of {self.shape[0]} x {self.shape[1]} {self.dtype}, taken apart by {self.scheme.name}>"
