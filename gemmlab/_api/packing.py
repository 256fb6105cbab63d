"""pack: a right operand that is packed once, for many products."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from gemmlab import _registry
from gemmlab._api.foreign import Options, array_owner, foreign_operand
from gemmlab._backend import FullBackend, check_params
from gemmlab._cpu.packed_backend._packed import PackedOperand
from gemmlab._emulated.operand import NarrowOperand
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, Problem, as_array

PACKED = PackedOperand, NarrowOperand  # what `pack` returns


@overload
def pack(
    b: npt.ArrayLike, *, backend: Literal["cpu-packed", "cpu-emulated"] = "cpu-packed", **params: Any
) -> PackedOperand | NarrowOperand: ...
@overload
def pack(b: Any, *, backend: str, **params: Any) -> Any: ...
def pack(b: Any, *, backend: str = "cpu-packed", **params: Any) -> Any:
    """Pack a matrix into the panels that `cpu-packed` reads, for many products with it as the right operand.

    For `cpu-emulated` it is taken apart into narrow numbers. For a rung of a GPU it is brought to the device, and lies
    there as the rung reads it without a copy for each product.

    Parameters
    ----------
    b : array_like
        A matrix of shape (k, n), of any dtype that the backend multiplies and with any strides. Later changes to it
        have no effect.
    backend : str, optional
        "cpu-packed", "cpu-emulated", or on a GPU `tuned`, `tensor` or `tensor-async`, such as "cuda-tensor".
    **params
        Parameters of `cpu-emulated`, as for `matmul`; the products have them too.

    Returns
    -------
    PackedOperand, NarrowOperand or device array
        Pass it to `matmul` instead of `b`; the product has the bits of the backend. It has `shape`, `dtype` and
        `nbytes`, and holds a copy of the elements: 4 bytes for each float16 and float32, 8 for each float64, 2 or 4 for
        each bfloat16. Of `cpu-emulated` it holds the narrow numbers besides. On a GPU it is an array of the runtime's
        usual type (pyopencl, dpctl, CuPy), whose rows or columns begin at multiples of 16 bytes: pass it with A on the
        same device.

    Raises
    ------
    ValueError
        If `b` does not have two dimensions.
    UnsupportedProblem
        If the backend packs no operands or does not multiply its dtype, or `b` is a sparse matrix.
    MemoryError
        If there is no memory for the panels.

    Notes
    -----
    The panels are in the order of this processor's kernels. So a packed operand cannot be pickled, and it cannot be
    read as an array. A copy is the same object: it never changes.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> weights = gemmlab.pack(np.ones((3, 2)))
    >>> gemmlab.matmul(np.eye(3)[:1], weights)
    array([[1., 1.]])
    >>> narrow = gemmlab.pack(np.ones((3, 2)), backend="cpu-emulated", moduli=12)
    >>> gemmlab.matmul(np.eye(3)[:1], narrow)
    array([[1., 1.]])
    """
    b = as_array(b) if (owner := array_owner(b)) is None else _brought(b, owner)
    if b.ndim != 2:
        raise ValueError(f"pack takes a matrix, not an array of {b.ndim} dimensions")
    chosen = _registry.get(_registry.resolve_name(backend))
    check_params(chosen, params)
    if (why_not := _registry.refusal(chosen, Problem(b[:0], b, b[:0]))) is not None:
        raise UnsupportedProblem(why_not)
    return chosen.pack(np.require(b, b.dtype.newbyteorder("="), "A"), params)


def _brought(b: AnyArray, owner: str) -> AnyArray:
    """A device array, or another library's, as a host array."""
    from gemmlab._gpu import device_arrays

    found = device_arrays.exchanged(b) if owner == "dlpack" else b
    return found if isinstance(found, np.ndarray) else device_arrays.to_host(found)


def home_of(packed: PackedOperand | NarrowOperand) -> str:
    """The backend that multiplies what is packed."""
    return "cpu-emulated" if isinstance(packed, NarrowOperand) else "cpu-packed"


def with_packed(
    name: str, a: AnyArray, b: PackedOperand | NarrowOperand, out: AnyArray, options: Options
) -> tuple[FullBackend, Problem]:
    """The backend and the problem of a product with a packed operand."""
    home = home_of(b)
    chosen = _registry.get(home if name == "auto" else name)
    if chosen.name != home:
        raise UnsupportedProblem(f"{chosen.name} takes no packed operand: pass the matrix itself, or use {home}")
    problem = Problem.from_call(a, b.placeholder, out, **options)
    if (foreign := foreign_operand(a, None, out)) is not None:
        raise UnsupportedProblem(f"a packed operand is multiplied with plain arrays, not {type(foreign).__name__}")
    axes = options["axes"]
    if isinstance(axes, list) and axes[1][0] % 2 == 1:
        raise UnsupportedProblem("axes cannot transpose a packed operand: pass pack(b.T)")
    if problem.dtype != b.dtype:
        what = f"this product is one of {problem.dtype}, and b was packed as {b.dtype}"
        raise UnsupportedProblem(f"{what}: pack(b.astype({str(problem.dtype)!r}))")
    problem.packed = b
    return chosen, problem
