"""The self-energy on a device, by kernels of its on the runtimes of the GPU ladder.

`kernels/gpp_*.cl` are one text for OpenCL, SYCL and CUDA, one kernel a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu import RUNTIMES, runtime_named
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import MAX_GROUPS
from gemmlab._gpu.runtime import Defines, Event, Memory, Native
from gemmlab._gpu.tensor.trial import has_unit
from gemmlab._gpu.tensor.unit_rung import LEAST_CAPABILITY
from gemmlab._gpu.transfers.memory_modes import MODES, Region
from gemmlab._name import BackendName
from gemmlab.workloads.gpp_problem import Numbers, Problem, groups_of_bands

MATRICES = ("aqsm", "aqsn", "eps", "wt")


@dataclass(frozen=True)
class Variant:
    """How a kernel is compiled for a kind of device; `tile` has the rows and columns that a work-group computes."""

    kernel: str
    defines: Defines
    tile: tuple[int, int]

    @property
    def group(self) -> tuple[int, int, int]:
        return int(self.defines["GROUP_X"]), int(self.defines["GROUP_Y"]), 1


def _fused(rows: int, columns: int, **defines: int | str) -> Variant:
    return Variant("fused", {"ROWS": rows, "COLUMNS": columns, **defines}, (rows, columns))


# The tiles are the fastest of those measured on an H100. TOGETHER: elements whose weights are computed side by side;
# UNROLL: how many such groups are written out.
VARIANTS = {
    "device-loops": {
        "gpu": Variant("loops", {"GROUP_X": 64, "GROUP_Y": 4}, (64, 4)),
        "cpu": Variant("loops", {"GROUP_X": 16, "GROUP_Y": 1}, (16, 1)),
    },
    "device-fused": {
        "gpu": _fused(64, 64, GROUP_X=16, GROUP_Y=8, TILE_X=4, TILE_Y=8, DEPTH=8, TOGETHER=4, UNROLL=8),
        "cpu": _fused(4, 64, GROUP_X=16, GROUP_Y=1, TILE_X=4, TILE_Y=4, DEPTH=16, TOGETHER=1, UNROLL=1),
    },
    "device-tensor": {
        "gpu": _fused(64, 64, GROUP_X=512, GROUP_Y=1, WARP_X=2, WARP_Y=1, DEPTH=8, TOGETHER=4, UNROLL=2, UNIT="F64",
                      CAPABILITY=LEAST_CAPABILITY),
    },
    "device-library": {
        "gpu": _fused(32, 64, GROUP_X=32, GROUP_Y=8, TILE_X=2, TILE_Y=4, TOGETHER=4, UNROLL=2, STORED=1),
    },
}  # fmt: skip
SMALL = {"GROUP_X": 64, "GROUP_Y": 1}  # work-groups of `gather` and `total`


class DeviceProblem:
    """A problem whose arrays are on a device, for any number of calls of `self_energy`.

    Parameters
    ----------
    problem
        The arrays.
    backend
        A runtime, "opencl", "sycl" or "cuda", or one of its devices, such as "opencl:1".
    memory
        How the device gets the four matrices. "copies": they are copied into its memory. The others depend on the
        runtime: "pinned"; "mapped" (the device reads the host's memory); "svm" for OpenCL, "managed" for CUDA,
        "usm-shared" and "usm-host" for SYCL.

    Attributes
    ----------
    transfers_s : float
        Seconds that it took to give the matrices to the device, once they were in memory that it can read.

    Raises
    ------
    ValueError
        No such runtime, or no such memory there.
    gemmlab.BackendUnavailable
        The runtime has no such device.
    gemmlab.UnsupportedProblem
        The device has no double precision, or not enough memory.
    """

    def __init__(self, problem: Problem, backend: str = "opencl", memory: str = "copies") -> None:
        asked = BackendName.of(backend)
        name, selector = asked.plain, asked.selector
        if name not in RUNTIMES:
            raise ValueError(f"no runtime {name!r}: choose one of {', '.join(RUNTIMES)}, or a device such as opencl:1")
        if memory not in MODES[name]:
            raise ValueError(f"{name} has no memory {memory!r}: choose one of {', '.join(MODES[name])}")
        runtime = runtime_named(name)
        self.problem, self.backend, self.memory = problem, backend, memory
        self.device = runtime.device(selector)
        _check(problem, self.device)
        self.queue: Any = runtime.queue(self.device)
        self._arrays = {name: getattr(problem, name) for name in MATRICES}
        self._regions: dict[str, Region] = {}
        self.matrices = self._allocated()
        self.transfers_s = self.bring()
        self.cpu_share: float | None = None  # of the rows, by the rates that the form "split" measured last
        self.columns = self._small(problem.columns.astype(np.int32))
        self.vcoul = self._small(problem.vcoul[problem.columns])

    def _allocated(self) -> dict[str, Memory]:
        if self.memory == "copies":
            return {name: self.queue.allocate(array.nbytes) for name, array in self._arrays.items()}
        with self.queue.device_errors(f"allocating {self.memory} memory"):
            for name, array in self._arrays.items():
                self._regions[name] = MODES[self.device.runtime][self.memory](self.queue, array.nbytes)
        return {name: region.memory for name, region in self._regions.items()}

    def bring(self) -> float:
        """Give the matrices to the device, once more if need be; the seconds after the host has written them."""
        for name, region in self._regions.items():
            np.copyto(region.writable().view(np.complex128), self._arrays[name].reshape(-1))
        start = perf_counter()
        for region in self._regions.values():
            region.bring()
        if not self._regions:
            for name, array in self._arrays.items():
                self.queue.copy_to_device(self.matrices[name], array)
        return perf_counter() - start

    def _small(self, array: npt.NDArray[Any]) -> Memory:
        memory = self.queue.allocate(array.nbytes)
        self.queue.upload(memory, array)
        return memory

    def variant(self, form: str) -> Variant:
        """The kernel of a form; UnsupportedProblem, in one line, if this device has none."""
        kinds = VARIANTS[form]
        label = self.device.label
        if form == "device-tensor" and not has_unit(self.queue.device, "float64"):
            raise UnsupportedProblem(f"{form} needs a matrix unit for float64, not {label}: choose device-fused")
        if form == "device-library" and self.device.runtime != "cuda":
            raise UnsupportedProblem(f"{form} needs cuBLAS: choose backend cuda, or device-fused on {label}")
        found = kinds["cpu" if self.device.kind == "cpu" and "cpu" in kinds else "gpu"]
        capability = self.queue.device.compute_capability
        return replace(found, defines={**found.defines, "CAPABILITY": capability}) if "UNIT" in found.defines else found

    def start(self, form: str, rows: range | None = None) -> Pending:
        """Start computing the sums of some rows of eps, or of all."""
        rows = range(self.problem.ngpown) if rows is None else rows
        variant = self.variant(form)
        totals = self._small(np.zeros(2 * self.problem.nend + 1, np.complex128))
        events: list[Event] = []
        for wx, occupied, others in groups_of_bands(self.problem):
            bands = np.concatenate([np.r_[occupied], np.r_[others]]).astype(np.int32)
            events += _Launches(self, variant, rows, wx, bands, len(np.r_[occupied])).run(totals)
        return Pending(self, totals, events)


@dataclass(frozen=True)
class Pending:
    """Sums that a device computes."""

    resident: DeviceProblem
    totals: Memory
    events: Sequence[Event]

    def finish(self) -> tuple[Numbers, float]:
        """Wait; the sums of ach, asx and achs, and the seconds of all kernels by the device's clock."""
        nend = self.resident.problem.nend
        found = np.empty(2 * nend + 1, np.complex128)
        self.resident.queue.download(found, self.totals)
        found[:nend] *= 0.5
        found[nend:-1] *= -1
        found[-1] *= -0.5
        return found, sum(event.kernel_s for event in self.events)


class _Launches:
    """The kernels for one group of bands."""

    def __init__(
        self, resident: DeviceProblem, variant: Variant, rows: range, wx: npt.NDArray[np.float64],
        bands: npt.NDArray[np.int32], occupied: int,
    ) -> None:  # fmt: skip
        self.resident, self.queue, self.variant, self.rows = resident, resident.queue, variant, rows
        self.nend, self.ncouls = len(wx), resident.problem.ncouls
        self.bands, self.occupied = bands, occupied
        self.wx, self.band = resident._small(wx), resident._small(bands)
        self.extents = [np.int32(extent) for extent in (rows.start, len(rows), self.ncouls)]

    def run(self, totals: Memory) -> list[Event]:
        """Start them; the sums are added to `totals`."""
        left, gathered = self._gather()
        events = [gathered]
        factors: Sequence[Memory] = left, self.resident.matrices["aqsn"]
        if "STORED" in self.variant.defines:
            *factors, multiplied = self._by_cublas(left)
            events += multiplied
        across = len(self.rows), self.ncouls if self.variant.kernel == "fused" else len(self.bands)
        groups = [-(-extent // tile) for extent, tile in zip(across, self.variant.tile, strict=True)]
        sums = self.queue.allocate(16 * groups[0] * groups[1] * (2 * self.nend + 1))
        counts = np.int32(len(self.bands)), np.int32(self.occupied), *self.extents, np.int32(self.nend)
        events.append(self.queue.launch(
            self._kernel(self.variant.kernel, self.variant.defines), (groups[0], groups[1], 1), self.variant.group,
            [*counts, *factors, self.band, self.resident.matrices["eps"], self.resident.matrices["wt"],
             self.resident.vcoul, self.wx, sums],
        ))  # fmt: skip
        events.append(self.queue.launch(
            self._kernel("total", SMALL), (1, 2 * self.nend + 1, 1), (SMALL["GROUP_X"], SMALL["GROUP_Y"], 1),
            [np.int32(groups[0] * groups[1]), sums, totals],
        ))  # fmt: skip
        return events

    def _gather(self) -> tuple[Memory, Event]:
        left = self.queue.allocate(16 * len(self.bands) * len(self.rows))
        arguments = [np.int32(len(self.bands)), *self.extents, self.resident.matrices["aqsm"], self.band,
                     self.resident.columns, left]  # fmt: skip
        groups = -(-len(self.rows) // SMALL["GROUP_X"]), len(self.bands), 1
        return left, self.queue.launch(
            self._kernel("gather", SMALL), groups, (SMALL["GROUP_X"], SMALL["GROUP_Y"], 1), arguments
        )

    def _by_cublas(self, left: Memory) -> tuple[Memory, Memory, list[Event]]:
        """The product over the occupied bands, and that over all, stored whole."""
        import cupy

        def matrix(memory: Memory, rows: int, columns: int) -> Native:
            return cupy.ndarray((rows, columns), np.complex128, memptr=memory)

        a = matrix(left, len(self.bands), len(self.rows))
        b = matrix(self.resident.matrices["aqsn"], self.resident.problem.nb, self.ncouls)
        products, events = [], []
        for count in (self.occupied, len(self.bands)):
            memory = self.queue.allocate(16 * len(self.rows) * self.ncouls if count else 16)
            if count:
                multiply = _product(a[:count].T, b, self.bands[:count], matrix(memory, len(self.rows), self.ncouls))
                events.append(self.queue.timed("multiplying by cuBLAS", multiply))
            products.append(memory)
        return products[0], products[1], events

    def _kernel(self, name: str, defines: Defines) -> Any:
        return self.queue.kernel(source_of(name, "UNIT" in defines), name, defines)


def _product(a: Native, b: Native, bands: npt.NDArray[np.int32], out: Native) -> Callable[[Native], None]:
    """out = a @ b[bands], on the current stream; adjacent bands are not copied."""
    import cupy

    def work(stream: Native) -> None:
        adjacent = bands[-1] - bands[0] + 1 == len(bands)
        chosen = b[int(bands[0]) : int(bands[-1]) + 1] if adjacent else b[cupy.asarray(bands)]
        cupy.matmul(a, chosen, out=out)

    return work


@cache
def source_of(kernel: str, by_unit: bool = False) -> str:
    """The source of one kernel: some compilers take seconds for each kernel of a program."""
    names = "device.h", "weights.h", "gpp_sums.h", f"gpp_{kernel}.cl"
    own = [kernel_text(name, "gemmlab.workloads") for name in names]
    return "".join([own[0], kernel_text("units/units.h") if by_unit else "", *own[1:]])


def _check(problem: Problem, device: Any) -> None:
    """Whether the device can take the problem; errors in one line."""
    if not device.float64:
        raise BackendUnavailable(f"{device.label} has no double precision; fix: take another device")
    matrices = [getattr(problem, name).nbytes for name in MATRICES]
    if max(matrices) > device.allocation_bytes or sum(matrices) > device.memory_bytes:
        raise UnsupportedProblem(
            f"the problem's matrices take {sum(matrices)} bytes, {max(matrices)} in one piece; {device.label} has "
            f"{device.memory_bytes}, {device.allocation_bytes} in one piece: take a smaller problem, or form='fused'"
        )
    if max(problem.nb, -(-problem.ncouls // 64)) > MAX_GROUPS:
        raise UnsupportedProblem(
            f"a device takes at most {MAX_GROUPS} bands and {64 * MAX_GROUPS} columns, not {problem.nb} and "
            f"{problem.ncouls}: choose form='fused'"
        )
