"""How the numbers of each dtype are kept, in the memory of an operand and in a kernel."""

from __future__ import annotations

from typing import NamedTuple


class Numbers(NamedTuple):
    """One dtype: its bytes and its type in an operand, and those of its sums, in local memory and in registers."""

    itemsize: int
    c_type: str
    sum_size: int
    sum_type: str


NUMBERS = {
    "float32": Numbers(4, "float", 4, "float"),
    "float64": Numbers(8, "double", 8, "double"),
    "float16": Numbers(2, "half", 4, "float"),
}
