"""Products by the matrix units of NVIDIA's GPUs: another kind of rung, which few devices have.

    kinds.py     what the unit multiplies, and how the kernel keeps it
    rung.py      the rung tensor: its tiles, what its kernel needs, and how its operands lie in memory
    trial.py     a product of one instruction, by which a device shows that it has the unit
    backend.py   RT-tensor
"""
