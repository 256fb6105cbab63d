"""`gemmlab.product`: files of any kind, shape and dtype give what numpy.matmul gives, in bounded memory."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import numpy as np
import pytest
from helpers import output_of
from randomness import RNG

from gemmlab import UnsupportedProblem, _registry, matmul, verify
from gemmlab._problem import Problem
from gemmlab.product import product, run
from gemmlab.product.check import check
from gemmlab.product.job import open_matrix
from gemmlab.product.matrices import pieces
from gemmlab.product.plan import LEAST_DEPTH, STEP, candidates

KINDS = {"b": [0, 1], "i": range(-100, 100), "u": range(200)}
DTYPES = ("float32", "float64", "float16", "complex64", "complex128", "int8", "uint16", "int64", "bool")


def matrix(shape, dtype, order="C"):
    """Random numbers; small integers in a floating-point dtype would hide a lost block."""
    dtype = np.dtype(dtype)
    if dtype.kind in KINDS:
        return RNG.choice(KINDS[dtype.kind], shape).astype(dtype, order=order)
    numbers = RNG.standard_normal(shape)
    if dtype.kind == "c":
        numbers = numbers + 1j * RNG.standard_normal(shape)
    return numbers.astype(dtype, order=order)


def little(dtype, k):
    """Hardly more memory than the smallest tiles take: blocks of k are of one or two blocks of a kernel."""
    item = 3 if dtype == "float16" else np.dtype(dtype).itemsize  # blocks of 2 bytes, sums of 4
    thin = Problem.from_call(np.zeros((2, k), dtype), np.zeros((k, 2), dtype))
    depth = max(LEAST_DEPTH, _registry.get("cpu-packed").block_of_k(thin))
    return (6 * STEP * depth + 2 * STEP**2) * item


def stored(path, array, chunks=None):
    """The array in a file, whose format is that of its name."""
    if path.suffix == ".npy":
        np.save(path, array)
        return path
    zarr = pytest.importorskip("zarr")
    zarr.create_array(path, shape=array.shape, dtype=array.dtype, chunks=chunks or (50, 70))[:] = array
    return path


def read(path):
    if path.suffix == ".npy":
        return np.load(path)
    zarr = pytest.importorskip("zarr")
    return zarr.open_array(path, mode="r")[:]


def assert_product(a, b, c):
    expected = np.matmul(a[:0], b).dtype
    assert c.dtype == expected
    assert c.shape == (a.shape[0], b.shape[1])
    wide = (x.astype(expected) for x in (a, b))
    assert verify.error_over_bound(*wide, c) <= 1


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_give_the_product_in_every_dtype(tmp_path, dtype, order):
    a, b = matrix((133, 4803), dtype, order), matrix((4803, 131), dtype, "CF"[order == "C"])
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    found = product(*paths, tmp_path / "c.npy", memory=little(dtype, len(b)), threads=1)
    assert found.ok
    assert len(found.plan.tiles) * len(found.plan.depths) > 1
    assert_product(a, b, np.load(tmp_path / "c.npy"))
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "c.npy"]


@pytest.mark.parametrize("backend", ["cpu-packed", "cpu-numpy"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "bool"])
def test_k_is_cut_also_for_a_backend_that_cannot_add(tmp_path, backend, dtype):
    a, b = matrix((70, 5000), dtype), matrix((5000, 80), dtype)
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    found = product(*paths, tmp_path / "c.npy", memory=little(dtype, len(b)), backend=backend, threads=1)
    assert found.ok
    assert len(found.plan.depths) > 1
    assert_product(a, b, np.load(tmp_path / "c.npy"))


SHAPES = [(300, 2500, 200), (70, 9001, 1), (1, 5003, 300), (260, 1700, 129), (513, 900, 65)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", pytest.param("int8", id="int8")])
def test_bits_are_those_of_matmul_for_any_memory(tmp_path, monkeypatch, dtype, shape):
    m, k, n = shape
    a, b = matrix((m, k), dtype), matrix((k, n), dtype)
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    expected = matmul(a, b, backend="cpu-packed")
    for _ in range(3):
        monkeypatch.setattr(run, "choose", lambda sizes, memory, overhead: RNG.choice(candidates(sizes, overhead)))
        plan = product(*paths, tmp_path / "c.npy", backend="cpu-packed", threads=1).plan
        assert np.load(tmp_path / "c.npy").tobytes() == expected.tobytes(), plan


@pytest.mark.parametrize(
    ("of_a", "of_b", "n"), [((100, 33), (33, 100), 101), ((64, 250), (700, 1), 13), ((70, 250), (300, 7), 101)], ids=str
)
def test_bits_do_not_depend_on_chunks(tmp_path, of_a, of_b, n):
    pytest.importorskip("zarr")
    a, b = matrix((130, 1900), "float64"), matrix((1900, n), "float64")
    expected = matmul(a, b, backend="cpu-packed")
    paths = stored(tmp_path / "a.zarr", a, of_a), stored(tmp_path / "b.zarr", b, of_b)
    ways = set()
    for memory in ("14MiB", "1GB"):
        plan = product(*paths, tmp_path / "c.zarr", memory=memory, backend="cpu-packed", threads=1).plan
        ways.add((plan.tm, plan.tn, plan.tk))
        assert read(tmp_path / "c.zarr").tobytes() == expected.tobytes()
    assert len(ways) > 1


@pytest.mark.parametrize(
    ("left", "right"), [("float32", "float64"), ("int8", "float32"), ("uint64", "int64"), (">f4", "<f4"),
                        ("float32", "complex64"), ("bool", "int16"), (">c16", "float16")],
)  # fmt: skip
def test_dtypes_meet_as_in_numpy(tmp_path, left, right):
    a, b = matrix((40, 601), left), matrix((601, 33), right)
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    assert product(*paths, tmp_path / "c.npy").ok
    assert_product(a, b, np.load(tmp_path / "c.npy"))


@pytest.mark.parametrize("names", ["npy npy zarr", "npy zarr npy", "zarr npy npy", "zarr npy zarr", "zarr zarr zarr"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_formats_mix(tmp_path, names, dtype):
    pytest.importorskip("zarr")
    a, b = matrix((133, 741), dtype), matrix((741, 157), dtype)
    kinds = names.split()
    paths = [tmp_path / f"{name}.{kind}" for name, kind in zip("abc", kinds, strict=True)]
    stored(paths[0], a, (60, 100)), stored(paths[1], b, (110, 80))
    found = product(*paths, memory="16MiB" if "zarr" in kinds else "4MiB", backend="cpu-packed", threads=1)
    assert found.ok
    assert_product(a, b, read(paths[2]))
    left = {path.name for path in paths}
    assert set(os.listdir(tmp_path)) == left


def test_tiles_are_of_whole_chunks(tmp_path):
    zarr = pytest.importorskip("zarr")
    a, b = matrix((133, 2000), "float64"), matrix((2000, 255), "float64")
    paths = stored(tmp_path / "a.zarr", a, (50, 100)), stored(tmp_path / "b.zarr", b, (100, 70))
    found = product(*paths, tmp_path / "c.zarr", memory=int(13.6 * 2**20))
    assert len(found.plan.tiles) > 1
    assert zarr.open_array(tmp_path / "c.zarr").chunks == (50, 70)
    for rows, columns in found.plan.tiles:
        assert rows[0] % 50 == columns[0] % 70 == 0


def test_a_zero_keeps_its_sign_in_zarr(tmp_path):
    paths = stored(tmp_path / "a.npy", np.full((3, 1), -1.0)), stored(tmp_path / "b.npy", np.zeros((1, 2)))
    pytest.importorskip("zarr")
    product(*paths, tmp_path / "c.zarr", backend="cpu-numpy")
    expected = np.matmul(np.load(paths[0]), np.load(paths[1]))
    assert read(tmp_path / "c.zarr").tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize("sizes", [(3, 4, 0), (0, 4, 3), (3, 0, 5), (0, 0, 0), (1, 1, 1), (5, 1, 7)], ids=str)
def test_empty_and_tiny_sizes(tmp_path, sizes, kind):
    if kind == "zarr":
        pytest.importorskip("zarr")
    m, n, k = sizes
    a, b = matrix((m, k), "float32"), matrix((k, n), "float32")
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    found = product(*paths, tmp_path / f"c.{kind}", progress=lambda done, total, doing: Fraction(done, total))
    assert found.ok
    assert_product(a, b, read(tmp_path / f"c.{kind}"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy(tmp_path, version):
    a, b = matrix((9, 5), "float64"), matrix((5, 8), "float64")
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, a, version)
    found = product(tmp_path / "a.npy", stored(tmp_path / "b.npy", b), tmp_path / "c.npy")
    assert found.ok
    assert_product(a, b, np.load(tmp_path / "c.npy"))


def test_an_earlier_output_is_replaced_when_the_new_one_is_right(tmp_path):
    a, b = matrix((9, 5), "float64"), matrix((5, 8), "float64")
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    for name in ("c.npy", "c.zarr"):
        stored(tmp_path / name, np.zeros((700, 700)))
        product(*paths, tmp_path / name)
        assert_product(a, b, read(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "c.npy", "c.zarr"]


def test_an_output_behind_a_link_is_replaced_there(tmp_path):
    a, b = matrix((9, 5), "float64"), matrix((5, 8), "float64")
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c.npy").symlink_to(tmp_path / "elsewhere" / "real.npy")
    product(*paths, tmp_path / "c.npy")
    assert (tmp_path / "c.npy").is_symlink()
    assert_product(a, b, np.load(tmp_path / "elsewhere" / "real.npy"))


# Memory


def test_memory_stays_near_the_limit(tmp_path):
    """The most that a process has had, with a product and without one."""
    a, b = matrix((2000, 3000), "float64"), matrix((3000, 2000), "float64")
    stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", np.asfortranarray(b))
    code = """
import re, sys
from pathlib import Path
from gemmlab.product import product, run
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
import numpy as np
np.save("small.npy", np.ones((65, 65)))
product("small.npy", "small.npy", "first.npy")
before = peak()
found = product("a.npy", "b.npy", "c.npy", memory="24MiB", threads=1)
print(before, peak(), found.plan.bytes_memory, len(found.plan.tiles))
"""
    before, after, planned, tiles = map(int, output_of(f"import os; os.chdir({str(tmp_path)!r})\n{code}").split())
    assert tiles > 1
    assert planned <= 24 << 20
    assert after - before < planned + (24 << 20), "panels, pieces of the check and vectors are no more than that"
    assert (len(a) * a.shape[1] + b.size + 2000 * 2000) * 8 > 120 << 20


def test_memory_stays_near_the_limit_with_zarr(tmp_path):
    a, b = matrix((1500, 1500), "float64"), matrix((1500, 1500), "float64")
    stored(tmp_path / "a.zarr", a, (250, 250)), stored(tmp_path / "b.zarr", b, (250, 250))
    code = """
import re
from pathlib import Path
import numpy as np, zarr
from gemmlab.product import product, run
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
zarr.create_array("small.zarr", shape=(65, 65), dtype="f8")[:] = 1
product("small.zarr", "small.zarr", "first.zarr")
before = peak()
found = product("a.zarr", "b.zarr", "c.zarr", memory="24MiB", threads=1)
print(before, peak(), found.plan.bytes_memory, len(found.plan.tiles))
"""
    before, after, planned, tiles = map(int, output_of(f"import os; os.chdir({str(tmp_path)!r})\n{code}").split())
    assert tiles > 1
    assert planned <= 24 << 20
    assert after - before < planned + (24 << 20)


# The check


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_check_finds_one_wrong_number(tmp_path, dtype):
    a, b = matrix((90, 41), dtype), matrix((41, 120), dtype)
    right = np.matmul(a, b)
    wrong = right.copy()
    rows = slice(None) if dtype == "bool" else int(RNG.integers(90))  # bools are checked by a sample of rows
    # Integers wrap around, as those of a product do.
    wrong[rows, 77:78] = ~wrong[rows, 77:78] if dtype == "bool" else wrong[rows, 77:78] + wrong.dtype.type(7)
    left, of_b = (open_matrix(stored(tmp_path / f"{i}.npy", x)) for i, x in enumerate((a, b)))
    for array, ok in ((right, True), (wrong, False)):
        of_c = open_matrix(stored(tmp_path / "c.npy", array))
        assert check(left, of_b, of_c, right.dtype, 1 << 20, RNG).ok == ok


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64"])
def test_equal_errors_in_a_row_do_not_cancel(tmp_path, dtype):
    a, b = matrix((30, 41), dtype), matrix((41, 4), dtype)
    files = [open_matrix(stored(tmp_path / f"{i}.npy", x)) for i, x in enumerate((a, b, a @ b + a.dtype.type(1)))]
    # The sum of four random numbers is now and then as small as the bound; with signs alone, in 6 of 16 cases.
    assert sum(check(*files, a.dtype, 1 << 20, RNG).ok for _ in range(20)) <= 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_check_finds_what_is_no_number(tmp_path, bad):
    a, b = matrix((9, 41), "float64"), matrix((41, 12), "float64")
    wrong = a @ b
    wrong[3, 4] = bad
    files = [open_matrix(stored(tmp_path / f"{i}.npy", x)) for i, x in enumerate((a, b, wrong))]
    assert not check(*files, wrong.dtype, 1 << 20, RNG).ok


def test_infinities_of_the_operands_are_right(tmp_path):
    a, b = matrix((9, 41), "float64"), matrix((41, 12), "float64")
    a[2, 3], b[4, 5] = np.inf, np.nan
    paths = stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b)
    assert product(*paths, tmp_path / "c.npy").ok


def test_regular_data_pass_by_the_bound_that_always_holds(tmp_path):
    """The sums' errors are all alike: they add up in the comparison by a vector, which takes them for a fault."""
    k = 60_000
    a, b = np.full((4, k), 0.1, "float32"), np.full((k, 3), 0.7, "float32")
    error = verify.gamma(k, "float32") / 2
    right = np.full((4, 3), (1 - error) * k * float(a[0, 0]) * float(b[0, 0]), "float32")
    files = [open_matrix(stored(tmp_path / f"{i}.npy", x)) for i, x in enumerate((a, b, right))]
    found = check(*files, np.dtype("float32"), 1 << 20, np.random.default_rng(2))
    assert found.by == "the 4 worst rows"
    assert 0.4 < found.error < 0.6
    files[2] = open_matrix(stored(tmp_path / "2.npy", right * np.float32(1 - 2 * error)))
    assert check(*files, np.dtype("float32"), 1 << 20, np.random.default_rng(2)).error > 1


def test_a_wrong_product_keeps_its_temporary_name(tmp_path, monkeypatch):
    from gemmlab.product import tiles

    class Wrong(tiles.Multiplier):
        def add(self, step, a, b):
            super().add(step, a, b)
            self.sums(step)[...] += 1

    monkeypatch.setattr(tiles, "Multiplier", Wrong)
    a, b = matrix((30, 41), "float64"), matrix((41, 12), "float64")
    found = product(stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b), tmp_path / "c.npy")
    assert not found.ok
    assert found.path.name == "c.npy.gemmlab-part"
    assert not (tmp_path / "c.npy").exists()


@pytest.mark.parametrize("most", [1, 500, 4000, 10**6])
@pytest.mark.parametrize("form", ["C", "F", "zarr"])
def test_pieces_are_the_whole_matrix_once(tmp_path, form, most):
    array = matrix((37, 53), "float64", "F" if form == "F" else "C")
    path = tmp_path / ("a.zarr" if form == "zarr" else "a.npy")
    found = open_matrix(stored(path, array, (10, 10)))
    count = np.zeros(array.shape, int)
    for rows, columns in pieces(found, most):
        count[slice(*rows), slice(*columns)] += 1
        space = np.empty((rows[1] - rows[0]) * (columns[1] - columns[0]))
        block = found.read(rows, columns, space)
        np.testing.assert_array_equal(block, array[slice(*rows), slice(*columns)])
        assert block.nbytes <= max(most, 800)
    assert (count == 1).all()


# What is no matrix


def test_what_holds_no_matrix_says_what_to_do(tmp_path):
    good = stored(tmp_path / "good.npy", np.ones((3, 3)))
    np.save(tmp_path / "objects.npy", np.array([[1, "a"]], object))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.save(tmp_path / "vector.npy", np.ones(3))
    np.savez(tmp_path / "archive.npy", np.ones(3))
    (tmp_path / "archive.npy.npz").rename(tmp_path / "archive.npy")
    (tmp_path / "cut.npy").write_bytes(good.read_bytes()[:-5])
    (tmp_path / "headless.npy").write_bytes(good.read_bytes()[:30])
    (tmp_path / "folder").mkdir()
    for name, error, says in (
        ("objects.npy", UnsupportedProblem, "convert it to numbers"), ("text.npy", UnsupportedProblem, "convert it to"),
        ("vector.npy", ValueError, "reshape it"), ("archive.npy", ValueError, "is no .npy file"),
        ("cut.npy", ValueError, "damaged or not complete"), ("headless.npy", ValueError, "damaged or not complete"),
        ("folder", UnsupportedProblem, "is no Zarr array"), ("none.npy", FileNotFoundError, "none.npy"),
        ("none.zarr", FileNotFoundError, "none.zarr"),
    ):  # fmt: skip
        if name in ("folder", "none.zarr"):
            pytest.importorskip("zarr")
        with pytest.raises(error, match=says):
            product(tmp_path / name, good, tmp_path / "c.npy")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("c.npy")]


def test_a_chunk_that_cannot_be_read_is_named(tmp_path):
    a = stored(tmp_path / "a.zarr", matrix((133, 301), "float64"))
    (a / "c" / "1" / "2").write_bytes(b"no chunk")
    b = stored(tmp_path / "b.npy", matrix((301, 50), "float64"))
    with pytest.raises(ValueError, match=r"a\.zarr cannot be read in rows 50 to 99, .*: write these chunks again"):
        product(a, b, tmp_path / "c.npy")


def test_without_zarr_the_fix_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    code = f"""
import sys; sys.modules["zarr"] = None
from gemmlab.product import product, run
try: product({str(tmp_path / "a.npy")!r}, {str(tmp_path / "a.npy")!r}, {str(tmp_path / "c.zarr")!r})
except Exception as error: print(error)
"""
    assert "pip install 'gemmlab[dask]'" in output_of(code)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_the_plan_is_kept_as_json(tmp_path):
    a, b = matrix((30, 41), "float64"), matrix((41, 12), "float64")
    found = product(stored(tmp_path / "a.npy", a), stored(tmp_path / "b.npy", b), tmp_path / "c.npy")
    assert type(found.plan)(**json.loads(json.dumps(found.plan.as_dict()))) == found.plan
