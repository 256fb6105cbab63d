"""asarray: an array whose products go through gemmlab, also in code that only knows NumPy.

NumPy asks the classes of its operands before it computes (`__array_ufunc__`, `__array_function__`). `GemmArray` answers
with gemmlab's product where there is one. It always passes plain arrays on, to a backend as to NumPy: the backend
`cpu-numpy` calls numpy.matmul, which would otherwise come back here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gemmlab import _front
from gemmlab._api import numpy_products
from gemmlab._api.choosing import requested_backend
from gemmlab._api.foreign import Options, array_owner, foreign_operand
from gemmlab._api.labels import NotAProduct, OnlyInNumPy
from gemmlab._backend import Params
from gemmlab._config import Scope, scope
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, as_array

Function = Callable[..., AnyArray]


class GemmArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array whose products go through `gemmlab.matmul`: see `gemmlab.asarray`."""

    __slots__ = ()

    __array_ufunc__ = _front.array_ufunc

    def _general_ufunc(
        self, ufunc: np.ufunc, method: str, *inputs: AnyArray, out: tuple[AnyArray, ...] = (), **options: Any
    ) -> AnyArray:
        if any(map(_has_own_ufuncs, (*inputs, *out))):
            return NotImplemented
        plain = tuple(map(unwrapped, inputs))
        plain_options = {name: unwrapped(value) for name, value in options.items()}
        if out:
            plain_options["out"] = unwrapped(out[0] if len(out) == 1 else out)
        if method == "__call__" and ufunc in UFUNCS:
            result = _product_or_numpys(UFUNCS[ufunc], ufunc, plain, plain_options)
        else:
            result = getattr(ufunc, method)(*plain, **plain_options)
        if not out:
            return wrapped(result)
        if len(out) == 1:
            return out[0]
        return tuple(wrapped(new) if given is None else given for given, new in zip(out, result, strict=True))

    def __array_function__(
        self, function: Function, types: Iterable[type], args: Iterable[Any], kwargs: Mapping[str, AnyArray]
    ) -> AnyArray:
        if not all(issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        args = tuple(args)
        given = plain = (*args, *kwargs.values())
        if function in FUNCTIONS:
            plain = unwrapped(given)
            options = dict(zip(kwargs, plain[len(args) :], strict=True))
            result = _product_or_numpys(FUNCTIONS[function], function, plain[: len(args)], options)
        elif not hasattr(function, "_implementation"):  # `like=`, which NumPy 2.0 does not do for a subclass
            result = function(*args, **kwargs)
        else:
            if function is np.linalg.multi_dot:
                args, kwargs = _all_wrapped(*args, **kwargs)
            result = super().__array_function__(function, types, args, kwargs)
        out = next((x for x, passed in zip(given, plain, strict=True) if passed is result), None)
        return wrapped(result) if out is None else out

    def __matmul__(self, other: AnyArray) -> AnyArray:
        result = _front.product_of_ours(self, other)  # without asking both classes, if that is possible
        return super().__matmul__(other) if result is None else result

    def __rmatmul__(self, other: AnyArray) -> AnyArray:
        result = _front.product_of_ours(other, self)
        return super().__rmatmul__(other) if result is None else result

    def dot(self, b: AnyArray, out: AnyArray = None) -> AnyArray:
        """As numpy.dot, which NumPy's method does not ask for. Like that method, it does not ask the class of `b`:
        CuPy's dot would come back here."""
        return self.__array_function__(np.dot, (GemmArray,), (self, b), {} if out is None else {"out": out})


_front.set_array_class(GemmArray, {bool, int, float, complex, *np.sctypeDict.values()} - {np.object_, np.void},
                       GemmArray._general_ufunc)  # fmt: skip
UFUNCS: dict[Function, Function] = {np.matmul: numpy_products.matmul} | {
    getattr(np, name): numpy_products.vector_product(name)
    for name in numpy_products.CORE_LABELS
    if hasattr(np, name)  # NumPy 2.2 added matvec and vecmat
}
FUNCTIONS: dict[Function, Function] = {
    np.dot: numpy_products.dot,
    np.vdot: numpy_products.vdot,
    np.inner: numpy_products.inner,
    np.tensordot: numpy_products.tensordot,
    np.einsum: numpy_products.einsum,
}


def asarray(x: AnyArray) -> GemmArray:
    """An array whose products go through gemmlab, in code that knows only NumPy.

    `@`, `numpy.matmul`, `dot`, `vdot`, `inner`, `vecdot`, `matvec`, `vecmat`, `tensordot`, `linalg.multi_dot` and
    `einsum` of two operands are computed by the backend that `gemmlab.matmul` would take: the one of `gemmlab.use` or
    of `gemmlab.config`, by default "auto". They mean what they mean in NumPy. Everything else is NumPy's; the results
    are arrays of this class again, and so are the results of `gemmlab.matmul`.

    Parameters
    ----------
    x : array_like
        Any array of the host. Its elements are not copied where `numpy.asarray` would not copy them.

    Returns
    -------
    GemmArray
        A view, an ndarray of a class that holds no data itself. `numpy.asarray` of it is the plain array.

    Raises
    ------
    UnsupportedProblem
        Arrays on a device, masked arrays (their mask would be lost), and what NumPy takes for no array.

    Examples
    --------
    >>> import numpy as np, gemmlab
    >>> weights = gemmlab.asarray(np.eye(2))
    >>> with gemmlab.use("cpu-blocked"), gemmlab.trace() as calls:
    ...     np.tanh(np.ones((1, 2)) @ weights).shape
    (1, 2)
    >>> calls[0].backend
    'cpu-blocked'
    """
    if isinstance(x, GemmArray):
        return x
    what, owner = name_of(x), array_owner(x)
    if owner not in (None, "dlpack") or (owner == "dlpack" and not _is_on_host(x)):
        raise UnsupportedProblem(f"{what} is on a device: gemmlab.matmul takes it as it is, or copy it to the host")
    if isinstance(x, np.ndarray) and hasattr(type(x), "mask"):
        raise UnsupportedProblem("the mask of a masked array would be lost: pass its filled(...) or its data")
    plain = _from_library(x) if owner == "dlpack" else as_array(x)
    if plain.dtype == object and plain.ndim == 0 and not isinstance(x, np.ndarray):
        raise UnsupportedProblem(f"NumPy takes {what} for no array: convert it first")
    return plain.view(GemmArray)


def name_of(x: AnyArray) -> str:
    """The class of an operand, for messages."""
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _is_on_host(x: AnyArray) -> bool:
    from gemmlab._gpu.device_arrays import DLPACK_CPU
    from gemmlab._gpu.transfers import dlpack

    return dlpack.device_of(x) == DLPACK_CPU


def _from_library(x: AnyArray) -> AnyArray:
    """NumPy's array for one that DLPack exchanges, by NumPy's own protocol where the library has it for this dtype."""
    from gemmlab._gpu.transfers import dlpack

    return as_array(x) if hasattr(x, "__array__") and not dlpack.is_bfloat16(x) else dlpack.on_host(x)


def unwrapped(x: AnyArray) -> AnyArray:
    """A plain array for an array of our class, also in a tuple; anything else as it is."""
    if isinstance(x, GemmArray):
        return x.view(np.ndarray)
    return tuple(map(unwrapped, x)) if type(x) is tuple else x


def wrapped(x: AnyArray) -> AnyArray:
    """An array of our class for a plain one, also in a tuple or list; anything else as it is."""
    if type(x) is np.ndarray:
        return x.view(GemmArray)
    if isinstance(x, tuple):
        return getattr(type(x), "_make", tuple)(map(wrapped, x))
    return list(map(wrapped, x)) if type(x) is list else x


def multiply_wrapped(
    a: AnyArray, b: AnyArray, out: AnyArray, backend: str | None, options: Options, params: Params
) -> AnyArray:
    """`gemmlab.matmul` where an operand or `out` is of our class."""
    result = _front.matmul(unwrapped(a), unwrapped(b), unwrapped(out), backend=backend, **options, **params)
    if out is None:
        return wrapped(result)
    return out[0] if isinstance(out, tuple) else out


def _product_or_numpys(
    product: Function, function: Function, args: tuple[AnyArray, ...], kwargs: dict[str, AnyArray]
) -> AnyArray:
    """A product by gemmlab; by NumPy's function what is no product, or what only NumPy has."""
    try:
        refuse_foreign(*args, *kwargs.values())
        return product(*args, **kwargs)
    except NotAProduct:
        pass
    except OnlyInNumPy as why:
        refuse_if_named(f"numpy.{function.__name__} with {why}")
    return by_numpy(function, args, kwargs)


def by_numpy(function: Function, args: tuple[AnyArray, ...], kwargs: dict[str, AnyArray]) -> AnyArray:
    """NumPy's function of plain arrays: the one way by which a product of our class is not gemmlab's."""
    return function(*args, **kwargs)


def refuse_foreign(*given: AnyArray) -> None:
    """OnlyInNumPy for classes that dispatch NumPy's functions themselves, UnsupportedProblem for arrays on a device."""
    for x in given:
        if type(x) is np.ndarray:
            continue
        if array_owner(x) not in (None, "dlpack"):
            raise UnsupportedProblem(f"{name_of(x)} is on a device: copy it to the host")
        if foreign_operand(x, None, None) is not None:
            raise OnlyInNumPy(f"operands of {type(x).__name__}")


def refuse_if_named(what: str, backend: str | None = None) -> None:
    """UnsupportedProblem if this call names a backend, which must not be replaced by NumPy."""
    name = requested_backend(backend, scope.get() or Scope())
    if name not in ("auto", "cpu-numpy"):
        raise UnsupportedProblem(f"{name} does not take {what}: use the backend auto, or NumPy's function")


def _has_own_ufuncs(x: AnyArray) -> bool:
    """Whether an operand answers NumPy's question itself; it is then asked."""
    own = getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is not np.ndarray.__array_ufunc__ and not isinstance(x, GemmArray)


def _all_wrapped(arrays: Sequence[AnyArray], **options: AnyArray) -> tuple[tuple[AnyArray, ...], dict[str, AnyArray]]:
    """The arguments of multi_dot with all arrays of our class, so that no product of two is missed."""
    return ([wrapped(np.asanyarray(x)) for x in arrays],), options
