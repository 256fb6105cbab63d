"""Studies of several backends or devices on one product.

    co_execution.py    a device and the CPU together: what was predicted, and what came of it
"""
