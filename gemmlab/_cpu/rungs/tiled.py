"""The rungs with a register tile, from the library of `tiles/`: their functions, and the tile of this build."""

from __future__ import annotations

import ctypes

from gemmlab._cpu import isa


class _Row(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("f32", ctypes.c_void_p), ("f64", ctypes.c_void_p))


class _Table(ctypes.Structure):
    _fields_ = (("tile_rows", ctypes.c_int), ("tile_bytes", ctypes.c_int), ("rungs", _Row * 5))


def _table() -> _Table:
    return _Table.from_address(isa.table("gemmlab._cpu.rungs.tiles", "rungs"))


def tile() -> tuple[int, int]:
    """Rows of the register tile, and how many bytes it is wide."""
    return _table().tile_rows, _table().tile_bytes


def addresses(name: str) -> dict[str, int]:
    """The addresses of a rung's functions, by dtype."""
    row = next(row for row in _table().rungs if row.name == name.encode())
    return {"float32": row.f32, "float64": row.f64}
