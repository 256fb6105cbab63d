"""Kernels from science that are not a plain product, computed with gemmlab's core.

    gpp.py              the self-energy of the general plasmon pole model: its forms, from loops to a fused product
    gpp_problem.py      its inputs, their closed form, and its weights in NumPy
    gpp_files.py        them from a file
    gpp_device.py       its forms on a device
    gpp_check.py        whether a result is right
    postings.py         posting lists: intersections of the lists of many queries, by several methods
    postings_index.py   the lists, their files, and queries
    postings_made.py    collections to measure with
    postings_device.py  intersections on a device
    postings_pairs.py   the sizes of all pairs of lists' intersections: a product
    _gpp.pyx  _postings.pyx            compiled calls of the loops
    loops/              the loops in C, compiled once for each instruction set
    kernels/            the kernels for devices, one text for OpenCL, SYCL and CUDA; weights.h is GPP's on the CPU too

The core never imports a workload, and `import gemmlab` does not load one.
"""
