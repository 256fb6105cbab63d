"""The machine and the software behind a number, so that the number can be compared.

What the system does not say is None. Nothing here names a person, a host or a path.
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import threadpoolctl

from gemmlab import _auto, _cpu
from gemmlab._cpu import _features, isa, machine
from gemmlab._version import __version__

_OPTIONAL = ("threadpoolctl", "Cython", "pyopencl", "dpctl", "dpnp", "cupy", "mkl", "blis", "matplotlib", "dask")
_POOL_KEYS = ("user_api", "internal_api", "prefix", "version", "architecture", "threading_layer", "num_threads")


def environment(pools: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The `environment` entry of a record; `pools` are the `thread_pools` of the timed process, if that is another.

    Examples
    --------
    >>> environment()["cpus_usable"] >= 1
    True
    """
    levels, build = machine.caches(), _cpu.build_info()
    mhz, flags = _cpuinfo("cpu MHz"), _cpuinfo("flags")  # only x86 has them
    return {
        "gemmlab": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "os": f"{platform.system()} {platform.release()}",
        "cpu": machine.cpu_name(),
        "processor": _features.processor() or None,
        "numpy_library": _auto.numpy_library() or None,
        "isa": isa.chosen(),
        "isa_available": list(isa.available_with_extras()),
        "cpus_machine": os.cpu_count(),
        "cpus_usable": machine.usable_cpus(),
        "cache_bytes": {level: levels.get(level) for level in ("L1", "L2", "L3")},
        "mhz": float(mhz) if mhz else None,
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "huge_pages": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "virtual_machine": "hypervisor" in flags.split() if flags else None,
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "compiler": build["compiler"],
        "openmp": build["openmp"],
        "thread_pools": thread_pools() if pools is None else pools,
    }


def show_versions() -> None:
    """Print the environment and the versions of all packages that gemmlab can use, for a bug report.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.show_versions()  # doctest: +ELLIPSIS
    gemmlab             ...
    """
    facts = environment()
    pools = facts.pop("thread_pools")
    for name, value in (facts | versions()).items():
        print(f"{name:<20}{'-' if value is None else value}")
    for pool in pools:
        words = (f"{key} {value}" for key, value in pool.items() if value is not None)
        print(f"{'thread pool':<20}{', '.join(words)}")


def versions() -> dict[str, str | None]:
    """Versions of the packages that gemmlab can use besides those in `environment`; None: not installed."""
    found = {package: _version(package) for package in _OPTIONAL}
    # CuPy's wheels carry the CUDA that they are built for in their names.
    found["cupy"] = next(filter(None, map(_version, ("cupy", "cupy-cuda13x", "cupy-cuda12x"))), None)
    return found


def thread_pools() -> list[dict[str, Any]]:
    """Thread pools of this process's libraries, as threadpoolctl finds them, without their paths."""
    return [{key: pool[key] for key in _POOL_KEYS if key in pool} for pool in threadpoolctl.threadpool_info()]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip() or None
    except OSError:
        return None


def _chosen(text: str | None) -> str | None:
    """Pick the word in brackets out of "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0] or None if text else None


def _cpuinfo(name: str) -> str | None:
    """The first value of a field of /proc/cpuinfo."""
    lines = (_read("/proc/cpuinfo") or "").splitlines()
    return next((line.partition(":")[2] for line in lines if line.startswith(name)), None)
