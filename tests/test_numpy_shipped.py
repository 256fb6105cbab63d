"""The tests that NumPy ships for its own matmul, run on every backend of ours."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import gemmlab


class AnyMark:
    """`pytest.mark`, and marks of no effect for those that only NumPy's own configuration knows."""

    mark = pytest.mark

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.mark, name)
        except pytest.fail.Exception:
            return self.mark.skipif(False, reason="a mark of NumPy's")


with pytest.MonkeyPatch.context() as patch:
    patch.setattr(pytest, "mark", AnyMark())
    shipped = pytest.importorskip("numpy._core.tests.test_multiarray")

BACKENDS = [
    "auto",
    "cpu-numpy",
    *(name for name, info in gemmlab.backends().items() if info.available and info.kind == "rung"),
]
M1, M2 = np.arange(15.0).reshape(5, 3), np.arange(21.0).reshape(3, 7)
M3 = np.arange(30.0).reshape(5, 6)[:, ::2]
M0, V = np.zeros((3, 0)), np.arange(10.0)
PAIRS = [
    *product((M1, M3, M2.T, M1.copy("F")), (M2, M1.T, M3.T, M2.copy("F"))),
    *product((M1, M3, M2.T), (V[:3], V[:6:2], V[2::-1])),
    *product((V[:5], V[::2], V[4::-1]), (M1, M3)),
    *[(M0, M0.T), (M0.T, M0), (M1, M0), (M0.T, M1.T), (V, V[::-1])],
]


class TestMatmul(shipped.TestMatmul):
    """Tests whose body names np.matmul are replaced; the others run as they are."""

    @pytest.fixture(autouse=True, params=BACKENDS)
    def _backend(self, request: pytest.FixtureRequest) -> None:
        def matmul(*args: Any, **options: Any) -> Any:
            try:
                return gemmlab.matmul(*args, backend=request.param, **options)
            except gemmlab.UnsupportedProblem:  # a named backend may refuse NumPy's other dtypes
                assert request.param != "auto"
                assert np.result_type(*args[:2]).name not in ("float32", "float64")
                return np.matmul(*args, **options)

        self.matmul = matmul

    @pytest.mark.parametrize("args", PAIRS)
    def test_dot_equivalent(self, args: Any) -> None:
        np.testing.assert_array_equal(self.matmul(*args), np.dot(*args))
        np.testing.assert_array_equal(self.matmul(*(x.copy() for x in args)), np.dot(*args))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
    def test_dot_equivalent_matrix_matrix_blastypes(self, dtype: Any) -> None:
        def arranged(x: Any) -> list[Any]:
            wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), dtype)
            wide[::2, ::3] = x
            return [x.copy(), x.copy("F"), wide[::2, ::3], np.asfortranarray(wide)[::2, ::3]]

        imaginary = 1j if np.issubdtype(dtype, np.complexfloating) else 0
        a, b = (M1 + imaginary).astype(dtype), (M2 + imaginary).astype(dtype)
        for x, y, out in product(arranged(a), arranged(b), arranged(np.full((5, 7), np.nan, dtype))):
            np.testing.assert_array_equal(self.matmul(x, y, out=out), np.dot(a, b))

    def test_matmul_empty(self) -> None:
        for dtype in (object, np.float32, np.float64, int):
            empty = np.empty((3, 0), dtype), np.empty((0, 3), dtype)
            np.testing.assert_array_equal(self.matmul(*empty), np.zeros((3, 3)))

    def test_matmul_bool(self) -> None:
        a = np.array([[True, False], [True, True]])
        assert self.matmul(a, a).view(np.uint8).max() == 1
        assert not self.matmul(np.zeros((2, 0), bool), np.zeros(0, bool)).any()

    @pytest.mark.parametrize("having", ["__add__", "__mul__"])
    def test_half_a_number(self, having: str) -> None:
        half_a_number = type("half_a_number", (), {having: lambda self, other: self})
        a = np.full((3, 3), half_a_number())
        with pytest.raises(TypeError):
            self.matmul(a, a)

    test_matmul_exception_multiply = test_matmul_exception_add = None  # the test above
