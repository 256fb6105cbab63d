"""The structure of the project: package heads name their modules, folders and files stay small, documents agree."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest
from helpers import ROOT

from gemmlab import _above, _registry

MAX_FILES, MAX_LINES = 15, 400
UNBOUNDED = ("tests/", "gemmlab/data/")
SOURCES = {".py", ".pyx", ".hpp", ".h", ".cpp", ".cl", ".html"}


def tracked():
    """The files that git has, by their path from the root."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout:
        pytest.skip("not a clone: no list of files")
    return [PurePosixPath(name) for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def packages():
    return sorted((ROOT / "gemmlab").rglob("__init__.py"))


@pytest.mark.parametrize("head", packages(), ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_a_package_head_names_every_module_and_package_in_its_folder(head):
    text = ast.get_docstring(ast.parse(head.read_text(encoding="utf-8"))) or ""
    if head.parent.name == "gemmlab":
        text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folder = PurePosixPath(head.parent.relative_to(ROOT).as_posix())
    files = [path for path in tracked() if path.suffix in SOURCES]
    modules = {path.stem for path in files if path.parent == folder} - {"__init__", "__main__", "_version"}
    below = {path.relative_to(folder).parts[0] for path in files if folder in path.parents and path.parent != folder}
    missing = [name for name in sorted(modules | below) if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    assert not missing, f"{head.relative_to(ROOT)} does not name {', '.join(missing)}"


def test_folders_have_few_files():
    files = [path for path in tracked() if not path.as_posix().startswith(UNBOUNDED)]
    counts = Counter(str(path.parent) for path in files)
    assert not {folder: count for folder, count in counts.items() if count > MAX_FILES}


def test_files_are_short():
    files = [path for path in tracked() if not path.as_posix().startswith(UNBOUNDED)]
    of_text = [path for path in files if path.suffix not in (".png", ".gz")]
    lines = {str(path): len((ROOT / path).read_bytes().splitlines()) for path in of_text}
    assert not {path: count for path, count in lines.items() if count > MAX_LINES}


def test_the_layers_on_the_page_are_those_that_the_linter_checks():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = page.split("```")[1]
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("layers = [")[1].split("]")[0]
    for layer in re.findall(r'"(.*)"', contract):
        names = [name.strip().removeprefix("gemmlab.") for name in layer.split("|")]
        assert all(re.search(rf"(?m)^(\S+ +)*{name}\b", drawing) for name in names), layer


def test_the_glossary_has_each_word_once():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| ([^|]+?) \|", page.split("## Glossary")[1], re.MULTILINE)[2:]
    assert len(words) > 25
    assert len(words) == len(set(words))


# What one place decides: a search, the place, and where else the search finds what is no decision, or its parts.
ONE_PLACE = {
    "a backend's name is taken apart": (
        r"""partition\(["'][-:]["']\)|split\(["'][-+:]["']\)""", "gemmlab/_name.py",
        {
            "gemmlab/_registry.py",  # what a user typed instead of a name
            "gemmlab/_cpu/isa.py",  # GEMMLAB_ISA=v4+dot
            "gemmlab/measure/environment.py",  # lines of a system's file
        },
    ),
    "files are written whole, and locked": (
        r"\bmkstemp\b|\bfcntl\b|\bos\.replace\(", "gemmlab/_files/__init__.py",
        {
            "gemmlab/measure/records.py",  # a file that grows, and gets its name at the end
            "gemmlab/product/output.py",  # the same, or a folder
            "gemmlab/report/directory.py",  # a folder
        },
    ),
    "how cpu-packed goes through a product": (
        r"\b(shares_of|blocks_of|in_place_of|by_vector|one_at_a_time)\(", "gemmlab/_cpu/packed/plan.hpp",
        {f"gemmlab/_cpu/packed/{name}.hpp" for name in ("sharing", "in_place", "macrokernel", "vector_products")},
    ),
    "how a kernel is launched on a runtime": (
        r"enqueue_nd_range_kernel\(|submit_async\(|\.kernel\(one\.groups", "gemmlab/_gpu/plans/on_opencl.py",
        {"gemmlab/_gpu/plans/on_sycl.py", "gemmlab/_gpu/plans/on_cuda.py"},
    ),
    "in which dtype blocks of k are added up": (
        r"np\.dtype\(np\.float32\) if dtype\.itemsize", "gemmlab/_problem/dtypes.py", set(),
    ),
    "whether a product is added in place or by a temporary": (
        r"accumulate=not ", "gemmlab/_api/adding.py", set(),
    ),
    "what a check by a random vector is": (
        r"rng\.choice\(\[-1", "gemmlab/verify/random_vector.py", set(),
    ),
    "how sizes of memory are written": (
        r"""["']KiB["']| MiB["']""", "gemmlab/_words.py",
        {"gemmlab/cli/inspecting.py", "gemmlab/studies/memory_modes.py"},  # in one unit, whatever the size
    ),
    "which cuts of a product are tried, what they move, which is taken, and the order of tiles": (
        r"def _?(halvings|entering|in_shells)\(|meshgrid", "gemmlab/_tiles.py", set(),
    ),
    "what the tuner tries next": (
        r"\.neighbours\(|\.drawn\(", "gemmlab/tune/search/strategy.py", set(),
    ),
    "whose arrays a backend multiplies": (
        r"\.runtime\.name [!=]= ", "gemmlab/_api/foreign.py",
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("decision", ONE_PLACE)
def test_a_decision_is_taken_in_one_place(decision):
    pattern, home, others = ONE_PLACE[decision]
    sources = [path for path in tracked() if path.parts[0] == "gemmlab" and path.suffix in SOURCES]
    found = {str(path) for path in sources if re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))}
    assert home in found
    assert found - {home} == others, decision


def test_what_is_handed_down_is_there():
    """Each function of the table in the top package, looked up without loading its module."""
    assert set(_above.names()) >= {f"arrays of {name}" for name in _registry.ARRAY_PACKAGES}
    for module, function in _above._table.values():
        found = find_spec(module)
        assert found is not None, module
        names = {
            name
            for node in ast.walk(ast.parse(Path(found.origin).read_text(encoding="utf-8")))
            for name in ([node.name] if isinstance(node, ast.FunctionDef) else
                         [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else [])
        }  # fmt: skip
        assert function in names, (module, function)


def test_no_layer_names_a_higher_one_in_a_string():
    for path in (path for path in tracked() if path.suffix == ".py" and path.parts[:1] == ("gemmlab",)):
        if path.parts[1].startswith("_") and path.as_posix() != "gemmlab/__init__.py":  # the layers below Dask's
            text = (ROOT / path).read_text(encoding="utf-8")
            assert not re.search(r"""["']gemmlab\.dask[:."']""", text), path


# What is decided elsewhere now.
GONE = {
    "device operands are no NumPy arrays with made-up addresses": r"DeviceOperands\b|_ADDRESS_RANGE",
    "what one backend sets is not in Problem": r"\.warns\b",
    "a rung hands back its launches": r"\bshares_k\b|\bto_pack\b|\.fitted\(|\.variants\(|\blaunches_for\b",
    "a text for GPUs, and one for CPU devices": r"(?i)\blocal_copy\b",
}


@pytest.mark.parametrize("decision", GONE)
def test_what_has_gone_does_not_come_back(decision):
    sources = [path for path in tracked() if path.parts[0] == "gemmlab" and path.suffix in SOURCES]
    found = [str(path) for path in sources if re.search(GONE[decision], (ROOT / path).read_text(encoding="utf-8"))]
    assert not found


def test_at_most_two_classes_are_called_plan():
    """`cpu-packed`'s and that of device products; in compiled code it is one struct."""
    sources = [path for path in tracked() if path.parts[0] == "gemmlab" and path.suffix in SOURCES]
    named = {
        str(path): re.findall(r"(?m)^(?:class|struct) Plan\b", (ROOT / path).read_text(encoding="utf-8"))
        for path in sources
    }  # fmt: skip
    assert sorted(path for path, found in named.items() if found) == [
        "gemmlab/_cpu/packed/plan.hpp", "gemmlab/_cpu/packed_backend/plan.py", "gemmlab/_gpu/plans/table.py",
    ]  # fmt: skip
