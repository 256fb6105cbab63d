"""What lower layers call in higher ones: functions that the top package hands down, loaded on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

_table: dict[str, tuple[str, str]] = {}


def hand_down(table: Mapping[str, tuple[str, str]]) -> None:
    """Say where functions are: a module and a name, by what they are called here."""
    _table.update(table)


def names() -> tuple[str, ...]:
    """What they are called."""
    return tuple(_table)


def load(name: str) -> Any:
    """A function, from its module."""
    module, function = _table[name]
    return getattr(import_module(module), function)
