"""PTX: compiled to machine code by NVIDIA's driver, and freed of marks.

The binary of an OpenCL program is PTX on NVIDIA, and the driver compiles it again in every process. The driver also
accepts machine code, which loads immediately; the linker of the CUDA driver API compiles PTX to it.

A kernel with the instructions of one chip says so by a macro, ARCHITECTURE, such as 90a. NVRTC compiles for it.
NVIDIA's OpenCL compiler does not: there, these instructions are comments of its PTX behind a mark, and the driver gets
the PTX without the marks.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager

ARCHITECTURE = "ARCHITECTURE"  # the macro
_INPUT_PTX = 1  # CU_JIT_INPUT_PTX of <cuda.h>


def is_ptx(binary: bytes) -> bool:
    """Whether a program's binary is PTX."""
    return b".target sm_" in binary[:4096]


def without_marks(ptx: bytes, architecture: str) -> bytes:
    """PTX for an architecture, in which marked instructions are no comments any more.

    Raises
    ------
    ValueError
        If there is no mark, or no target that the architecture is a form of: such a kernel would compute zeros.

    Examples
    --------
    >>> without_marks(b".target sm_90, texmode_independent\\n// sm_90a: wgmma.fence.sync.aligned;\\n", "90a")
    b'.target sm_90a, texmode_independent\\nwgmma.fence.sync.aligned;\\n'
    """
    usual = architecture.rstrip("af")
    edited, marks = re.subn(rb"//\s*sm_%s:\s*" % architecture.encode(), b"", ptx)
    edited, targets = re.subn(rb"(\.target sm_)%s[af]?\b" % usual.encode(), rb"\g<1>%s" % architecture.encode(), edited)
    if not marks or targets != 1:
        raise ValueError(f"the compiler's PTX has {marks} marks and {targets} targets sm_{usual}")
    return edited


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
