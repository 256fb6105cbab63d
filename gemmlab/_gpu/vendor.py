"""The products that vendors ship, to be measured against: CLBlast, oneMKL, cuBLAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmlab._backend import Param
from gemmlab._gpu.backend import DeviceBackend
from gemmlab._gpu.runtime import Runtime


class Vendor(DeviceBackend):
    """A library that multiplies on a device."""

    kind = "baseline"
    params: Mapping[str, Param] = {}
    way: str

    def __init__(self, runtime: Runtime, wanted: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{self.way}", wanted)


class CLBlast(Vendor):
    """CLBlast, through its C library."""

    way, source, summary = "clblast", "CLBlast", "CLBlast"


class OneMKL(Vendor):
    """oneMKL, through dpnp."""

    way, source, summary = "onemkl", "oneMKL", "oneMKL"


class CuBLAS(Vendor):
    """cuBLAS, through CuPy."""

    way, source, summary = "cublas", "cuBLAS", "cuBLAS"


def vendor_named(way: str, runtime: Runtime, wanted: str) -> DeviceBackend:
    """The vendor's backend on a runtime."""
    vendors: dict[str, Any] = {vendor.way: vendor for vendor in (CLBlast, OneMKL, CuBLAS)}
    vendor: DeviceBackend = vendors[way](runtime, wanted)
    return vendor
