"""cpu-emulated: residues have the bits of Python's integers, each scheme keeps its bound and says what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from hashlib import sha256
from math import ceil, frexp, isqrt, ldexp

import numpy as np
import pytest
from emulated_inputs import around, drawn, same_bits
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._cpu import isa
from gemmlab._cpu.emulated import compiled, parts
from gemmlab._emulated import schemes
from gemmlab._emulated.moduli import MODULI, modulus_product, root_of_half
from gemmlab._emulated.schemes import Scheme, scheme_for
from gemmlab._problem import Problem
from gemmlab._registry import get
from gemmlab.cli import main
from gemmlab.cli.selection import to_measure
from gemmlab.verify.bounds import element_ratios

NAME = "cpu-emulated"
DTYPES = ("float32", "float64", "complex64", "complex128")
INPUTS = {
    "uniform": RNG.random,
    "normal": RNG.standard_normal,
    "wide": lambda shape: RNG.standard_normal(shape) * np.exp(4 * RNG.standard_normal(shape)),
}


# Residues, once more in Python's integers: the definition


def shift_of(numbers, limit):
    """The power of two for a row: of norms that are summed in integers."""
    largest = max(map(abs, numbers), default=0.0)
    if largest == 0:
        return 0
    bits = 15 - frexp(largest)[1]
    squares = sum(ceil(Fraction(abs(x)) * Fraction(2) ** bits) ** 2 for x in numbers)
    room = limit - (isqrt(len(numbers)) + 2) // 2
    step = max(q for q in range(-64, 128) if squares <= Fraction(room * room) / Fraction(4) ** q)
    return step + bits


def nearest(x):
    """The integer nearest to a fraction, ties to even."""
    return round(x)


def sumprod(x, y):
    return sum(p * q for p, q in zip(x, y, strict=True))


def rounded(x, dtype):
    """A fraction in float64, or through a double that is odd where it is not exact, in float32."""
    if dtype == "float64":
        try:
            return float(x)
        except OverflowError:
            return np.copysign(np.inf, float(x > 0) - 0.5)
    info, magnitude = np.finfo(np.float32), abs(x)
    if magnitude == 0:
        return 0.0
    exponent = max(int(np.floor(np.log2(float(magnitude)))) if magnitude < 2**1000 else 999, info.minexp - 1)
    exponent += (magnitude >= Fraction(2) ** (exponent + 1)) - (magnitude < Fraction(2) ** exponent)
    unit = Fraction(2) ** (max(exponent, info.minexp) - info.nmant)
    number = nearest(magnitude / unit) * unit
    number = float(number) if number <= Fraction(float(info.max)) else np.inf
    return number if x > 0 else -number


def by_python(a, b, moduli):
    """A @ B of real or complex matrices by the definition."""
    limit, is_complex = root_of_half(moduli), a.dtype.kind == "c"
    dtype = "float32" if a.dtype.itemsize == (8 if is_complex else 4) else "float64"

    def whole(rows):
        found = []
        for row in rows:
            flat = [float(y) for x in row for y in ((x.real, x.imag) if is_complex else (x,))]
            shift = shift_of(flat, limit)
            numbers = [nearest(Fraction(x) * Fraction(2) ** shift) for x in flat]
            assert sum(x * x for x in numbers) <= limit * limit
            found.append((shift, numbers))
        return found

    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    columns = whole(b.T)
    for i, (left, x) in enumerate(whole(a)):
        for j, (right, y) in enumerate(columns):
            scale = Fraction(2) ** -(left + right)
            if is_complex:
                real = sumprod(x[::2], y[::2]) - sumprod(x[1::2], y[1::2])
                imaginary = sumprod(x[::2], y[1::2]) + sumprod(x[1::2], y[::2])
                out[i, j] = complex(rounded(real * scale, dtype), rounded(imaginary * scale, dtype))
            else:
                out[i, j] = rounded(sumprod(x, y) * scale, dtype)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_residues_have_the_bits_of_pythons_integers(dtype, count):
    for _ in range(count):
        a, b = drawn(dtype)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            continue
        moduli = int(RNG.integers(schemes.LEAST, schemes.MOST + 1))
        found = gemmlab.matmul(a, b, backend=NAME, moduli=moduli)
        expected = by_python(a, b, moduli) + np.zeros((), dtype)  # no zero has a sign
        assert same_bits(np.ascontiguousarray(found + np.zeros((), dtype)), expected), (moduli, a, b)


def test_the_moduli_are_coprime_and_their_product_is_used():
    for i, p in enumerate(MODULI):
        assert all(np.gcd(p, q) == 1 for q in MODULI[:i])
    for count in range(schemes.LEAST, schemes.MOST + 1):
        assert 2 * root_of_half(count) ** 2 < modulus_product(count) < 2.01 * (root_of_half(count) + 1) ** 2


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_k_that_int32_does_not_hold(dtype):
    k = (1 << 17) + 11
    a, b = (np.full((2, k), -1.0) for _ in range(2))
    a[1] = RNG.integers(-3, 4, k)
    found = gemmlab.matmul(a.astype(dtype), b.T.astype(dtype), backend=NAME, scheme="residues")
    assert np.array_equal(found, (a @ b.T).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_depend_on_no_thread_layout_or_batch(dtype):
    shape = (3, 70, 90)
    a, b = (RNG.standard_normal(size) for size in (shape, (90, 40)))
    a, b = a.astype(dtype), b.astype(dtype)
    first = gemmlab.matmul(a, b, backend=NAME, scheme="residues")
    for threads in (1, 2, 7):
        assert same_bits(gemmlab.matmul(a, b, backend=NAME, scheme="residues", threads=threads), first)
    assert same_bits(gemmlab.matmul(np.asfortranarray(a), b.T.copy().T, backend=NAME, scheme="residues"), first)
    for i in range(3):
        assert same_bits(gemmlab.matmul(a[i], b, backend=NAME, scheme="residues"), first[i])
        some = gemmlab.matmul(a[i, 5:9], b[:, 3:20].copy(), backend=NAME, scheme="residues")
        assert same_bits(some, first[i, 5:9, 3:20].copy())


HASH = """
import sys, numpy as np, gemmlab
from hashlib import sha256
rng, found = np.random.default_rng(int(sys.argv[1])), sha256()
for dtype in ("f4", "f8", "c8", "c16"):
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((33, 65), (65, 41)))
    found.update(gemmlab.matmul(a, b, backend="cpu-emulated", scheme="residues").tobytes())
print(found.hexdigest())
"""


@pytest.mark.skipif(len(isa.available()) < 2, reason="one instruction set here")
def test_bits_are_those_of_every_instruction_set():
    seed, found = str(RNG.integers(2**32)), set()
    for one in isa.available():
        command, environment = [sys.executable, "-c", HASH, seed], {**os.environ, "GEMMLAB_ISA": one}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1


# The other schemes


def floats_of(bits):
    """bfloat16 numbers, of their bits, in float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def planes(found, parts):
    """Parts that stand side by side in each row, of fewer numbers than a chunk, each as a matrix."""
    return np.moveaxis(found.reshape(len(found), parts, -1), 1, 0)


@pytest.mark.parametrize("order", ["rows", "columns", "every other"])
def test_bfloat16_parts_add_up(order):
    x = RNG.standard_normal((33, 299)).astype("f4") * np.float32(2) ** RNG.integers(-90, 120, (33, 299)).astype("f4")
    x[0, :3] = np.finfo("f4").max, -np.finfo("f4").max, 0.0
    x = {"rows": x, "columns": np.asfortranarray(x), "every other": np.repeat(x, 2, axis=1)[:, ::2]}[order]
    found, special = parts.bf16_parts(x, int(RNG.integers(1, 4)))
    found = planes(found, 3)
    assert not special.any()
    assert np.array_equal(np.sum(floats_of(found), axis=0, dtype=np.float64), x)
    assert np.isfinite(floats_of(found)).all()


@pytest.mark.parametrize("order", "CF")
def test_rows_that_are_not_finite_have_parts_of_zero(order):
    x = np.asarray(RNG.standard_normal((9, 40)), "f4", order)
    x[2, 7], x[5, 0], x[5, 39] = np.nan, np.inf, -np.inf
    found, special = parts.bf16_parts(x, 2)
    assert list(np.flatnonzero(special)) == [2, 5]
    found = planes(found, 3)
    assert not found[:, special].any()
    assert np.array_equal(np.sum(floats_of(found[:, ~special]), axis=0, dtype=np.float64), x[~special])


@pytest.mark.parametrize("scheme", ["bf16x6", "f16-pairs"])
def test_parts_stand_along_k_by_chunks_and_those_of_b_in_reverse(scheme):
    k, count = parts.CHUNK + int(RNG.integers(1, 300)), 2 if scheme == "f16-pairs" else 3
    x = RNG.standard_normal((4, k)).astype("f4")
    chunks = np.split(np.arange(count * k), [count * parts.CHUNK])
    (rows, _), _ = parts.of_rows(x, scheme, 2)
    for columns, order in ((x.T, "C"), (x.T, "F")):
        (turned, _), _ = parts.of_columns(np.asarray(columns, order=order), scheme, 2)
        for chunk in chunks:
            assert np.array_equal(planes(rows[:, chunk], count), planes(turned.T[:, chunk], count)[::-1])
    if scheme == "bf16x6":  # nothing is scaled, so a chunk has the parts that it has alone
        alone, _ = parts.bf16_parts(x[:, parts.CHUNK :], 1)
        assert np.array_equal(rows[:, chunks[1]], alone)


@pytest.mark.parametrize("scheme", ["bf16x6", "bf16x9"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_products_near_the_smallest_normal_number_keep_the_bound(dtype, scheme):
    """The processor's bfloat16 instructions take what is below it for 0."""
    for _ in range(100):
        m, n, k, exponent = (int(RNG.integers(*ends)) for ends in ((1, 9), (1, 20), (1, 40), (-75, -55)))
        a = around(dtype, (m, k), exponent)
        b = around(dtype, (k, n), -126 - exponent + int(RNG.integers(-8, 20)))
        c = gemmlab.matmul(a, b, backend=NAME, scheme=scheme)
        error = get(NAME).error(Problem.from_call(a, b), scheme=scheme)
        assert element_ratios(a, b, c, error).max() <= 1


def test_float16_parts_are_within_2_to_the_minus_22():
    rows = RNG.standard_normal((20, 300)).astype("f4") * np.float32(2) ** RNG.integers(-60, 60, (20, 1)).astype("f4")
    found, scales, _ = compiled.pair(rows, 2)
    high, low = planes(found, 2)
    found = np.ldexp(high.astype("f8") + low, -scales[:, None])
    assert (np.abs(found - rows) <= np.abs(rows).max(axis=1, keepdims=True) * 2.0**-22).all()
    assert np.abs(high).max() <= 2**15


@pytest.mark.parametrize("order", "CF")
def test_float16_parts_are_the_nearest_numbers(order):
    x = RNG.standard_normal((33, 300)) * np.exp2(RNG.integers(-60, 60, (33, 1)) + RNG.integers(-30, 1, (33, 300)))
    x = np.asarray(x, "f4", order)
    x[3], x[4], x[5, :4], x[6, 5] = 0, 2.0**-149, (np.finfo("f4").max, 1, -1e-30, -0.0), np.nan
    found, scales, special = compiled.pair(x, 2)
    found = planes(found, 2)
    assert list(np.flatnonzero(special)) == [6]
    x = np.where(special[:, None], 0, x)
    assert np.array_equal(scales, 15 - np.frexp(np.abs(x).max(axis=1))[1])
    scaled = np.ldexp(x.astype("f8"), scales[:, None])
    assert np.array_equal(found[0], scaled.astype("f2"))
    assert np.array_equal(found[1], (scaled - found[0]).astype("f2"))


def test_sums_are_scaled_back_into_subnormal_and_infinite_numbers():
    sums = RNG.standard_normal((40, 50)).astype("f4")
    rows, columns = RNG.integers(-113, 164, 40), RNG.integers(-113, 164, 50)
    with np.errstate(over="ignore"):
        expected = np.ldexp(sums.astype("f8"), -(rows[:, None] + columns)).astype("f4")
    compiled.rescale(sums, rows, columns, 2)
    assert np.array_equal(sums, expected)


def errors(a, b, c):
    """The largest error by the norms of row and column, and by |A||B|."""
    wide = np.longdouble
    exact = np.einsum("ik,kj->ij", a.astype(wide), b.astype(wide))
    by_norms = np.outer(np.linalg.norm(a.astype("f8"), axis=1), np.linalg.norm(b.astype("f8"), axis=0))
    off = np.abs(c - exact)
    return float((off / by_norms).max()), float((off / (np.abs(a.astype(wide)) @ np.abs(b.astype(wide)))).max())


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no numbers wider than float64 here")
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("k", [256, pytest.param(4096, marks=pytest.mark.exhaustive)])
def test_the_error_is_at_most_about_that_of_plain_sums(inputs, k):
    for dtype, options, place in (
        ("float32", {"moduli": 8}, 0), ("float64", {}, 0), ("float32", {"scheme": "bf16x9"}, 1), ("float32", {}, 1),
    ):  # fmt: skip
        a, b = (INPUTS[inputs](shape).astype(dtype) for shape in ((40, k), (k, 40)))
        plain = errors(a, b, gemmlab.matmul(a, b, backend="cpu-packed"))[place]
        found = errors(a, b, gemmlab.matmul(a, b, backend=NAME, **options))[place]
        assert found <= (1.5 if place else 1) * plain, (dtype, options)


# What a call takes


@pytest.mark.parametrize(("itemsize", "options", "found"), [
    (4, {}, Scheme("bf16x6")), (8, {}, Scheme("residues", 15)), (4, {"error": "norms"}, Scheme("f16-pairs")),
    (4, {"precision": "f64"}, Scheme("residues", 15)), (8, {"precision": "f32"}, Scheme("residues", 8)),
    (8, {"moduli": 9}, Scheme("residues", 9)), (4, {"scheme": "residues"}, Scheme("residues", 8)),
])  # fmt: skip
def test_the_scheme_of_a_call(itemsize, options, found):
    assert scheme_for(itemsize, 1000, **options) == found


def test_a_long_k_takes_a_modulus_more():
    assert scheme_for(8, 1 << 17) == Scheme("residues", 16)


@pytest.mark.parametrize(("dtype", "options", "error", "said"), [
    ("f8", {"error": "componentwise"}, UnsupportedProblem, "no scheme bounds each element of float64"),
    ("f8", {"scheme": "bf16x6"}, UnsupportedProblem, "takes float32 and complex64"),
    ("f4", {"scheme": "bf16x6", "moduli": 8}, ValueError, "moduli belong to scheme='residues'"),
    ("f4", {"scheme": "bf16x6", "precision": "f32"}, ValueError, "takes scheme, or precision and error, not both"),
    ("f4", {"moduli": 3}, ValueError, "moduli must be an integer from 4 to 20"),
    ("f4", {"scheme": "ozaki"}, ValueError, "scheme must be one of bf16x6, bf16x9, f16-pairs, residues"),
    ("i4", {}, UnsupportedProblem, "multiplies float32, float64, complex64, complex128, not int32"),
])  # fmt: skip
def test_what_does_not_go_together_is_one_line(dtype, options, error, said):
    x = np.ones((3, 3), dtype)
    with pytest.raises(error, match=said) as caught:
        gemmlab.matmul(x, x, backend=NAME, **options)
    assert "\n" not in str(caught.value)


def test_too_few_moduli_for_k_are_refused():
    with pytest.raises(UnsupportedProblem, match="moduli=4 are too few for k = 3000000: take more"):
        schemes.check_norms(Scheme("residues", 4), 3_000_000)


def test_nobody_gets_it_who_did_not_ask():
    x = RNG.standard_normal((200, 200))
    for name in ("auto", "cpu"):
        with gemmlab.trace() as calls:
            gemmlab.matmul(x, x, backend=name)
        assert calls[0].backend != NAME
    assert NAME not in to_measure(None)
    assert to_measure([NAME]) == [NAME]


def test_existing_programs_use_it():
    x = RNG.standard_normal((50, 50)).astype("f4")
    with gemmlab.use(NAME, precision="f64"), gemmlab.trace() as calls:
        found = gemmlab.asarray(x) @ x
    assert calls[0].params.items() >= {"scheme": "residues", "moduli": 15}.items()
    assert calls[0].params["instruction"].startswith("int8 by ")
    assert np.array_equal(found, (x.astype("f8") @ x.astype("f8")).astype("f4"))
    said = str(gemmlab.explain(x.astype("f8"), x.astype("f8"), backend=NAME))
    assert "by residues of 15 moduli; an error of at most" in said


def test_a_bench_judges_by_the_bound_that_is_stated(capsys):
    assert main(["bench", "--backends", NAME, "--param", "moduli=4", "--sizes", "100", "--cap", "2"]) == 0
    assert "Not measured" not in capsys.readouterr().out


def test_a_sum_may_be_too_large_or_too_small():
    a, b = np.float64([[2.0**1000, 2.0**-600]]), np.float64([[2.0**1000], [2.0**-500]])
    assert gemmlab.matmul(a, b, backend=NAME)[0, 0] == np.inf
    assert gemmlab.matmul(a[:, 1:], b[1:], backend=NAME)[0, 0] == 0
    assert gemmlab.matmul(a[:, 1:] * 2.0**26, b[1:], backend=NAME)[0, 0] == ldexp(1.0, -1074)
    digest = sha256(gemmlab.matmul(np.zeros((0, 3)), np.zeros((3, 2)), backend=NAME).tobytes())
    assert digest.hexdigest() == sha256(b"").hexdigest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("params", [{"scheme": "residues"}, {}, {"error": "norms"}], ids=str)
def test_a_packed_operand_has_the_same_bits(dtype, params):
    a, b = RNG.standard_normal((3, 20, 70)).astype(dtype), RNG.standard_normal((70, 30)).astype(dtype)
    a[0, 1, 1], b[2, 3] = np.nan, np.inf
    packed = gemmlab.pack(b, backend=NAME, **params)
    assert (packed.shape, packed.dtype) == (b.shape, b.dtype)
    assert packed.nbytes > b.nbytes
    expected = gemmlab.matmul(a, b, backend=NAME, **params)
    b[...] = 0  # it has no effect any more
    for more in ({}, {"backend": NAME}, {"backend": NAME, **params}):
        found = gemmlab.matmul(a, packed, **more)
        assert np.array_equal(found, expected, equal_nan=True)
    assert gemmlab.explain(a, packed).rows[0][:2] == (NAME, True)


def test_what_packing_refuses():
    packed = gemmlab.pack(np.ones((4, 3)), backend=NAME, moduli=12)
    with pytest.raises(ValueError, match="packed by residues: pass no other parameters"):
        gemmlab.matmul(np.ones((2, 4)), packed, backend=NAME, moduli=11)
    with pytest.raises(UnsupportedProblem, match=r"cpu-packed takes no packed operand: .* use cpu-emulated"):
        gemmlab.matmul(np.ones((2, 4)), packed, backend="cpu-packed")
    with pytest.raises(UnsupportedProblem, match=r"cpu-blocked packs no operand: .* use cpu-packed"):
        gemmlab.pack(np.ones((4, 3)), backend="cpu-blocked")
    with pytest.raises(TypeError, match="cpu-packed has no parameter 'moduli'"):
        gemmlab.pack(np.ones((4, 3)), moduli=12)
    with pytest.raises(UnsupportedProblem, match="no scheme bounds each element"):
        gemmlab.pack(np.ones((4, 3)), backend=NAME, error="componentwise")
