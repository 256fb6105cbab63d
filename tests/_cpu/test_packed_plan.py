"""The plan that cpu-packed tells is the one that runs: a model of its loops, beside what the compiled ones record."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest
from packed_inputs import DTYPES, LAYOUTS, laid
from randomness import RNG

import gemmlab
from gemmlab import Problem
from gemmlab._cpu import machine
from gemmlab._cpu.packed_backend.backend import Packed


def heights(rows, mr):
    """Rows of each tile of a block: all but equal, or on AMX whole tiles."""
    if mr == 32:
        return [min(mr, rows - i) for i in range(0, rows, mr)]
    return [len(tile) for tile in np.array_split(range(rows), -(-rows // mr))]


def five_loops(plan, m, n, k):
    for jc in range(0, n, plan.nc):
        columns = min(plan.nc, n - jc)
        for pr in range(0, k, plan.kr):
            depths = [min(plan.kc, plan.kr - pc, k - pr - pc) for pc in range(0, min(plan.kr, k - pr), plan.kc)]
            for depth in depths:
                for p in range(0, depth, plan.rows_of_b):
                    rows = min(plan.rows_of_b, depth - p)
                    yield from (("pack_b", (0, min(plan.nr, columns - j), rows)) for j in range(0, columns, plan.nr))
            for ic in range(0, m, plan.mc):
                rows = heights(min(plan.mc, m - ic), plan.mr)
                for js in range(0, columns, plan.ns):
                    width = min(plan.ns, columns - js)
                    for depth in depths:
                        if plan.packs_a and (js == 0 or plan.kept < len(depths)):
                            yield from (("pack_a", (height, 0, depth)) for height in rows)
                        for jr, p in product(range(0, width, plan.nr), range(0, depth, plan.tile_k)):
                            tile = min(plan.nr, width - jr), min(plan.tile_k, depth - p)
                            yield from (("packed_tile", (height, *tile)) for height in rows)
                    if plan.separate:
                        yield "unpack", (sum(rows), width, 0)


def peeled(plan, m, k):
    for pc in range(0, k if plan.peeled else 0, plan.kc):
        yield "unpacked_tile", (m, plan.peeled, min(plan.kc, k - pc))


def in_place(plan, m, n, k):
    for jr in range(0, n, plan.nr):
        columns = min(plan.nr, n - jr)
        for pc in range(0, k, plan.kc):
            depth = min(plan.kc, k - pc)
            yield from [("pack_b", (0, columns, depth))] * plan.packs_b
            yield from (("unpacked_tile", (height, columns, depth)) for height in heights(m, plan.mr))


def by_rows(plan, m, n, k):
    rows_of_b = plan.rows_of_b or plan.kc
    for jc in range(0, n, plan.nc):
        block = min(plan.nc, n - jc)
        for pc in range(0, k, plan.kc):
            depth = min(plan.kc, k - pc)
            if plan.packs_b:
                yield from (("pack_b", (0, min(plan.nr, block - jr), depth)) for jr in range(0, block, plan.nr))
            for p, js in product(range(0, depth, rows_of_b), range(0, block, plan.ns)):
                columns = min(plan.ns, block - js)
                for height in heights(m, plan.mr):
                    if columns >= plan.nr:
                        yield "unpacked_tile", (height, plan.nr, min(rows_of_b, depth - p))
                    if rest := columns % plan.nr:
                        yield "unpacked_tile", (height, rest, min(rows_of_b, depth - p))


def dot_products(plan, m, k, gathers_a, gathers_b):
    at_once = plan.mr if gathers_a or k > plan.kc else m  # rows: one copy of a short B is for all of them
    for ir in range(0, m, at_once):
        rows = min(at_once, m - ir)
        for pc in range(0, k, plan.kc):
            depth = min(plan.kc, k - pc)
            yield from [("pack_a", (depth, 0, 1))] * gathers_b + [("pack_a", (depth, 0, rows))] * gathers_a
            yield from [("dot", (plan.mr, 1, depth))] * (rows // plan.mr) + [("dot", (1, 1, depth))] * (rows % plan.mr)


def by_vector(plan, k, size, is_stored, matrix, vector_step):
    """A matrix by a vector, in blocks of rows of the matrix; `matrix` and `vector_step` are their strides."""
    copies_matrix = plan.strategy == "a vector by columns of the matrix" and matrix[0] != size
    copies_vector = not is_stored or (k > 1 and vector_step != size)
    blocks = -(-plan.m // plan.mr)
    for rows in (len(block) for block in np.array_split(range(plan.m), blocks)):
        for pc in range(0, k, plan.kc):
            depth = min(plan.kc, k - pc)
            yield from [("pack_a", (depth, 0, 1))] * copies_vector + [("pack_a", (rows, 0, depth))] * copies_matrix
            yield "vector_tile", (rows, 1, depth)


def test_the_plan_that_is_told_is_the_one_that_runs():
    rung = Packed()
    for _ in range(500):
        m, n, k = (int(2 ** RNG.uniform(0, 10)) if RNG.random() < 0.9 else 1 for _ in range(3))
        dtype = RNG.choice(DTYPES)
        a, b, c = (laid(np.zeros(shape, dtype), RNG.choice(LAYOUTS[:4])) for shape in ((m, k), (k, n), (m, n)))
        blocks = {} if RNG.random() < 0.7 else {"mc": int(RNG.integers(1, 200)), "kc": int(RNG.integers(1, 600)),
                                                "nc": int(RNG.integers(1, 900))}  # fmt: skip
        plan, calls = rung.kernel.plan(a, b, c, **blocks), rung.kernel.record(a, b, c, **blocks)
        size, stored = a.itemsize, dtype not in ("float16", "int8", "uint8", "bool")
        if plan.is_packed:
            expected = five_loops(plan, m, n, k)
        elif plan.is_in_place:
            by = by_rows if plan.nc else in_place
            expected = [*peeled(plan, m, k), *by(plan, m, n - plan.peeled, k)]
        elif plan.strategy.startswith("a vector"):
            matrix, vector_step = (a.strides, b.strides[0]) if n == 1 else (b.strides[::-1], a.strides[1])
            expected = by_vector(plan, k, size, stored, matrix, vector_step)
            expected = [*expected, *[("unpack", (m, n, 0))] * (not stored)]
        else:
            if n > 1:  # one row: C' = B' A'
                a, b = b.T, a.T
            gathers = (not stored or (k > 1 and x != size) for x in (a.strides[1], b.strides[0]))
            expected = [*dot_products(plan, plan.m, k, *gathers), *[("unpack", (m, n, 0))] * (not stored)]
        ran = [(name, extents[:2]) for name, extents, _ in calls]
        wanted = list(expected)
        assert ran == [(name, extents[:2]) for name, extents in wanted], (m, n, k, dtype, blocks, plan)
        depths = [extents[2] - given[2] for (_, extents, _), (_, given) in zip(calls, wanted, strict=True)]
        assert set(depths) <= set(range(64)), "a depth is rounded up to steps of at most 64"


@pytest.mark.parametrize("into", ["int32", "float32"])
def test_a_product_of_one_block_of_k_writes_c_once(into):
    """On AMX tiles pause within the block, and their sums wait elsewhere."""
    kernel, m, n, k = Packed().kernel, 70, 96, 1024 if into == "int32" else 500
    dtype = "int8" if into == "int32" else into
    a, b, c = np.zeros((m, k), dtype), np.zeros((k, n), dtype), np.zeros((m, n), into)
    begin, touched = c.ctypes.data, [0, 0]

    def access(_, address, count, written):
        touched[written] += count if begin <= (address or 0) < begin + c.nbytes else 0
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(access)
    kernel.record(a, b, c, access=ctypes.cast(function, ctypes.c_void_p).value)
    assert touched == [0, c.nbytes]


def test_explain_prints_the_plan():
    a = np.zeros((700, 700), np.float32)
    told = gemmlab.explain(a, a, backend="cpu-packed")
    assert told.plan == Packed().plan(Problem.from_call(a, a))
    assert f"plan: {told.plan.loops}" in str(told)
    assert f"machine: {machine.readings()}" in str(told)
    assert gemmlab.explain(a, a, backend="cpu-ikj").plan is None
