"""Arrays of other libraries: the product, or one line with the way out."""

from __future__ import annotations

import sys
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from randomness import RNG

import gemmlab
from gemmlab._gpu.transfers import dlpack


class Tensor:
    """An array of a library of its own. Its bfloat16 is one that NumPy does not know, as that of PyTorch and of JAX."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.dtype = f"library.{self.values.dtype}"

    def __dlpack__(self, **options):
        if self.values.dtype == ml_dtypes.bfloat16:
            return dlpack._Retyped(self.values.view(np.uint16), dlpack.BFLOAT).__dlpack__(**options)
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return 1, 0


class Parameter(Tensor):
    """A subclass of the same library."""


class ForGradients(Tensor):
    def __dlpack__(self, **options):
        raise BufferError("cannot export what requires a gradient, use detach()")


class OnNoDevice(Tensor):
    def __dlpack_device__(self):
        raise ValueError("no device of DLPack")


def from_dlpack(x):
    capsule = x.__dlpack__()
    code = dlpack.tensor_in(capsule).code
    if code == dlpack.BFLOAT:
        dlpack.tensor_in(capsule).code = dlpack.UNSIGNED
    values = np.from_dlpack(type("Capsule", (), {
        "__dlpack__": lambda self, **_: capsule, "__dlpack_device__": lambda self: (1, 0)})())  # fmt: skip
    return Tensor(values.view(ml_dtypes.bfloat16) if code == dlpack.BFLOAT else values)


@pytest.fixture(params=["", ".dlpack", ".utils.dlpack", "class", "namespace"])
def library(request, monkeypatch):
    """The library as a module, with from_dlpack in one of the places where libraries have it."""
    for kind in (Tensor, Parameter, ForGradients, OnNoDevice):
        monkeypatch.setattr(kind, "__module__", "a_library.tensors")
    monkeypatch.setitem(sys.modules, "a_library", ModuleType("a_library"))
    if request.param == "class":
        monkeypatch.setattr(Tensor, "from_dlpack", staticmethod(from_dlpack), raising=False)
    elif request.param == "namespace":
        space = ModuleType("space")
        space.from_dlpack = from_dlpack
        monkeypatch.setattr(Tensor, "__array_namespace__", lambda self: space, raising=False)
    else:
        place = ModuleType(f"a_library{request.param}")
        place.from_dlpack = from_dlpack
        monkeypatch.setitem(sys.modules, place.__name__, place)


@pytest.fixture
def bare(monkeypatch):
    """The library without from_dlpack."""
    for kind in (Tensor, ForGradients, OnNoDevice):
        monkeypatch.setattr(kind, "__module__", "a_library.tensors")
    monkeypatch.setitem(sys.modules, "a_library", ModuleType("a_library"))


def operands(dtype="float32"):
    return RNG.integers(-4, 4, (9, 12)).astype(dtype), RNG.integers(-4, 4, (12, 7)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "complex128"])
def test_products(library, dtype):
    a, b = operands(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    c = gemmlab.matmul(Tensor(a), Tensor(b))
    assert type(c) is Tensor
    assert c.values.dtype == a.dtype
    expected = a.astype("c16") @ b.astype("c16")
    assert np.array_equal(c.values.astype("c16"), expected)
    out = Tensor(np.zeros((9, 7), a.dtype))
    assert gemmlab.matmul(Tensor(a), Tensor(b), out=out, backend="cpu-packed") is out
    assert np.array_equal(out.values.astype("c16"), expected)
    assert np.array_equal(np.asarray(gemmlab.asarray(Tensor(a))), a)
    assert "cpu-packed" in str(gemmlab.explain(Tensor(a), Tensor(b)))


@pytest.mark.parametrize("kinds", [(Parameter, Tensor), (Tensor, Parameter), (Parameter, Parameter)])
def test_subclasses_of_one_library_go_together(library, kinds):
    a, b = operands()
    assert np.array_equal(gemmlab.matmul(kinds[0](a), kinds[1](b)).values, a @ b)


def test_a_users_subclass_goes_with_its_librarys_arrays(library):
    class Mine(Tensor):
        pass

    a, b = operands()
    assert np.array_equal(gemmlab.matmul(Mine(a), Tensor(b)).values, a @ b)


def test_without_from_dlpack_a_result_needs_out(bare):
    a, b = operands()
    with pytest.raises(gemmlab.UnsupportedProblem, match=r"a_library has no from_dlpack.*pass out="):
        gemmlab.matmul(Tensor(a), Tensor(b))
    out = Tensor(np.zeros((9, 7), "f4"))
    assert gemmlab.matmul(Tensor(a), Tensor(b), out=out) is out
    assert np.array_equal(out.values, a @ b)


@pytest.mark.parametrize("other", [None, [[1.0]] * 12, np.ones((12, 7), "f4"), 3, "text", object()])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_does_not_go_with_it_is_one_line(bare, other, swapped):
    a, _ = operands()
    pair = (other, Tensor(a)) if swapped else (Tensor(a), other)
    with pytest.raises(gemmlab.UnsupportedProblem, match="operands of different kinds") as caught:
        gemmlab.matmul(*pair)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [ForGradients, OnNoDevice])
def test_what_a_library_does_not_give_is_one_line_with_its_reason(bare, kind):
    a, b = operands()
    out = Tensor(np.zeros((9, 7), "f4"))
    with pytest.raises(gemmlab.UnsupportedProblem, match=r"detach\(\)|no device of DLPack") as caught:
        gemmlab.matmul(kind(a), kind(b), out=out)
    assert "\n" not in str(caught.value)
