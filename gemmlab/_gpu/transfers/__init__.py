"""How data comes to a device and back.

staging.py         large host arrays through pinned memory: what a product of host arrays uses
_copies.pyx        copies of host memory by several threads; copies.h has the loops
dlpack.py          arrays of other libraries in the host's memory, without a copy
memory_modes.py    all other ways: pinned, mapped, shared and managed memory
"""
