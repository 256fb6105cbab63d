# cython: language_level=3, freethreading_compatible=True
"""cpu-packed: five loops around a register-tiled micro-kernel, on packed panels of A and B.

The text is C, in `packed/`, since its tiles are made for each instruction set by the preprocessor; packed.h is
where to begin. This file hands its table to `_packed.pyx`, which knows arrays.

Source: Goto and van de Geijn (2008), and the BLIS papers; the Russian oneAPI report (2021) names it as its next step.

Traffic: A and B are read once more and written once, to panels. Then a tile of MR x NR sums takes MR + NR numbers from
L1 for MR NR multiply-adds: 1/14 + 1/32 of a number each with AVX-512, where `cpu-blocked-local` takes one. A panel of
B comes from L1 for every tile of a block of A, that block from L2, and B from L3, each in the order of reading.
"""

cdef extern from "packed/packed.h" nogil:
    ctypedef struct Row:
        pass
    const Row packed_rows[1]

table = <size_t> &packed_rows[0]
