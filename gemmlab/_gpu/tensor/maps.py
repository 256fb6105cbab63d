"""Maps: how matrices lie in memory, and the boxes of them that one instruction copies to local memory.

NVIDIA's driver makes a map. Its address is set on the device, by a kernel: see `kernels/units/maps.cl`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from gemmlab._errors import UnsupportedProblem

WORDS = 16  # of 64 bits
ALIGNMENT = 64  # bytes
NO_ADDRESS = 1 << 12  # instead of the true one: the driver wants a multiple of 16
DTYPES = {1: 0, 2: 1, 4: 2}  # CU_TENSOR_MAP_DATA_TYPE_UINT8, 16 and 32 of <cuda.h>, by bytes: numbers are but copied
INTERLEAVE_NONE, SWIZZLE_128B, L2_256B, ZEROS_OUTSIDE = 0, 3, 3, 0


def encoded(
    itemsize: int, extents: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> tuple[np.int64, ...]:
    """The map of matrices whose numbers have so many bytes.

    Parameters
    ----------
    itemsize : int
        1, 2 or 4.
    extents : sequence of int
        The numbers of a row, the rows of a matrix, the matrices.
    strides : sequence of int
        Bytes from row to row, and from matrix to matrix.
    box : sequence of int
        The numbers and the rows of a box.

    Raises
    ------
    UnsupportedProblem
        If the driver is missing, or takes no such matrices.
    """
    memory = ctypes.create_string_buffer(8 * WORDS + ALIGNMENT)
    start = -ctypes.addressof(memory) % ALIGNMENT
    rank = len(extents)
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        encode = cuda.cuTensorMapEncodeTiled
    except (OSError, AttributeError) as error:
        raise UnsupportedProblem(f"NVIDIA's driver makes no maps for copies of boxes ({error}): omit boxes") from None
    cuda.cuInit(0)
    status = encode(
        ctypes.byref(memory, start), DTYPES[itemsize], rank, ctypes.c_void_p(NO_ADDRESS),
        (ctypes.c_uint64 * rank)(*extents), (ctypes.c_uint64 * (rank - 1))(*strides),
        (ctypes.c_uint32 * rank)(*box, 1), (ctypes.c_uint32 * rank)(*[1] * rank),
        INTERLEAVE_NONE, SWIZZLE_128B, L2_256B, ZEROS_OUTSIDE,
    )  # fmt: skip
    if status:
        raise UnsupportedProblem(f"NVIDIA's driver makes no map of {tuple(extents)} (CUDA error {status}): omit boxes")
    return tuple(np.frombuffer(bytes(memory), np.int64, WORDS, start))
