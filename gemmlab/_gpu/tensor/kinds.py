"""What a matrix unit multiplies, and how the kernel of `tensor` keeps it.

    float16, bfloat16    exact products, float32 sums; C is rounded once, or has the sums
    int8                 int32 sums, which wrap; C has their lowest eight bits, or the sums
    tf32                 float32 numbers, of which the unit reads 10 bits after the binary point; float32 sums
    float64              as it is
"""

from __future__ import annotations

from typing import NamedTuple

from gemmlab._gpu.ladder.numbers import SUMS, Numbers, into, of_both

TF32 = "tf32"


class Result(NamedTuple):
    """C in the kernel: its type, what a sum is rounded to (see UNITS, or 0), and the type of two numbers at once."""

    c_type: str
    rounded_to: str
    pair: str


UNITS = {"float16": "F16", "bfloat16": "BF16", "int8": "INT8", TF32: "TF32", "float64": "F64"}
RESULTS = {
    "float16": Result("ushort", "F16", "uint"),
    "bfloat16": Result("ushort", "BF16", "uint"),
    "int8": Result("char", "0", "ushort"),
    "int32": Result("int", "0", "ulong"),
    "float32": Result("float", "0", "ulong"),
    "float64": Result("double", "0", "double2"),
    "uint8": Result("uchar", "0", "ushort"),  # residues of sums of int8
}
_OF_EACH = {
    "float16": Numbers(2, "ushort", 4, "float"), "bfloat16": Numbers(2, "ushort", 4, "float"),
    "int8": Numbers(1, "char", 4, "int"), TF32: Numbers(4, "float", 4, "float"),
    "float64": Numbers(8, "double", 8, "double"),
}  # fmt: skip
SUMS_OF_INT8, RESIDUES = into("int8", SUMS["int8"]), into("int8", "uint8")
NUMBERS = _OF_EACH | {into(name, sums): _OF_EACH[name] for name, sums in SUMS.items()} | {RESIDUES: _OF_EACH["int8"]}


def stored_and_result(kind: str) -> tuple[str, str]:
    """What A and B hold, and the dtype of C.

    Examples
    --------
    >>> stored_and_result("int8 into int32"), stored_and_result("tf32")
    (('int8', 'int32'), ('tf32', 'float32'))
    """
    stored, result = of_both(kind)
    return stored, "float32" if result == TF32 else result
