"""The accesses of a GPU kernel, recorded: its text is compiled for the host with `recording.h`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++ here")
FIELDS = ("group", "interval", "item", "is_global", "write", "bytes", "address")
HEADER = Path(__file__).with_name("recording.h")


def recorded(launch, n, pad, folder):
    """Every access of a launch of a product of n x n matrices: an array with the fields above, in no order of items."""
    folder.mkdir()
    source, program = folder / "kernel.cpp", folder / "kernel"
    macros = {name: value for name, value in launch.macros.items() if name != "REAL"}
    definitions = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    source.write_text(f'{definitions}#include "{HEADER}"\n{launch.text}\nRECORD\n', encoding="utf-8")
    subprocess.run([COMPILER, "-std=c++17", "-w", source, "-o", program], check=True, capture_output=True)
    command = [program, *map(str, (n, n + pad, *launch.groups[:2]))]
    done = subprocess.run(command, check=True, capture_output=True)
    return np.frombuffer(done.stdout, np.int64).reshape(-1, len(FIELDS)).T
