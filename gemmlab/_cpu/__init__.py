"""Products on the CPU.

    ladder.py            the rungs as backends: cpu-naive, cpu-ikj, cpu-blocked, cpu-blocked-local
      naive.pyx ikj.pyx blocked.pyx blocked_local.pyx
                         one rung a file; compiled once per instruction set into v2/ v3/ v4/ (or plain/)
      rung.pxd rung.h    what the rungs share: their signature and their plan
    packed_rung.py       the last rung, cpu-packed: its C is in packed/, and packed.pyx is compiled as the rungs are
      _packed.pyx        calls it on arrays of any strides and dtype
    baselines.py         NumPy, and the vendors' BLAS through one shim
    _driver.pyx          calls a rung or a BLAS over a stack of matrices, without the GIL; how many threads it gets
    isa.py               which build of the kernels runs here
    machine.py           caches, CPUs, names
    threadpool.py        threadpoolctl's view of our threads
"""

from __future__ import annotations


def build_info() -> dict[str, str | None]:
    """Compiler and OpenMP of the extensions; `openmp` is None for a serial build."""
    from gemmlab._cpu import _features

    version = _features.openmp()
    return {"compiler": _features.compiler_version(), "openmp": str(version) if version else None}
