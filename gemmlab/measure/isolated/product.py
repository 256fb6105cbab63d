"""The product that a worker times: its operands in host memory, which a device copies, or on a device beforehand."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import gemmlab
from gemmlab._problem import Array


class Product:
    """C = A @ B with all three in host memory, and C full of NaN.

    Calling `start` does the product; it is complete when `finish` has returned.
    """

    def __init__(self, backend: Any, a: Array, b: Array, params: dict[str, Any]) -> None:
        self.a, self.b, self._backend = a, b, backend
        nothing = np.full((*a.shape[:-1], b.shape[-1]), np.nan, a.dtype)
        left, right, self._out = (self._placed(x) for x in (a, b, nothing))
        self.start = partial(gemmlab.matmul, left, right, out=self._out, backend=backend.name, **params)

    def finish(self) -> None:
        """Wait for the products started so far."""

    def poison(self) -> None:
        """Fill C with NaN, so that what it holds later was computed later."""
        self._out.fill(np.nan)
        self.finish()

    def result(self) -> Array:
        """C in host memory."""
        return np.asarray(self._out)

    def kernel_s(self) -> float | None:
        """Do the product once more, and return the device's own time of its kernels; None where it has none."""
        with gemmlab.trace() as calls:
            self.start()
        kernel_s = calls[-1].kernel_s
        return None if kernel_s is None or math.isnan(kernel_s) else kernel_s

    def _placed(self, x: Array) -> Any:
        return x


class ResidentProduct(Product):
    """The same with all three on the device: a call starts the work and returns."""

    def finish(self) -> None:
        from gemmlab._gpu import device_arrays

        device_arrays.wait(self._out)

    def result(self) -> Array:
        from gemmlab._gpu import device_arrays

        return np.asarray(device_arrays.to_host(self._out))

    def _placed(self, x: Array) -> Any:
        """The array on the device, column-major there if it is column-major here."""
        from gemmlab._gpu import device_arrays

        if x.flags.c_contiguous or not x.T.flags.c_contiguous:
            return device_arrays.to_device(self._backend, x)
        return device_arrays.to_device(self._backend, x.T).T
