"""Emulated products on devices: plain kernels in integers and float32, right on every runtime.

    launches.py   the kernels of a product by residues, with the bits of `cpu-emulated`, and of one by parts
    backend.py    RT-emulated
"""
