"""Products on devices: the GPU ladder, written once in OpenCL C, on three runtimes.

    kernels/           the rungs' sources (.cl), and what they share
    ladder/            the rungs as data, what each launches, and a model of the bytes that each moves
    runtime.py         the interface of a runtime: devices, queues, events
    opencl.py  sycl.py  cuda.py        the three runtimes; opencl_drivers.py lists the drivers for the loader
    failures.py        the errors of drivers, as one line that says what to do
    cache.py           the disk cache of compiled programs; ptx.py compiles NVIDIA's PTX to machine code for it
    transfers/         how data comes to a device and back
    configurations/    which parameters a rung takes for a product: a profile's or its defaults
    batches.py         batches of matrices in device memory, split into launches
    backend.py         the host code of a product, the same for every runtime
    plans/             a product, planned and then executed: the launchers of the runtimes, and the plans that are kept
    streaming/         large products, in tiles, with transfers beside the work
    tensor/            other rungs, by the matrix units of NVIDIA's GPUs
    vendor.py          oneMKL and cuBLAS; CLBlast in clblast.py
    emulated/          float32 and float64 out of products of narrow numbers
    device_arrays.py   device arrays of users, and DLPack; as operands of a product: operands.py

A runtime's package is imported when one of its backends is first used, so a machine without it pays nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gemmlab._gpu.ladder.numbers import NUMBERS
from gemmlab._gpu.ladder.rung import Rung, RungParams, Shape
from gemmlab._gpu.ladder.rungs import BEST_RUNG, FASTEST, RUNG_NAMES, RUNGS
from gemmlab._gpu.ladder.traffic import Model, nothing
from gemmlab._gpu.tensor.kinds import UNITS
from gemmlab._name import RUNTIMES, BackendName

__all__ = [
    "EMULATED", "OF_UNITS", "RUNG_NAMES", "RUNTIMES", "TENSOR", "VENDORS", "backend_named", "best_rung", "choose_rung",
    "devices", "opencl_rung", "runtime_named",
]  # fmt: skip

if TYPE_CHECKING:
    from gemmlab._backend import Param
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Device, Runtime

class Source(Protocol):
    """A file with a text: a `pathlib.Path`, or what `importlib.resources.files` gives."""

    @property
    def name(self) -> str:
        """Its name, without folders."""

    def read_text(self, encoding: str | None = None) -> str:
        """What it holds."""


EMULATED = "emulated"  # the rung of products out of narrow ones, on every runtime
LEAST_OF_UNITS = 64  # extents from which a family's name gives a product to matrix units: they fill some of a tile
TENSOR = "tensor"  # the rung of matrix units that a family's name may stand for
OF_UNITS = (TENSOR, "tensor-async")  # on every runtime, though few devices have them
VENDORS = {"opencl": "clblast", "sycl": "onemkl", "cuda": "cublas"}


@functools.cache
def runtime_named(name: str) -> Runtime:
    """The runtime of a name, imported on first use."""
    if name == "opencl":
        from gemmlab._gpu.opencl import OpenCL

        return OpenCL()
    if name == "sycl":
        from gemmlab._gpu.sycl import Sycl

        return Sycl()
    from gemmlab._gpu.cuda import Cuda

    return Cuda()


def backend_named(name: str) -> DeviceBackend:
    """The backend of a name such as "opencl-local4" or, for a certain device, "opencl-local4:cpu"."""
    from gemmlab._gpu.backend import RungBackend

    parsed = BackendName.of(name)
    runtime = runtime_named(parsed.runtime)
    if VENDORS[parsed.runtime] == parsed.rung:
        from gemmlab._gpu.clblast import CLBlast
        from gemmlab._gpu.vendor import CuBLAS, OneMKL

        vendor = {"clblast": CLBlast, "onemkl": OneMKL, "cublas": CuBLAS}[parsed.rung]
        return vendor(runtime, parsed.selector)
    if parsed.rung == EMULATED:
        from gemmlab._gpu.emulated.backend import EmulatedOnDevice

        return EmulatedOnDevice(runtime, parsed.selector)
    if parsed.rung in OF_UNITS:
        from gemmlab._gpu.tensor.backend import TensorBackend
        from gemmlab._gpu.tensor.trial import RUNGS as UNIT_RUNGS

        return TensorBackend(runtime, UNIT_RUNGS[parsed.rung], parsed.selector)
    return RungBackend(runtime, RUNGS[RUNG_NAMES.index(parsed.rung)], parsed.selector)


def opencl_rung(
    name: str,
    text: str | Source,
    *,
    params: Sequence[Param],
    group: Callable[[RungParams], Shape],
    block: Callable[[RungParams], Shape],
    local: Callable[[RungParams], int] = lambda params: 0,
    registers: Callable[[RungParams], int] = lambda params: 1,
    traffic: Model = nothing,
    summary: str = "",
    source: str = "",
) -> DeviceBackend:
    """A backend of a kernel in OpenCL C, for a plugin. It runs as gemmlab's GPU rungs do.

    Sizes, batches, strides, device arrays, transfers and the cache of compiled programs are gemmlab's work. The kernel
    is `__kernel GROUP void gemm(OPERANDS)`, as in the files of `gemmlab/_gpu/kernels`; `gemm.h` there is put before it.

    Parameters
    ----------
    name : str
        The backend's name: `opencl-` and a word.
    text : str or path
        The kernel in OpenCL C, or its file (a `pathlib.Path`, or what `importlib.resources.files` gives). Messages of
        the compiler name this file, or else the backend, with the line of this text.
    params : sequence of Param
        Positive integers with a default. The kernel sees each as a macro in capitals; each function below gets a
        mapping of their values by name.
    group : callable
        Work-items of a work-group: along a row and along a column of C.
    block : callable
        The part of C that a work-group computes: columns, rows.
    local : callable, optional
        The numbers that a work-group keeps in local memory.
    registers : callable, optional
        The numbers that a work-item keeps in registers.
    traffic : callable, optional
        From `(m, n, k, params)`: numbers that are read and written at the levels "l1" and "local".
    summary, source : str, optional
        Half a line for `gemmlab backends`, and where the method comes from.

    Raises
    ------
    ValueError
        If the name does not begin with `opencl-`, or a parameter has no integer as its default.

    Examples
    --------
    >>> import gemmlab
    >>> kernel = '''
    ... __kernel GROUP void gemm(OPERANDS)
    ... {
    ...     THIS_PRODUCT;
    ...     const int i = get_global_id(1), j = get_global_id(0);
    ...     if (i >= m || j >= n)
    ...         return;
    ...     real sum = 0;
    ...     for (int p = 0; p < k; p++)
    ...         sum += A[i * lda + p] * B[p * ldb + j];
    ...     C[i * ldc + j] = sum;
    ... }'''
    >>> width = gemmlab.Param("group_x", 64, (16, 64), "work-items of a group")
    >>> backend = gemmlab.opencl_rung(
    ...     "opencl-mine", kernel, params=[width],
    ...     group=lambda params: (params["group_x"], 1), block=lambda params: (params["group_x"], 1),
    ... )
    >>> backend.name
    'opencl-mine'
    """
    from gemmlab._gpu.backend import RungBackend

    parsed = BackendName.of(name)
    if parsed.runtime != "opencl" or not parsed.rung:
        raise ValueError(f"the name of an OpenCL rung begins with opencl-, such as opencl-mine, not {name!r}")
    defaults = {param.name: param.default for param in params if isinstance(param.default, int)}
    if wrong := [param.name for param in params if param.name not in defaults]:
        raise ValueError(f"the default of a parameter must be an integer: {', '.join(wrong)}")
    rung = Rung(
        parsed.rung, summary, source, tuple(params), dict.fromkeys(("gpu", "cpu"), defaults), group, block, traffic,
        local, registers, own_text=_with_lines_of(text, name),
    )  # fmt: skip
    return RungBackend(runtime_named(parsed.runtime), rung)


def _with_lines_of(text: str | Source, name: str) -> str:
    """A kernel's text, whose lines the compiler counts from 1, in its file or under its backend's name."""
    content, file = (text, name) if isinstance(text, str) else (text.read_text(encoding="utf-8"), text.name)
    label = "".join(letter for letter in file if letter.isprintable() and letter not in '"\\')
    return f'#line 1 "{label}"\n{content}'


def best_rung(family: BackendName) -> str:
    """The backend that a runtime's family name stands for where no product is known; see `choose_rung`."""
    return family.of_rung(BEST_RUNG)


def choose_rung(runtime: str, device: Device, dtype: str, m: int, n: int, k: int) -> tuple[str, str]:
    """The rung that a runtime's family name selects for one product, and why: the fastest that can run it."""
    kind = "cpu" if device.kind == "cpu" else "gpu"
    reasons: list[str] = []
    if device.compute_capability is not None and dtype in UNITS and min(m, n, k) >= LEAST_OF_UNITS:
        from gemmlab._gpu.tensor import trial

        if trial.has_unit(device, dtype):
            return TENSOR, f"{runtime}-{TENSOR} multiplies {dtype} by the matrix unit of {device.label}"
        reasons.append(f"not {runtime}-{TENSOR}: {device.label} has no matrix unit for {dtype}")
    for name in FASTEST[kind]:
        rung = RUNGS[RUNG_NAMES.index(name)].on(kind)
        if dtype in NUMBERS and dtype not in rung.dtypes:
            continue
        refusal = rung.refusal(rung.resolve({}, kind), dtype, device) if dtype in NUMBERS else None
        if refusal is None:
            why = f"our fastest for {m} x {n} x {k} of {dtype} on {device.label}"
            return name, "; ".join([f"{runtime}-{name} is {why}", *reasons])
        reasons.append(f"not {runtime}-{name}: {refusal}")
    return BEST_RUNG, "; ".join(reasons)


def devices() -> dict[str, tuple[Device, ...] | str]:
    """The devices of each runtime, or a sentence that says why it has none and what to do."""
    from gemmlab._errors import BackendUnavailable

    found: dict[str, tuple[Device, ...] | str] = {}
    for name in RUNTIMES:
        try:
            found[name] = runtime_named(name).devices
        except BackendUnavailable as error:
            found[name] = str(error)
    return found
