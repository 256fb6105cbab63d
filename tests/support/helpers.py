"""What several test modules share: paths, and Python in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
DOCS = ROOT / "docs"


def run_python(*arguments, timeout=120, path=(), **environ):
    """Run this Python with `arguments`, without our own GEMMLAB_* and pytest's settings but with what `environ` gives.

    `path` is put before PYTHONPATH. The working directory is not on the path (-P): it may hold the source
    without its compiled modules.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GEMMLAB_", "PYTEST_"))}
    places = [*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = inherited | environ | ({"PYTHONPATH": os.pathsep.join(places)} if places else {})
    command = [sys.executable, "-P", *map(str, arguments)]
    return subprocess.run(command, env=environ, timeout=timeout, capture_output=True, text=True, check=False)


def output_of(code, **options):
    """What a program prints; its assertions are the test's."""
    done = run_python("-c", code, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
