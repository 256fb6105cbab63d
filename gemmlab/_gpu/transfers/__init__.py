"""How data comes to a device and back.

staging.py         large host arrays through pinned memory: what a product of host arrays uses
memory_modes.py    all other ways: pinned, mapped, shared and managed memory
"""
