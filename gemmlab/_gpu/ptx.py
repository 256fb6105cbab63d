"""Compile PTX to machine code by NVIDIA's driver.

The binary of an OpenCL program is PTX on NVIDIA, and the driver compiles it again in every process. The driver also
accepts machine code, which loads immediately; the linker of the CUDA driver API compiles PTX to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_INPUT_PTX = 1  # CU_JIT_INPUT_PTX of <cuda.h>


def is_ptx(binary: bytes) -> bool:
    """Whether a program's binary is PTX."""
    return b".target sm_" in binary[:4096]


def machine_code(ptx: bytes, bus_id: str) -> bytes:
    """Compile PTX for the GPU at a PCI address such as "0000:1b:00.0".

    Raises
    ------
    OSError
        If the driver is missing or reports an error.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    with _linker(cuda, bus_id) as linker:
        text = ptx.rstrip(b"\0") + b"\0"
        _check(cuda.cuLinkAddData_v2(linker, _INPUT_PTX, text, ctypes.c_size_t(len(text)), b"kernel", 0, None, None))
        code, size = ctypes.c_void_p(), ctypes.c_size_t()
        _check(cuda.cuLinkComplete(linker, ctypes.byref(code), ctypes.byref(size)))
        return ctypes.string_at(code, size.value)  # copied: the linker frees its memory


@contextmanager
def _linker(cuda: ctypes.CDLL, bus_id: str) -> Iterator[ctypes.c_void_p]:
    device, context, linker = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    _check(cuda.cuInit(0))
    _check(cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), bus_id.encode()))
    _check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    try:
        _check(cuda.cuCtxPushCurrent_v2(context))
        try:
            _check(cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(linker)))
            try:
                yield linker
            finally:
                cuda.cuLinkDestroy(linker)
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(device)


def _check(status: int) -> None:
    if status != 0:
        raise OSError(f"NVIDIA's driver refused (CUDA error {status})")
