"""What backends of emulated products have in common: parameters, and the scheme and the bound of a product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmlab._backend import ErrorBound, FullBackend, Param, Params, check_params
from gemmlab._emulated import schemes
from gemmlab._emulated.schemes import Scheme
from gemmlab._problem import Problem

INSTRUCTION = "instruction"  # what `resolve` says besides parameters


class BySchemes(FullBackend):
    """A backend whose products are put together from narrow ones, by the scheme that a call asks for."""

    kind = "emulated"
    params: Mapping[str, Param] = schemes.PARAMS

    def scheme(self, problem: Problem, params: Params) -> Scheme:
        """The scheme of a product."""
        given: dict[str, Any] = {name: x for name, x in params.items() if x is not None}
        check_params(self, given)
        scheme = schemes.scheme_for(_real_size(problem), problem.k, **given)
        if (packed := problem.packed) is not None:
            if given and scheme != packed.scheme:
                raise ValueError(f"b was packed by {packed.scheme.name}: pass no other parameters than to pack")
            scheme = packed.scheme
        schemes.check_norms(scheme, problem.k)
        return scheme

    def resolve(self, problem: Problem, params: Params) -> Params:
        """The scheme in force, its moduli, and what multiplies the narrow numbers."""
        scheme = self.scheme(problem, params)
        return {**scheme.params, INSTRUCTION: self.instruction(scheme, problem)}

    def instruction(self, scheme: Scheme, problem: Problem) -> str:
        """Which narrow numbers are multiplied, and by what."""
        raise NotImplementedError

    def error(self, problem: Problem, **params: Any) -> ErrorBound:
        """The bound of the scheme in force."""
        scheme, is_complex = self.scheme(problem, params), problem.dtype.kind == "c"
        return schemes.error_of(scheme, problem.k, _real_size(problem), is_complex)

    def forecast(self, problem: Problem, **params: Any) -> str:
        """The scheme, and the bound of its error."""
        return self.scheme(problem, params).described(self.error(problem, **params))


def _real_size(problem: Problem) -> int:
    """Bytes of a number, or of a complex number's parts."""
    nbytes: int = problem.dtype.itemsize
    return nbytes // 2 if problem.dtype.kind == "c" else nbytes
