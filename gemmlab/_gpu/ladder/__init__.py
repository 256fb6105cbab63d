"""The GPU ladder as the host knows it.

    rungs.py      the rungs as data, a row each
    rung.py       what a rung is: parameters, demands on the device, launch geometry, and what a product launches
    tuned.py      the rung tuned on GPUs: its tiles, and how its operands lie in memory; on CPU devices tuned_cpu.py
    thin.py       how it multiplies a matrix by a few vectors
    waves.py      how its work-groups fill the waves of a device
    numbers.py    the dtypes: their types in an operand and in a kernel
    traffic.py    the bytes that each rung moves
"""
