"""`auto` gives a product to NumPy where a row of the shipped table says so, by either way, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import threadpoolctl
from fresh_profile import profile_in
from helpers import ROOT, output_of
from randomness import RNG

import gemmlab
from gemmlab import _front, _profile
from gemmlab._api.products import general_matmul
from gemmlab._auto import CLASSES, Row, numpy_library, shape_class, table
from gemmlab._cpu import _driver, _features, isa
from gemmlab._cpu.threads._threads import max_threads
from gemmlab.measure import problems

HERE = (_features.processor(), isa.chosen(), numpy_library())
of_this_processor = table.of_this_processor.__wrapped__  # conftest.py replaces it in all tests
SIZES = {  # m, n, k and batch of a product of each class
    "stack": (3, 4, 5, 2),
    "small": (20, 30, 40, 1),
    "column vector": (70, 1, 90, 1),
    "row vector": (1, 80, 90, 1),
    "deep k": (3, 4, 200, 1),
    "few rows": (7, 90, 80, 1),
    "few columns": (90, 7, 80, 1),
    "short k": (90, 80, 7, 1),
    "middle-sized": (70, 80, 90, 1),
    "one thin extent": (40, 50, 720, 1),
    "large": (260, 270, 710, 1),
}


@pytest.fixture
def with_rows(monkeypatch, tmp_path):
    """A function that puts made-up rows in force, in place of those that are shipped."""

    def put(*rows):
        monkeypatch.setattr(table, "of_this_processor", lambda: rows)
        _front.settings_changed()

    with profile_in(tmp_path, monkeypatch):
        yield put
    _front.settings_changed()


def row(shape_class, dtype="float64", layout="CCC", **other):
    records = ("docs/measured/first.jsonl", "docs/measured/second.jsonl")
    made = Row(*HERE, max_threads(), dtype, layout, shape_class, (0.71, 0.73), records)
    return replace(made, **other)


def operands(kind, dtype="float64"):
    m, n, k, batch = SIZES[kind]
    a, b = RNG.integers(-8, 9, (batch, m, k)), RNG.integers(-8, 9, (batch, k, n))
    return (x.astype(dtype) if batch > 1 else x[0].astype(dtype) for x in (a, b))


def taken(*args, **options):
    """The backend that runs by the general way; `explain` and the compiled way say the same, and c is right."""
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(*args, **options)
    (call,) = calls
    assert np.array_equal(c, np.matmul(args[0], args[1]))
    return call.backend


def compiled(a, b, out=None):
    """Where the compiled way leads: to NumPy, to the kernel of cpu-packed, or to the general way."""

    def general(*_):
        raise LookupError

    _front.settings_changed()
    _front.register_kernel("auto", table.compiled_way(_driver.CompiledWay()))  # a kernel that cannot multiply
    _front.set_general(general)
    try:
        c = gemmlab.matmul(a, b, out)
    except (NotImplementedError, LookupError) as end:
        return "cpu-packed" if isinstance(end, NotImplementedError) else "general"
    finally:
        _front.set_general(general_matmul)
        _front.settings_changed()
    assert np.array_equal(c, np.matmul(a, b))
    assert out is None or c is out
    return "cpu-numpy"


# Classes


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_a_product(kind):
    assert shape_class(*SIZES[kind]) == kind


@pytest.mark.parametrize("case", [*problems.classes(False), *problems.classes(True)], ids=lambda case: case.label)
def test_the_suite_draws_products_of_the_classes_that_it_names(case):
    assert case.label.startswith(shape_class(case.m, case.n, case.k, case.batch))


def conditions():
    """The conditions on the page, by class, in its order."""
    page = (ROOT / "docs" / "auto.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([a-z -]+) \| `(.+?)` \|", page, re.MULTILINE))


def test_the_page_defines_the_classes_as_the_code_does():
    found = conditions()
    assert tuple(found) == CLASSES
    edges = [1, 2, 16, 17, 48, 49, 64, 65, 250, 251, 700, 701, 32 * 17, 32 * 17 - 1, 5000]
    for _ in range(3000):
        m, n, k = (int(x) for x in RNG.choice(edges, 3))
        batch = int(RNG.choice([1, 1, 1, 3]))
        names = {"m": m, "n": n, "k": k, "batch": batch, "max": max, "min": min}
        first = next(kind for kind, holds in found.items() if eval(holds, names))
        assert shape_class(m, n, k, batch) == first, (m, n, k, batch)


# The key


def test_the_library_is_that_which_threadpoolctl_sees():
    pools = [pool for pool in threadpoolctl.threadpool_info() if "numpy.libs" in pool["filepath"]]
    if not pools:
        pytest.skip("NumPy's library is not of its wheel")
    assert re.fullmatch(rf"{pools[0]['internal_api']} \d+\.\d+", numpy_library())
    assert pools[0]["version"].startswith(numpy_library().partition(" ")[2])


@pytest.mark.parametrize(("blas", "name"), [
    ({"name": "scipy-openblas", "version": "0.3.31.188.0"}, "openblas 0.3"),
    ({"name": "openblas64", "version": "0.3.21"}, "openblas 0.3"),
    ({"name": "mkl-sdl", "version": "2025.2"}, "mkl 2025.2"),
    ({"name": "accelerate", "version": "unknown"}, "accelerate"),
    ({"name": "blas", "version": "3.9.0"}, "blas 3.9"),
    ({}, ""),
])  # fmt: skip
def test_a_library_has_its_family_and_two_numbers(blas, name, monkeypatch):
    monkeypatch.setattr(np, "show_config", lambda mode: {"Build Dependencies": {"blas": blas}})
    assert numpy_library.__wrapped__() == name


def test_the_processor_is_what_the_system_says():
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        pytest.skip("no /proc/cpuinfo here")
    keys = [re.search(rf"^{name}\s*: (\S+)$", text, re.MULTILINE) for name in ("vendor_id", "cpu family", "model")]
    if not all(keys):
        assert _features.processor() == ""
    else:
        assert _features.processor() == "-".join(key[1] for key in keys)


def test_rows_are_those_of_this_processor_instruction_set_and_library(monkeypatch):
    own = row("small")
    others = [replace(own, **{name: "another"}) for name in ("processor", "isa", "library")]
    monkeypatch.setattr(table, "shipped", lambda: (*others, own))
    assert of_this_processor() == (own,)


def test_the_shipped_table_is_well_formed():
    places = []
    for one in table.shipped():
        assert all(asdict(one).values()), one
        assert one.dtype in table.DTYPES
        assert one.shape_class in CLASSES
        assert re.fullmatch("[CF][CF]C", one.layout)
        assert one.threads >= 1
        assert len(one.ratios) == len(one.records) == 2
        assert max(one.ratios) < 0.95
        assert all(name.startswith("docs/measured/") and (ROOT / name).is_file() for name in one.records)
        places.append((one.processor, one.isa, one.library, one.threads, one.product))
    assert len(places) == len(set(places))


# What auto takes


def test_without_rows_the_compiled_way_is_the_kernel_itself(with_rows):
    with_rows()
    kernel = gemmlab.get_backend("cpu-packed").kernel
    assert table.compiled_way(kernel) is kernel


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64"])
def test_products_of_a_row_are_numpys_and_others_are_not(kind, dtype, with_rows):
    with_rows(row(kind, dtype))
    for each in CLASSES:
        a, b = operands(each, dtype)
        expected = "cpu-numpy" if each == kind else "cpu-packed"
        assert taken(a, b) == expected, each
        assert gemmlab.explain(a, b).rows[0][:2] == (expected, True)
        assert compiled(a, b) == expected, each
    a, b = operands(kind, "float64")
    assert taken(a, b) == compiled(a, b) == "cpu-packed"


LAYOUTS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "S": lambda x: np.repeat(x, 2, axis=1)[:, ::2]}


@pytest.mark.parametrize("layout", ["CC", "CF", "FC", "FF"])
def test_a_row_is_about_its_layout(layout, with_rows):
    with_rows(row("middle-sized", layout=f"{layout}C"))
    a, b = operands("middle-sized")
    for first, make_a in LAYOUTS.items():
        for second, make_b in LAYOUTS.items():
            expected = "cpu-numpy" if first + second == layout else "cpu-packed"
            given = make_a(a), make_b(b)
            assert taken(*given) == compiled(*given) == expected, first + second


def test_a_row_is_about_a_result_in_rows(with_rows):
    with_rows(row("middle-sized"))
    a, b = operands("middle-sized")
    c = np.empty((len(a), b.shape[1]))
    assert taken(a, b, out=c) == compiled(a, b, c) == "cpu-numpy"
    c = np.asfortranarray(c)
    assert taken(a, b, out=c) == compiled(a, b, c) == "cpu-packed"


def test_vectors_are_rows_and_columns(with_rows):
    with_rows(row("row vector"), row("column vector"))
    a, b = operands("row vector")
    assert taken(a[0], b) == "cpu-numpy"
    a, b = operands("column vector")
    assert taken(a, b[:, 0]) == "cpu-numpy"
    assert taken(b[:, 0], b[:, 0]) == "cpu-numpy"


def test_a_row_is_about_a_number_of_threads(with_rows):
    with_rows(row("small", threads=max_threads() + 1))
    a, b = operands("small")
    assert taken(a, b) == compiled(a, b) == "cpu-packed"


@pytest.mark.parametrize("name", table.NUMPYS_THREADS)
def test_a_row_is_about_numpys_threads_too(name, with_rows, monkeypatch):
    with_rows(row("small"))
    monkeypatch.setenv(name, str(max_threads()))
    assert compiled(*operands("small")) == "cpu-numpy"
    monkeypatch.setenv(name, str(max_threads() + 1))
    assert compiled(*operands("small")) == taken(*operands("small")) == "cpu-packed"


@pytest.mark.skipif(max_threads() < 2, reason="one thread is all there is")
def test_a_limit_of_threadpoolctl_is_followed_by_both_ways(with_rows):
    with_rows(row("small", threads=1))
    a, b = operands("small")
    gemmlab.matmul(a, b)
    with threadpoolctl.threadpool_limits(1):
        assert not _front.is_registered("auto")
        assert taken(a, b) == compiled(a, b) == "cpu-numpy"
    assert not _front.is_registered("auto")
    assert taken(a, b) == compiled(a, b) == "cpu-packed"


STAYS = {
    "threads": lambda a, b: gemmlab.matmul(a, b, threads=1),
    "use": gemmlab.use(threads=1)(gemmlab.matmul),
    "a parameter": lambda a, b: gemmlab.matmul(a, b, kc=256),
    "accumulate": lambda a, b: gemmlab.matmul(a, b, np.zeros((len(a), b.shape[1])), accumulate=True),
    "packed": lambda a, b: gemmlab.matmul(a, gemmlab.pack(b)),
    "wider sums": lambda a, b: gemmlab.matmul(a.astype("float16"), b.astype("float16"), dtype="float32"),
    "two dtypes": lambda a, b: gemmlab.matmul(a.astype("float32"), b),
    "bfloat16": lambda a, b: gemmlab.matmul(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)),
    "byte order": lambda a, b: gemmlab.matmul(a.astype(">f8"), b),
    "by name": lambda a, b: gemmlab.matmul(a, b, backend="cpu-packed"),
}


@pytest.mark.parametrize("how", STAYS)
def test_what_no_row_is_about_stays_with_our_kernel(how, with_rows):
    with_rows(row("middle-sized"), row("middle-sized", "float32"), row("middle-sized", "float16"))
    a, b = operands("middle-sized")
    assert taken(a, b) == "cpu-numpy"
    with gemmlab.trace() as calls:
        STAYS[how](a, b)
    assert [call.backend for call in calls] == ["cpu-packed"]


@pytest.mark.parametrize(("setting", "value", "expected"), [
    ("threads", 1, "cpu-packed"), ("block", "cpu-numpy", "cpu-packed"), ("backend", "cpu-packed", "cpu-packed"),
    ("backend", "cpu", "cpu-packed"), ("backend", "cpu-ikj", "cpu-ikj"), ("backend", "auto", "cpu-numpy"),
])  # fmt: skip
def test_settings_keep_products_from_the_table(setting, value, expected, with_rows, monkeypatch):
    with_rows(row("middle-sized"))
    a, b = operands("middle-sized")
    assert compiled(a, b) == "cpu-numpy"
    monkeypatch.setattr(gemmlab.config, setting, value)
    assert taken(a, b) == expected
    if setting != "backend":
        assert compiled(a, b) == expected


def test_the_profile_of_a_dtype_goes_before_the_table(with_rows):
    a, b = operands("large")
    both = row("large"), row("large", "float32")
    with_rows(*both)
    _profile.store(isa.profile_name(), "auto", {"float64": {}})  # tuned: no other backend is ahead
    assert taken(a, b) == compiled(a, b) == "cpu-packed"
    assert taken(*operands("large", "float32")) == "cpu-numpy"
    _profile.store(isa.profile_name(), "auto", {"float64": {"cpu-numpy": 100}})
    assert (taken(a, b), compiled(a, b)) == ("cpu-numpy", "general")
    assert "gemmlab tune auto" in gemmlab.explain(a, b).rows[0][2]


def test_other_functions_follow_auto_as_matmul_does(with_rows):
    with_rows(row("middle-sized"))
    a, b = operands("middle-sized")
    functions = (
        lambda: gemmlab.einsum("ij,jk->ik", a, b), lambda: gemmlab.tensordot(a, b, 1), lambda: gemmlab.asarray(a) @ b,
    )  # fmt: skip
    for function in functions:
        with gemmlab.trace() as calls:
            function()
        assert [call.backend for call in calls] == ["cpu-numpy"]
    assert gemmlab.explain("ij,jk->ik", a, b).rows[0][0] == "cpu-numpy"


def test_explain_shows_the_row_and_the_reason(with_rows):
    with_rows(row("few rows"))
    name, is_taken, why = gemmlab.explain(*operands("few rows")).rows[0]
    assert (name, is_taken) == ("cpu-numpy", True)
    for part in ("few rows", "0.71 and 0.73", "docs/measured/first.jsonl", "backend='cpu-packed' keeps"):
        assert part in why
    name, is_taken, why = gemmlab.explain(*operands("few columns")).rows[0]
    assert (name, is_taken) == ("cpu-packed", True)
    assert "few columns" in why
    with gemmlab.use(threads=1):
        assert gemmlab.explain(*operands("few rows")).rows[0][0] == "cpu-packed"


def test_shapes_that_do_not_agree_are_numpys_errors(with_rows):
    with_rows(*(row(kind) for kind in CLASSES))
    for a, b, out in ((np.ones((3, 4)), np.ones((5, 6)), None), (np.ones((3, 4)), np.ones((4, 6)), np.ones((3, 5)))):
        with pytest.raises(ValueError, match="matmul"):
            np.matmul(a, b, out)
        for _ in range(2):
            with pytest.raises(ValueError, match="matmul"):
                gemmlab.matmul(a, b, out)


def test_empty_products_are_right(with_rows):
    with_rows(*(row(kind) for kind in CLASSES))
    for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        for _ in range(2):
            assert np.array_equal(gemmlab.matmul(np.ones((m, k)), np.ones((k, n))), np.zeros((m, n)))


def test_the_audit_of_auto_passes_with_products_of_numpy(with_rows):
    with_rows(*(row(kind, layout=layout) for kind in CLASSES for layout in ("CCC", "CFC", "FCC", "FFC")))
    assert gemmlab.verify("auto", dtypes=["float64"]).passed


def test_nothing_heavy_is_loaded_for_the_choice():
    product = "import sys, numpy, gemmlab; gemmlab.matmul(numpy.eye(2), numpy.eye(2))"
    assert output_of(f"{product}; print('threadpoolctl' in sys.modules)") == "False\n"
