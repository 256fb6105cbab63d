"""Default block sizes of the blocked rungs: from the L1 cache, the problem, and the distance between rows of B.

A block of B, bs_k rows of bs_c numbers, is used for bs_r rows of A while it stays in L1. Three things limit its rows:

    half of L1       the rest is for A, for C, and for lines that prefetchers load beside each row of a block
    MOST_ROWS_OF_B   each row may be on another page of memory, and the smallest first-level TLBs have 64 entries
    the ways         a line can be in one set only, given by its address modulo a way. If rows of B are a multiple of
                     a way (4 KiB) apart, or nearly so, the rows of a narrow block share their sets, and only as
                     many stay as there are ways, 8 or 12 on most processors. (Leaving two for A and C changes the
                     speed by -5 to +10 % at powers of two, and costs 30 % at N = 1008 with AVX-512.)

`least` is the narrowest width. `cpu-blocked` takes it, with the columns of B in even shares. Each multiply-add loads
what was stored one row of B earlier, about twelve cycles with the multiply-add itself, so a row needs more vectors than
that: 2 KiB are 32 vectors of AVX-512, and 64 of AVX2. `cpu-blocked-local` keeps its sums in registers, so the width of
its buffer is enough, and the block can have many rows, which saves loads and stores of C. Where the ways allow only
few, the block has more columns instead, at most `widest`: columns beside each other are in different sets.
`cpu-register` starts from the width of its tile, and leaves the ways out: to read B from L2 again costs it less than to
load and store C for a few rows of B (measured at 1024: 42 GFLOP/s with 48 rows, 19 with 6).

A copy of B lies in adjacent lines, so for `cpu-pack-b` and `cpu-pack-ab` only half of L1 limits it: a block is one
panel, `least` wide, and as deep as that allows. `cpu-five-loops` adds a block of A in half of L2, and one of B in half
of L3.
"""

from gemmlab._cpu.rungs.rung cimport LINE_BYTES, RungParams

cdef enum:
    MOST_ROWS_OF_C = 192  # of a block row, so that its part of A stays in the second-level cache
    MOST_ROWS_OF_B = 48

# In bytes: widths of a block of B, the L1 cache, one of its ways (a power of two, or 0 where B is copied), and, where
# they have blocks, L2 and L3. And the rows of a tile.
cdef struct BlockRule:
    Py_ssize_t least, widest, l1, way, l2, l3, tile_rows


cdef inline void choose_blocks(const BlockRule *rule, Py_ssize_t itemsize, Py_ssize_t m, Py_ssize_t n, Py_ssize_t ldb,
                               RungParams *params) noexcept nogil:
    """Block sizes for params.threads; m, n and ldb in numbers."""
    cdef Py_ssize_t width = rule.least, most = MOST_ROWS_OF_C
    if rule.way == 0:
        params.bs_k, params.bs_c = max(1, rule.l1 // 2 // width), width // itemsize
        if rule.l2:
            most = max(1, rule.l2 // 2 // (params.bs_k * itemsize))
            params.bs_c *= max(1, rule.l3 // 2 // (params.bs_k * width))
        params.bs_r = rows_of_c(m, params.threads, most, rule.tile_rows)
        return
    if rule.least == rule.widest:
        width = even_width(n * itemsize, width)
    params.bs_r = rows_of_c(m, params.threads, most, rule.tile_rows)
    params.bs_k = rows_of_b(rule, width, ldb * itemsize)
    while 2 * width <= rule.widest and rows_of_b(rule, 2 * width, ldb * itemsize) >= params.bs_k:
        width *= 2
    params.bs_c = width // itemsize


cdef inline Py_ssize_t rows_of_c(Py_ssize_t m, Py_ssize_t threads, Py_ssize_t most, Py_ssize_t tile) noexcept nogil:
    """Rows of a block row of C: equal shares for the threads, in whole tiles."""
    cdef Py_ssize_t shares = threads * ((m + threads * most - 1) // (threads * most))
    return max(1, (m + shares * tile - 1) // (shares * tile)) * tile


cdef inline Py_ssize_t even_width(Py_ssize_t row, Py_ssize_t width) noexcept nogil:
    """Equal shares of a row of B, near `width`, in whole lines; one more, as the first block begins within a line."""
    cdef Py_ssize_t shares = max(1, (row + width // 2) // width)
    return (row // shares // LINE_BYTES + 2) * LINE_BYTES


cdef inline Py_ssize_t rows_of_b(const BlockRule *rule, Py_ssize_t width, Py_ssize_t distance) noexcept nogil:
    """Rows of `width` bytes at this distance that L1 keeps while A and C pass by."""
    cdef Py_ssize_t ways = rule.l1 // rule.way, most = max(1, min(MOST_ROWS_OF_B, rule.l1 // 2 // width))
    cdef Py_ssize_t touched = width + (LINE_BYTES - 1 if distance % LINE_BYTES else 0)  # whole lines, if all rows are
    cdef Py_ssize_t row, apart, above = 0, below = 1  # rows that share sets with the first, on either side, and it
    for row in range(most):
        apart = row * distance & rule.way - 1
        above += apart < touched
        below += rule.way - apart < touched
        if max(above, below) > ways:
            return max(1, row)
    return most
