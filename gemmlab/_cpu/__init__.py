"""Products on the CPU.

    rungs/               the ladder's rungs in Cython, but for the last: cpu-naive, cpu-ikj, cpu-blocked, ...
    packed/              the last rung, cpu-packed: C++ templates, compiled once for each instruction set
    packed_backend/      cpu-packed as a backend: its calls on arrays, its plan, its traffic
    emulated/            cpu-emulated: products out of narrow ones, by cpu-packed
    baselines.py         NumPy, and the vendors' BLAS through one shim
    layouts.py           operands as a rung or a BLAS takes them, copied where needed
    threads/             how many threads a product gets, and the team that cpu-packed has of its own
    _driver.pyx          calls a rung or a BLAS over a batch of matrices, without the GIL
    flags.py             how a compiler is asked for rungs
    isa.py               which build of the kernels runs here
    _features.pyx        what this CPU has, and this build, by cpu_features.h
      tile_registers.h   how AMX's registers are configured
    machine.py           caches, CPUs, names
    cgroups.py           what control groups grant
"""

from __future__ import annotations

import os


def _load_openmp() -> None:
    """Load OpenMP. Where it is to bind its threads it narrows the CPUs of the thread that loads it, and so of all that
    this one starts. If that is by us, they are put back: the program's threads are not OpenMP's. If another OpenMP
    library has done it before, ours is loaded on the CPUs of all of that one's places, as it would have been first."""
    from gemmlab._cpu.threads.other_openmp import cpus_of_places

    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    is_bound = before < (others := cpus_of_places())
    if is_bound:
        os.sched_setaffinity(0, others)
    from gemmlab._cpu.threads import _threads

    is_narrowed = before and os.sched_getaffinity(0) != before
    if is_narrowed:
        os.sched_setaffinity(0, before)
    if is_bound or not is_narrowed:
        _threads.main_thread_is_bound()


def build_info() -> dict[str, str | None]:
    """Compiler and OpenMP of the extensions; `openmp` is None for a serial build."""
    from gemmlab._cpu import _features

    version = _features.openmp()
    return {"compiler": _features.compiler_version(), "openmp": str(version) if version else None}


_load_openmp()
