"""cpu-emulated: products of float32, float64 and complex numbers, put together from products of narrow ones.

    scales.py       powers of two that make integers of rows and columns, from norms that are summed in integers
    residues.py     exact products of these integers, modulo a few small numbers
    rebuilding.py   the integers from their residues, and each rounded once
    parts.py        float32 as a sum of bfloat16 or float16 numbers
    narrow.py       the products themselves, by cpu-packed
    backend.py      cpu-emulated
"""
