"""Fixtures that fake a machine: see the tests beside this file.

The first case of each test is run always, the others with the exhaustive tests.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark all cases of a test but its first as exhaustive."""
    seen = set()
    for item in items:
        if HERE in item.path.parents:
            if item.function in seen:
                item.add_marker(pytest.mark.exhaustive)
            seen.add(item.function)


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
