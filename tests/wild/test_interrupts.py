"""Ctrl-C ends a long product of our CPU kernels early, and nothing but its result is harmed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import output_of
from randomness import RNG

import gemmlab

OURS = ["cpu-packed", "cpu-naive", "cpu-ikj", "cpu-blocked", "cpu-blocked-local", "cpu-five-loops"]
SHAPES = {
    "square": ((5000, 5000), (5000, 5000)), "a stack": ((1500, 200, 200), (200, 200)),
    "few rows": ((90, 6000), (6000, 9000)), "a short k": ((8000, 48), (48, 6000)),
}  # fmt: skip
# The product is done again until the signal comes in one: some of these are over sooner on a fast machine.
CTRL_C = """
import os, signal, threading, time
import numpy as np
import gemmlab

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have had ignored
small = np.arange(4200, dtype="f8").reshape(60, 70)

def is_right():
    return np.array_equal(gemmlab.matmul(small, small.T.copy(), backend=BACKEND), small @ small.T)

assert is_right()
a, b = np.ones(SHAPE_A, DTYPE), np.ones(SHAPE_B, DTYPE)
out = np.zeros((*SHAPE_A[:-1], SHAPE_B[-1]), DTYPE)
begun = 0

def interrupt():
    while not begun:
        time.sleep(0.01)
    time.sleep(PAUSE)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    while True:
        out[...] = 0
        begun += 1
        gemmlab.matmul(a, b, out=out, backend=BACKEND, threads=THREADS)
except KeyboardInterrupt:
    print("interrupted in product", begun)
assert BACKEND in PARTS_OF_K or ((out == 0) | (out == SHAPE_A[-1])).all()
assert is_right()
"""


def interrupted(backend, shapes, dtype="float32", threads=2):
    names = {
        "BACKEND": backend, "SHAPE_A": shapes[0], "SHAPE_B": shapes[1], "DTYPE": dtype, "THREADS": threads,
        "PAUSE": RNG.uniform(0.1, 0.3), "PARTS_OF_K": ("cpu-packed",),
    }  # fmt: skip
    return output_of("\n".join(f"{name} = {value!r}" for name, value in names.items()) + CTRL_C, timeout=60)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("backend", OURS)
def test_a_product_of_seconds_ends_early(backend, threads):
    assert "interrupted in product 1\n" in interrupted(backend, SHAPES["square"], threads=threads)


@pytest.mark.parametrize("shapes", [name for name in SHAPES if name != "square"])
@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["cpu-packed", "cpu-naive", "cpu-blocked"])
def test_shapes(backend, shapes):
    assert "interrupted" in interrupted(backend, SHAPES[shapes], threads=int(RNG.integers(1, 3)))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32", "float16"])
def test_dtypes(dtype):
    assert "interrupted" in interrupted("cpu-packed", ((2500, 2500), (2500, 2500)), dtype)


@pytest.mark.exhaustive
def test_handlers_that_do_not_raise_are_run_and_the_product_goes_on():
    output_of("""
import os, signal, threading
import numpy as np
import gemmlab

seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(product))
for backend, size in (("cpu-naive", 700), ("cpu-packed", 3000)):
    product, x = backend, np.ones((size, size))
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    while backend not in seen:
        assert (gemmlab.matmul(x, x, backend=backend) == size).all()
""", timeout=60)


def test_another_thread_is_not_interrupted():
    output_of("""
import os, signal, threading
import numpy as np
import gemmlab

signal.signal(signal.SIGINT, signal.default_int_handler)
x, results = np.ones((2500, 2500)), []
thread = threading.Thread(target=lambda: results.append(gemmlab.matmul(x, x)))
thread.start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    thread.join()
except KeyboardInterrupt:
    thread.join()
assert (results[0] == 2500).all()
""", timeout=60)


@pytest.mark.parametrize("backend", [name for name in OURS if name != "cpu-packed"])
@pytest.mark.parametrize("shape", [(700, 300, 300), (3, 9000, 900), (40, 1100, 700)])
def test_bands_do_not_change_a_bit(backend, shape):
    m, n, k = shape
    a, b = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    params = {} if backend in ("cpu-naive", "cpu-ikj") else {"bs_r": 16, "bs_c": 48, "bs_k": 40}
    whole = gemmlab.matmul(a, b, backend=backend, **params)
    for i, j in zip(RNG.integers(0, m, 20), RNG.integers(0, n, 20), strict=True):
        part = gemmlab.matmul(a[i : i + 1], b[:, j : j + 40].copy(), backend=backend, **params)
        assert np.array_equal(part[0], whole[i, j : j + 40])
