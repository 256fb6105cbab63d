"""`gemmlab new-rung`: writes a plugin package in which a student improves a kernel.

    templates/shared/           what both languages have: pyproject.toml, the test, the lab sheet
    templates/cython/           a kernel in Cython with its build
    templates/opencl/           a kernel in OpenCL C

The generated kernel is correct and simple. A file NAME.in of a template becomes the file NAME with each `$word` filled
in; `package` in its path becomes the package's name.
"""

from __future__ import annotations

import re
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template
from textwrap import fill

from gemmlab._cpu import flags, isa

LANGUAGES = ("cython", "opencl")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
WORDS: Mapping[str, Mapping[str, str]] = {
    "cython": {
        "kernel": "kernel.pyx",
        "build_requires": '"setuptools>=77", "Cython>=3.1"',
        "start": "the loops i-k-j",
        "below": "cpu-ikj",
        "above": "cpu-blocked",
        "sizes": "256,1008,2016",
        "bench_options": "--threads 1",
        "after_a_change": "After a change of the kernel, install again:\nthat compiles it.",
    },
    "opencl": {
        "kernel": "kernel.cl",
        "build_requires": '"setuptools>=77"',
        "start": "one work-item per element of C",
        "below": "opencl-private",
        "above": "opencl-local4",
        "sizes": "256,512,1024",
        "bench_options": "--transfers without",
        "after_a_change": "A change of the kernel\nneeds no new installation.",
    },
}


def run_new_rung(arguments: Namespace) -> int:
    """gemmlab new-rung"""
    name, language = arguments.name, arguments.language
    package = f"gemmlab_{name.replace('-', '_')}"  # not the folder's name: in its parent that would be another module
    words = {**WORDS[language], "name": name, "package": package, "backend": _backend(name, language)}
    words["flags"] = fill(" ".join(flags.of_ikj(isa.chosen())), 100, break_on_hyphens=False)
    _check(words)
    texts = {path: Template(text).substitute(words) for path, text in _templates(language, package)}
    _write(Path(name), texts)
    print(
        f"wrote the package {name}/. Its kernel: {name}/{package}/{words['kernel']}\n"
        f"The lab sheet: {name}/README.md. To begin:\n"
        f'    pip install -e "{name}[test]"\n'
        f"    python -m pytest {name}\n"
        f"    gemmlab bench --backends {words['below']},{words['backend']} --sizes 256"
    )
    return 0


def _backend(name: str, language: str) -> str:
    """The name of the backend; one on OpenCL says so, as gemmlab's do."""
    return f"opencl-{name}" if language == "opencl" and not name.startswith("opencl-") else str(name)


def _check(words: Mapping[str, str]) -> None:
    """ValueError for a name that cannot be a backend's, or is taken; FileExistsError for a folder that exists."""
    from gemmlab import _registry
    from gemmlab._gpu import RUNTIMES

    name, backend, package = words["name"], words["backend"], words["package"]
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a rung: take lower-case letters, digits and dashes, such as my-rung")
    reserved = RUNTIMES if words["kernel"].endswith(".pyx") else tuple(one for one in RUNTIMES if one != "opencl")
    if name.startswith(tuple(f"{runtime}-" for runtime in reserved)):
        other = ", or --language opencl" if name.startswith("opencl-") else ""
        raise ValueError(f"{name!r} would be a backend of a GPU runtime: take another name{other}")
    if backend in {"auto", *_registry.FAMILIES, *_registry.names()}:
        raise ValueError(f"the backend {backend!r} exists already: take another name")
    if find_spec(package) is not None:
        raise ValueError(f"a Python module {package!r} exists already: take another name than {name!r}")
    if Path(name).exists():
        raise FileExistsError(f"{name} exists already: take another name, or remove it")


def _templates(language: str, package: str) -> Iterator[tuple[Path, str]]:
    """The path of each file to write, and its template."""
    yield Path(package, "__init__.py"), '"""A rung of my own for gemmlab: $backend."""\n'
    for folder in ("shared", language):
        for path, file in _files_in(files("gemmlab.cli").joinpath("templates", folder), Path()):
            target = path.as_posix().replace("package", package).removesuffix(".in")
            yield Path(target), file.read_text(encoding="utf-8")


def _files_in(folder: Traversable, path: Path) -> Iterator[tuple[Path, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_in(entry, path / entry.name)
        else:
            yield path / entry.name, entry


def _write(directory: Path, texts: Mapping[Path, str]) -> None:
    """Write all files into a new folder, or none."""
    directory.mkdir()
    try:
        for path, text in texts.items():
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
