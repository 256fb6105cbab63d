"""The profile of this machine, which `gemmlab tune` writes: a small JSON file in `config.cache_dir`, read once.

    {"version": 2,
     "machines": {"<processor>, <instruction set>": {"<backend>": {"<dtype>": {"<parameter>": value}}}},
     "devices": {"<architecture>": {"<backend>": {"<dtype>": [<configuration>, ...]}}}}

A configuration is what a rung of the GPU ladder was fastest with on one shape:

    {"parameters": {"<parameter>": value}, "shape": [m, n, k], "gflop_per_s": rate, "driver": "<driver>",
     "compute_units": those of the device that was measured, "clock_mhz": its largest clock,
     "cost": {"start_s": seconds, "alone_s": seconds, "busy_s": seconds}, of a GPU}

Files of version 1, which have no devices, are read too, and those that name a GPU besides its compute capability.
Configurations that were measured elsewhere ship in `data/devices.json`, a file of the same form; this machine's go
before them.

A damaged file, or one of another version, is ignored: gemmlab works without a profile. So is anything that is not a
regular file of at most `MAX_BYTES`; a value that is no size, or a configuration that is none, is ignored alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gemmlab._config import config
from gemmlab._files import replacing
from gemmlab._process.importing import Importing

VERSION = 2
VERSIONS = (1, 2)  # of files that are read
MAX_BYTES = 2**20
MAX_SIZE = 2**63 - 1  # of the integers of the compiled code
Parameters: TypeAlias = Mapping[str, int]
Table: TypeAlias = dict[str, dict[str, dict[str, Any]]]  # by machine or device, backend and dtype


@dataclass(frozen=True)
class Cost:
    """What work-groups of a rung on a GPU take: seconds before their first and after their last step, and for each k.

    `alone_s` is that of a work-group that has a compute unit to itself, `busy_s` that of each of several.
    """

    start_s: float
    alone_s: float
    busy_s: float


@dataclass(frozen=True)
class Configuration:
    """Parameters of a rung on a device, and the rate that a product of `shape`, m x n x k, was measured to have.

    `compute_units` and `clock_mhz` are those of the device that was measured, 0 in the profiles of an older gemmlab,
    which have no `cost` either.
    """

    parameters: Parameters
    shape: tuple[int, int, int]
    gflop_per_s: float
    driver: str
    compute_units: int = 0
    cost: Cost | None = None
    clock_mhz: int = 0


class Content(NamedTuple):
    """The content of a profile."""

    machines: Table
    devices: Table


def path() -> Path:
    """The path of the profile."""
    return config.cache_dir / "profile.json"


def parameters(machine: str, backend: str, dtype: str) -> Parameters:
    """The best parameters that were found; empty if nothing was tuned."""
    return _sizes_in(_own().machines.get(machine, {}).get(backend, {}).get(dtype, {}))


def is_tuned(machine: str, backend: str, dtype: str) -> bool:
    """Whether a dtype was tuned, also where nothing better than the defaults was found."""
    return dtype in _own().machines.get(machine, {}).get(backend, {})


def configurations(
    device: str, backend: str, dtype: str, understood: Callable[[Configuration], Configuration | None] = lambda x: x
) -> tuple[Configuration, ...]:
    """The configurations of a device: this machine's or, if it has none, those that ship.

    `understood` turns what an older gemmlab has written into what the backend takes, or leaves it out by None.
    """
    found: tuple[Configuration, ...] = ()
    for content in (_own, _shipped):
        listed = content().devices.get(device, {}).get(backend, {}).get(dtype, ())
        read = (understood(one) for one in map(_configuration, listed) if one is not None)
        if found := tuple(one for one in read if one is not None):
            break
    return found


def store(machine: str, backend: str, found: Mapping[str, Parameters]) -> None:
    """Store the parameters of each dtype, replacing earlier ones. OSError if the file cannot be written."""
    content = _read()
    _put(content.machines, machine, backend, {dtype: dict(values) for dtype, values in found.items()})
    _write(content)


def store_configurations(device: str, backend: str, found: Mapping[str, Sequence[Configuration]]) -> None:
    """Store the configurations of each dtype, replacing earlier ones of the same shapes. OSError as `store`."""
    content = _read()
    earlier = content.devices.get(device, {}).get(backend, {})
    merged = {}
    for dtype, new in found.items():
        kept = [one for one in map(_configuration, earlier.get(dtype, ())) if one is not None]
        by_shape = {one.shape: asdict(one) for one in (*kept, *new)}
        merged[dtype] = [by_shape[shape] for shape in sorted(by_shape)]
    _put(content.devices, device, backend, merged)
    _write(content)


def _put(table: Table, place: str, backend: str, found: Mapping[str, Any]) -> None:
    own = table.setdefault(place, {})
    own[backend] = {**own.get(backend, {}), **found}


def _write(content: Content) -> None:
    config.cache_to_write()
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"version": VERSION, **content._asdict()}, indent=2, sort_keys=True)
    with replacing(path(), private=True) as file:
        file.write(text.encode())
    _own.cache_clear()


@cache
def _own() -> Content:
    return _read()


@cache
def _shipped() -> Content:
    with Importing():
        from importlib.resources import files

        return _content(files("gemmlab").joinpath("data", "devices.json").read_text(encoding="utf-8"))


def _read() -> Content:
    with suppress(OSError, ValueError):
        return _content(_text())
    return Content({}, {})


def _content(text: str) -> Content:
    """What a profile's text says; nothing if it is damaged."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        content = json.loads(text)
        if content["version"] in VERSIONS:
            devices = _table(content.get("devices", {}), list)
            return Content(_table(content["machines"], dict), {todays_key(key): own for key, own in devices.items()})
    return Content({}, {})


def of_capability(capability: str) -> str:
    """The key of NVIDIA's GPUs of a compute capability, such as "9.0"."""
    return f"compute capability {capability}"


def todays_key(device: str) -> str:
    """The key of a device as this gemmlab has it: an older one wrote a GPU's name before its compute capability."""
    named = re.fullmatch(r".*, (\d+\.\d)", device)
    return of_capability(named[1]) if named else device


def _table(found: Table, kind: type) -> Table:
    """A table as it is read, if it has the form of one; TypeError if not."""
    if all(isinstance(own, kind) for backends in found.values() for dtypes in backends.values()
           for own in dtypes.values()):  # fmt: skip
        return {place: dict(backends) for place, backends in found.items()}
    raise TypeError


def _configuration(found: Any) -> Configuration | None:
    """One configuration of a profile; None if it is none."""
    with suppress(TypeError, KeyError, ValueError, AttributeError, OverflowError):
        values, rate = {**found["parameters"]}, float(found["gflop_per_s"])
        m, n, k = found["shape"]
        are_values = all(type(value) is int and 0 <= value <= MAX_SIZE for value in values.values())
        if are_values and all(map(_is_size, (m, n, k))) and 0 < rate < math.inf:
            units, clock = (x if _is_size(x) else 0 for x in (found.get("compute_units"), found.get("clock_mhz")))
            cost = cost_of(found.get("cost"))
            return Configuration(values, (m, n, k), rate, str(found["driver"]), units, cost, clock)
    return None


def cost_of(found: Any) -> Cost | None:
    """The cost of a configuration; None if it is none, or was not measured."""
    with suppress(TypeError, ValueError, OverflowError):
        cost = Cost(**{name: float(seconds) for name, seconds in dict(found).items()})
        if all(0 < seconds < math.inf for seconds in astuple(cost)):
            return cost
    return None


def _sizes_in(found: Mapping[str, object]) -> dict[str, int]:
    return {str(name): value for name, value in found.items() if _is_size(value) and isinstance(value, int)}


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value <= MAX_SIZE


def _text() -> str:
    """What the file contains; ValueError if it is not a regular file, which a read may wait for, or too large."""
    if not path().is_file() or path().stat().st_size > MAX_BYTES:
        raise ValueError(f"{path()} is not a profile")
    return path().read_text(encoding="utf-8")
