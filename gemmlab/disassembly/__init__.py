"""The machine code of a CPU rung's inner loop: where it is, what it consists of, and what the ports allow.

    sampler.c     notes where the processor is, a thousand times a second of its time
    sampling.py   a product under the sampler: places in our shared libraries
    code.py       a library's functions and instructions, by objdump
    loops.py      the loops of a function, and which of them is the inner loop
    kinds.py      instructions by kind: multiply-adds, loads, stores, moves, spills
    ports.py      the bound of the execution ports, by llvm-mca
    listing.py    all of it as a record and as text, for `gemmlab asm`
"""
