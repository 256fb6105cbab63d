"""A backend as a package of its own; docs/adding-a-backend.md explains it."""

from typing import ClassVar

import numpy as np

from gemmlab import Availability, Param

CHOICES = ("no", "yes")


class Einsum:
    name = "example-einsum"  # what users ask for
    kind = "plugin"  # rung, baseline, or a word of your own
    summary = "numpy.einsum"  # half a line for `gemmlab backends`
    source = "NumPy"  # where the method comes from
    params: ClassVar = {
        "optimize": Param("optimize", "no", CHOICES, "let einsum reorder", "no or yes", CHOICES.__contains__)
    }

    def probe(self):
        return Availability(True, device="this CPU")

    def supports(self, problem):
        return problem.dtype.kind == "f" or f"einsum here multiplies floats, not {problem.dtype}"

    def gemm(self, problem, optimize="no"):
        np.einsum("...ij,...jk->...ik", problem.a, problem.b, out=problem.out, optimize=optimize == "yes")


def broken():
    """A factory that fails, as one does whose library is not there."""
    raise OSError("libexample.so: no such file")
