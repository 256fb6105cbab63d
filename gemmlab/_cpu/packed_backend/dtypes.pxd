"""Where a kernel stands in the table of dtypes: by NumPy's numbers of types."""

cimport numpy as cnp

cdef enum:
    TYPES = 25
    BFLOAT16 = 24  # the place after NumPy's types

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
