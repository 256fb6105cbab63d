"""gemmlab: a laboratory for one operation, C = A @ B.

    import gemmlab
    gemmlab.matmul(a, b, backend="cpu-blocked")

This module contains only the public names. Each is loaded on first use, so that importing the package (which pytest
does for its plugin) costs almost nothing. The manual is in docs/; docs/architecture.md shows how the code is organised.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab._above import hand_down
from gemmlab._process.importing import Importing, names_on_first_use
from gemmlab._version import __version__

# What lower layers call in higher ones; loaded on first use.
hand_down({
    "backend dask": ("gemmlab.dask.backend", "backend"),
    "arrays of dask": ("gemmlab.dask.product", "general_matmul"),
    "arrays of zarr": ("gemmlab.dask.product", "general_matmul"),
})


def _is_command() -> bool:
    """Whether this process is the command `gemmlab` or `python -m gemmlab`."""
    program = "".join(sys.argv[:1])
    if program == "-m":  # until `python -m` has found the module
        return "gemmlab" in sys.orig_argv
    return Path(program).stem == "gemmlab"


try:
    from gemmlab._config import config

    if config.isa is not None:  # fail at once if this CPU lacks the pinned instruction set
        from gemmlab._cpu.isa import chosen

        chosen()
except (ValueError, RuntimeError) as error:  # a wrong GEMMLAB_ISA or GEMMLAB_THREADS, before cli.main can catch it
    if not _is_command():
        raise
    print(f"gemmlab: {error}", file=sys.stderr)
    sys.exit(2)

if TYPE_CHECKING:
    from gemmlab._api import (
        asarray,
        backends,
        einsum,
        get_backend,
        matmul,
        matvec,
        pack,
        tensordot,
        trace,
        use,
        vecdot,
        vecmat,
    )
    from gemmlab._api.explaining import explain
    from gemmlab._backend import Availability, Backend, BackendInfo, Param
    from gemmlab._cpu.packed_backend._packed import free_buffers
    from gemmlab._errors import (
        BackendUnavailable,
        CannotWrite,
        DeviceError,
        GemmlabError,
        UnknownBackend,
        UnsupportedProblem,
    )
    from gemmlab._gpu import opencl_rung
    from gemmlab._problem import Problem
    from gemmlab.measure.environment import show_versions
    from gemmlab.verify import verify

__all__ = [
    "Availability",
    "Backend",
    "BackendInfo",
    "BackendUnavailable",
    "CannotWrite",
    "DeviceError",
    "GemmlabError",
    "Param",
    "Problem",
    "UnknownBackend",
    "UnsupportedProblem",
    "__version__",
    "asarray",
    "backends",
    "config",
    "einsum",
    "explain",
    "free_buffers",
    "get_backend",
    "matmul",
    "matvec",
    "opencl_rung",
    "pack",
    "show_versions",
    "tensordot",
    "trace",
    "use",
    "vecdot",
    "vecmat",
    "verify",
]

_found = names_on_first_use(__name__, {
    "_api": (
        "asarray",
        "backends",
        "einsum",
        "get_backend",
        "matmul",
        "matvec",
        "pack",
        "tensordot",
        "trace",
        "use",
        "vecdot",
        "vecmat",
    ),
    "_backend": ("Availability", "Backend", "BackendInfo", "Param"),
    "_cpu.packed_backend._packed": ("free_buffers",),
    "_errors": (
        "BackendUnavailable",
        "CannotWrite",
        "DeviceError",
        "GemmlabError",
        "UnknownBackend",
        "UnsupportedProblem",
    ),
    "_api.explaining": ("explain",),
    "_gpu": ("opencl_rung",),
    "_problem": ("Problem",),
    "measure.environment": ("show_versions",),
})


def __getattr__(name: str) -> object:
    if name == "verify":  # a module that can be called
        with Importing():
            return import_module("gemmlab.verify")
    return _found(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
