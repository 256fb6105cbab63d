"""The machine code of a rung's inner loop: where it is, what it consists of, and what the processor allows.

    sampler.c     notes where the processor is, a thousand times a second of its time
    sampling.py   a product under the sampler: places in our shared libraries
    code.py       a library's functions and instructions, by objdump
    loops.py      the loops of a function, and which of them is the inner loop
    kinds.py      instructions by kind: multiply-adds, loads, stores, moves, spills
    ports.py      the bound of the execution ports, by llvm-mca
    listing.py    all of it as a record and as text, for `gemmlab asm`
    ptx.py        the same of a GPU rung: its inner loop in PTX,
    occupancy.py  the registers and the local memory that it takes, and how many work-groups run at a time,
    device_listing.py   as a record and as text
"""
