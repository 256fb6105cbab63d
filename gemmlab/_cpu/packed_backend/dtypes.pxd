"""Where a kernel stands in the table of dtypes: by NumPy's numbers of types."""

cimport numpy as cnp

from gemmlab._cpu.packed_backend.loops cimport Kernel

cdef enum:
    TYPES = 25
    BFLOAT16 = 24  # the place after NumPy's types

cdef struct Entry:
    const Kernel *kernel
    const Kernel *of_vectors  # for one row or column, or NULL: integers, whose sums are the same in any order
    Py_ssize_t mc, kc, nc
    double team_flop  # what a team costs: see _threads.pyx

cdef extern from *:
    "static int number_of_bfloat16 = -1;"
    int number_of_bfloat16  # another in each process: NumPy gives it one when ml_dtypes is imported


cdef inline int place_of(int type_num) noexcept:
    """Where a type is in the table, or -1."""
    global number_of_bfloat16
    if type_num < BFLOAT16:
        return type_num
    if type_num > 255 and type_num != number_of_bfloat16 and cnp.PyArray_DescrFromType(type_num).name == "bfloat16":
        number_of_bfloat16 = type_num
    return BFLOAT16 if type_num == number_of_bfloat16 else -1
