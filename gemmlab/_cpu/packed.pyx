# cython: language_level=3, freethreading_compatible=True
"""cpu-packed: five loops around a register-tiled micro-kernel, on packed panels of A and B.

The text is C, in `packed/`, since its tiles are made for each instruction set by the preprocessor; packed.h is
where to begin. This file hands its table to `_packed.pyx`, which knows arrays.

Source: Goto and van de Geijn (2008), and the BLIS papers; the Russian oneAPI report (2021) names it as its next step.
"""

cdef extern from "packed/packed.h" nogil:
    ctypedef struct Row:
        pass
    const Row packed_rows[1]

table = <size_t> &packed_rows[0]
