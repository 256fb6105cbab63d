# cython: language_level=3, freethreading_compatible=True
"""cpu-packed's table for AVX512-BF16 and AVX512-VNNI: see packed/dot.h."""

cdef extern from "packed/dot.h" nogil:
    ctypedef struct Row:
        pass
    const Row dot_rows[1]

table = <size_t> &dot_rows[0]
