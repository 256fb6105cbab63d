# cython: language_level=3, freethreading_compatible=True
"""cpu-packed's table for AMX: see packed/amx.h."""

cdef extern from "packed/amx.h" nogil:
    ctypedef struct Row:
        pass
    const Row amx_rows[1]

table = <size_t> &amx_rows[0]
