"""What a machine can do at best, and how close a product comes to that.

    ceilings/       measures the ceilings of the CPU and of devices
    model.py        the roofline model on records of ceilings: attainable speed, ridge, share of the peak
    simulation.py   bytes that a CPU rung moves between memory levels, on simulated caches

Compiled:

    _fma.pyx          multiply-adds, and the clock
    _stream.pyx       bandwidth: load, copy, triad
    loops/            the loops of these two in C, compiled once for each instruction set
    _cache.pyx  cache.h  replay.h     the simulated caches, and the rungs' loops on them
    kernels/          the loops of device ceilings: one text for every runtime

The model reads records alone, so a roofline can be made again from a file.
"""

from gemmlab.roofline.ceilings.cpu import measure_ceilings
from gemmlab.roofline.model import Roof, intensity, peak_of

__all__ = ["Roof", "intensity", "measure_ceilings", "peak_of"]
