"""The CPU ladder's rungs, each a file that differs from its neighbour by one idea.

    ladder.py            the rungs as backends: names, sources, parameters
    naive.pyx            cpu-naive: the textbook's loops
    ikj.pyx              cpu-ikj: rows in memory order
    blocked.pyx          cpu-blocked: blocks of B stay in L1
    blocked_local.pyx    cpu-blocked-local: sums of a row piece in registers
    tiles/               cpu-register, cpu-pack-b, cpu-pack-ab, cpu-five-loops: a header each, in C++ with vectors
    tiled.py             their functions and their register tile, from the library that tiles/ is compiled to
    rung.pxd rung.h      what the rungs share: their signature, their parameters, the width of vectors
    blocks.pxd           block sizes where a call leaves them open
    traffic.py           modelled traffic of each rung

Each .pyx is compiled once per instruction set, into v2/ v3/ v4/ (or plain/), and so is tiles/rungs.cpp.
"""
