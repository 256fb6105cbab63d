"""Where a kernel stands in the table of dtypes: by NumPy's numbers of types."""

from __future__ import annotations

import numpy as np

OF_BFLOAT16 = 24  # as in dtypes.pxd

NUMBERS: dict[str, list[int]] = {"bfloat16": [OF_BFLOAT16]}
for _code in "?bBhHiIlLqQefdFD":
    NUMBERS.setdefault(np.dtype(_code).name, []).append(np.dtype(_code).num)


def type_numbers(dtype: str, out: str) -> list[tuple[int, int]]:
    """The numbers of a kernel's types, of operands and of results: signed and unsigned where that is one."""
    outs = [out, "u" + out] if out.startswith("int") else [out]
    pairs = [(result if dtype == out else dtype, result) for result in outs]
    return [(operand, result) for a, c in pairs for operand in NUMBERS[a] for result in NUMBERS[c]]
