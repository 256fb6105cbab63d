"""What `gemmlab tune` has learnt of this machine: a small JSON file in `config.cache_dir`, read once.

    {"version": 1, "machines": {"<processor>, <instruction set>": {"<backend>": {"<dtype>": {"<parameter>": value}}}}}

A file that is damaged, or of another version, counts as none: defaults are good without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from gemmlab._config import config

VERSION = 1
Parameters = Mapping[str, int]


def path() -> Path:
    """Where the profile is."""
    return config.cache_dir / "profile.json"


def parameters(machine: str, backend: str, dtype: str) -> Parameters:
    """The parameters that were found best there; none where nothing was tuned."""
    found = _machines().get(machine, {}).get(backend, {}).get(dtype, {})
    return {str(name): value for name, value in found.items() if isinstance(value, int) and value >= 1}


def store(machine: str, backend: str, found: Mapping[str, Parameters]) -> None:
    """Keep the parameters of each dtype in place of what was known of them. OSError where that is not allowed."""
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
def _machines() -> dict[str, dict[str, Any]]:
    return _read()


def _read() -> dict[str, dict[str, Any]]:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = json.loads(path().read_text(encoding="utf-8"))
        machines = content["machines"]
        well_formed = content["version"] == VERSION and all(
            isinstance(of_dtype, dict)
            for backends in machines.values() for dtypes in backends.values() for of_dtype in dtypes.values()
        )  # fmt: skip
        if well_formed:
            return dict(machines)
    return {}
