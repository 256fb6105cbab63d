"""Fixtures that fake a machine: see the tests beside this file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def failing_calls(tmp_path_factory):
    """The environment in which named calls of the C library fail with an errno: failing_calls(flock=errno.ENOLCK)."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    library = tmp_path_factory.mktemp("wild") / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def environment(**calls):
        asked = ",".join(f"{call}:{number}" for call, number in calls.items())
        return {"LD_PRELOAD": str(library), "WILD": asked}

    return environment
