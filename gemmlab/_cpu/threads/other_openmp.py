"""OpenMP libraries besides ours: wheels bring copies, and each of them binds threads where that is asked."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NAMES = ("libgomp", "libomp", "libiomp5")
ASKING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
MAPS = Path("/proc/self/maps")


def cpus_of_places() -> set[int]:
    """The CPUs of all places to which a loaded OpenMP library binds its threads; none where nothing asks for that."""
    if not any(name in os.environ for name in ASKING) or not MAPS.exists():
        return set()
    files = {line.split(maxsplit=5)[-1] for line in MAPS.read_text().splitlines() if ".so" in line}
    return set().union(*(_cpus(file) for file in files if Path(file).name.startswith(NAMES)))


def _cpus(file: str) -> set[int]:
    try:
        openmp = ctypes.CDLL(file, os.RTLD_NOLOAD | os.RTLD_LAZY)
        if not openmp.omp_get_proc_bind():
            return set()
        found: set[int] = set()
        for place in range(openmp.omp_get_num_places()):
            ids = (ctypes.c_int * openmp.omp_get_place_num_procs(place))()
            openmp.omp_get_place_proc_ids(place, ids)
            found.update(ids)
    except (OSError, AttributeError):  # it has gone since, or is too old for places
        return set()
    return found
