"""The products to be measured against: NumPy's matmul, and three vendors' BLAS through one shim.

    cpu-numpy   np.matmul as it is
    cpu-blas    the BLAS that SciPy is linked to, by the pointers that `scipy.linalg.cython_blas` exports
    cpu-mkl     Intel's MKL from the wheel `mkl`
    cpu-blis    BLIS from the wheel `blis`

All three BLAS end in the same compiled call as our rungs, so a call costs the same. Leading dimensions and
transposed operands are passed on; any other layout is copied, and counted. Thread counts are set through
threadpoolctl, and `thread_scope` says how far such a setting reaches.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from gemmlab._backend import Availability, FullBackend, Param, check_params
from gemmlab._cpu import machine
from gemmlab._cpu._driver import Kernel, layout, numpys
from gemmlab._cpu.layouts import Array, in_rows, not_its_dtype, run_in_layouts
from gemmlab._problem import Problem
from gemmlab._process import forks

INT32_MAX = 2**31 - 1
BLAS_DTYPES = "fdFD"  # whose products NumPy gives to its BLAS


class Absent(Exception):
    """A library is not there: the reason, and the command that brings it."""


class NumPy(FullBackend):
    """np.matmul, every dtype it does."""

    name, kind, source = "cpu-numpy", "baseline", "NumPy"
    params: Mapping[str, Param] = {}
    kernel = None  # plain products go straight to np.matmul
    is_compiled = reports_errors = True

    @property
    def summary(self) -> str:
        """What it is, with the BLAS behind it."""
        return _with_version("np.matmul, on", _pools("numpy"))

    def probe(self) -> Availability:
        """Always there."""
        return Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        return problem.dtype.char not in BLAS_DTYPES or not numpys.is_lost or lost(self.name)

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """No parameters."""
        check_params(self, params)
        return {}

    def threads(self, problem: Problem) -> int:
        """Threads that NumPy's BLAS may use."""
        return _threads_of("numpy", problem.threads)

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        check_params(self, params)
        with _as_asked("numpy", problem), numpys:
            np.matmul(*problem.operands(), out=problem.out)


class Blas(FullBackend):
    """A vendor's `sgemm` and `dgemm`, called as our rungs are."""

    kind, is_compiled = "baseline", True
    params: Mapping[str, Param] = {}

    def __init__(self, name: str, library: str, summary: str, load: Callable[[], Kernel]) -> None:
        self.name, self.library, self.source = name, library, library
        self._summary, self._load = summary, load

    @property
    def summary(self) -> str:
        """What it is, with name, version and chosen kernels of the library where it tells them."""
        return _with_version(self._summary, _pools(self.library)) if self.probe().ok else self._summary

    @cached_property
    def kernel(self) -> Kernel:
        """The library's two functions; raises Absent where there is no such library."""
        return self._load()

    def probe(self) -> Availability:
        """Whether the library can be loaded, and which it is."""
        try:
            _ = self.kernel
        except Absent as absent:
            reason, fix = absent.args
            return Availability(False, reason, fix)
        return Availability(True, device=machine.cpu_name())

    def supports(self, problem: Problem) -> bool | str:
        if problem.dtype.name not in ("float32", "float64"):
            return not_its_dtype(self.name, problem)
        if max(problem.m, problem.n, problem.k) > INT32_MAX:
            return f"{self.name} counts in 32 bits: no side may be over {INT32_MAX}"
        return not self.kernel.library.is_lost or lost(self.name)

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """No parameters."""
        check_params(self, params)
        return {}

    def threads(self, problem: Problem) -> int:
        """Threads that the library may use."""
        return _threads_of(self.library, problem.threads)

    def gemm(self, problem: Problem, **params: Any) -> None:
        """Fill `problem.out`."""
        check_params(self, params)
        with _as_asked(self.library, problem):
            run_in_layouts(problem, "CF", partial(self.call, problem), furthest=INT32_MAX)

    def call(self, problem: Problem, a: Array, b: Array, out: Array) -> None:
        """The library's function, on operands in layouts that it takes."""
        self.kernel.run(a, b, out)


class Blis(Blas):
    """BLIS, kept from the one layout in which it computes wrongly."""

    def call(self, problem: Problem, a: Array, b: Array, out: Array) -> None:
        """With rows of A, where both operands lie in columns.

        Of 1.3.4, the kernels of dgemm that AVX2 and AVX-512 share leave elements of a row unwritten then, if n is 5
        more than a multiple of 6.
        """
        if problem.dtype == np.float64 and layout(a) == layout(b) == "F":
            a = in_rows(a)
            problem.copies += 1
        super().call(problem, a, b, out)


def baselines() -> tuple[NumPy | Blas, ...]:
    """All baselines, present or not."""
    return (
        NumPy(),
        Blas("cpu-blas", "scipy", "SciPy's BLAS,", _scipy_blas),
        Blas("cpu-mkl", "mkl", "Intel's", _mkl),
        Blis("cpu-blis", "blis", "BLIS, one thread by build", _blis),
    )


def _scipy_blas() -> Kernel:
    try:
        exported = import_module("scipy.linalg.cython_blas").__pyx_capi__
    except ImportError as error:
        raise Absent(f"SciPy cannot be imported: {error}", "pip install scipy") from None
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    addresses = []
    for function in ("sgemm", "dgemm"):
        signature = get_name(exported[function])
        if b"int *, int *, int *" not in signature:
            reason = f"SciPy's {function} does not take 32-bit integers: {signature.decode()}"
            raise Absent(reason, "pip install --force-reinstall scipy")
        addresses.append(get_pointer(exported[function], signature))
    return Kernel(*addresses, convention="fortran")


def _mkl() -> Kernel:
    return _kernel_of(mkl_library(), ("sgemm_", "dgemm_"), "fortran")


def mkl_library() -> Path:
    """The file of the wheel `mkl` that has its functions; raises Absent where there is none."""
    try:
        files = distribution("mkl").files or []
    except PackageNotFoundError:
        raise Absent("MKL is not installed", "pip install 'gemmlab[mkl]'") from None
    found = [Path(str(file.locate())) for file in files if "mkl_rt" in file.name]
    if not found:
        raise Absent("the package mkl holds no mkl_rt library", "pip install --force-reinstall mkl")
    return found[0]


def _blis() -> Kernel:
    try:
        module = import_module("blis.cy")
    except ImportError as error:
        raise Absent(f"BLIS is not installed ({error})", "pip install 'gemmlab[blis]'") from None
    return _kernel_of(Path(str(module.__file__)), ("bli_sgemm", "bli_dgemm"), "blis")


def _kernel_of(path: Path, functions: tuple[str, str], convention: str) -> Kernel:
    try:
        library = ctypes.CDLL(str(path))
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in functions]
    except (OSError, AttributeError) as error:
        raise Absent(f"{path.name} cannot be used: {error}", f"reinstall the package that brings {path.name}") from None
    return Kernel(*addresses, convention=convention)


@cache
def _pools(library: str) -> tuple[Any, ...]:
    """threadpoolctl's controllers of the BLAS that `library` brought.

    A distribution may link NumPy and SciPy to one BLAS of the system: then no path names them, and every
    BLAS found is theirs.
    """
    from threadpoolctl import ThreadpoolController

    if library == "blis":
        return ()  # built without threads
    found = [
        pool for pool in ThreadpoolController().lib_controllers
        if pool.user_api == "blas" and pool.internal_api != "gemmlab"
    ]  # fmt: skip
    if library == "mkl":
        return tuple(pool for pool in found if pool.internal_api == "mkl")
    own = tuple(pool for pool in found if f"{library}.libs" in pool.filepath)
    return own or tuple(pool for pool in found if ".libs" not in pool.filepath)


def lost(name: str) -> str:
    """Why a library cannot be used in this child of a fork."""
    return (
        f"{name} cannot be used in this child: at the fork a product was inside the library, which may wait for ever "
        f"for threads of the parent; {forks.ADVICE}, or take cpu-packed"
    )


def _as_asked(library: str, problem: Problem) -> AbstractContextManager[None]:
    """The library on as many threads as the problem asks for; if it asks for none, as it is."""
    return limited(_pools(library), problem.threads) if problem.threads else nullcontext()


@contextmanager
def limited(pools: tuple[Any, ...], threads: int) -> Iterator[None]:
    """Run a block with these libraries on so many threads.

    Calls that overlap in time see each other's count, as far as the setting reaches (`thread_scope`); when the
    last of them ends, the library has the count from before the first.
    """
    with _limits_lock:
        for pool in pools:
            users, before = _limits.get(_reach(pool), (0, pool.num_threads))
            _limits[_reach(pool)] = (users + 1, before)
            pool.set_num_threads(threads)
    try:
        yield
    finally:
        with _limits_lock:
            for pool in pools:
                users, before = _limits.pop(_reach(pool))
                if users > 1:
                    _limits[_reach(pool)] = (users - 1, before)
                else:
                    pool.set_num_threads(before)


def _reach(pool: Any) -> tuple[int, int]:
    """What one setting of a library's count reaches: with MKL the thread that sets it, else the process."""
    return id(pool), threading.get_ident() if pool.internal_api == "mkl" else 0


_limits: dict[tuple[int, int], tuple[int, int]] = {}  # users just now, and the count before the first of them
_limits_lock = forks.Lock()


def thread_scope(name: str) -> str:
    """How far setting this backend's thread count reaches."""
    pools = _pools({"cpu-numpy": "numpy", "cpu-blas": "scipy", "cpu-mkl": "mkl"}.get(name, "blis"))
    if not pools:
        return "one thread by build" if name == "cpu-blis" else "one call (num_threads of the parallel region)"
    return "this thread" if pools[0].internal_api == "mkl" else "the whole process"


def _threads_of(library: str, asked: int | None) -> int:
    pools = _pools(library)
    return asked if asked and pools else max((int(pool.num_threads) for pool in pools), default=1)


def _with_version(summary: str, pools: tuple[Any, ...]) -> str:
    if not pools:
        return summary.rstrip(",")
    info = pools[0].info()
    names = {"openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS"}
    words = [names.get(info["internal_api"], info["internal_api"]), info.get("version"), info.get("architecture")]
    return f"{summary} {' '.join(str(word) for word in words if word)}"
