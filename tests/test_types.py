"""What a type checker says of a program that uses gemmlab, installed or editable."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from zipfile import ZipFile

import pytest
from helpers import ROOT, output_of, run_python

PROGRAM = """
from typing import Any

import numpy as np
import numpy.typing as npt

import gemmlab

matrix, vector, stack = np.ones((2, 2)), np.ones(2), np.ones((3, 2, 2))


def program(unknown: npt.NDArray[np.float32], whatever: Any) -> None:
    reveal_type(gemmlab.matmul(np.ones((2, 2)), np.ones((2, 2))))
    reveal_type(gemmlab.matmul(vector, vector))
    reveal_type(gemmlab.matmul(stack, matrix))
    reveal_type(gemmlab.matmul(unknown, unknown, backend="cpu-packed", threads=2, kc=64))
    reveal_type(gemmlab.matmul(matrix, vector))
    reveal_type(gemmlab.matmul(matrix, matrix, matrix))
    reveal_type(gemmlab.matmul(stack, stack, out=unknown))
    reveal_type(gemmlab.matmul(matrix, matrix, dtype=np.float32))
    reveal_type(gemmlab.matmul(vector, vector, dtype=np.float32))
    reveal_type(gemmlab.matmul(matrix, gemmlab.pack(matrix)))
    reveal_type(gemmlab.matmul([[1.0, 2.0]], matrix))
    reveal_type(gemmlab.matmul(whatever, whatever))
    gemmlab.matmul(matrix, matrix, threads="2")
    gemmlab.config.thread = 3
    with gemmlab.use("cpu-ikj", threads=2):
        pass
    with gemmlab.trace() as calls:
        reveal_type(calls[0].backend)


@gemmlab.use("cpu-ikj")
def product(a: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return gemmlab.matmul(a, a)


reveal_type(product(stack))
"""
ARRAY = r"numpy\.ndarray\[tuple\[Any, \.\.\.\], numpy\.dtype\[{}\]\]".format
FLOAT64, FLOAT32 = r"numpy\.float64", r"numpy\.(float32|floating\[.*32Bit\])"
MATRIX = ARRAY(FLOAT64).replace(r"Any, \.\.\.", "int, int")
REVEALED = [
    f"{MATRIX}|{ARRAY(FLOAT64)}", FLOAT64, ARRAY(FLOAT64), ARRAY(FLOAT32), ARRAY(FLOAT64), MATRIX, ARRAY(FLOAT32),
    ARRAY("Any"), "Any", ARRAY("Any"), ARRAY("Any"), "Any", r"(builtins\.)?str", ARRAY(FLOAT64),
]  # fmt: skip
ERRORS = ['No overload variant of "matmul" matches .*"str"', '"Config" has no attribute "thread"']


@pytest.mark.exhaustive
def test_mypy_finds_the_types_of_products(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_python(
        "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "c", tmp_path / "program.py"
    )
    patterns = 'Revealed type is "(.*)"', r"program\.py:\d+: error: (.*)"
    revealed, errors = (re.findall(pattern, done.stdout) for pattern in patterns)
    assert len(revealed) == len(REVEALED), done.stdout + done.stderr
    assert all(map(re.fullmatch, REVEALED, revealed)), done.stdout
    assert len(errors) == len(ERRORS), done.stdout
    assert all(map(re.match, ERRORS, errors)), done.stdout


@pytest.mark.skipif(not find_spec("setuptools"), reason="no setuptools here")
def test_an_editable_install_is_a_path_that_type_checkers_follow(tmp_path):
    """setuptools would otherwise install an import hook, which they do not run. Nothing is compiled here."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "gemmlab").mkdir()
    (tmp_path / "gemmlab" / "__init__.py").touch()
    output_of(f"import os, setuptools.build_meta as build\nos.chdir({str(tmp_path)!r})\nbuild.build_editable('.')")
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as file:
        paths = [file.read(name).decode().strip() for name in file.namelist() if name.endswith(".pth")]
        hooks = [name for name in file.namelist() if name.endswith("_finder.py")]
    assert (paths, hooks) == ([str(tmp_path)], [])
