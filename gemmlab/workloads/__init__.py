"""Kernels from science that are not a plain product, computed with gemmlab's core.

    gpp.py           the self-energy of the general plasmon pole model: its forms, from loops to a fused product
    gpp_problem.py   its inputs, their closed form, and its weights in NumPy
    gpp_device.py    its forms on a device
    gpp_check.py     whether a result is right
    _gpp.pyx         its loops, compiled for each instruction set; gpp.h has them in C
    kernels/         weights.h, the weight of one term; the kernels for devices, one text for OpenCL, SYCL and CUDA

The core never imports a workload, and `import gemmlab` does not load one.
"""
