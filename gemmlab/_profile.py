"""The profile of this machine, which `gemmlab tune` writes: a small JSON file in `config.cache_dir`, read once.

    {"version": 1, "machines": {"<processor>, <instruction set>": {"<backend>": {"<dtype>": {"<parameter>": value}}}}}

A damaged file, or one of another version, is ignored: gemmlab works without a profile. So is anything that is not a
regular file of at most `MAX_BYTES`; a value that is no size is ignored alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkstemp
from typing import TypeAlias

from gemmlab._config import config

VERSION = 1
MAX_BYTES = 2**20
MAX_SIZE = 2**63 - 1  # of the integers of the compiled code
Parameters: TypeAlias = Mapping[str, int]
Machines: TypeAlias = dict[str, dict[str, dict[str, Parameters]]]  # by machine, backend and dtype


def path() -> Path:
    """The path of the profile."""
    return config.cache_dir / "profile.json"


def parameters(machine: str, backend: str, dtype: str) -> Parameters:
    """The best parameters that were found; empty if nothing was tuned."""
    found = _machines().get(machine, {}).get(backend, {}).get(dtype, {})
    return {str(name): value for name, value in found.items() if type(value) is int and 1 <= value <= MAX_SIZE}


def is_tuned(machine: str, backend: str, dtype: str) -> bool:
    """Whether a dtype was tuned, also where nothing better than the defaults was found."""
    return dtype in _machines().get(machine, {}).get(backend, {})


def store(machine: str, backend: str, found: Mapping[str, Parameters]) -> None:
    """Store the parameters of each dtype, replacing earlier ones. OSError if the file cannot be written."""
    machines = {name: dict(backends) for name, backends in _read().items()}
    own = machines.setdefault(machine, {})
    own[backend] = {**own.get(backend, {}), **{dtype: dict(values) for dtype, values in found.items()}}
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = mkstemp(dir=path().parent, prefix="profile.", suffix=".tmp")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, "machines": machines}, file, indent=2, sort_keys=True)
        os.replace(temporary, path())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _machines.cache_clear()


@cache
def _machines() -> Machines:
    return _read()


def _read() -> Machines:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        content = json.loads(_text())
        machines = content["machines"]
        well_formed = content["version"] == VERSION and all(
            isinstance(of_dtype, dict)
            for backends in machines.values() for dtypes in backends.values() for of_dtype in dtypes.values()
        )  # fmt: skip
        if well_formed:
            return dict(machines)
    return {}


def _text() -> str:
    """What the file contains; ValueError if it is not a regular file, which a read may wait for, or too large."""
    if not path().is_file() or path().stat().st_size > MAX_BYTES:
        raise ValueError(f"{path()} is not a profile")
    return path().read_text(encoding="utf-8")
