"""The loops of a matrix unit: they multiply what is counted."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from devices import nvrtc_here
from on_host import aligned, start
from recorded_kernel import needs_compiler
from sweeps import swept
from unit_products import DEVICE

from gemmlab._gpu.cuda import compiled_for
from gemmlab._gpu.tensor import trial
from gemmlab.roofline.ceilings import device as device_ceilings
from gemmlab.roofline.ceilings import unit

GROUPS = 2
OF_BOTH = "float16", "bfloat16", "int8"


@pytest.fixture
def has_units(monkeypatch):
    monkeypatch.setattr(trial, "failure", lambda device, kind, name="": None)


def publishing_all(text):
    """The stand-in knows which copies are to be published, but not which other stores."""
    return text.replace("publish_writes();", "memcpy(published, local_bytes, sizeof published);")


@needs_compiler
@pytest.mark.parametrize("kind", swept(["int8", "float64"]))
def test_each_step_adds_the_same(kind, has_units, tmp_path):
    dtype = {"int8": np.int32, "float64": np.float64}.get(kind, np.float32)
    found = list(unit.loops(DEVICE, kind, GROUPS))
    assert len(found) == 1 + (kind in OF_BOTH)
    for loop, _ in found:
        (launch,) = loop.kernels
        sums = []
        for steps in (0, 1, 2, 3):
            out = aligned(GROUPS * launch.group[0], dtype)
            start(unit.with_steps(loop, steps), (out, out, out), tmp_path, changed=publishing_all)
            sums.append(out.copy())
        assert not sums[0].any()
        assert np.count_nonzero(sums[1]) > 0.9 * sums[1].size
        tolerance = 0 if kind == "int8" else 1e-3
        assert np.allclose(np.diff(sums, axis=0), sums[1], tolerance, tolerance * abs(sums[1]).max())


@pytest.fixture(scope="module")
def nvrtc():
    return nvrtc_here()


@pytest.mark.parametrize("kind", unit.KINDS)
def test_the_flop_of_a_step_are_those_of_its_instructions(kind, nvrtc, has_units):
    for loop, flop in unit.loops(DEVICE, kind, GROUPS):
        (launch,) = loop.kernels
        ptx, _ = compiled_for("sm_90", launch.text, launch.macros)
        instructions = re.findall(r"(?:mma|mma_async)\.sync\.aligned\.m(\d+)n(\d+)k(\d+)", ptx)
        ((m, n, k),) = set(instructions)
        together, of_a_step = (128, 4) if launch.name == "multiply_tiles" else (32, unit.CHAINS)
        assert len(instructions) % of_a_step == 0  # the compiler may unroll the loop
        assert flop == 2 * int(m) * int(n) * int(k) * of_a_step * GROUPS * launch.group[0] // together


def test_the_better_instruction_counts(monkeypatch):
    class Queue:
        device = SimpleNamespace(runtime="cuda", compute_units=1)

        def allocate(self, nbytes):
            return None

        def prepared(self, launches):
            return launches

        def start(self, launches, *memory):
            (launch,) = launches.kernels
            return [SimpleNamespace(kernel_s=1e-6 * launch.arguments[0] * launch.groups[0], wait=lambda: None)]

    loops = [(unit.Launches((unit.Launch("", "", {}, (i, 1, 1), (1, 1, 1), (0,)),)), 10**7) for i in (2, 1, 3)]
    monkeypatch.setattr(unit, "loops", lambda *given: loops)
    record = device_ceilings._by_unit(Queue(), "float16", 0.0)
    assert (record["isa"], record["dtype"]) == ("cuda matrix unit", "float16")
    assert record["gflop_per_s"] == pytest.approx(10**4)
