"""The GPU ladder as the host knows it.

    rungs.py      the rungs as data: sources, parameters, demands on the device, launch geometry
    numbers.py    the dtypes: their types in an operand and in a kernel
    tuned.py      what the rung tuned needs besides: its tiles, and how its operands lie in memory
    traffic.py    the bytes that each rung moves
"""
