"""Kernels from science that are not a plain product, computed with gemmlab's core.

    gpp.py           the self-energy of the general plasmon pole model: its forms, from loops to a fused product
    gpp_problem.py   its inputs, their closed form, and its weights in NumPy
    _gpp.pyx         its loops, compiled for each instruction set; gpp.h has them in C
    kernels/         weights.h, the weight of one term

The core never imports a workload, and `import gemmlab` does not load one.
"""
