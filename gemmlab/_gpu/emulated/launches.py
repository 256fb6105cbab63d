"""What an emulated product launches: for residues with the bits of `cpu-emulated`.

`kernels/emulated.cl` and `emulated_parts.cl` have the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from gemmlab._emulated.moduli import MODULI, half_root, limbs, modulus_product, root_of_half, weights
from gemmlab._emulated.schemes import PAIRS, PARTS, Scheme
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import kernel_text, with_header
from gemmlab._gpu.ladder.numbers import NUMBERS, into
from gemmlab._gpu.ladder.numbers import SUMS as SUMS_OF_NARROW
from gemmlab._gpu.ladder.rung import aligned_ld
from gemmlab._gpu.plans.launches import MAX_GROUPS, Argument, Launch, Place, Workspace
from gemmlab._gpu.runtime import Defines, Device
from gemmlab._gpu.tensor.async_rung import TENSOR_ASYNC
from gemmlab._gpu.tensor.kinds import RESIDUES, SUMS_OF_INT8
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab._gpu.tensor.trial import has_unit, with_what_works
from gemmlab._gpu.tensor.unit_rung import UnitRung, most_local_bytes

TILE = (16, 16, 1)
SCALING, NEIGHBOURS, SPREAD, SPREAD_GROUP = 128, 32, 32, (32, 8, 1)  # as in emulated.cl
MOST_ROWS = MAX_GROUPS * TILE[1]
REAL_OF = {"complex64": "float32", "complex128": "float64"}
MOST_K = 1 << 16  # of one sum of products of residues, which an int holds
FRACTION_BITS = 50
SUMS, CHUNK = 64, 1024  # products of parts are summed by so many, these sums in chunks of k, and then the chunks' sums
OF_PARTS = {"tile_x": 32, "tile_y": 64, "warps_x": 4, "warps_y": 2, "step_bytes": 64, "group_m": 8, "stages": 1}
MOST_STAGES = 3
LIMBS = 6, 32  # of 32 bits, as in the kernels


def reals_of(dtype: str) -> int:
    """Of a number."""
    return 2 if dtype in REAL_OF else 1


def of_residues(
    scheme: Scheme, dtype: str, size: GemmSize, layouts: Sequence[Layout], workspace: Workspace, device: Device
) -> Iterator[Launch]:
    """The kernels of one product by residues: on a matrix unit where the device has one for int8."""
    count, (m, n, k) = scheme.moduli, (size.m, size.n, size.k)
    reals = reals_of(dtype)
    text, real, products = _with_moduli(count), NUMBERS[REAL_OF.get(dtype, dtype)], (2 * reals - 1) * count
    macros: Defines = {"COUNT": count, "FLOAT64": int(real.itemsize == 8), "REAL": real.c_type, "REALS": reals}
    limit = (root_of_half(count) - half_root(reals * k)) ** 2
    exponent = limit.bit_length() - 63
    square = limit >> exponent if exponent >= 0 else limit << -exponent
    scale = [workspace.take(rows, 4) for rows in (m, n)]
    ld = aligned_ld(k, 1)
    bytes_ = [workspace.take(products * rows * ld, 1) for rows in (m, n)]
    rests = workspace.take(products * m * n, 1)
    for rows, place, side, of_scale, of_bytes in _sides(size, layouts, scale, bytes_, reals):
        numbers = np.int32(rows), np.int32(k), place, *map(np.int64, side)
        found = Place.WORKSPACE, np.int64(of_scale)
        target = *found, Place.WORKSPACE, np.int64(of_bytes), np.int64(ld)
        norm = np.int64(square), np.int32(exponent)
        yield _along_rows(text, "scales", macros, rows, side[2] == reals, numbers, (*norm, *found))
        yield _launch(text, "spread", macros, _spread_items(k, rows), SPREAD_GROUP, (*numbers, *target))
    extents = tuple(map(np.int32, (m, n, k)))
    if (rung := rung_of_residues(k, device)) is not None:
        of_a, of_b = Layout(bytes_[0], ld, m * ld), Layout(bytes_[1], ld, n * ld, transposed=True)
        sides = [(Place.WORKSPACE, x) for x in (of_a, of_b, Layout(rests, n, m * n))]
        params = with_what_works(device, SUMS_OF_INT8, rung, rung.resolve({}, "gpu"))
        listed = ", ".join(map(str, MODULI[:count] * (products // count)))
        of_all, before = GemmSize(m, n, k, products), f"#define MODULI {listed}\n"
        whole = rung.product(params, RESIDUES, of_all, sides, device, before)
        gemm = rung.gemm_of(whole, rung.schedule(params, RESIDUES, of_all), Place.C, 0, device)
        made, more = rung.maps(params, RESIDUES, of_all, sides, workspace)
        yield from (*made, replace(gemm, arguments=(*gemm.arguments, *more)))
    else:
        starts = Place.WORKSPACE, *map(np.int64, (*bytes_, ld)), Place.WORKSPACE, np.int64(rests)
        yield _launch(text, "multiply", macros, (n, m, products), TILE, (*extents, *starts))
    yield _launch(text, "rebuild", macros, (n, m, 1), TILE,
                  (*extents, Place.WORKSPACE, np.int64(rests), Place.WORKSPACE, *map(np.int64, scale),
                   *_operands(layouts, reals)))  # fmt: skip


def rung_of_residues(k: int, device: Device) -> UnitRung | None:
    """The rung of matrix units that multiplies residues, the faster instruction first; None: plain integers do."""
    able = (rung for rung in (TENSOR_ASYNC, TENSOR) if has_unit(device, SUMS_OF_INT8, rung.name))
    return next(able, None) if k <= MOST_K else None


def of_parts(
    scheme: Scheme, dtype: str, size: GemmSize, layouts: Sequence[Layout], workspace: Workspace, device: Device
) -> Iterator[Launch]:
    """The kernels of one product by bfloat16 or float16 parts: on a matrix unit where the device has one for them."""
    reals = reals_of(dtype)  # of complex numbers it is a real product of twice the rows and twice k
    pairs, of_real = PAIRS[scheme.name], GemmSize(reals * size.m, size.n, reals * size.k, 1)
    m, n, k = of_real.m, of_real.n, of_real.k
    of_a, of_b = zip(*pairs, strict=True)
    parts = PARTS[scheme.name]
    unit = unit_for(scheme, device)
    lists: dict[str, Sequence[int]] = {} if unit else {"OF_A": of_a, "OF_B": of_b}
    text, extents = _with_lists(lists, "emulated_parts.cl"), tuple(map(np.int32, (m, n, k)))
    macros: Defines = {
        "PARTS": parts, "PAIRS": len(pairs), "SUMS": SUMS, "CHUNK": CHUNK, "FOR_UNIT": int(bool(unit)), "REALS": reals,
    }  # fmt: skip
    itemsize = 2 if unit else 4
    ld = aligned_ld(k, itemsize)
    scale = [workspace.take(rows, 4) for rows in (m, n)]
    starts = [workspace.take(parts * rows * ld, itemsize) for rows in (m, n)]
    for distinct, place, side, of_scale, start in _sides(size, layouts, scale, starts, reals):
        rows = m if place is Place.A else n
        numbers = np.int32(rows), np.int32(distinct), np.int32(k), place, *map(np.int64, side)
        found = Place.WORKSPACE, np.int64(of_scale)
        yield _along_rows(text, "exponents", macros, rows, side[2] == reals, numbers, found)
        target = *found, Place.WORKSPACE, np.int64(start), np.int64(ld)
        yield _launch(text, "split", macros, _spread_items(k, rows), SPREAD_GROUP, (*numbers, *target))
    where = Place.WORKSPACE, *map(np.int64, (*starts, ld))
    of_scales = Place.WORKSPACE, *map(np.int64, scale)
    operands = *of_scales, *_operands(layouts, reals)
    if unit:
        sums = (Place.C, layouts[2]) if reals == 1 else (Place.WORKSPACE, Layout(workspace.take(m * n, 4), n))
        yield _by_unit(unit, parts, max(map(sum, pairs)), of_real, (*extents, *where), sums, device)
        of_sums = sums[0], np.int64(sums[1].start), np.int64(sums[1].ld)
        yield _launch(text, "finish", macros, (n, m, 1), TILE, (*extents, *of_sums, *operands))
    else:
        yield _launch(text, "multiply_parts", macros, (n, m, 1), TILE, (*extents, *where, *operands))


class Unit(NamedTuple):
    """How a matrix unit multiplies parts: what kind of products, and the tiles of a work-group."""

    kind: str
    params: dict[str, int]


def unit_for(scheme: Scheme, device: Device) -> Unit | None:
    """The unit of a device that multiplies the parts of a scheme, with so many stages as its local memory holds."""
    stored = "float16" if scheme.name == "f16-pairs" else "bfloat16"
    kind, parts = into(stored, SUMS_OF_NARROW[stored]), PARTS[scheme.name]
    if not has_unit(device, kind):
        return None
    stages = min(MOST_STAGES, most_local_bytes(device) // (parts * TENSOR.stage_bytes(OF_PARTS, kind)))
    return Unit(kind, {**OF_PARTS, "stages": stages}) if stages > 1 else None


def _by_unit(
    unit: Unit, parts: int, largest: int, size: GemmSize, before: tuple[Argument, ...], sums: tuple[Place, Layout],
    device: Device,
) -> Launch:  # fmt: skip
    """The products of all pairs of parts, whose sums of a slice of k are added in float32."""
    place, c = sums
    one = TENSOR.product(unit.params, unit.kind, size, [(place, replace(c, batch_stride=0))] * 3, device)
    macros = {**one.macros, "A_ALONG_K": 1, "B_ALONG_K": 1, "PARTS": parts, "LARGEST": largest}
    arguments = *before, place, np.int64(c.start), np.int64(c.ld)
    return replace(
        one, text=with_header(*TENSOR.texts[1:-1], "tensor_parts.cl"), macros=macros, arguments=arguments,
        local_bytes=parts * one.local_bytes,
    )  # fmt: skip


Side = tuple[int, Place, tuple[int, int, int], int, int]


def _sides(
    size: GemmSize, layouts: Sequence[Layout], scale: Sequence[int], spread: Sequence[int], reals: int = 1
) -> Iterator[Side]:
    """A by rows and B by columns: how many, whose memory, its start, the steps along and across, and two workspaces.

    Start and steps are in reals, of which a number has so many.
    """
    a, b, _ = layouts
    yield size.m, Place.A, (a.start * reals, a.ld * reals, reals), scale[0], spread[0]
    yield size.n, Place.B, (b.start * reals, reals, b.ld * reals), scale[1], spread[1]


def _along_rows(
    text: str, name: str, macros: Defines, rows: int, in_memory: bool, numbers: tuple[Argument, ...],
    more: tuple[Argument, ...],
) -> Launch:  # fmt: skip
    """A kernel whose work-groups go along rows: of rows that are none in memory, but lie side by side, several."""
    at_once = 1 if in_memory else NEIGHBOURS
    items = -(-rows // at_once) * SCALING, 1, 1
    return _launch(text, name, macros, items, (SCALING, 1, 1), (*numbers, np.int32(at_once), *more))


def _spread_items(k: int, rows: int) -> tuple[int, int, int]:
    """The work-items for a tile of SPREAD x SPREAD numbers a work-group."""
    return k, -(-rows // SPREAD) * SPREAD_GROUP[1], 1


def _operands(layouts: Sequence[Layout], reals: int = 1) -> Iterator[Argument]:
    """A, B and C: memory, start, leading dimension."""
    for place, x in zip((Place.A, Place.B, Place.C), layouts, strict=True):
        yield from (place, np.int64(x.start * reals), np.int64(x.ld * reals))


def _launch(
    text: str, name: str, macros: Defines, items: tuple[int, int, int], group: tuple[int, int, int],
    arguments: tuple[Argument, ...],
) -> Launch:  # fmt: skip
    groups = tuple(max(1, -(-count // width)) for count, width in zip(items, group, strict=True))
    return Launch(text, name, macros, (groups[0], groups[1], groups[2]), group, arguments)


@cache
def _with_moduli(count: int) -> str:
    """The kernels' text for a number of moduli."""
    whole = modulus_product(count)
    return _with_lists({
        "MODULI": MODULI[:count], "WHOLE": limbs(whole, *LIMBS),
        "WEIGHTS": [limb for weight in weights(count) for limb in limbs(weight, *LIMBS)],
        "FRACTIONS": [(weight << FRACTION_BITS) // whole for weight in weights(count)],
    }, "emulated.cl")  # fmt: skip


def _with_lists(lists: Mapping[str, Sequence[int]], file: str) -> str:
    """A text after its lists of numbers, which are no options of a compiler: these have no commas."""
    found = (f"#define {name} {', '.join(map(str, numbers))}\n" for name, numbers in lists.items())
    return "".join(found) + kernel_text(file)
