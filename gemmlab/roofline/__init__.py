"""What the machine can do at best, and how close a product comes.

    ceilings.py    measures the ceilings of the CPU
      multiply_adds.py          the multiply-add rate of an instruction set
      bandwidth.py              the bandwidth of each memory level, from a sweep
      timing.py                 a loop timed
      _fma.pyx  fma.h           the multiply-add loop, and the clock
      _stream.pyx  stream.h     the bandwidth loops: load, copy, triad
      vector.h                  the widest vectors of a build
                   compiled once per instruction set into v2/ v3/ v4/ (or plain/)
    device_ceilings.py   kernels/     the same of a device, with local memory and transfers: one text for every runtime
    apart.py       both in processes of their own
    kept.py        the ceilings of this machine, kept
    probe.py       a short multiply-add loop beside every measurement
    simulation.py  bytes that a CPU rung moves between the levels, on simulated caches
      _cache.pyx  cache.h  replay.h     the caches, and the rungs' loops on them
    model.py       the roofline over ceiling records: attainable speed, ridge, shares, bound

Measuring and judging meet only in records, so a roofline can be worked out again from a file.
"""

from gemmlab.roofline.ceilings import measure_ceilings
from gemmlab.roofline.model import Roof, intensity, peak_of

__all__ = ["Roof", "intensity", "measure_ceilings", "peak_of"]
