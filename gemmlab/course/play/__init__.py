"""Moving pictures: a page for each rung of both ladders that plays a small product, access by access.

    cpu.py        CPU rungs, on small caches; replay.js runs their loops
    gpu.py        GPU rungs, by warps and work-groups; program.js runs their kernels
    program.py    a kernel's text as data
    page.py       a page out of base.html, cpu.html or gpu.html, with its scripts in it
    controls.js   what both kinds of page have: buttons, keys, canvases
"""

from __future__ import annotations

from gemmlab.course.play import cpu, gpu
from gemmlab.course.rungs import ladders

KINDS = {"CPU": cpu.moving_picture, "GPU": gpu.moving_picture}


def moving_pictures() -> dict[str, str]:
    """All of them, by the names of their files."""
    return {rung.moving_picture: KINDS[name](rung) for name, rungs in ladders().items() for rung in rungs}
