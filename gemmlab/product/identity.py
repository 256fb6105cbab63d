"""What the bits of a product depend on besides its operands and its plan: the build, the machine and its profile."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

import gemmlab
from gemmlab import _auto, _profile, _registry
from gemmlab._backend import Backend
from gemmlab._config import Scope, config, scope
from gemmlab._cpu import isa, machine
from gemmlab._gpu import configurations
from gemmlab._gpu.backend import RungBackend
from gemmlab._name import BackendName
from gemmlab._problem import DType
from gemmlab._version import __version__


def of_backend(backend: Backend, dtype: DType, threads: int | None) -> dict[str, object]:
    """The backend, what it runs on, and its entry in the profile.

    The threads are named only for a vendor's library: results of our kernels do not depend on them. Memory of a
    device bounds the blocks of products that are streamed to it.
    """
    found: dict[str, object] = {
        "backend": backend.name,
        "device": _registry.availability(backend.name).device,
        "profile": dict(_profile.parameters(isa.profile_name(), backend.name, dtype.name)),
    }
    if backend.kind != "rung":
        active = scope.get() or Scope()
        found["threads"] = threads or active.threads or config.threads or machine.usable_cpus()
    if BackendName.of(backend.name).on_runtime:
        found["device memory"] = config.device_memory or "what is free"
    if isinstance(backend, RungBackend) and (own := configurations.known(backend, backend.queue, dtype.name)):
        found["configurations"] = [dict(one.parameters) for one in own]
    return found


def of_build() -> dict[str, object]:
    """gemmlab's version and its compiled modules, NumPy with its library, processor and instruction set."""
    return {
        "gemmlab": __version__,
        "compiled modules (SHA-256)": _compiled_modules(),
        "numpy": np.__version__,
        "numpy's library": _auto.numpy_library(),
        "processor": isa.profile_name(),
        "extensions": list(isa.extras()),
    }


@cache
def _compiled_modules() -> str:
    """A digest of all compiled modules: of two builds of one version, one may round otherwise."""
    digest = hashlib.sha256()
    folder = Path(gemmlab.__file__).parent
    for path in sorted(path for kind in ("*.so", "*.pyd") for path in folder.rglob(kind)):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()
