"""Which products "auto" gives to NumPy: where `cpu-packed` was measured to be slower than NumPy on this processor.

    table.py       the shipped table (gemmlab/data/auto.json): its rows, and those in force here
    _choice.pyx    the classes of shape, defined once; the same choice for plain products, in compiled code

The registry asks `row_of` for a product that comes the general way. Plain products of arrays come by the compiled way:
`compiled_way` puts the rows in force before the kernel of `cpu-packed`, and is the kernel itself where there is none.
"""

from __future__ import annotations

from gemmlab._auto._choice import CLASSES, shape_class
from gemmlab._auto.table import Row, compiled_way, numpy_library, row_of

__all__ = ["CLASSES", "Row", "compiled_way", "numpy_library", "row_of", "shape_class"]
