"""Random products by a rung of matrix units on the host, compared with exact ones; see `on_host.py`."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
from on_host import aligned, start
from randomness import RNG

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.tensor.kinds import TF32, stored_and_result

DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), TF32: np.dtype(np.float32)}
DEVICE = SimpleNamespace(
    compute_capability=90, kind="gpu", label="a GPU", group_limit=1024, most_local_bytes=232448, local_bytes=49152,
    compute_units=3,
)
LARGEST = 8  # of the whole numbers that are multiplied
PRODUCTS = 3  # of each build
GAP = 7  # elements before and after C, which must stay


def made_up_map(itemsize, extents, strides, box):
    """A map for `copy_box` of warpgroup_unit.h, in place of the driver's."""
    assert not any(stride % 16 for stride in strides)
    assert box[0] * itemsize == 128 and box[1] <= 256  # noqa: PT018
    words = (0, itemsize, *extents, *strides, *box)
    return tuple(map(np.int64, (*words, *[0] * (16 - len(words)))))


def dtypes_of(kind):
    return tuple(DTYPES.get(name) or np.dtype(name) for name in stored_and_result(kind))


def placed(values, dtype, transposed, is_aligned):
    """A batch of matrices in poisoned memory, and its layout. Aligned: rows begin at multiples of 16 bytes."""
    stored = np.swapaxes(values, 1, 2) if transposed else values
    unit = 16 // dtype.itemsize if is_aligned else 1
    batch, rows, columns = stored.shape
    ld = (-(-columns // unit) + int(RNG.integers(2))) * unit
    start_at, step = int(RNG.integers(3)) * unit, (rows + int(RNG.integers(2))) * ld
    memory = aligned(start_at + batch * step + unit, dtype)
    memory.view(np.uint8)[:] = 0xFF
    for i in range(batch):
        part = memory[start_at + i * step :][: rows * ld].reshape(rows, ld)
        part[:, :columns] = stored[i].astype(dtype)
    return memory, Layout(start_at, ld, step if batch > 1 else 0, transposed)


def check(rung, kind, params, layouts, folder, changed=lambda text: text, most=80):
    """Random products of whole numbers by one build, each exact, and nothing written beside C."""
    for _ in range(PRODUCTS):
        batch, m, n, k = (int(x) for x in (RNG.integers(1, 3), *RNG.integers(1, most, 2), RNG.integers(0, 200)))
        check_one(rung, kind, params, GemmSize(m, n, k, batch), layouts, folder, RNG.integers(2), changed)


def check_one(rung, kind, params, size, layouts, folder, backwards, changed):
    """One of them."""
    of_operands, of_c = dtypes_of(kind)
    batch, m, n, k = size.batch, size.m, size.n, size.k
    a, b = (RNG.integers(-LARGEST, LARGEST + 1, (batch, *shape)) for shape in ((m, k), (k, n)))
    flags = drawn_sides(layouts)
    sides = [placed(x, of_operands, flag, layouts != "unaligned") for x, flag in zip((a, b), flags, strict=True)]
    ld, gap = n + int(RNG.integers(3)), GAP if RNG.integers(2) else GAP + 1
    c = aligned(2 * gap + batch * m * ld, of_c)
    c.view(np.uint8)[:] = 0x5A
    expected = c.copy()
    part = expected[gap : gap + batch * m * ld].reshape(batch, m, ld)
    part[..., :n] = (a @ b).astype(of_c)
    layout = Layout(gap, ld, m * ld)
    launches = rung.launches(params, kind, size, [*(x for _, x in sides), layout], DEVICE)
    start(launches, [*(x for x, _ in sides), c], folder, backwards=backwards, changed=changed)
    assert np.array_equal(c.view(np.uint8), expected.view(np.uint8)), (kind, size, params)


def drawn_sides(layouts):
    """Whether A and B are transposed."""
    return tuple(map(bool, RNG.integers(0, 2, 2))) if layouts == "unaligned" else layouts
