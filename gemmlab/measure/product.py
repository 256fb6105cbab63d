"""The product that a worker times: its operands in host memory, or on a device beforehand.

With operands in host memory, a device's product includes moving them there and the result back.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gemmlab
from gemmlab._backend import Backend

Host = NDArray[Any]


class Product:
    """C = A @ B with all three in host memory, and C full of NaN.

    Calling `start` does the product; it is certainly done when `finish` has returned.
    """

    def __init__(self, backend: Backend, a: Host, b: Host, params: dict[str, Any]) -> None:
        self.a, self.b = a, b
        nothing = np.full((*a.shape[:-1], b.shape[-1]), np.nan, a.dtype)
        left, right, self._out = (self._placed(backend, x) for x in (a, b, nothing))
        self.start = partial(gemmlab.matmul, left, right, out=self._out, backend=backend.name, **params)

    def finish(self) -> None:
        """Return when the products started so far are done."""

    def poison(self) -> None:
        """Fill C with NaN, so that whatever it holds later was computed later."""
        self._out.fill(np.nan)
        self.finish()

    def result(self) -> Host:
        """C in host memory."""
        out: Host = self._out
        return out

    def kernel_s(self) -> float | None:
        """Do the product once more, for the device's own time of its kernels; None where that is not told."""
        with gemmlab.trace() as calls:
            self.start()
        kernel_s = calls[-1].kernel_s
        return None if kernel_s is None or math.isnan(kernel_s) else kernel_s

    def _placed(self, backend: Any, x: Host) -> Any:
        return x


class ResidentProduct(Product):
    """The same with all three on the device: a call starts the work and returns."""

    def finish(self) -> None:
        from gemmlab._gpu import arrays

        arrays.wait(self._out)

    def result(self) -> Host:
        from gemmlab._gpu import arrays

        return np.asarray(arrays.to_host(self._out))

    def _placed(self, backend: Any, x: Host) -> Any:
        """The array on the device, in columns there if it is in columns here."""
        from gemmlab._gpu import arrays

        if x.flags.c_contiguous or not x.T.flags.c_contiguous:
            return arrays.to_device(backend, x)
        return arrays.to_device(backend, x.T).T
