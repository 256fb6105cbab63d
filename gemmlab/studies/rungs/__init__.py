"""Studies of one rung, or of one way to multiply.

    steps.py          a GPU rung, with one of its ideas less at a time
    emulation.py      schemes of emulated products: errors beside those of plain products, and speeds
"""
