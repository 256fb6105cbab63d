# cython: language_level=3, freethreading_compatible=True
"""What this CPU can do and what these extensions were built with."""

cdef extern from "cpu_features.h" nogil:
    bint cpu_has_level(int level)
    bint cpu_has_dot()
    bint cpu_has_amx()
    void cpu_processor(char *name, size_t size)
    int openmp_version()
    const char *compiler()


def has_level(int level):
    """Whether this CPU has x86-64-v2, v3 or v4 (level 2, 3, 4)."""
    return bool(cpu_has_level(level))


def has_extra(str name not None):
    """Whether this CPU has AVX512-BF16 and AVX512-VNNI ("dot"), or AMX ("amx") and the system lets us use it."""
    if name == "dot":
        return bool(cpu_has_dot())
    return name == "amx" and bool(cpu_has_amx())  # asks the system for the tiles: only who wants them does


def processor():
    """The processor's vendor, family and model by CPUID, as in "GenuineIntel-6-207"; empty elsewhere than on x86.

    Its name is no key for measurements: virtual machines mask it.
    """
    cdef char name[64]
    cpu_processor(name, sizeof(name))
    return name.decode("ascii", "replace")


def openmp():
    """The OpenMP version the extensions were built with, as its date (201511), or 0."""
    return openmp_version()


def compiler_version():
    """The compiler of the extensions."""
    return compiler().decode()
