"""The product of host arrays by way of Dask, as a backend: so that `gemmlab verify dask` audits this path.

The operands are cut into small chunks of odd sizes, and Dask's synchronous scheduler runs the tasks. It is slow, and
only taken by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gemmlab._backend import Availability, FullBackend, Param
from gemmlab._cpu import machine
from gemmlab._problem import Array, Problem

BLOCKS = 3  # along each axis, at most
LEAST = 1024  # bytes of memory for the smallest products


class Dask(FullBackend):
    """`gemmlab.dask.matmul` of small chunks of host arrays."""

    name, kind, source = "dask", "audit", "gemmlab.dask"
    summary = "gemmlab.dask.matmul of small chunks, one task after another"
    params: Mapping[str, Param] = {
        "k_group": Param(
            "k_group", None, (1, 2, BLOCKS), "blocks of k that a task adds up", "1 or more",
            lambda x: isinstance(x, int) and x >= 1,
        )
    }  # fmt: skip

    def probe(self) -> Availability:
        """Available where Dask is."""
        try:
            import_module("dask.array")
        except ImportError:
            return Availability(False, "the package dask is not installed", "pip install 'gemmlab[dask]'")
        return Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        return problem.queue is None or "dask splits arrays of the host"

    def gemm(self, problem: Problem, k_group: int | None = None, **params: Any) -> None:
        """Fill `problem.out`."""
        import dask

        from gemmlab.dask.product import matmul

        a, b = problem.a, problem.b
        memory = LEAST + a.nbytes + b.nbytes + problem.out.nbytes  # too little for one tile: there are several
        with dask.config.set(scheduler="synchronous"):
            lazy = matmul(_in_chunks(a), _in_chunks(b), "auto", k_group, threads=problem.threads, memory=memory)
            problem.out[...] = lazy.compute()


def _in_chunks(x: Array) -> Any:
    from dask.array.core import from_array

    sides = tuple(-(-extent // BLOCKS) | 1 for extent in x.shape)
    return from_array(x, chunks=sides, name=False)


def backend() -> Dask:
    """The backend, for the registry."""
    return Dask()
