"""The shipped table: products that NumPy multiplies faster than `cpu-packed`, by processor.

A row of gemmlab/data/auto.json was measured twice, and says where: on which processor (vendor, family and model by
CPUID), in which instruction set, beside which library of NumPy, on how many threads; and for which products: their
dtype, layout and class of shape. `bench/auto_table.py` makes rows of two files of records. A processor, or a number of
threads, that nobody measured has no row.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np

from gemmlab import _profile
from gemmlab._auto._choice import Choice, shape_class
from gemmlab._config import config
from gemmlab._cpu import _features, isa
from gemmlab._cpu._driver import CompiledWay, layout, numpys
from gemmlab._cpu.threads._threads import max_threads
from gemmlab._problem import Problem
from gemmlab._process.importing import Importing

DTYPES = tuple(np.dtype(code).name for code in "?bBhHiIqQefdFD")
NUMPY = "cpu-numpy"
NUMPYS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Product: TypeAlias = tuple[str, str, str]  # dtype, layout, class of shape


@dataclass(frozen=True)
class Row:
    """A class of products that NumPy multiplies faster.

    Attributes
    ----------
    processor, isa, library, threads
        Where it was measured: the processor's key, the instruction set of `cpu-packed`, NumPy's library, and as many
        threads as the process might use.
    dtype, layout, shape_class : str
        The products; `layout` has a letter each for A, B and C, "C" for row-major and "F" for column-major.
    ratios : tuple of float
        The speed of `cpu-packed` over that of NumPy, the geometric mean over the class, in each of two runs.
    records : tuple of str
        The files of the two runs, from the project's root.
    """

    processor: str
    isa: str
    library: str
    threads: int
    dtype: str
    layout: str
    shape_class: str
    ratios: tuple[float, ...]
    records: tuple[str, ...]

    @property
    def product(self) -> Product:
        """What the row is about."""
        return self.dtype, self.layout, self.shape_class


@cache
def shipped() -> tuple[Row, ...]:
    """All rows of the table."""
    with Importing():  # of what reads a package's files
        text = files("gemmlab").joinpath("data/auto.json").read_text(encoding="utf-8")
    return tuple(_row(**row) for row in json.loads(text)["rows"])


def _row(ratios: list[float], records: list[str], **others: Any) -> Row:
    return Row(**others, ratios=tuple(ratios), records=tuple(records))


@cache
def of_this_processor() -> tuple[Row, ...]:
    """The rows of this processor, its instruction set in force, and NumPy's library."""
    here = _features.processor(), isa.chosen(), numpy_library()
    return tuple(row for row in shipped() if (row.processor, row.isa, row.library) == here)


@cache
def numpy_library() -> str:
    """The library that NumPy was built with, with two numbers of its version: "openblas 0.3".

    NumPy says this without loading anything. Where it was built for any BLAS, the name is that of none ("blas 3.9").
    """
    found = np.show_config(mode="dicts") or {}
    blas = found.get("Build Dependencies", {}).get("blas", {})
    name = str(blas.get("name", "")).lower()
    name = next((known for known in ("openblas", "mkl", "accelerate", "blis") if known in name), name)
    version = re.match(r"\d+(\.\d+)?", str(blas.get("version", "")))
    return f"{name} {version[0] if version else ''}".strip()


def in_force() -> Mapping[Product, Row]:
    """The rows that hold with the settings of now.

    NumPy's threads cannot be set for one call without cost, so there is none where `config.threads` limits them, or the
    environment gives NumPy's library other threads than ours. A dtype that `gemmlab tune auto` measured here follows
    the profile alone.
    """
    rows = of_this_processor()
    if not rows or config.threads is not None or NUMPY in config.block or numpys.is_lost:
        return {}
    threads, here = max_threads(), isa.profile_name()
    if any(os.environ.get(name, str(threads)) != str(threads) for name in NUMPYS_THREADS):
        return {}
    return {
        row.product: row for row in rows if row.threads == threads and not _profile.is_tuned(here, "auto", row.dtype)
    }


def row_of(problem: Problem) -> Row | None:
    """The row that gives a product to NumPy; None if there is none, and `cpu-packed` has it.

    A row is about operands as they are, so there is none where they are converted, packed, on a device, or added to
    `out`, and none for calls with a number of threads.
    """
    rows = in_force()
    is_other = problem.accumulate or problem.threads is not None or problem.needs_conversion
    if not rows or is_other or problem.packed is not None or problem.queue is not None:
        return None
    layouts = "".join(map(layout, (problem.a, problem.b, problem.out)))
    return rows.get((problem.dtype.name, layouts, shape_class(problem.m, problem.n, problem.k, problem.batch)))


def compiled_way(ours: CompiledWay) -> CompiledWay:
    """The compiled way of "auto": `ours`, behind a choice where the table or the profile has another for some."""
    found = {dtype: _profile.parameters(isa.profile_name(), "auto", dtype).values() for dtype in DTYPES}
    extents = {dtype: min(own) for dtype, own in found.items() if own}
    rows = in_force()
    return Choice(ours, rows, extents) if rows or extents else ours
