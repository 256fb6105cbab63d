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

from gemmlab._backend import ErrorBound, Param
from gemmlab._emulated.moduli import MODULI, half_root, root_of_half
from gemmlab._errors import UnsupportedProblem

SCHEMES = ("bf16x6", "bf16x9", "f16-pairs", "residues")
# Pairs of parts of A and B, the smallest products first.
PAIRS = {
    "bf16x6": ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)),
    "bf16x9": ((2, 2), (2, 1), (1, 2), (2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)),
    "f16-pairs": ((1, 0), (0, 1), (0, 0)),
}
PARTS = {name: 1 + max(i for i, _ in pairs) for name, pairs in PAIRS.items()}  # of a number
PRECISIONS, ERRORS = ("f32", "f64"), ("componentwise", "norms")
LEAST, MOST = 4, len(MODULI)  # moduli
# Of a precision and a kind of error, for operands of 4 and of 8 bytes.
OF_FLOAT64 = {("f32", "norms"): ("residues", 8), ("f64", "norms"): ("residues", 15)}
OF_FLOAT32 = {**OF_FLOAT64, ("f32", "norms"): ("f16-pairs", 0), ("f32", "componentwise"): ("bf16x6", 0)}
LONG_K = 1 << 17  # from here on the norms of integers leave fewer bits: a modulus more
SMALLEST = 2.0**-126  # a part below it may become 0, and so may a sum of parts' products
UNIT = {4: 2.0**-24, 8: 2.0**-53}  # half the distance from 1 to the next number, by bytes


def _of(name: str, values: tuple[str, ...], meaning: str) -> Param:
    return Param(name, None, values, meaning, "one of " + ", ".join(values), lambda value: value in values)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST


PARAMS = {param.name: param for param in (
    _of("scheme", SCHEMES, "what numbers are taken apart into; by default what precision and error ask for"),
    Param("moduli", None, (8, 15), "products of residues: the more, the smaller the error of scheme='residues'",
          f"an integer from {LEAST} to {MOST}", _is_count),
    _of("precision", PRECISIONS, "whose error the product has; by default that of the operands"),
    _of("error", ERRORS, "of each element by |A||B|, or by the norms of its row and column"),
)}  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """A scheme, and the number of moduli of residues (else 0)."""

    name: str
    moduli: int = 0

    @property
    def params(self) -> dict[str, str | int]:
        """The parameters that ask for it."""
        return {"scheme": self.name} | ({"moduli": self.moduli} if self.moduli else {})

    def described(self, error: ErrorBound) -> str:
        """The scheme and its bound in words."""
        by = "|A||B|" if error.kind == "componentwise" else "the norms of row and column"
        count = f" of {self.moduli} moduli" * bool(self.moduli)
        return f"by {self.name}{count}; an error of at most {error.bound:.2g} times {by}"


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
            raise ValueError("an emulated product takes scheme, or precision and error, not both")
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
    """The bound of a scheme; docs/precision/emulated.md derives it."""
    terms, unit = (2 * k if is_complex else k), UNIT[itemsize]
    if scheme.name == "residues":
        # Each operand is off by half a unit of its integers, whose norms are at least half of what they may be.
        rounding = 2.2 * sqrt(terms) / root_of_half(scheme.moduli)
        return ErrorBound("norms", rounding * (1 + rounding) + unit * (2 if is_complex else 1))
    sums = (terms + 8) * unit  # of parts: some additions more
    if scheme.name == "f16-pairs":
        return ErrorBound("norms", sums / (1 - sums) + 2.0**-21 + sqrt(terms) * 2.0**-28)
    dropped = 2.0**-25 if scheme.name == "bf16x6" else 0.0
    bound = sums / (1 - sums) * (1 + 2.0**-6) + dropped
    return ErrorBound("componentwise", bound, lost=SMALLEST, underflow=1 + len(PAIRS[scheme.name]))


def check_norms(scheme: Scheme, k: int) -> None:
    """UnsupportedProblem where the integers of so few moduli are small beside what a row of k loses in rounding."""
    if scheme.moduli and root_of_half(scheme.moduli) < 64 * half_root(2 * k):
        raise UnsupportedProblem(f"moduli={scheme.moduli} are too few for k = {k}: take more")
