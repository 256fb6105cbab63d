"""The compiled kernels of each instruction set, by a program without Python: see kernels_test.cpp."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import ROOT
from kernel_program import PROGRAMS, compiled, linked, main
from randomness import fresh_seed

from gemmlab._cpu import isa

PACKED = ROOT / "gemmlab" / "_cpu" / "packed"


@pytest.fixture(scope="module")
def tests_object(tmp_path_factory):
    return compiled("g++", ROOT / "tests" / "_cpu" / "kernels_test.cpp", tmp_path_factory.mktemp("kernels"), "-fopenmp")


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("level", [*isa.available(), *isa.extras_here()])
def test_every_kernel_takes_every_tile_and_strategy_and_is_right(level, tests_object, tmp_path):
    library = next(PACKED.glob(f"{level}/kernels.*.so"))
    options = "-fopenmp", f"-Wl,-rpath,{library.parent}"
    program = linked("g++", [tests_object, library], tmp_path / "kernels_test", *options)
    done = subprocess.run([program, str(fresh_seed()), "200"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None or platform.machine() != "x86_64", reason="no g++ for x86-64")
def test_the_kernels_are_clean_under_the_sanitizers(tmp_path):
    """No undefined behaviour, no access beside an array. Of one instruction set, since all share their text."""
    sanitizers = "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    sources = PACKED / "kernels.cpp", ROOT / "tests" / "_cpu" / "kernels_test.cpp"
    options = *sanitizers, "-fopenmp", "-march=x86-64-v2", "-O0"  # a compiler takes twice as long to optimise it
    with ThreadPoolExecutor(2) as compilers:
        objects = list(compilers.map(lambda source: compiled("g++", source, tmp_path, *options), sources))
    program = linked("g++", objects, tmp_path / "kernels_test", *sanitizers, "-fopenmp")
    environ = os.environ | {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}  # the program handles it
    command = [program, str(fresh_seed()), "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None or "v4" not in isa.available(), reason="no g++ or no AVX-512")
def test_the_kernels_for_amx_are_right_on_tiles_in_plain_code(tests_object, tmp_path):
    """On a processor without AMX too: see tile_unit.h, which also sees tiles that are used while not configured."""
    tiles = "-include", ROOT / "tests" / "support" / "tile_unit.h", "-march=x86-64-v4", "-mprefer-vector-width=512"
    kernels = compiled("g++", PACKED / "kernels.cpp", tmp_path, "-O2", *map(str, tiles))
    program = linked("g++", [tests_object, kernels], tmp_path / "kernels_test", "-fopenmp")
    done = subprocess.run([program, str(fresh_seed()), "60"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main([]) == 2
    said = capsys.readouterr().err
    assert all(package in said for package in PROGRAMS.values())
    assert said.count("\n") == 1
