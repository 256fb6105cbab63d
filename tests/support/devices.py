"""What the tests of the GPU ladder share: the runtimes that have a device here, and exact products."""

from __future__ import annotations

from typing import Any

import pytest
from randomness import RNG

from gemmlab._gpu import RUNG_NAMES, RUNTIMES, devices

# Every runtime's devices: "opencl:0", "opencl:1", "sycl:0".
PLACES = [
    f"{name}:{device.index}"
    for name, found in devices().items()
    if not isinstance(found, str)
    for device in found
]  # fmt: skip
FIRST_PLACES = [place for place in PLACES if place.endswith(":0")]
RUNG_AND_PLACE = [(rung, place) for place in PLACES for rung in RUNG_NAMES]
DTYPES = ("float32", "float64")

__all__ = [
    "DTYPES", "FIRST_PLACES", "PLACES", "RUNG_AND_PLACE", "RUNG_NAMES", "RUNTIMES",
    "backend_at", "integers", "nvrtc_here",
]  # fmt: skip


def backend_at(place: str, rung: str) -> str:
    """The name of a rung on a device: "opencl-local:1"."""
    runtime, _, index = place.partition(":")
    return f"{runtime}-{rung}:{index}"


def nvrtc_here() -> Any:
    """CuPy's NVRTC, which compiles without a GPU; the test is skipped where it is missing."""
    cuda = pytest.importorskip("cupy.cuda")
    try:
        cuda.nvrtc.getVersion()
    except Exception as error:  # the loader has errors of its own
        pytest.skip(f"no NVRTC: {error}")
    return cuda.nvrtc


def integers(shape: tuple[int, ...], dtype: Any) -> Any:
    """Whole numbers from -8 to 8, fresh each time: their products are exact."""
    return RNG.integers(-8, 9, shape).astype(dtype)
