"""Backends by name: the list, the choice, refusals, and an installed plugin."""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import output_of, run_python

import gemmlab
from gemmlab import Availability, BackendUnavailable, UnknownBackend, UnsupportedProblem, _registry
from gemmlab._registry import registered

HERE = Path(__file__).parent
ONES = np.ones((4, 4))
LADDER = ["cpu-naive", "cpu-ikj", "cpu-blocked", "cpu-blocked-local", "cpu-register", "cpu-pack-b", "cpu-pack-ab",
          "cpu-five-loops", "cpu-packed"]  # fmt: skip
BASELINES = ["cpu-numpy", "cpu-blas", "cpu-mkl", "cpu-blis"]


class Fine:
    """NumPy's product; what a test is about is set on it."""

    name, kind, summary, source = "made-up", "plugin", "a backend for tests", ""
    params = {}  # noqa: RUF012

    def __init__(self, **given):
        vars(self).update(given)

    def probe(self):
        return Availability(True, device="here")

    def supports(self, problem):
        return True

    def gemm(self, problem, **params):
        np.matmul(problem.a, problem.b, out=problem.out)


def fail(*args, **options):
    raise RuntimeError("out of luck")


@pytest.fixture
def block(monkeypatch):
    """Blocks backends for the length of a test."""
    return lambda *names: monkeypatch.setattr(gemmlab.config, "block", names)


@pytest.fixture
def announce(monkeypatch):
    """Announces factories as plugins, by name, for the length of a test."""
    points = {}
    monkeypatch.setattr(_registry, "_plugins", lambda: points)
    monkeypatch.setattr(_registry, "_loaded", dict(_registry._loaded))
    monkeypatch.setattr(_registry, "_probed", dict(_registry._probed))

    def announced(name, factory):
        monkeypatch.setitem(sys.modules, "made_up_plugin", SimpleNamespace(factory=factory))
        points[name] = EntryPoint(name, "made_up_plugin:factory", _registry.GROUP)

    return announced


# Names


def test_the_ladder_comes_first_then_the_baselines():
    assert list(gemmlab.backends())[:14] == [*LADDER, "cpu-emulated", *BASELINES]


def test_a_row_has_the_fields_of_the_contract():
    row = gemmlab.backends()["cpu-blocked"]
    fields = [field.name for field in dataclasses.fields(row)]
    assert fields == ["name", "kind", "summary", "available", "reason", "fix", "device", "params"]
    assert (row.name, row.kind, row.available, row.reason, row.fix) == ("cpu-blocked", "rung", True, "", "")
    assert row.device
    assert list(row.params) == ["bs_r", "bs_c", "bs_k", "schedule"]


@pytest.mark.parametrize("name", LADDER + BASELINES)
def test_what_cannot_run_has_a_reason_and_a_fix(name):
    row = gemmlab.backends()[name]
    assert row.available or (row.reason and row.fix)
    assert row.summary


def test_every_param_says_what_it_is():
    for row in gemmlab.backends().values():
        for name, param in row.params.items():
            assert param.name == name
            assert param.meaning
            assert param.rule
            assert all(param.constraint(choice) for choice in param.choices)


def test_an_unknown_name_error_lists_similar_names():
    with pytest.raises(UnknownBackend, match=r"'cpu-bloked'.*cpu-blocked") as caught:
        gemmlab.get_backend("cpu-bloked")
    assert isinstance(caught.value, LookupError)
    assert isinstance(caught.value, gemmlab.GemmlabError)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("openblas", ["cpu-blas"]),
        ("OpenBLAS", ["cpu-blas"]),
        ("blas", ["cpu-blas"]),
        ("scipy", ["cpu-blas"]),
        ("mkl", ["cpu-mkl"]),
        ("blis", ["cpu-blis"]),
        ("numpy", ["cpu-numpy"]),
        ("packed", ["cpu-packed"]),
        ("cpu_packed", ["cpu-packed"]),
        ("CPU-Packed", ["cpu-packed"]),
        ("blocked-local", ["cpu-blocked-local"]),
        ("cublas", ["cuda-cublas"]),
        ("onemkl", ["sycl-onemkl"]),
        ("clblast", ["opencl-clblast"]),
        ("cupy", ["cuda"]),
        ("pyopencl", ["opencl"]),
        ("dpnp", ["sycl"]),
        ("gpu", ["opencl", "sycl", "cuda"]),
        ("gpu:0", ["opencl", "sycl", "cuda"]),
        ("register", ["cpu-register", "opencl-register", "sycl-register", "cuda-register"]),
        ("cpu:0", ["cpu"]),
        ("auto:gpu", ["auto"]),
        ("opencl-regster:gpu", ["opencl-register"]),
        ("numpi", ["cpu-numpy"]),
        ("opncl", ["opencl"]),
        ("cpu-bloked", ["cpu-blocked"]),
        ("cpu-blockedlocal", ["cpu-blocked-local"]),
        ("cuda-locl4", ["cuda-local4"]),
    ],
)
def test_a_near_name_is_what_was_meant(typed, meant):
    with pytest.raises(UnknownBackend) as caught:
        gemmlab.get_backend(typed)
    assert str(caught.value) == f"no backend is named {typed!r}: did you mean {' or '.join(meant)}?"


@pytest.mark.parametrize("typed", ["nope", "zzz", "cpu-zzz", "opencl-foo", "-", ":", "", " ", "tpu"])
def test_where_nothing_is_near_nothing_is_suggested(typed):
    with pytest.raises(UnknownBackend, match=": known are auto, cpu, "):
        gemmlab.get_backend(typed)


def test_the_name_of_a_plugin_is_a_near_name():
    with registered(Fine()), pytest.raises(UnknownBackend, match=r"did you mean made-up\?"):
        gemmlab.get_backend("madeup")


def test_an_unrecognisable_name_error_lists_all_names():
    with pytest.raises(UnknownBackend, match=r"cpu-naive.*cpu-blis"):
        gemmlab.matmul(ONES, ONES, backend="zzz")


def test_an_empty_name_is_a_name():
    with pytest.raises(UnknownBackend):
        gemmlab.matmul(ONES, ONES, backend="")


@pytest.mark.parametrize("name", [3, b"cpu-ikj", ["cpu-ikj"]])
def test_what_is_no_name_is_a_type_error(name):
    with pytest.raises(TypeError, match="backend must be a name"):
        gemmlab.matmul(ONES, ONES, backend=name)


# A name never turns into another


def test_a_blocked_backend_is_unavailable_with_reason_and_fix(block):
    block("cpu-ikj")
    with pytest.raises(BackendUnavailable, match=r"blocked.*fix: take cpu-ikj off") as caught:
        gemmlab.matmul(ONES, ONES, backend="cpu-ikj")
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, gemmlab.GemmlabError)


def test_blocking_reaches_a_backend_that_has_been_used(block):
    gemmlab.matmul(ONES, ONES, backend="cpu-ikj")
    block("cpu-ikj")
    with pytest.raises(BackendUnavailable):
        gemmlab.matmul(ONES, ONES, backend="cpu-ikj")
    assert not gemmlab.backends()["cpu-ikj"].available


@pytest.mark.parametrize("operand", [ONES.astype(int), ONES.astype(complex), np.ma.array(ONES)])
def test_what_a_backend_does_not_do_is_a_type_error(operand):
    with gemmlab.trace() as calls, pytest.raises(UnsupportedProblem, match="cpu-ikj") as caught:
        gemmlab.matmul(operand, operand, backend="cpu-ikj")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, gemmlab.GemmlabError)
    assert calls == []


def test_auto_gives_to_numpy_what_no_rung_does():
    with gemmlab.trace() as calls:
        gemmlab.matmul(ONES.astype(object), ONES.astype(object))
    assert [call.backend for call in calls] == ["cpu-numpy"]


# Families


def test_the_family_cpu_is_its_best_rung():
    assert gemmlab.get_backend("cpu").name == "cpu-packed"


def test_a_family_goes_on_to_its_next_rung(block):
    block("cpu-packed", "cpu-five-loops", "cpu-pack-ab")
    assert gemmlab.get_backend("cpu").name == "cpu-pack-b"


def test_a_family_without_a_rung_is_unavailable(block):
    block(*LADDER)
    with pytest.raises(BackendUnavailable, match="cpu-packed"):
        gemmlab.matmul(ONES, ONES, backend="cpu")


# Which backend

WHICH = """
import os
import numpy as np
import gemmlab
from gemmlab._auto import table

table.of_this_processor = tuple  # no rows, whatever is shipped for this processor

def taken(**options):
    with gemmlab.trace() as calls:
        gemmlab.matmul(np.eye(2), np.eye(2), **options)
    return calls[0].backend
"""


def test_the_argument_beats_use_beats_config_beats_the_environment_beats_auto():
    environment = """
assert taken() == "cpu-naive"
gemmlab.config.backend = "cpu-ikj"
assert taken() == "cpu-ikj"
with gemmlab.use("cpu-blocked"):
    assert taken() == "cpu-blocked"
    assert taken(backend="cpu-blocked-local") == "cpu-blocked-local"
    assert taken(backend="auto") == "cpu-packed"
assert taken() == "cpu-ikj"
"""
    output_of(WHICH + environment, GEMMLAB_BACKEND="cpu-naive")
    output_of(WHICH + 'assert gemmlab.config.backend == "auto" and taken() == "cpu-packed"')


def test_the_environment_is_read_once_at_import():
    changed = """
os.environ |= {"GEMMLAB_BACKEND": "cpu-ikj", "GEMMLAB_THREADS": "3", "GEMMLAB_BLOCK": "cpu-numpy", "GEMMLAB_ISA": "v9"}
assert taken() == "cpu-packed" and gemmlab.config.backend == "auto"
assert gemmlab.config.threads is None and gemmlab.config.block == frozenset()
assert gemmlab.get_backend("cpu-ikj").kernel
"""
    output_of(WHICH + changed)


def test_a_wrong_name_in_the_environment_is_an_unknown_backend():
    done = run_python("-c", WHICH + "taken()", GEMMLAB_BACKEND="cpu-bloked")
    assert "UnknownBackend: GEMMLAB_BACKEND=cpu-bloked: no backend is named 'cpu-bloked'" in done.stderr


# explain


def test_explain_has_a_row_for_every_backend_and_one_is_taken():
    rows = gemmlab.explain(ONES, ONES, backend="cpu-blocked").rows
    assert sorted(name for name, _, _ in rows) == sorted(gemmlab.backends())
    assert [name for name, taken, _ in rows if taken] == ["cpu-blocked"]
    assert all(why for _, _, why in rows)


def test_explain_multiplies_nothing():
    huge = np.broadcast_to(0.0, (10**6, 10**6))
    assert "-> cpu-ikj" in str(gemmlab.explain(huge[:1], huge, backend="cpu-ikj"))


def test_explain_says_why_not(block):
    block("cpu-naive")
    why = {name: text for name, _, text in gemmlab.explain(ONES.astype(object), ONES.astype(object)).rows}
    assert "blocked" in why["cpu-naive"]
    assert "float32 and float64, not object" in why["cpu-ikj"]
    assert "goes to NumPy" in why["cpu-numpy"]


def test_explain_follows_use():
    with gemmlab.use("cpu-ikj"):
        assert gemmlab.explain(ONES, ONES).rows[0][:2] == ("cpu-ikj", True)


def test_explain_takes_what_matmul_takes():
    for name in ("auto", "cpu", *LADDER):
        with gemmlab.trace() as calls:
            gemmlab.matmul(ONES, ONES, backend=name)
        assert gemmlab.explain(ONES, ONES, backend=name).rows[0][0] == calls[0].backend


# Backends that misbehave break nothing else


def test_registered_is_there_within_the_block_and_not_after():
    with registered(Fine()) as backend:
        assert gemmlab.get_backend("made-up") is backend
        assert np.array_equal(gemmlab.matmul(ONES, ONES, backend="made-up"), ONES @ ONES)
    with pytest.raises(UnknownBackend):
        gemmlab.get_backend("made-up")


@pytest.mark.parametrize("name", ["cpu-naive", "cpu", "auto"])
def test_registered_takes_no_name_of_ours(name):
    with pytest.raises(ValueError, match="taken"), registered(Fine(name=name)):
        pass


@pytest.mark.parametrize("what", [object(), Fine(params=None)])
def test_registered_takes_backends_only(what):
    with pytest.raises(TypeError, match=r"backend|Backend"), registered(what):
        pass


@pytest.mark.parametrize("probe", [fail, lambda: None, lambda: True])
def test_a_backend_whose_probe_fails_is_unavailable(probe):
    with registered(Fine(probe=probe)):
        assert "probe" in gemmlab.backends()["made-up"].reason
        with pytest.raises(BackendUnavailable, match="made-up"):
            gemmlab.matmul(ONES, ONES, backend="made-up")


def test_a_backend_that_says_no_without_a_reason_is_given_one():
    with registered(Fine(supports=lambda problem: False)):
        with pytest.raises(UnsupportedProblem, match="made-up does not support this problem"):
            gemmlab.matmul(ONES, ONES, backend="made-up")
        why = {name: text for name, _, text in gemmlab.explain(ONES, ONES).rows}
        assert why["made-up"] == "made-up does not support this problem"


def test_a_backend_whose_supports_fails_breaks_no_explanation():
    with registered(Fine(supports=fail)):
        why = {name: text for name, _, text in gemmlab.explain(ONES, ONES).rows}
    assert "out of luck" in why["made-up"]


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (fail, "RuntimeError: out of luck"),
        (lambda: sys.exit("no licence"), "SystemExit: no licence"),
        (lambda: None, "it has no name, kind"),
        (lambda: Fine(name="other"), "calls itself 'other'"),
        (lambda: Fine(params=None), "params"),
    ],
)
def test_a_plugin_that_does_not_load_is_listed_with_its_reason(announce, factory, reason):
    announce("made-up", factory)
    rows = gemmlab.backends()
    assert not rows["made-up"].available
    assert reason in rows["made-up"].reason
    assert all(rows[name].available for name in LADDER)
    with pytest.raises(BackendUnavailable, match=re.escape(reason)):
        gemmlab.matmul(ONES, ONES, backend="made-up")


@pytest.mark.parametrize("name", ["cpu-naive", "cpu", "auto"])
def test_a_plugin_cannot_take_a_name_of_ours(monkeypatch, name):
    point = EntryPoint(name, "nowhere:Nothing", _registry.GROUP)
    monkeypatch.setattr(_registry, "entry_points", lambda group: [point])
    with pytest.warns(UserWarning, match=f"may not take gemmlab's own name '{name}'"):
        assert _registry._plugins.__wrapped__() == {}


# A plugin that is really installed


def can_build():
    """Whether pip can build a package here without the network."""
    try:
        return find_spec("pip") and tuple(map(int, version("setuptools").split(".")[:2])) >= (70, 1)
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the example plugin installed in it."""
    if not can_build():
        pytest.skip("needs pip and setuptools 70.1 or newer")
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(HERE / "example_plugin", folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = run_python("-m", "pip", "install", *options, "--target", folder / "site", folder / "source")
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_an_installed_plugin_is_listed_and_works(site):
    output_of(
        """
import gemmlab, numpy as np
row = gemmlab.backends()["example-einsum"]
assert (row.kind, row.available, row.device) == ("plugin", True, "this CPU")
a = np.arange(6.0).reshape(2, 3)
with gemmlab.trace() as calls:
    assert np.array_equal(gemmlab.matmul(a, a.T, backend="example-einsum", optimize="yes"), a @ a.T)
assert (calls[0].backend, calls[0].params) == ("example-einsum", {"optimize": "yes"})
assert gemmlab.verify("example-einsum").passed
""",
        path=[site],
    )


def test_an_installed_plugin_that_fails_breaks_nothing(site):
    output_of(
        """
import gemmlab, numpy as np
rows = gemmlab.backends()
assert not rows["example-broken"].available
assert "OSError: libexample.so: no such file" in rows["example-broken"].reason
assert rows["example-broken"].fix
assert rows["example-einsum"].available and rows["cpu-blocked"].available
try:
    gemmlab.matmul(np.eye(2), np.eye(2), backend="example-broken")
except gemmlab.BackendUnavailable as error:
    assert "libexample.so" in str(error)
else:
    raise AssertionError("example-broken ran")
""",
        path=[site],
    )


def test_a_blocked_plugin_is_never_imported(site):
    output_of(
        """
import sys, gemmlab
rows = gemmlab.backends()
assert "example_backends" not in sys.modules
assert "GEMMLAB_BLOCK" in rows["example-einsum"].reason and not rows["example-einsum"].available
""",
        path=[site],
        GEMMLAB_BLOCK="example-einsum, example-broken",
    )


def test_an_installed_plugin_changes_nothing_by_itself(site):
    output_of(
        """
import sys, gemmlab, numpy as np
with gemmlab.trace() as calls:
    gemmlab.matmul(np.eye(2, dtype=int), np.eye(2, dtype=int))
    gemmlab.matmul(np.eye(2), np.eye(2), backend="cpu")
assert [call.backend for call in calls] == ["cpu-packed", "cpu-packed"]
assert "example_backends" not in sys.modules
""",
        path=[site],
    )


def test_the_backend_in_the_documentation_works():
    page = (HERE.parent / "docs" / "adding-a-backend.md").read_text(encoding="utf-8")
    names = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    with registered(names["Einsum"]()) as backend:
        assert np.array_equal(gemmlab.matmul(ONES, ONES, backend=backend.name), ONES @ ONES)
