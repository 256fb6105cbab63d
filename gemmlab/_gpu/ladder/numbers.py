"""How the numbers of each dtype are kept, in the memory of an operand and in a kernel.

A product is named by its dtype; where C has another than A and B, by both: "int8 into int32".
"""

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
# Dtypes of A and B whose sums C may have as they are, in this one.
SUMS = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}
_INTO = " into "


def into(operands: str, result: str) -> str:
    """What products are called whose A and B have one dtype, and C this."""
    return operands if operands == result else operands + _INTO + result


def of_both(name: str) -> tuple[str, str]:
    """The dtype of A and B, and that of C.

    Examples
    --------
    >>> of_both("int8 into int32"), of_both("float32")
    (('int8', 'int32'), ('float32', 'float32'))
    """
    operands, _, result = name.partition(_INTO)
    return operands, result or operands
