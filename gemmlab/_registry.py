"""The backends by name, whether each can run here, and why not.

Built-in backends are in a static table; plugins come from the entry-point group `gemmlab.backends`. A backend is loaded
when it is first used or listed. A backend that the caller names is never replaced by another.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from gemmlab import _above, _auto, _profile
from gemmlab._backend import Adapted, Availability, Backend, BackendInfo, FullBackend, Params, complete
from gemmlab._config import config
from gemmlab._cpu import isa
from gemmlab._cpu.rungs.ladder import RUNGS as CPU_RUNGS
from gemmlab._errors import BackendUnavailable, UnknownBackend, UnsupportedProblem, suggestion
from gemmlab._gpu import EMULATED, OF_UNITS, RUNG_NAMES, VENDORS, best_rung, choose_rung, runtime_named
from gemmlab._gpu.plans import table
from gemmlab._name import JOINT, RUNTIMES, BackendName
from gemmlab._problem import Problem
from gemmlab._process import forks
from gemmlab._process.importing import Importing
from gemmlab.scale import all_devices

GROUP = "gemmlab.backends"


def _rung(name: str) -> FullBackend:
    return next(rung for rung in CPU_RUNGS if rung.name == name)


def _packed(name: str) -> FullBackend:
    from gemmlab._cpu.packed_backend.backend import Packed

    return Packed()


def _emulated(name: str) -> FullBackend:
    from gemmlab._cpu.emulated.backend import Emulated

    return Emulated()


def _baseline(name: str) -> FullBackend:
    from gemmlab._cpu.baselines import baselines

    return next(baseline for baseline in baselines() if baseline.name == name)


def _on_device(name: str) -> FullBackend:
    from gemmlab._gpu import backend_named

    return all_devices(name) if BackendName.of(name).is_all else backend_named(name)


def _joined(name: str) -> FullBackend | Exception:
    """The backend of names joined by "+", or the exception of a plugin among them."""
    from gemmlab.scale.co_execution import CoExecution

    backends = [_load(part.text) for part in BackendName.of(name).members]
    broken = next((one for one in backends if isinstance(one, Exception)), None)
    return broken or CoExecution(name, [one for one in backends if not isinstance(one, Exception)])


BUILT_IN: Mapping[str, Callable[[str], FullBackend]] = {
    **{rung.name: _rung for rung in CPU_RUNGS},
    "cpu-packed": _packed,
    "cpu-emulated": _emulated,
    "cpu-numpy": _baseline,
    "cpu-blas": _baseline,
    "cpu-mkl": _baseline,
    "cpu-blis": _baseline,
    **{
        f"{runtime}-{name}": _on_device
        for runtime in RUNTIMES for name in (*RUNG_NAMES, *OF_UNITS, EMULATED, VENDORS[runtime])
    },
}
# A family's name selects the first of these rungs that can run here.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpu-packed", *(rung.name for rung in reversed(CPU_RUNGS))),
    **dict.fromkeys(RUNTIMES, ()),  # see `choice`
}
# What users call a backend or a family that has another name here; parts of names, such as "mkl", need no entry.
ALIASES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("openblas", "scipy"), ("cpu-blas",)),
    "np": ("cpu-numpy",),
    "gpu": RUNTIMES,
    **dict.fromkeys(("pyopencl", "pocl"), ("opencl",)),
    **dict.fromkeys(("dpnp", "dpctl", "oneapi"), ("sycl",)),
    **dict.fromkeys(("cupy", "nvidia"), ("cuda",)),
}
BY_NAME_ONLY = ("dask",)  # for audits: asked for by name, in no list
ARRAY_PACKAGES = ("dask", "zarr")  # whose arrays have a function that multiplies them: see `array_function`
AUTO = ("cpu-packed", "cpu-numpy")  # the table that `gemmlab._auto` reads gives some products to the second
# The backend or family of "auto" for device arrays. A vendor's library, if it was installed with the array package.
AUTO_ON = {"opencl": "opencl"} | {runtime: f"{runtime}-{VENDORS[runtime]}" for runtime in ("sycl", "cuda")}

_loaded: dict[str, FullBackend | Exception] = {}
_probed: dict[str, Availability] = {}
_lock = forks.Lock()
forks.in_child(_probed.clear)  # a device is unavailable there


@cache
def _plugins() -> Mapping[str, EntryPoint]:
    """Entry points of installed plugins; a plugin cannot replace a built-in name."""
    found = {}
    for point in entry_points(group=GROUP):
        if point.name in {"auto", *BUILT_IN, *FAMILIES, *BY_NAME_ONLY}:
            warnings.warn(f"the plugin {point.value} may not take gemmlab's own name {point.name!r}", stacklevel=4)
        else:
            found[point.name] = point
    return found


def names() -> list[str]:
    """The names of all known backends: the built-in ones first, then plugins."""
    parsed = map(BackendName.of, _loaded)
    others = {name.text for name in parsed if not name.members and name.plain not in BUILT_IN} - set(BY_NAME_ONLY)
    return [*BUILT_IN, *sorted(set(_plugins()) | others)]


def check_name(name: object) -> None:
    """UnknownBackend, with similar names, unless a backend or a family has this name. Loads nothing."""
    if not isinstance(name, str):
        raise TypeError(f"backend must be a name such as 'cpu-blocked', not {name!r}")
    parsed = BackendName.of(name)
    if parsed.members and name not in _loaded:
        _check_members(parsed)
    elif name not in _loaded and is_of_this_process(name):
        near = near_names(name)
        raise UnknownBackend(f"no backend is named {name!r}: {suggestion(near, ['auto', *FAMILIES, *names()])}")


def is_of_this_process(name: str) -> bool:
    """Whether a backend can be known by `registered` alone, so that a child process does not have it."""
    parsed = BackendName.of(name)
    if parsed.members:
        return any(is_of_this_process(part.text) for part in parsed.members)
    is_ours = name in ("auto", *BY_NAME_ONLY) or parsed.plain in BUILT_IN or parsed.plain in FAMILIES
    return not is_ours and name not in _plugins()


def _check_members(name: BackendName) -> None:
    if "auto" in map(str, name.members):
        raise UnknownBackend(f"{name.text!r}: auto cannot share a product: name its backend, such as cpu-packed")
    for part in name.members:
        check_name(part.text)


def near_names(name: str) -> list[str]:
    """Names that a caller of an unknown one may have meant: by another word for it, a part of it, or a typing error."""
    meanings = {word: list(meant) for word, meant in ALIASES.items()}
    for known in ("auto", *FAMILIES, *names()):
        for word in {known, BackendName.of(known).rung}:
            meanings.setdefault(word, []).append(known)
    typed = name.partition(":")[0].strip().lower().replace("_", "-")
    near = [typed] if typed in meanings else difflib.get_close_matches(typed, meanings, n=1, cutoff=0.8)
    return meanings[near[0]] if typed and near else []


def default_name() -> str:
    """The backend's name from the settings; UnknownBackend says which setting has the wrong one."""
    try:
        check_name(config.backend)
    except UnknownBackend as error:
        raise UnknownBackend(f"{config.backend_setting}: {error}") from None
    return config.backend


def resolve_name(name: str) -> str:
    """The backend's name for a name or a family; raises UnknownBackend, with similar names."""
    check_name(name)
    parsed = BackendName.of(name)
    if parsed.members:
        return JOINT.join(resolve_name(member.text) for member in parsed.members)
    if parsed.plain in RUNTIMES:
        return best_rung(parsed)
    if name in FAMILIES:
        return next((rung for rung in FAMILIES[name] if availability(rung).ok), FAMILIES[name][0])
    return AUTO[0] if name == "auto" else name


def choice(name: str, problem: Problem, params: Params) -> tuple[str, str]:
    """The backend's name for a name or a family, and why, if the problem decides it: the best rung of a runtime.

    With parameters it does not: they belong to the rung that the family stands for without a problem.
    """
    check_name(name)
    parsed = BackendName.of(name)
    if parsed.plain not in RUNTIMES or parsed.shares or params:
        return resolve_name(name), ""
    try:
        queue = problem.queue
        device = runtime_named(parsed.runtime).device(parsed.selector) if queue is None else queue.device
    except BackendUnavailable:
        return resolve_name(name), ""
    rung, why = choose_rung(parsed.runtime, device, problem.dtype.name, problem.m, problem.n, problem.k)
    return parsed.of_rung(rung), why


def is_blocked(name: str) -> bool:
    """Whether the settings forbid loading a backend, on any device."""
    block = config.block
    parsed = BackendName.of(name)
    return bool(block) and any(part.text in block or part.plain in block for part in (parsed, *parsed.members))


def availability(name: str) -> Availability:
    """Whether a backend can run here. Never raises for a known name."""
    if is_blocked(name):
        return Availability(False, "blocked by GEMMLAB_BLOCK or gemmlab.config.block", f"take {name} off that list")
    if (found := _probed.get(name)) is not None:
        return found
    with Importing(), _lock:
        if name not in _probed:
            _probed[name] = _probe(name)
        return _probed[name]


def _probe(name: str) -> Availability:
    backend = _load(name)
    if isinstance(backend, Exception):
        fix = f"repair or remove the package that provides {name}"
        return Availability(False, f"its plugin failed to load: {type(backend).__name__}: {backend}", fix)
    try:
        found = backend.probe()
        if not isinstance(found, Availability):
            raise TypeError(f"probe() returned {found!r}, not an Availability")
    except Exception as error:
        return Availability(False, f"its probe failed: {type(error).__name__}: {error}", f"repair the backend {name}")
    return found


def _load(name: str) -> FullBackend | Exception:
    """The backend, or the exception that its plugin raised."""
    if (found := _loaded.get(name)) is not None:
        return found
    with Importing(), _lock:
        if name not in _loaded:
            parsed = BackendName.of(name)
            if parsed.members:
                _loaded[name] = _joined(name)
            elif parsed.plain in BUILT_IN:
                _loaded[name] = BUILT_IN[parsed.plain](name)
            elif name in BY_NAME_ONLY:
                _loaded[name] = complete(_above.load(f"backend {name}")())
            else:
                _loaded[name] = _from_plugin(_plugins()[name])
        return _loaded[name]


def array_function(*operands: object) -> Callable[..., Any] | None:
    """The function for these operands, if one is of a package that has its here."""
    packages = (type(x).__module__.partition(".")[0] for x in operands)
    found = next((package for package in packages if package in ARRAY_PACKAGES), None)
    return None if found is None else cast("Callable[..., Any]", _above.load(f"arrays of {found}"))


def _from_plugin(point: EntryPoint) -> FullBackend | Exception:
    try:
        backend: Backend = point.load()()
        _check_is_backend(backend)
        if backend.name != point.name:
            raise ValueError(f"its backend calls itself {backend.name!r}, not {point.name!r}")
        return complete(backend)
    except (Exception, SystemExit) as error:
        return error if isinstance(error, Exception) else RuntimeError(f"SystemExit: {error}")


def _check_is_backend(backend: Backend) -> None:
    members = ("name", "kind", "summary", "source", "params", "probe", "supports", "gemm")
    missing = [member for member in members if not hasattr(backend, member)]
    if isinstance(backend, type) or missing:
        raise TypeError(f"{backend!r} is not a backend" + (f": it has no {', '.join(missing)}" if missing else ""))
    if not isinstance(backend.params, Mapping):
        raise TypeError(f"{backend!r} is not a backend: its params are not a mapping of names to Param")


def get(name: str) -> FullBackend:
    """The backend of this name, ready to run; raises UnknownBackend or BackendUnavailable."""
    name = resolve_name(name)
    found = availability(name)
    backend = None if is_blocked(name) else _load(name)
    if not found.ok or backend is None or isinstance(backend, Exception):
        raise BackendUnavailable(f"{name} {why_not_here(found)}")
    return backend


def as_made(backend: FullBackend) -> Backend:
    """The backend that a plugin has made, for its user."""
    return backend.plugin if isinstance(backend, Adapted) else backend


def why_not_here(found: Availability) -> str:
    """Why a backend is unavailable, and the fix, as the end of a sentence."""
    return f"cannot run here: {found.reason}" + (f"; fix: {found.fix}" if found.fix else "")


def available_names() -> list[str]:
    """The names of all backends that can run here."""
    return [name for name in names() if availability(name).ok]


def on_cpu_device(name: str) -> bool:
    """Whether an available backend runs on a CPU through a device runtime."""
    return bool(BackendName.of(name).runtime) and get(name).device.kind == "cpu"


def info(name: str) -> BackendInfo:
    """The entry of `gemmlab.backends()` for one name."""
    found = availability(name)
    backend = None if is_blocked(name) else _load(name)
    if backend is None or isinstance(backend, Exception):
        kind = "unknown" if BackendName.of(name).plain not in BUILT_IN else "blocked"
        return BackendInfo(name, kind, "", False, found.reason, found.fix, "", {})
    return BackendInfo(
        name, backend.kind, backend.summary, found.ok, found.reason, found.fix, found.device, dict(backend.params)
    )


def choose(problem: Problem, params: Params | None = None) -> FullBackend:
    """The backend that "auto" selects for a problem: the fastest by this machine's profile, or NumPy by the shipped
    table, else the first of AUTO.

    With parameters neither is used: they belong to `cpu-packed`.
    """
    for name in (*([] if params else faster_here(problem)), *AUTO):
        if availability(name).ok and refusal(backend := get(name), problem) is None:
            return backend
    if problem.accumulate:
        what = f"adds products of {problem.dtype} to out here"
        raise UnsupportedProblem(f"no backend of auto ({', '.join(AUTO)}) {what}: compute out += a @ b")
    raise BackendUnavailable(f"no backend of auto ({', '.join(AUTO)}) can do this problem here: see gemmlab.explain")


def faster_here(problem: Problem) -> list[str]:
    """Backends that were measured to be faster than `cpu-packed` for a problem."""
    return faster_by_profile(problem) or ([] if _auto.row_of(problem) is None else [AUTO[1]])


def faster_by_profile(problem: Problem) -> list[str]:
    """Backends that are faster than `cpu-packed` for a problem, by this machine's profile: see `gemmlab tune auto`."""
    if problem.unconverted is not None or problem.queue is not None:
        return []
    extent = min(problem.m, problem.n, problem.k)
    found = _profile.parameters(isa.profile_name(), "auto", problem.dtype.name)
    return [name for name, min_extent in found.items() if extent >= min_extent and name in names()]


def refusal(backend: FullBackend, problem: Problem) -> str | None:
    """Why a backend does not support a problem, in a sentence; None if it does."""
    if problem.accumulate and not backend.accumulates:
        return f"{backend.name} does not add to out (accumulate=True): use cpu-packed, or compute out += a @ b"
    verdict = backend.supports(problem)
    if verdict and not isinstance(verdict, str):
        return None
    return verdict or f"{backend.name} does not support this problem"


@contextmanager
def registered(backend: Backend) -> Iterator[Backend]:
    """Within the block, `backend` is available under its name: for notebooks and for tests of a new backend."""
    _check_is_backend(backend)
    if backend.name in {"auto", *FAMILIES, *BY_NAME_ONLY, *names()}:
        raise ValueError(f"the name {backend.name!r} is taken")
    _loaded[backend.name] = complete(backend)
    table.forget_all()
    try:
        yield backend
    finally:
        table.forget_all()
        _loaded.pop(backend.name, None)
        _probed.pop(backend.name, None)
