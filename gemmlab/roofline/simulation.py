"""How many bytes a CPU rung moves between the levels of memory, by simulating its accesses on caches.

What `gemmlab/_cpu/rungs/traffic.py` models, this counts: a rung's loops are replayed access by access, without their
numbers, on set-associative caches (`_cache.pyx`); the compiled loops of cpu-packed record their accesses. One
thread; operands are row-major, no cache holds anything of them at first, and what was written is in memory at the end.
Each access takes time, so only small products are worth it.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import CFUNCTYPE, c_int, c_size_t, c_ssize_t, c_void_p, cast
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu import isa
from gemmlab._cpu.packed_backend.backend import Packed
from gemmlab._cpu.rungs import tiled
from gemmlab._cpu.rungs.ladder import RUNGS
from gemmlab._cpu.rungs.traffic import ABOVE, LINE, USUAL, Access, Loop, in_panels
from gemmlab._errors import UnsupportedProblem
from gemmlab.roofline._cache import Caches

DTYPES = ("float32", "float64")  # of the rungs; cpu-packed's tables say which it has
PACKED = "cpu-packed"
USUAL_WAYS = {"L1": 8, "L2": 8, "L3": 16}
PAGE = 4096
MOST_ACCESSES = 1_000_000_000  # about ten seconds
PACKED_ACCESSES = 0.05  # of a line, for a multiply-add of float64, about
LOOPS = {rung.name: rung.loops for rung in RUNGS}
SIMULATED = (*LOOPS, PACKED)

Cache = int | tuple[int, int]  # bytes, or bytes and ways


def refusal(
    backend: str, m: int, n: int, k: int, dtype: str, most_accesses: float = MOST_ACCESSES
) -> str | None:
    """Why a product is not simulated, in a sentence; None where it is.

    Examples
    --------
    >>> refusal("cpu-naive", 64, 64, 64, "float64") is None
    True
    >>> refusal("cpu-numpy", 64, 64, 64, "float64").startswith("cpu-numpy is not simulated, only cpu-naive, cpu-ikj,")
    True
    """
    if backend not in SIMULATED:
        return f"{backend} is not simulated, only {', '.join(SIMULATED)}"
    if backend != PACKED and dtype not in DTYPES:
        return f"{dtype} is not simulated on {backend}, only {' and '.join(DTYPES)}"
    if backend == PACKED and (dtype, dtype) not in Packed().kernels:
        return f"{dtype} is not simulated on {backend}, which has no kernel for it"
    accesses = PACKED_ACCESSES * m * n * k if backend == PACKED else _accesses(LOOPS[backend], m, n, k)
    if accesses > most_accesses:
        return f"{m} x {n} x {k} takes {backend} {accesses:.1g} accesses: at most {most_accesses:.0g} are simulated"
    return None


def simulate(
    backend: str, m: int, n: int, k: int, dtype: str, params: Mapping[str, Any], caches: Mapping[str, Cache],
    pad: int = 0,
) -> dict[str, float]:  # fmt: skip
    """Bytes that pass from each level of memory towards the core, and back to it, while C = A B is computed.

    Parameters
    ----------
    backend : str
        A rung of the CPU ladder, or "cpu-packed".
    m, n, k : int
        Extents: A is m x k, B is k x n.
    dtype : str
        "float32" or "float64"; for "cpu-packed" any that it has a kernel for.
    params : mapping
        Block sizes in force, as in a record; a rung without blocks has none.
    caches : mapping of str to int or (int, int)
        Bytes of "L1", "L2" and "L3", each alone or with its number of ways. A level that is not named has a usual size.
    pad : int
        Numbers that follow each row of A, B and C; not for "cpu-packed".

    Returns
    -------
    dict
        Bytes from `l2`, `l3` and `dram`, as in `Backend.traffic`: loads, and stores on their way back.

    Raises
    ------
    UnsupportedProblem
        With the sentence of `refusal`.

    Examples
    --------
    A product that fits the caches moves A and B from memory once, and C once in and once out:

    >>> simulate("cpu-ikj", 32, 32, 32, "float64", {}, {"L3": 1 << 20})["dram"] == 4 * 8 * 32 * 32
    True
    """
    if (why := refusal(backend, m, n, k, dtype)) is not None:
        raise UnsupportedProblem(why)
    shape = m, n, k, np.dtype(dtype).itemsize
    levels = [_sets_and_ways(name, caches.get(name, USUAL[name])) for name in ABOVE.values()]
    replayed = _replay(backend, shape, dtype, params, levels, pad)
    replayed.finish()
    return {name: float(LINE * sum(lines)) for name, lines in zip(ABOVE, replayed.moved, strict=True)}


def _replay(
    backend: str, shape: tuple[int, int, int, int], dtype: str, params: Mapping[str, Any],
    levels: list[tuple[int, int]], pad: int,
) -> Caches:  # fmt: skip
    m, n, k, size = shape
    if backend == PACKED:
        return _packed(shape, dtype, params, levels)
    parameters = _parameters(m, n, k, size, params)
    of_blocks = copies(parameters)
    of_matrices = m * (k + pad), k * (n + pad), m * (n + pad)
    caches = Caches(levels, sum(-(-numbers * size // PAGE) * PAGE for numbers in (*of_matrices, *of_blocks)))
    caches.replay(*shape, steps(LOOPS[backend], parameters), of_blocks, pad)
    return caches


def _parameters(m: int, n: int, k: int, size: int, params: Mapping[str, Any]) -> dict[str, int]:
    """What a loop's step may be: extents, blocks, the strip of `cpu-blocked-local`, and the register tile (rung.h)."""
    blocks = {name: params.get(name, extent) for name, extent in (("bs_r", 1), ("bs_c", n), ("bs_k", k))}
    rows, width, strip = registers()
    tile = {"strip": strip // size, "tile_rows": rows, "tile_columns": width // size}
    return {"m": m, "n": n, "k": k, **tile, **blocks}


def registers() -> tuple[int, int, int]:
    """Rows of a register tile, the bytes of its row, and the bytes of a strip of `cpu-blocked-local`."""
    return *tiled.tile(), 8 * isa.VECTOR_BYTES[isa.chosen()]


def copies(parameters: Mapping[str, int]) -> tuple[int, int]:
    """Numbers of a block of A and of one of B, each in whole panels; a rung without copies does not touch them."""
    rows, columns, depth = (min(parameters[f"bs_{x}"], parameters[of]) for x, of in ("rm", "cn", "kk"))
    return in_panels(rows, depth, parameters["tile_rows"]), in_panels(columns, depth, parameters["tile_columns"])


def steps(nest: Loop, parameters: Mapping[str, int]) -> NDArray[np.int64]:
    """A rung's loops as `replay.h` runs them: a row for each loop and access, as in its struct Step."""
    rows: list[list[int]] = []
    indices, by, over = {"m": 0, "n": 1, "k": 2}, dict(parameters), {}

    def add(one: Loop | Access) -> None:
        row = [0] * 16
        rows.append(row)
        if isinstance(one, Loop):
            indices.setdefault(one.index, len(indices))
            by[one.index] = one.step if isinstance(one.step, int) else parameters[one.step]
            over[one.index] = one.over
            row[1:5] = indices[one.index], indices[one.over], by[one.index], -1
            row[8] = by[one.over] if one.moved else 0
            for inner in one.body:
                add(inner)
        else:
            row[4:7] = "abc".index(one.matrix), indices[one.row], indices[one.column]
            row[7:10] = one.piece, by[one.column] if one.moved else 0, one.writes
            row[10] = indices[one.first] if one.first else -1
            row[11:13] = (-1, 0) if one.beside is None else ("abc".index(one.beside[0]), indices[one.beside[1]])
            if one.packed:
                row[13:16] = by[one.column], indices[over[one.row]], indices[over[one.column]]
        row[0] = len(rows)

    add(nest)
    return np.array(rows, np.int64)


def _accesses(nest: Loop, m: int, n: int, k: int) -> float:
    """Accesses of a line in all loops, for float64, with one block in each direction."""
    parameters = _parameters(m, n, k, 8, {})

    def count(one: Loop | Access, extents: Mapping[str, int]) -> float:
        if isinstance(one, Access):
            lines = max(1.0, extents[one.column] * 8 / LINE) if one.piece else 1.0
            return lines if one.beside is None else 2 * lines
        by = min(one.step if isinstance(one.step, int) else parameters[one.step], extents[one.over])
        inner = {**extents, one.index: by}
        return -(-extents[one.over] // max(1, by)) * sum(count(each, inner) for each in one.body)

    return count(nest, parameters)


def _packed(
    shape: tuple[int, int, int, int], dtype: str, params: Mapping[str, Any], levels: list[tuple[int, int]]
) -> Caches:
    operands = _Operands(shape, dtype, params)
    caches = Caches(levels, operands.nbytes)
    caches.take(operands.record, operands.origin)
    return caches


def recorded(m: int, n: int, k: int, dtype: str, params: Mapping[str, Any]) -> tuple[list[tuple[int, int, bool]], int]:
    """Each access of `cpu-packed`: its address, its bytes, whether it is a store; and the bytes of the workspace.

    A begins at 0, B and C on the next pages, and the workspace on the one after them.
    """
    operands, found = _Operands((m, n, k, np.dtype(dtype).itemsize), dtype, params), []

    def take(context: int, address: int, nbytes: int, write: int) -> int:
        found.append((address - operands.origin, nbytes, bool(write)))
        return 0

    function = CFUNCTYPE(c_int, c_void_p, c_size_t, c_ssize_t, c_int)(take)
    operands.record(cast(function, c_void_p).value or 0, 0)
    return found, operands.nbytes - operands.workspace


class _Operands:
    """The matrices of a product on separate pages, in memory that nobody touches, and the workspace behind them."""

    def __init__(self, shape: tuple[int, int, int, int], dtype: str, params: Mapping[str, Any]) -> None:
        m, n, k, size = shape
        self._blocks = {name: params[name] for name in ("mc", "kc", "nc") if name in params}
        starts = [0]
        for numbers in (m * k, k * n, m * n):
            starts.append(starts[-1] + -(-numbers * size // PAGE) * PAGE)
        matrices = [np.empty(shape, dtype) for shape in ((m, k), (k, n), (m, n))]
        self._kernel, self.workspace = Packed().kernel, starts[-1]
        self.nbytes = starts[-1] + self._kernel.plan(*matrices, **self._blocks).workspace
        self._memory = np.empty(self.nbytes + PAGE, np.uint8)
        aligned = self._memory[-self._memory.ctypes.data % PAGE :]
        self.origin = aligned.ctypes.data
        self._matrices = [aligned[start : start + x.nbytes].view(dtype).reshape(x.shape)
                          for start, x in zip(starts, matrices, strict=False)]  # fmt: skip

    def record(self, access: int, context: int) -> None:
        """Call the function at the address `access` with each access."""
        self._kernel.record(
            *self._matrices, access=access, context=context, buffer=self.origin + self.workspace, **self._blocks
        )


def _sets_and_ways(name: str, cache: Cache) -> tuple[int, int]:
    """Sets and ways of a cache; of ways that are not given, near the usual, as many as make sets a power of two."""
    nbytes, ways = cache if isinstance(cache, tuple) else (cache, 0)
    lines = max(1, nbytes // LINE)
    usual = min(USUAL_WAYS[name], lines)
    if not ways:
        likely = [w for w in range(usual, 2 * usual + 1) if lines % w == 0 and (lines // w).bit_count() == 1]
        ways = next(iter(likely), usual)
    return max(1, lines // ways), ways
