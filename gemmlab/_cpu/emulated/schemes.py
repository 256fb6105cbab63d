"""Which scheme computes a product: asked for by name, or by precision and kind of error; and its error's bound.

    bf16x6, bf16x9   float32 as the sum of three bfloat16 numbers: the six largest products of parts, or all nine
    f16-pairs        float32, scaled, as a float16 number and a second for the rest: three products
    residues         scaled integers, multiplied exactly modulo so many small numbers, one product each

The error of the first two is bounded by |A||B|, element by element ("componentwise"), that of the others by the 2-norms
of the row of A and the column of B ("norms"), of which a small number in a row of large ones is no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from gemmlab._backend import ErrorBound
from gemmlab._cpu.emulated.residues import MODULI, root_of_half
from gemmlab._cpu.emulated.scales import half_root
from gemmlab._errors import UnsupportedProblem

SCHEMES = ("bf16x6", "bf16x9", "f16-pairs", "residues")
PRECISIONS, ERRORS = ("f32", "f64"), ("componentwise", "norms")
LEAST, MOST = 4, len(MODULI)  # moduli
# Of a precision and a kind of error, for operands of 4 and of 8 bytes.
OF_FLOAT64 = {("f32", "norms"): ("residues", 8), ("f64", "norms"): ("residues", 15)}
OF_FLOAT32 = {**OF_FLOAT64, ("f32", "norms"): ("f16-pairs", 0), ("f32", "componentwise"): ("bf16x6", 0)}
LONG_K = 1 << 17  # from here on the norms of integers leave fewer bits: a modulus more
SMALLEST = 2.0**-126  # a part below it may become 0
UNIT = {4: 2.0**-24, 8: 2.0**-53}  # half the distance from 1 to the next number, by bytes


@dataclass(frozen=True)
class Scheme:
    """A scheme, and the number of moduli of residues (else 0)."""

    name: str
    moduli: int = 0


def scheme_for(
    itemsize: int, k: int, scheme: str | None = None, moduli: int | None = None, precision: str | None = None,
    error: str | None = None,
) -> Scheme:  # fmt: skip
    """The scheme of a call, for real numbers of 4 or 8 bytes.

    Examples
    --------
    >>> scheme_for(4, 100), scheme_for(8, 100)
    (Scheme(name='bf16x6', moduli=0), Scheme(name='residues', moduli=15))
    """
    name = scheme or ("residues" if moduli else None)
    if name is not None:
        if precision or error:
            raise ValueError("cpu-emulated takes scheme, or precision and error, not both")
        if moduli and name != "residues":
            raise ValueError(f"moduli belong to scheme='residues', not to {name!r}")
        if itemsize == 8 and name != "residues":
            raise UnsupportedProblem(f"scheme={name!r} takes float32 and complex64: use scheme='residues'")
        if name != "residues":
            return Scheme(name)
        return Scheme(name, moduli or _moduli(8 if itemsize == 4 else 15, k))
    wanted = precision or ("f32" if itemsize == 4 else "f64")
    kind = error or ("componentwise" if wanted == "f32" and itemsize == 4 else "norms")
    found = (OF_FLOAT32 if itemsize == 4 else OF_FLOAT64).get((wanted, kind))
    if found is None:
        numbers = "float64 and complex128" if itemsize == 8 else "float32 and complex64"
        raise UnsupportedProblem(f"no scheme bounds each element of {numbers} in {wanted}: use error='norms'")
    name, count = found
    return Scheme(name, _moduli(count, k) if count else 0)


def _moduli(count: int, k: int) -> int:
    """One more for a long k."""
    return count + (k >= LONG_K)


def error_of(scheme: Scheme, k: int, itemsize: int, is_complex: bool) -> ErrorBound:
    """The bound of a scheme; docs/emulated.md derives it."""
    terms, unit = (2 * k if is_complex else k), UNIT[itemsize]
    if scheme.name == "residues":
        # Each operand is off by half a unit of its integers, whose norms are at least half of what they may be.
        rounding = 2.2 * sqrt(terms) / root_of_half(scheme.moduli)
        return ErrorBound("norms", rounding * (1 + rounding) + unit * (2 if is_complex else 1))
    sums = (terms + 8) * unit  # of parts: some additions more
    if scheme.name == "f16-pairs":
        return ErrorBound("norms", sums / (1 - sums) + 2.0**-21 + sqrt(terms) * 2.0**-28)
    dropped = 2.0**-25 if scheme.name == "bf16x6" else 0.0
    return ErrorBound("componentwise", sums / (1 - sums) * (1 + 2.0**-6) + dropped, lost=SMALLEST)


def check_norms(scheme: Scheme, k: int) -> None:
    """UnsupportedProblem where the integers of so few moduli are small beside what a row of k loses in rounding."""
    if scheme.moduli and root_of_half(scheme.moduli) < 64 * half_root(2 * k):
        raise UnsupportedProblem(f"moduli={scheme.moduli} are too few for k = {k}: take more")
