"""The roofline model: how fast a product could be, given the machine's ceilings.

    attainable GFLOP/s
      ^
      |            ridge
      |             +--------------------  peak: multiply-adds a second
      |           / .
      |         /   .                      attainable = min(peak, bandwidth x intensity)
      |       /     .
      |     /  <- bandwidth of a level
      +-------------+--------------------> intensity: flop a byte moved
        memory-bound  compute-bound

Each memory level has another slope. Nothing here measures or draws: everything is computed from records
(`docs/records.md`).

Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for
multicore architectures", Communications of the ACM 52(4), 2009; with one slope a cache level as in A. Ilic,
F. Pratas, L. Sousa, "Cache-aware roofline model: upgrading the loft", IEEE Computer Architecture Letters
13(1), 2014.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Literal

from gemmlab.measure.records import Record

Definition = Literal["compulsory", "modelled", "simulated"]

LEVELS = ("local", "L1", "L2", "L3", "DRAM")  # from the core outwards; only a device has local memory
DEFINITIONS: tuple[Definition, ...] = ("compulsory", "modelled", "simulated")
_IN_KEYS = {"modelled": "model", "simulated": "simulated"}
# The caches of a device are not known. What fits into the largest that devices have may come from there.
DEVICE_CACHES = {"L1": 128 << 20}
# Dtypes without a loop, the one that they are multiplied in, and the part of its rate: a multiply-add of complex
# numbers counts as two operations and takes four of real ones. float16 and bfloat16 are converted to float32, but where
# the CPU has instructions for bfloat16, whose loops are faster or slower.
_MULTIPLIED_IN = {
    "float16": ("float32", 1.0), "bfloat16": ("float32", 1.0), "complex64": ("float32", 0.25),
    "complex128": ("float64", 0.25), "uint8": ("int8", 1.0),
}  # fmt: skip
PEAK_DTYPES = frozenset(_MULTIPLIED_IN).union(measured for measured, _ in _MULTIPLIED_IN.values())  # of CPUs
# Our loops are not the best possible ones, and a machine's clock drifts: this much over a ceiling is no error.
TOLERANCE = 0.05
_HOW_TO_MEASURE = "`gemmlab roofline` measures a machine's ceilings"


def in_dtype(ceiling: Record, dtype: str) -> Record | None:
    """A multiply-add rate as one of `dtype`: itself, or of the dtype that it is multiplied in; None of any other.

    Examples
    --------
    >>> in_dtype({"dtype": "float32", "gflop_per_s": 100.0}, "complex64")
    {'dtype': 'complex64', 'gflop_per_s': 25.0}
    """
    if ceiling["dtype"] == dtype:
        return ceiling
    measured, part = _MULTIPLIED_IN.get(dtype, ("", 0.0))
    rate = ceiling["gflop_per_s"]
    return {**ceiling, "dtype": dtype, "gflop_per_s": rate and part * rate} if ceiling["dtype"] == measured else None


def moved_bytes(record: Record, level: str, definition: Definition) -> float | None:
    """Bytes that a product moves from a memory level towards the core; None where its record has no such count.

    The definitions are: compulsory, each operand once, the same at every level; modelled, by the backend's model;
    simulated, by a simulation of the caches. An unknown level or definition is a ValueError.

    Examples
    --------
    >>> moved_bytes({"bytes_compulsory": 120_000, "bytes_simulated_l2": 360_000}, "L2", "simulated")
    360000
    """
    if level not in LEVELS:
        raise ValueError(f"a memory level is one of {', '.join(LEVELS)}, not {level!r}")
    if definition not in DEFINITIONS:
        raise ValueError(f"a definition of bytes is one of {', '.join(DEFINITIONS)}, not {definition!r}")
    if definition == "compulsory":
        return record["bytes_compulsory"]  # type: ignore[no-any-return]
    return record.get(f"bytes_{_IN_KEYS[definition]}_{level.lower()}")


def intensity(record: Record, level: str = "DRAM", definition: Definition | None = None) -> tuple[float, Definition]:
    """Floating-point operations per byte that a product moves from a memory level, and the definition that counted.

    By default that is the modelled count, and the compulsory one where there is no model. Few sizes are simulated, and
    a curve that changed its definition on the way would show a step that no backend made. Infinite where nothing is
    moved; ValueError for a level or a definition that is unknown, or that the record has no count of.

    Examples
    --------
    >>> intensity({"gflop": 2e-3, "bytes_compulsory": 120_000})
    (16.666666666666668, 'compulsory')
    """
    tried: tuple[Definition, ...] = (definition,) if definition else ("modelled", "compulsory")
    for which in tried:
        if (moved := moved_bytes(record, level, which)) is not None:
            return (1e9 * record["gflop"] / moved if moved else math.inf), which
    raise ValueError(f"{record['backend']} has no {definition} bytes of {level} here")


def model_error(record: Record, level: str) -> float | None:
    """How far the modelled bytes of a level are from the simulated ones: 0.1 is 10 % more; None without either.

    Examples
    --------
    >>> model_error({"bytes_model_l2": 150.0, "bytes_simulated_l2": 100.0}, "L2")
    0.5
    """
    modelled, simulated = moved_bytes(record, level, "modelled"), moved_bytes(record, level, "simulated")
    return modelled / simulated - 1 if modelled is not None and simulated else None


class Roof:
    """The ceilings of one device, and how products compare with them.

    Parameters
    ----------
    records : iterable of dict
        Those that are not ceilings of the device are ignored. Of a ceiling measured more than once, the best counts.
    device : str, optional
        Whose ceilings; may be left out if the records have those of one device only.

    Raises
    ------
    ValueError
        If the records have no ceiling of the device, or have several devices and none is named. The methods raise it,
        too, for a ceiling that was not measured.

    Notes
    -----
    Ceilings are measured on one thread and on all. For a thread count in between, those of the next lower count are
    used: a lower bound of the true roof.

    Examples
    --------
    >>> common = {"kind": "ceiling", "device": "a CPU", "threads": 1}
    >>> roof = Roof([
    ...     {**common, "ceiling": "fma", "isa": "v3", "dtype": "float32", "gflop_per_s": 100.0},
    ...     {**common, "ceiling": "bandwidth", "level": "DRAM", "operation": "load", "gb_per_s": 20.0},
    ... ])
    >>> roof.ridge("float32", threads=1)
    5.0
    >>> roof.attainable(2.0, "float32", threads=1)
    40.0
    """

    def __init__(self, records: Iterable[Record], device: str | None = None) -> None:
        ceilings = [record for record in records if record["kind"] == "ceiling"]
        devices = sorted({record["device"] for record in ceilings})
        if device is None and len(devices) > 1:
            raise ValueError(f"ceilings of several devices: name one of {', '.join(devices)}")
        self.device: str | None = device or next(iter(devices), None)
        self.ceilings = [record for record in ceilings if record["device"] == self.device]
        if not self.ceilings:
            raise ValueError(f"no ceilings of {device or 'any device'} in these records; {_HOW_TO_MEASURE}")

    def peak_gflop_per_s(self, dtype: str, threads: int | None, isa: str | None = None) -> float:
        """The multiply-add rate in GFLOP/s: of one instruction set, or of the best.

        A dtype without a loop has the rate of the one that it is multiplied in: float16 and bfloat16 that of float32
        (bfloat16 also that of the CPU's instructions for it), complex numbers, of which a multiply-add is four real
        ones, a quarter; uint8 that of int8.
        """
        wanted = {"ceiling": "fma", "dtype": dtype} | ({"isa": isa} if isa else {})
        return self._best("gflop_per_s", threads, wanted)

    def bandwidth(self, level: str, threads: int | None, operation: str = "load") -> float:
        """The bandwidth of a memory level in GB/s, all threads together."""
        wanted = {"ceiling": "bandwidth", "level": level, "operation": operation}
        return self._best("gb_per_s", threads, wanted)

    def attainable(
        self, intensity_flop_per_byte: float, dtype: str, *, threads: int | None, level: str = "DRAM"
    ) -> float:
        """The roof in GFLOP/s over an intensity with respect to one memory level."""
        slope = self.bandwidth(level, threads)
        return min(self.peak_gflop_per_s(dtype, threads), slope * intensity_flop_per_byte)

    def ridge(self, dtype: str, *, threads: int | None, level: str = "DRAM") -> float:
        """The intensity in flop/byte from which on the level's bandwidth no longer limits."""
        return self.peak_gflop_per_s(dtype, threads) / self.bandwidth(level, threads)

    def feeding_level(self, record: Record) -> str:
        """The memory level that a product's operands come from when it is repeated.

        The innermost level with a measured bandwidth that is at least half as large as they are: then a part of them
        is still there, and a roof must not be too low. L1 and L2 count once for each thread. The cache sizes of a
        device are not known: there it is L1 up to a size that no cache has.
        """
        self._check_device(record)
        threads = record["threads"] or 1
        of_cpu = (record.get("environment") or {}).get("cache_bytes") or {}
        cache_bytes = DEVICE_CACHES if record["threads"] is None else of_cpu
        measured = {ceiling["level"] for ceiling in self.ceilings if ceiling["ceiling"] == "bandwidth"}
        for level in ("L1", "L2", "L3"):
            room = 2 * (cache_bytes.get(level) or 0) * (1 if level == "L3" else threads)
            if level in measured and record["bytes_compulsory"] <= room:
                return level
        return "DRAM"

    def share_of_peak(self, record: Record) -> float:
        """A product's speed divided by the multiply-add rate of the best instruction set; 1 is all."""
        self._check_device(record)
        return _speed(record) / self.peak_gflop_per_s(_dtype(record), record["threads"])

    def above_roof(self, record: Record) -> bool:
        """Whether a product is faster than it can be: then a measurement, or a ceiling, is wrong.

        The roof is the highest that applies: over the compulsory bytes, since a traffic model may count too many, and
        5 % higher, since a ceiling is a lower bound. False where no ceiling has the product's number of threads.
        """
        if all(ceiling["threads"] != record["threads"] for ceiling in self.ceilings):
            return False
        self._check_device(record)
        dtype, threads, level = _dtype(record), record["threads"], self.feeding_level(record)
        roof = self.attainable(intensity(record, definition="compulsory")[0], dtype, threads=threads, level=level)
        return _speed(record) > (1 + TOLERANCE) * roof

    def is_exceeded(self, record: Record) -> bool:
        """Whether a product is faster than a roof that it is judged by: than the peak, or than the bandwidth of a level
        at its modelled bytes. So a ceiling was measured too low, or the model counts too many bytes.

        Only ceilings that were measured on as many threads count.
        """
        self._check_device(record)
        if all(ceiling["threads"] != record["threads"] for ceiling in self.ceilings):
            return False
        of = _dtype(record), record["threads"]
        roofs = []
        with suppress(ValueError):
            roofs.append(self.peak_gflop_per_s(*of))
        feeding = self.feeding_level(record)
        for level in LEVELS[: LEVELS.index(feeding) + 1]:
            definition: Definition = "compulsory" if moved_bytes(record, level, "modelled") is None else "modelled"
            if definition == "modelled" or level == feeding:
                with suppress(ValueError):
                    roofs.append(self.bandwidth(level, of[1]) * intensity(record, level, definition)[0])
        return _speed(record) > (1 + TOLERANCE) * min(roofs, default=math.inf)

    def _best(self, value: str, threads: int | None, wanted: Mapping[str, str]) -> float:
        """The largest `value` among the wanted ceilings with the nearest thread count not above `threads`."""
        found: Iterable[Record | None] = self.ceilings
        if "dtype" in wanted:
            found = (in_dtype(c, wanted["dtype"]) for c in self.ceilings if c["ceiling"] == wanted["ceiling"])
        matching = [c for c in found if c is not None and all(c.get(key) == wanted[key] for key in wanted)]
        # A GPU's ceilings have no thread count.
        counts = {c["threads"] or 0 for c in matching if (c["threads"] or 0) <= (threads or 0)}
        if not counts:
            what = " ".join(wanted.values())
            raise ValueError(f"no ceiling '{what}' of {self.device} for threads: {threads}; {_HOW_TO_MEASURE}")
        return float(max(c[value] for c in matching if (c["threads"] or 0) == max(counts)))

    def _check_device(self, record: Record) -> None:
        if record["device"] != self.device:
            raise ValueError(f"a product on {record['device']} has no place under the roof of {self.device}")


def _dtype(record: Record) -> str:
    return str(record["problem"]["dtype"])


def _speed(record: Record) -> float:
    if record["gflop_per_s"] is None:
        raise ValueError(f"{record['backend']} has no speed here: it was {record['status']}")
    return float(record["gflop_per_s"])


def peak_of(records: Iterable[Record]) -> Callable[[Record], float | None]:
    """A function that gives the measured peak for a record, or None where no ceiling in `records` applies."""
    ceilings = [record for record in records if record["kind"] == "ceiling"]
    roofs = {device: Roof(ceilings, device) for device in {record["device"] for record in ceilings}}

    def peak(record: Record) -> float | None:
        with suppress(ValueError, KeyError):
            return roofs[record["device"]].peak_gflop_per_s(_dtype(record), record["threads"])
        return None

    return peak
