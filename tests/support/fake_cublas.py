"""A stand-in for `cupy.cuda.cublas` where no GPU is: it multiplies in host memory."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "int8", 10: "int32", 14: ml_dtypes.bfloat16}  # by cudaDataType
ALLOWED = {68: ((0, 0), (2, 2), (2, 0), (14, 14), (14, 0)), 70: ((1, 1),), 72: ((3, 10),), 77: ((0, 0),)}

class FakeCuBLAS:
    """cuBLAS as its documentation has it: column-major matrices at addresses in (here: host) memory."""

    CUBLAS_OP_N, CUBLAS_OP_T = 0, 1
    CUBLAS_POINTER_MODE_HOST, CUBLAS_DEFAULT_MATH, CUBLAS_GEMM_DEFAULT = 0, 0, -1
    CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_32I, CUBLAS_COMPUTE_32F_FAST_TF32 = 68, 70, 72, 77

    class CUBLASError(RuntimeError):
        pass

    def __init__(self, cuda):
        self.cuda, self.calls = cuda, []
        self.scalars, self.math = 1, 3  # as a user may have left them: scalars on the device, TF32 for all

    def getPointerMode(self, handle):
        return self.scalars

    def setPointerMode(self, handle, mode):
        self.scalars = mode

    def getMathMode(self, handle):
        return self.math

    def setMathMode(self, handle, mode):
        self.math = mode

    def getVersion(self, handle):
        return 130200

    def gemmEx(self, *given):
        handle, op_a, op_b, m, n, k, alpha, a, a_kind, lda, b, b_kind, ldb, beta, c, c_kind, ldc, compute, how = given
        self.calls.append("gemmEx")
        self._gemm(handle, op_a, op_b, m, n, k, alpha, a, a_kind, lda, 0, b, b_kind, ldb, 0, beta, c, c_kind, ldc, 0, 1,
                   compute, how)  # fmt: skip

    def gemmStridedBatchedEx(self, *given):
        self.calls.append("gemmStridedBatchedEx")
        self._gemm(*given)

    def _gemm(self, handle, op_a, op_b, m, n, k, alpha, a, a_kind, lda, a_step, b, b_kind, ldb, b_step, beta,
              c, c_kind, ldc, c_step, count, compute, how):  # fmt: skip
        assert (handle, how, self.scalars, self.math) == (77, -1, 0, 0)
        assert (self.cuda.device, a_kind) == (1, b_kind)
        assert (a_kind, c_kind) in ALLOWED[compute]
        self.calls.append((compute, self.cuda.current))
        scalar = {self.CUBLAS_COMPUTE_64F: ctypes.c_double, self.CUBLAS_COMPUTE_32I: ctypes.c_int32}.get(
            compute, ctypes.c_float
        )
        a_rows, b_rows = (k if op_a else m), (n if op_b else k)
        if lda < max(1, a_rows) or ldb < max(1, b_rows) or ldc < max(1, m):
            raise self.CUBLASError("CUBLAS_STATUS_INVALID_VALUE")

        def matrix(address, rows, columns, ld, kind):
            dtype = np.dtype(DTYPES[kind])
            size = dtype.itemsize
            memory = (ctypes.c_char * (size * (ld * (columns - 1) + rows))).from_address(address)
            return np.lib.stride_tricks.as_strided(np.frombuffer(memory, dtype), (rows, columns), (size, size * ld))

        for i in range(count):
            steps = (a_step, a_kind), (b_step, b_kind), (c_step, c_kind)
            offsets = [i * step * np.dtype(DTYPES[kind]).itemsize for step, kind in steps]
            left = matrix(a + offsets[0], a_rows, m if op_a else k, lda, a_kind)
            right = matrix(b + offsets[1], b_rows, k if op_b else n, ldb, b_kind)
            into = matrix(c + offsets[2], m, n, ldc, c_kind)
            left, right = (x.astype(np.float64) for x in (left, right))
            old = scalar.from_address(beta).value
            sums = scalar.from_address(alpha).value * ((left.T if op_a else left) @ (right.T if op_b else right))
            into[...] = (sums + (old * into if old else 0)).astype(into.dtype)
