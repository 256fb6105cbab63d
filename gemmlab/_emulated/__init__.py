"""What emulated products are, on every processor: the schemes that a call may take, and the moduli of residues.

    schemes.py   which scheme a call takes, its parameters, and how large its error may be
    backend.py   what the backends have in common
    operand.py   a right operand, taken apart for many products
    moduli.py    the moduli, how large integers may be, and what puts them together again

`_cpu/emulated/` and `_gpu/emulated/` do the arithmetic.
"""
