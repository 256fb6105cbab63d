"""What importing costs, and what the public names promise: they are there, documented, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import pickle
import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from helpers import output_of

import gemmlab

HEAVY = {
    "scipy", "pyopencl", "cupy", "dpctl", "dpnp", "matplotlib", "threadpoolctl", "jinja2", "mkl", "blis", "tqdm",
    "dask", "distributed", "zarr",
}  # fmt: skip
LOADED = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"


def loaded_by(code):
    """Top-level packages that a program has loaded at its end."""
    return set(output_of(f"{code}\n{LOADED}").split())


def test_importing_loads_no_more_than_the_standard_library():
    added = loaded_by("import gemmlab") - loaded_by("")
    assert added - sys.stdlib_module_names == {"gemmlab"}


def test_a_first_product_loads_nothing_heavy():
    assert HEAVY & loaded_by("import gemmlab, numpy\ngemmlab.matmul(numpy.eye(2), numpy.eye(2))") == set()


@pytest.mark.parametrize(
    "calls",
    [
        "gemmlab.matmul(a.astype(int), a.astype(int))",
        "gemmlab.matmul(a, a, backend='cpu')",
        "gemmlab.matmul(a, a.T, backend='cpu-ikj', threads=2)",
        "with gemmlab.use('cpu-naive'): gemmlab.matmul(a, a)",
    ],
)
def test_no_product_of_our_own_loads_anything_heavy(calls):
    assert HEAVY & loaded_by(f"import gemmlab, numpy\na = numpy.eye(200)\n{calls}") == set()


def test_names_are_there_without_loading_what_they_need():
    assert {*HEAVY, "numpy"} & loaded_by("import gemmlab; dir(gemmlab), gemmlab.__all__, gemmlab.config") == set()


def test_the_pytest_plugin_loads_the_standard_library_and_pytest():
    added = loaded_by("import gemmlab.pytest_plugin") - loaded_by("import pytest")
    assert added - sys.stdlib_module_names == {"gemmlab"}
    modules = output_of("import sys, gemmlab.pytest_plugin; print(*sys.modules)").split()
    own = {module for module in modules if module.partition(".")[0] == "gemmlab"}
    names = ("_above", "_config", "_process", "_process.importing", "_version", "_words", "pytest_plugin")
    assert own == {"gemmlab", *(f"gemmlab.{name}" for name in names)}


# Public names


def test_every_public_name_is_there():
    everything = {}
    exec("from gemmlab import *", everything)
    assert set(gemmlab.__all__) <= set(everything)
    assert set(gemmlab.__all__) <= set(dir(gemmlab))
    assert gemmlab.__all__ == sorted(gemmlab.__all__)


def test_dir_is_the_public_names_and_what_every_module_has():
    listed = output_of("import gemmlab, gemmlab.cli\ngemmlab.matmul\nprint(*dir(gemmlab))").split()
    assert listed == sorted(set(listed))
    special = {name for name in listed if name.startswith("__") and name.endswith("__")}
    assert {"__doc__", "__file__", "__name__", "__path__"} <= special
    assert set(listed) - special == set(gemmlab.__all__) - {"__version__"}


@pytest.mark.parametrize("name", gemmlab.__all__)
def test_a_public_name_is_documented(name):
    thing = getattr(gemmlab, name)
    assert inspect.getdoc(thing)
    for part, member in vars(thing).items() if inspect.isclass(thing) else ():
        if inspect.isfunction(member) and member.__name__ == part and not part.startswith("_"):
            assert member.__doc__, part


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gemmlab' has no attribute 'matmull'"):
        _ = gemmlab.matmull


def test_the_version_is_the_packages():
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert f'version = "{gemmlab.__version__}"' in project.read_text(encoding="utf-8")


def test_matmul_reads_well_in_help_and_travels_to_other_processes():
    assert str(inspect.signature(gemmlab.matmul)).startswith("(a, b, /, out=None, *, backend=None")
    assert pickle.loads(pickle.dumps(gemmlab.matmul)) is gemmlab.matmul


# Examples


def modules():
    """Every module of the package, but for libraries that are no modules, and what runs."""
    names = [module.name for module in pkgutil.walk_packages(gemmlab.__path__, "gemmlab.")]
    return [name for name in names if not re.search(r"\.(v\d|plain)\b|\.sampler$|__main__$", name)]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_run(name):
    try:
        module = import_module(name)
    except ImportError as error:
        if error.name is None or error.name.startswith("gemmlab"):
            raise
        pytest.skip(f"needs {error.name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", ["matmul", "use", "trace", "explain", "backends", "get_backend"])
def test_a_public_function_has_an_example_that_runs(name):
    example = doctest.DocTestParser().get_doctest(getattr(gemmlab, name).__doc__, {}, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
