"""cpu-packed where B is A', in the same memory: half the work, and the bits of the full product."""

from __future__ import annotations

import numpy as np
import pytest
from randomness import RNG

import gemmlab
from gemmlab import Problem
from gemmlab._cpu.packed_backend.backend import Packed

DTYPES = [*(np.dtype(code).name for code in "fde?bBhHiIqQFD"), "bfloat16"]
MIRRORED = [name for name in DTYPES if not name.startswith("complex")]
SHAPES = [(150, 40), (129, 700), (300, 9), (64, 3000), (97, 1), (450, 260)]  # squares, slices of k, tiles, and none


def packed(a, b, **options):
    return gemmlab.matmul(a, b, backend="cpu-packed", **options)


def numbers(shape, name):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)
    if name[0] in "iu":
        ends = np.iinfo(dtype)
        return RNG.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    if name == "bool":
        return RNG.random(shape) < 0.05
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if name.startswith("complex") else x).astype(dtype)


def same_bits(one, other):
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def plan_of(a, b, threads):
    return Packed().plan(Problem.from_call(a, b, threads=threads))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DTYPES)
def test_the_bits_are_those_of_the_full_product(name, shape, threads):
    a = numbers(shape, name)
    for one in a, a[:, :700].T, a[3:-2, ::2], np.asfortranarray(a)[::-1]:
        full = packed(one, one.T.copy(), threads=threads)
        assert same_bits(packed(one, one.T, threads=threads), full)
        for order in "CF":
            out = np.full_like(full, 1, order=order)
            assert packed(one, one.T, out=out, threads=threads) is out
            assert same_bits(out, full)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MIRRORED)
def test_stacks_and_a_view_made_anew(name, threads):
    a = numbers((3, 130, 90), name)
    turned = a.transpose(0, 2, 1)
    assert same_bits(packed(a, turned, threads=threads), packed(a, turned.copy(), threads=threads))
    assert same_bits(packed(a[1, 5:99].T, a[1, 5:99], threads=threads), packed(a[1, 5:99].T.copy(), a[1, 5:99]))
    stacked = packed(a[:1], turned, threads=threads)  # of these only the first is symmetric
    assert same_bits(stacked, packed(a[:1], turned.copy(), threads=threads))


@pytest.mark.parametrize("layout", [lambda a: (a, a.T), lambda a: (a.T, a)], ids=["A A'", "A' A"])
@pytest.mark.parametrize("name", MIRRORED)
def test_half_of_the_work_is_done(name, layout):
    a, b = layout(numbers((700, 700), name))

    def multiplied(a, b):
        calls = Packed().kernel.record(a, b, np.empty((700, 700), a.dtype))
        return sum(np.prod(extents) for what, extents, _ in calls if what.endswith("tile"))

    assert multiplied(a, b) < 0.6 * multiplied(a, b.copy())


@pytest.mark.parametrize("threads", [1, 2])
def test_the_plan_says_it(threads):
    a = numbers((600, 400), "float64")
    plan = plan_of(a, a.T, threads)
    assert plan.is_mirrored
    assert "on the diagonal and below it, mirrored" in plan.summary
    assert not plan_of(a, a.T.copy(), threads).is_mirrored
    assert not plan_of(a + 1j, (a + 1j).T, threads).is_mirrored


def test_what_is_not_symmetric_is_multiplied_in_full():
    a = numbers((200, 90), "float64")
    c = numbers((200, 200), "float64")
    added, full = c.copy(), c.copy()
    packed(a, a.T, out=added, accumulate=True)
    packed(a, a.T.copy(), out=full, accumulate=True)
    assert same_bits(added, full)
    panels = gemmlab.pack(a.T)
    kept = a.T.copy()
    a[:] = 7  # the panels keep what the matrix held
    assert same_bits(packed(a, panels), packed(a, kept))


def test_a_product_into_wider_sums_is_mirrored_too():
    a = numbers((300, 80), "int8")
    assert same_bits(packed(a, a.T, dtype=np.int32), packed(a, a.T.copy(), dtype=np.int32))
