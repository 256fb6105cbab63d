"""Products by the matrix units of NVIDIA's GPUs: another kind of rung, which few devices have.

    kinds.py           what the unit multiplies, and how the kernel keeps it
    unit_rung.py       what the rungs share: how operands lie in memory, which work-groups compute what, the launches
    rung.py            tensor: its tiles
    async_rung.py      tensor-async: its blocks
    maps.py            maps of operands, by which one instruction copies a box
    trial.py           a small product with a known answer, by which a device shows that it has the unit
    backend.py         RT-tensor, RT-tensor-async
"""
