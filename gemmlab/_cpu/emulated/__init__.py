"""cpu-emulated: products of float32, float64 and complex numbers, put together from products of narrow ones.

    residues.py   integers of rows and columns, and their exact products modulo a few small numbers
    compiled.py   the functions of numbers.c: rows into residues, sums into residues, residues into numbers; and of
                  parts.c: rows into bfloat16 or float16 numbers, sums scaled back
    parts.py      float32 as a sum of bfloat16 or float16 numbers
    narrow.py     the products themselves, by cpu-packed
    backend.py    cpu-emulated
"""
