"""What an exhaustive test sweeps over: `pytest` takes the first value alone, `pytest -m ""` takes all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def but_clblast(names: Iterable[str]) -> list[Any]:
    """Names of backends; CLBlast's, which compiles a minute for each dtype of a process, is marked as exhaustive."""
    return [pytest.param(name, marks=pytest.mark.exhaustive) if "clblast" in name else name for name in names]


def swept(values: Iterable[Any]) -> list[Any]:
    """The first value as it is, the others marked as exhaustive; a tuple stands for several arguments."""
    first, *others = [value if isinstance(value, tuple) else (value,) for value in values] or [()]
    marked = [pytest.param(*value, marks=pytest.mark.exhaustive) for value in others]
    return [pytest.param(*first), *marked] if first else []
