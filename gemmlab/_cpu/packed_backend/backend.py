"""cpu-packed as a backend: the ladder's last rung, every number type of NumPy and bfloat16.

Its C++ is in `_cpu/packed/`, its call in `_packed.pyx`; here are its parameters. The depth of a block, kc, is a part of
the order of summation, so its default depends only on dtype, instruction set and k; mc and nc, which are upper bounds,
change no bit. What `gemmlab tune cpu-packed` found on this machine goes before the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gemmlab import _profile
from gemmlab._backend import Availability, FullBackend, Param, Params, check_params
from gemmlab._cpu import isa, machine
from gemmlab._cpu.packed_backend import traffic
from gemmlab._cpu.packed_backend._packed import PackedKernel, PackedOperand, allowed_threads, kernels_of, work_of
from gemmlab._cpu.packed_backend.plan import Plan
from gemmlab._cpu.rungs.ladder import size
from gemmlab._cpu.threads._threads import default_threads, team_flop
from gemmlab._problem import Array, Problem

PACKING_FLOP = 30  # what moving one number to a panel costs, in multiply-adds that it might have been
CLOCKED_RUNS = 3
NC = 6144  # at most so many columns of B are packed at once; macrokernel.hpp has what memory they may take


class Packed(FullBackend):
    """Five loops around a register tile, on packed panels."""

    name, kind, accumulates, is_compiled = "cpu-packed", "rung", True, True
    summary = "five loops, packed panels, a register tile: every dtype"
    source = "Goto and van de Geijn 2008, BLIS; announced by the oneAPI report, Nizhny Novgorod 2021"
    over: Mapping[str, str] = {"cpu-five-loops": "plans each shape, and has a team of threads that never waits"}
    params: Mapping[str, Param] = {
        param.name: param
        for param in (
            size("mc", (28, 42, 84, 168, 336), "rows of a packed block of A at most; fewer where k is long"),
            size("kc", (192, 256, 384, 512, 768), "depth of both blocks; changes the last bits of floating point"),
            size("nc", (768, 1536, 3072, 6144), "columns of a packed block of B at most; fewer where k is long"),
        )
    }

    @cached_property
    def kernel(self) -> PackedKernel:
        """The compiled rung, in the build for this CPU."""
        entries = {names: (*self.default_blocks(*names), self.team_flop(*names)) for names in self.kernels}
        return PackedKernel(self.tables, entries, machine.readings()._asdict())

    @cached_property
    def tables(self) -> list[int]:
        """Addresses of the kernels for this CPU's instruction set, and for what it has beyond."""
        return isa.tables("gemmlab._cpu.packed", "kernels")

    @cached_property
    def kernels(self) -> dict[tuple[str, str], tuple[int, int, int, float]]:
        """For each pair of dtypes, of operands and of sums: what `kernels_of` says."""
        return {names: sizes for table in self.tables for names, sizes in kernels_of(table).items()}

    @cached_property
    def _results(self) -> frozenset[str]:
        """The dtypes of products."""
        return frozenset(out for _, out in self.kernels)

    def default_blocks(self, dtype: str, out: str) -> tuple[int, int, int]:
        """`mc`, `kc` and `nc` of this machine's profile, else the usual ones."""
        tuned = self._tuned(dtype, out)
        mc, kc, nc = self.usual_blocks(dtype, out)
        return tuned.get("mc", mc), tuned.get("kc", kc), tuned.get("nc", nc)

    def team_flop(self, dtype: str, out: str) -> int:
        """What a team of two threads costs, in floating-point operations: of this machine's profile, else the usual."""
        return self._tuned(dtype, out).get("team_flop", self.usual_team_flop(dtype, out))

    def _tuned(self, dtype: str, out: str) -> Mapping[str, int]:
        """What this machine's profile says, without values that a call could not pass; sums wider than their operands
        are not tuned."""
        found = _profile.parameters(isa.profile_name(), self.name, dtype) if out == dtype else {}
        return {name: x for name, x in found.items() if name not in self.params or self.params[name].constraint(x)}

    def forget(self) -> None:
        """Read the profile again before the next product."""
        self.__dict__.pop("kernel", None)

    def usual_blocks(self, dtype: str, out: str) -> tuple[int, int, int]:
        """`mc`, `kc` and `nc`."""
        _, mc, kc, _ = self.kernels[dtype, out]
        return mc, kc, NC

    def usual_team_flop(self, dtype: str, out: str) -> int:
        """Numbers of half the size are multiplied twice as fast, and more of them by special instructions."""
        size, _, _, speed = self.kernels[dtype, out]
        return int(team_flop * max(4 / size, speed))

    def probe(self) -> Availability:
        """Available wherever its C++ was compiled, which takes GCC's vector extensions."""
        try:
            _ = self.kernel
        except ImportError as error:
            reason = f"this build has no packed kernel ({error})"
            return Availability(False, reason, "install a wheel, or build with GCC 12 or Clang (C++20)")
        return Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        if _signed(problem.dtype) in self._results:
            return True
        return f"{self.name} multiplies numbers of up to 16 bytes, not {problem.dtype}: use backend='auto'"

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in force for this problem, defaults filled in."""
        given = {name: value for name, value in params.items() if value is not None}
        check_params(self, given)
        a, _ = self._operands(problem)
        blocks = self.default_blocks(*_names(a.dtype, problem.dtype))
        return dict(zip(("mc", "kc", "nc"), blocks, strict=True)) | given

    def _operands(self, problem: Problem) -> tuple[Array, Array]:
        """`a` and `b`: as the caller stored them, if their sums may be of `problem.dtype` without a copy."""
        stored = problem.unconverted
        return stored if stored is not None and self.kernel.widens(stored[0], problem.out) else (problem.a, problem.b)

    def threads(self, problem: Problem) -> int:
        """Threads that one product of this problem runs on."""
        return allowed_threads(self._asked_threads(problem))

    def _asked_threads(self, problem: Problem) -> int:
        if problem.threads is not None:
            return problem.threads
        flop = problem.batch * work_of(problem.m, problem.n, problem.k)
        a, _ = self._operands(problem)
        return default_threads(flop, self.team_flop(*_names(a.dtype, problem.dtype)))

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        (a, b), blocks = self._operands(problem), self.resolve(problem, params)
        threads = self._asked_threads(problem)
        given: dict[str, Any] = {"packed": problem.packed, "accumulate": problem.accumulate, **blocks}
        self.kernel.run(a, b, problem.out, threads=threads, whole_k=problem.whole_k, **given)

    def packing_share(self, problem: Problem, **params: Any) -> float:
        """The share of its threads' time that a product spends packing A and B: of the fastest of some runs."""
        (a, b), blocks = self._operands(problem), self.resolve(problem, params)
        asked = self._asked_threads(problem)
        times = []
        for _ in range(CLOCKED_RUNS):
            start = perf_counter()
            packing_s = self.kernel.run(a, b, problem.out, threads=asked, packed=problem.packed, clocked=True, **blocks)
            times.append((perf_counter() - start, packing_s or 0.0))
        elapsed_s, packing_s = min(times)
        return packing_s / (allowed_threads(asked) * elapsed_s)

    def plan(self, problem: Problem, **params: Any) -> Plan | None:
        """How the compiled loops cut a product, each of a batch; None for an empty one."""
        if not problem.out.size or not problem.k:
            return None
        (a, b), blocks = self._operands(problem), self.resolve(problem, params)
        return self.kernel.plan(a, b, problem.out, threads=self.threads(problem), packed=problem.packed, **blocks)

    def block_of_k(self, problem: Problem) -> int | None:
        plan = self.plan(problem)
        return plan.kc if plan else None

    def pack(self, b: np.ndarray[Any, Any], params: Params) -> PackedOperand:
        """The panels of a matrix, for products with many others."""
        return self.kernel.pack(b, allowed_threads(default_threads(float(PACKING_FLOP * b.size))))

    def traffic(self, problem: Problem, machine: Mapping[str, int], **params: Any) -> dict[str, float]:
        """Modelled bytes that pass from each memory level towards the core, by `traffic.py` of this folder."""
        if not problem.out.size or not problem.k:
            return {}
        a, b = (_in_rows(x) for x in self._operands(problem))
        plan = self.kernel.plan(a, b, _in_rows(problem.out), **self.resolve(problem, params))
        return traffic.moved(problem, machine, plan, a.itemsize)


def _in_rows(x: Array) -> Array:
    """A placeholder of the same shape and dtype with adjacent numbers in rows: what the models of traffic describe."""
    *_, rows, columns = x.shape
    return as_strided(x, (rows, columns), (columns * x.itemsize, x.itemsize), writeable=False)


@cache  # a dtype takes microseconds to tell its name
def _signed(dtype: np.dtype[Any]) -> str:
    """The name of a dtype in the tables, where integers have a sign if their sums are as wide as they are."""
    return dtype.name.removeprefix("u")


def _names(of_a: np.dtype[Any], of_c: np.dtype[Any]) -> tuple[str, str]:
    """The row of the tables for operands and sums of these dtypes."""
    return _signed(of_a) if of_a == of_c else of_a.name, _signed(of_c)
