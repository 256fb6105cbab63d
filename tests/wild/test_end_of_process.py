"""A program that has used gemmlab ends with its own status, and nothing is printed."""

from __future__ import annotations

import pytest
from devices import FIRST_PLACES
from helpers import run_python
from randomness import RNG

opencl = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")
HOST = ["auto", "cpu-packed", "cpu-naive", "cpu-blocked", "cpu-numpy", "cpu-packed+cpu-blocked"]
WITH_DEVICE = ["opencl-naive", "opencl", "opencl:all", "cpu-packed+opencl-naive"]
DEVICE = [pytest.param(name, marks=opencl) for name in WITH_DEVICE]
ON_DEVICE = """
import pyopencl.array
from gemmlab._gpu import runtime_named
runtime = runtime_named("opencl")
x = pyopencl.array.to_device(runtime.queue(runtime.device("")).queue, x)
"""


def status(code, size=500):
    imports = "import atexit, os, sys, threading, time\nimport numpy as np\nimport gemmlab"
    done = run_python("-c", f"{imports}\nx = np.ones(({size}, {size}), 'f4')\n{code}", timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("backend", [*HOST, *DEVICE])
def test_the_first_product_comes_after_the_main_thread(backend):
    code = f"""
def work():
    threading.main_thread().join()
    print(gemmlab.matmul(x, x, backend={backend!r})[0, 0])

threading.Thread(target=work).start()
sys.exit(4)
"""
    assert status(code) == (4, "500.0\n")


@pytest.mark.parametrize("backend", [*HOST, *DEVICE])
def test_a_product_at_exit(backend):
    code = f"atexit.register(lambda: print(gemmlab.matmul(x, x, backend={backend!r})[0, 0]))\nsys.exit(4)"
    assert status(code) == (4, "500.0\n")


@pytest.mark.parametrize("backend", [*HOST, *DEVICE])
def test_a_daemon_thread_is_in_products(backend):
    code = f"""
gemmlab.matmul(x, x, backend={backend!r})

def work():
    while True:
        gemmlab.matmul(x, x, backend={backend!r})

threading.Thread(target=work, daemon=True).start()
time.sleep({RNG.uniform(0.05, 0.3)})
sys.exit(4)
"""
    assert status(code, int(RNG.integers(50, 900))) == (4, "")


@opencl
@pytest.mark.parametrize("end", ["", "sys.exit(4)", "raise SystemExit(4)", "os._exit(4)"])
@pytest.mark.parametrize("keep", [
    "kept = [gemmlab.matmul(x, x) for _ in range(3)]",
    "kept = [gemmlab.matmul(x, x, backend='opencl-naive') for _ in range(2)]",  # still running
    "kept = gemmlab.matmul(x, x); kept.owner = kept",
    "sys.modules['kept'] = kept = gemmlab.matmul(x, x)",
    "threading.Thread(target=lambda: [gemmlab.matmul(x, x) for _ in range(100)], daemon=True).start()",
])  # fmt: skip
def test_device_results_live_to_the_end(keep, end):
    assert status(f"{ON_DEVICE}{keep}\n{end}", 1000) == (4 if end else 0, "")


@pytest.mark.parametrize("backend", HOST)
def test_an_exception_is_the_programs_own(backend):
    product = f"import gemmlab, numpy as np\nx = np.ones((300, 300))\ngemmlab.matmul(x, x, backend={backend!r})"
    done = run_python("-c", f"{product}\n1 / 0")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")
