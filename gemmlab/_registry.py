"""Who can do it: every backend's name, whether it can run here, and why not.

Built-in backends stand in a static table; others come from the entry-point group `gemmlab.backends`. Nothing
is loaded before it is asked for by name, or listed. A name asked for never turns into another.
"""

from __future__ import annotations

import difflib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gemmlab import _profile
from gemmlab._backend import Availability, Backend, BackendInfo
from gemmlab._config import config
from gemmlab._cpu import isa
from gemmlab._errors import BackendUnavailable, UnknownBackend
from gemmlab._gpu import RUNG_NAMES, RUNTIMES, VENDORS, best_rung
from gemmlab._problem import Problem

GROUP = "gemmlab.backends"


def _rung(name: str) -> Backend:
    from gemmlab._cpu.rungs.ladder import rungs

    return next(rung for rung in rungs() if rung.name == name)


def _packed(name: str) -> Backend:
    from gemmlab._cpu.packed_backend.backend import Packed

    return Packed()


def _baseline(name: str) -> Backend:
    from gemmlab._cpu.baselines import baselines

    return next(baseline for baseline in baselines() if baseline.name == name)


def _on_device(name: str) -> Backend:
    from gemmlab._gpu import backend_named

    return backend_named(name)


BUILT_IN: Mapping[str, Callable[[str], Backend]] = {
    "cpu-naive": _rung,
    "cpu-ikj": _rung,
    "cpu-blocked": _rung,
    "cpu-blocked-local": _rung,
    "cpu-packed": _packed,
    "cpu-numpy": _baseline,
    "cpu-blas": _baseline,
    "cpu-mkl": _baseline,
    "cpu-blis": _baseline,
    **{f"{runtime}-{way}": _on_device for runtime in RUNTIMES for way in (*RUNG_NAMES, VENDORS[runtime])},
}
# A family's name stands for its best rung that can run here, best first.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpu-packed", "cpu-blocked-local", "cpu-blocked", "cpu-ikj", "cpu-naive"),
    **dict.fromkeys(RUNTIMES, ()),  # see `gemmlab._gpu.best_rung`
}
AUTO = ("cpu-packed", "cpu-numpy")
# What "auto" takes for arrays that are on a device already, by their runtime: what came with them.
AUTO_ON = {"opencl": "opencl", "sycl": "sycl-onemkl", "cuda": "cuda-cublas"}

_loaded: dict[str, Backend | Exception] = {}
_probed: dict[str, Availability] = {}
_lock = threading.RLock()


@cache
def _plugins() -> Mapping[str, EntryPoint]:
    """Entry points of installed plugins; a built-in name cannot be taken over."""
    found = {}
    for point in entry_points(group=GROUP):
        if point.name in BUILT_IN or point.name in FAMILIES or point.name == "auto":
            warnings.warn(f"the plugin {point.value} may not take gemmlab's own name {point.name!r}", stacklevel=4)
        else:
            found[point.name] = point
    return found


def names() -> list[str]:
    """Every known backend's name: our own first, plugins after them."""
    return [*BUILT_IN, *sorted(set(_plugins()) | {name for name in _loaded if plain(name) not in BUILT_IN})]


def plain(name: str) -> str:
    """A name without the device that may follow it: "opencl-local:gpu" is "opencl-local"."""
    before, _, device = name.partition(":")
    return before if device and before.partition("-")[0] in RUNTIMES else name


def resolve_name(name: Any) -> str:
    """A backend's name for a name or a family; raises UnknownBackend, with near names."""
    if not isinstance(name, str):
        raise TypeError(f"backend must be a name such as 'cpu-blocked', not {name!r}")
    if plain(name) in BUILT_IN or name in _loaded:
        return name
    if (family := plain(name)) in RUNTIMES:
        return best_rung(family, name.partition(":")[2])
    if name in FAMILIES:
        return next((rung for rung in FAMILIES[name] if availability(rung).ok), FAMILIES[name][0])
    if name == "auto":
        return AUTO[0]
    if name in _plugins():
        return name
    known = ["auto", *FAMILIES, *names()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    raise UnknownBackend(f"no backend is named {name!r}: {hint}")


def is_blocked(name: str) -> bool:
    """Whether the settings keep a backend from being loaded, on any device."""
    return name in config.block or plain(name) in config.block


def availability(name: str) -> Availability:
    """Whether a backend can run here. Never raises for a known name."""
    if is_blocked(name):
        return Availability(False, "blocked by GEMMLAB_BLOCK or gemmlab.config.block", f"take {name} off that list")
    with _lock:
        if name not in _probed:
            _probed[name] = _probe(name)
        return _probed[name]


def _probe(name: str) -> Availability:
    backend = _load(name)
    if isinstance(backend, Exception):
        fix = f"repair or remove the package that brings {name}"
        return Availability(False, f"its plugin failed to load: {type(backend).__name__}: {backend}", fix)
    try:
        found = backend.probe()
        if not isinstance(found, Availability):
            raise TypeError(f"probe() returned {found!r}, not an Availability")
    except Exception as error:
        return Availability(False, f"its probe failed: {type(error).__name__}: {error}", f"repair the backend {name}")
    return found


def _load(name: str) -> Backend | Exception:
    """The backend, or what its plugin raised."""
    with _lock:
        if name not in _loaded:
            if plain(name) in BUILT_IN:
                _loaded[name] = BUILT_IN[plain(name)](name)
            else:
                _loaded[name] = _from_plugin(_plugins()[name])
        return _loaded[name]


def _from_plugin(point: EntryPoint) -> Backend | Exception:
    try:
        backend: Backend = point.load()()
        _check_is_backend(backend)
        if backend.name != point.name:
            raise ValueError(f"its backend calls itself {backend.name!r}, not {point.name!r}")
        return backend
    except (Exception, SystemExit) as error:
        return error if isinstance(error, Exception) else RuntimeError(f"SystemExit: {error}")


def _check_is_backend(backend: Any) -> None:
    parts = ("name", "kind", "summary", "source", "params", "probe", "supports", "gemm")
    lacking = [part for part in parts if not hasattr(backend, part)]
    if isinstance(backend, type) or lacking:
        raise TypeError(f"{backend!r} is no backend" + (f": it lacks {', '.join(lacking)}" if lacking else ""))
    if not isinstance(backend.params, Mapping):
        raise TypeError(f"{backend!r} is no backend: its params are no mapping of names to Param")


def get(name: str) -> Backend:
    """The backend of this name, ready to run; raises UnknownBackend or BackendUnavailable."""
    name = resolve_name(name)
    found = availability(name)
    backend = None if is_blocked(name) else _load(name)
    if not found.ok or backend is None or isinstance(backend, Exception):
        raise BackendUnavailable(f"{name} {why_not_here(found)}")
    return backend


def why_not_here(found: Availability) -> str:
    """What stops an unavailable backend, and the fix, in half a sentence."""
    return f"cannot run here: {found.reason}" + (f"; fix: {found.fix}" if found.fix else "")


def available_names() -> list[str]:
    """Names of all backends that can run here."""
    return [name for name in names() if availability(name).ok]


def on_cpu_device(name: str) -> bool:
    """Whether an available backend runs on a CPU by way of a device runtime."""
    return plain(name).partition("-")[0] in RUNTIMES and get(name).device.kind == "cpu"  # type: ignore[attr-defined]


def info(name: str) -> BackendInfo:
    """The row of `gemmlab.backends()` for one name."""
    found = availability(name)
    backend = None if is_blocked(name) else _load(name)
    if backend is None or isinstance(backend, Exception):
        kind = "unknown" if plain(name) not in BUILT_IN else "blocked"
        return BackendInfo(name, kind, "", False, found.reason, found.fix, "", {})
    return BackendInfo(
        name, backend.kind, backend.summary, found.ok, found.reason, found.fix, found.device, dict(backend.params)
    )


def choose(problem: Problem, params: Mapping[str, Any] | None = None) -> Backend:
    """The backend that "auto" takes for a problem: what this machine's profile says is faster, else the first that can
    run and does it. Parameters are our own backend's, so that a call with some is too."""
    for name in (*([] if params else faster_here(problem)), *AUTO):
        if availability(name).ok and refusal(backend := get(name), problem) is None:
            lacks = getattr(backend, "lacks", None)
            if lacks is None or lacks(problem) is None:
                return backend
    raise BackendUnavailable(f"no backend of auto ({', '.join(AUTO)}) can do this problem here: see gemmlab.explain")


def faster_here(problem: Problem) -> list[str]:
    """Backends that this machine's profile puts before our own for a problem: see `gemmlab tune auto`."""
    if problem.narrow is not None or problem.place is not None:
        return []
    extent = min(problem.m, problem.n, problem.k)
    found = _profile.parameters(isa.profile_name(), "auto", problem.dtype.name)
    return [name for name, least in found.items() if extent >= least and name in names()]


def refusal(backend: Backend, problem: Problem) -> str | None:
    """Why a backend does not do a problem, in a sentence; None if it does."""
    verdict = backend.supports(problem)
    if verdict and not isinstance(verdict, str):
        return None
    return verdict or f"{backend.name} does not do this problem"


@contextmanager
def registered(backend: Backend) -> Iterator[Backend]:
    """Have a backend object under its own name for a while: for notebooks and tests of a backend to be."""
    _check_is_backend(backend)
    if backend.name in {"auto", *FAMILIES, *names()}:
        raise ValueError(f"the name {backend.name!r} is taken")
    _loaded[backend.name] = backend
    try:
        yield backend
    finally:
        _loaded.pop(backend.name, None)
        _probed.pop(backend.name, None)
