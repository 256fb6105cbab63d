"""The sources of the rungs, in OpenCL C, one file each, in the order of the ladder.

    naive  private  local  local4  register  register_global      `.cl` all
    tuned        tuned.cl for GPUs, with tuned_thin.cl for thin products; tuned_cpu.cl for CPU devices
    tensor  tensor_async  tensor_parts     by matrix units
    emulated  emulated_parts   `.cl`: products out of narrow ones, no rungs
    units/       what the kernels of matrix units share: the instructions, the tiles, copies, and who computes what
    common/      gemm.h, which all rungs share, cuda.h, which maps OpenCL C to CUDA, and kernels for copies and sums
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

HEADER = "common/gemm.h"


@cache
def kernel_text(name: str, package: str = "gemmlab._gpu") -> str:
    """The content of a file in a package's `kernels/`."""
    return files(package).joinpath("kernels", *name.split("/")).read_text(encoding="utf-8")


@cache
def with_header(*names: str) -> str:
    """Files after the header that all rungs share.

    Cached, so that a table with sources as keys gets the same string every time and need not compare it.
    """
    return "".join(map(kernel_text, (HEADER, *names)))
