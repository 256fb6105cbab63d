"""A product under the sampler: at which places of our shared libraries its time is spent."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab
from gemmlab._errors import BackendUnavailable
from gemmlab._name import BackendName
from gemmlab.verify.dtypes import dtype_of

EVERY_US = 1000
ROOM = 100_000
SECONDS = 1.0
POCL_CACHE = "/kcache/"


@dataclass(frozen=True)
class Library:
    """A shared library, and how often each address in it was sampled: addresses as in its file."""

    path: Path
    samples: Mapping[int, int]

    @property
    def total(self) -> int:
        """All samples in it."""
        return sum(self.samples.values())


def sampled_library(backend: str, dtype: str, n: int) -> Library:
    """The library in which a backend spends most of its time in products of N = `n`, of CPU backends on one thread.

    It is one of ours, or of OpenCL's PoCL, which keeps the kernels that it compiles as libraries.

    Raises
    ------
    BackendUnavailable
        Where no sampler was compiled, as on other systems than Linux, or a driver keeps its machine code to itself.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n)).astype(dtype_of(dtype)) for _ in range(2))
    on_runtime = BackendName.of(backend).on_runtime
    call: dict[str, Any] = {"out": np.zeros_like(a), "backend": backend, **({} if on_runtime else {"threads": 1})}
    gemmlab.matmul(a, b, **call)
    memory = (ctypes.c_size_t * ROOM)()
    sampler = _sampler()
    end_s = perf_counter() + SECONDS
    if sampler.gemmlab_start_sampler(memory, ctypes.c_long(ROOM), ctypes.c_long(EVERY_US)):
        raise BackendUnavailable("the sampler cannot start: another profiler has the timer")
    try:
        while perf_counter() < end_s:
            gemmlab.matmul(a, b, **call)
    finally:
        count = sampler.gemmlab_stop_sampler()
    libraries = _by_library(memory[:count])
    if not libraries:
        why = "its driver keeps that to itself" if on_runtime else "it spends no time in gemmlab's own code"
        raise BackendUnavailable(f"the machine code of {backend} cannot be shown: {why}")
    return max(libraries, key=lambda library: library.total)


@cache
def _sampler() -> ctypes.CDLL:
    found = find_spec("gemmlab.disassembly.sampler")
    if found is None or found.origin is None:
        raise BackendUnavailable("no sampler was compiled here: gemmlab asm needs Linux on x86-64 or AArch64")
    return ctypes.CDLL(found.origin)


def _by_library(addresses: list[int]) -> list[Library]:
    """The samples in gemmlab's own libraries, and in kernels that PoCL has compiled."""
    home = str(Path(gemmlab.__file__).parent)
    mapped: list[tuple[int, int, int, str]] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, _, offset, _, _, *file = line.split(maxsplit=5)
        if file and ".so" in file[0] and (file[0].startswith(home) or POCL_CACHE in file[0]):
            start, end = (int(x, 16) for x in re.findall(r"\w+", place))
            mapped.append((start, end, int(offset, 16), file[0]))
    bases = {path: start for start, _, offset, path in reversed(mapped) if offset == 0}
    found: dict[str, Counter[int]] = {}
    for address in addresses:
        for start, end, _, path in mapped:
            if start <= address < end:
                found.setdefault(path, Counter())[address - bases[path]] += 1
    return [Library(Path(path), samples) for path, samples in found.items()]
