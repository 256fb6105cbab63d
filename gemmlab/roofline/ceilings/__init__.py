"""The ceilings of a machine: how fast its arithmetic and each level of its memory can be.

    cpu.py          the ceilings of the CPU, on one thread and on all: multiply-add rates, and the next
    bandwidth.py    the bandwidth of each memory level, from a sweep over working sets
    device.py       the ceilings of a device, with local memory and transfers
    unit.py         the loops of a device's matrix unit
    probe_loop.py   a short multiply-add loop between the measurements of a session
    timing.py       a loop timed, on a number of threads
    isolated.py     ceilings measured in an isolated process
    best.py         which of several measurements of one ceiling counts
    table.py        ceilings as text
    cache.py        the ceilings of this machine, stored
"""
