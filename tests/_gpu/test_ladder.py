"""Every rung on every device: exact products at all sizes, and every parameter has an effect."""

from __future__ import annotations

import numpy as np
import pytest
from devices import DTYPES, RUNG_AND_PLACE, RUNG_NAMES, backend_at, integers
from randomness import RNG
from sweeps import swept

import gemmlab
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.rungs import RUNGS

pytestmark = pytest.mark.skipif(not RUNG_AND_PLACE, reason="no runtime has a device here")

PRIMES_AROUND_TILES = (127, 131, 251, 257, 61)


def triples() -> list[tuple[int, int, int]]:
    """300 sizes: each of 1 to 70 is four times m, n and k, and so are primes near the tile sizes."""
    values = [*range(1, 71), *PRIMES_AROUND_TILES]
    columns = [np.concatenate([RNG.permutation(values) for _ in range(4)]).tolist() for _ in range(3)]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rung", "place"), RUNG_AND_PLACE)
def test_300_sizes_are_exact(rung: str, place: str, dtype: str) -> None:
    backend = backend_at(place, rung)
    sizes = triples()
    assert len(sizes) == 300
    for m, n, k in sizes:
        a, b = integers((m, k), dtype), integers((k, n), dtype)
        out = np.full((m, n), np.nan, dtype)
        gemmlab.matmul(a, b, out=out, backend=backend)
        assert np.array_equal(out, a @ b), (m, n, k)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(("rung", "place"), swept(RUNG_AND_PLACE))
def test_each_parameter_is_used_and_reported(rung: str, place: str) -> None:
    backend = gemmlab.get_backend(backend_at(place, rung))
    a, b = integers((33, 45), "float32"), integers((45, 37), "float32")
    form = backend.rung.on(backend.device.kind)
    for param in form.params:
        for value in param.choices[:3]:
            plan = form.resolve({param.name: value}, backend.device.kind)
            if form.refusal(plan, "float32", backend.device):  # not with the other defaults on this device
                continue
            with gemmlab.trace() as calls:
                product = gemmlab.matmul(a, b, backend=backend.name, **{param.name: value})
            assert calls[0].params[param.name] == (value or calls[0].params[param.name])  # 0 may be "choose"
            assert np.array_equal(product, a @ b), (param.name, value)


@pytest.mark.parametrize(("rung", "place"), RUNG_AND_PLACE)
def test_the_device_measures_the_kernels_time(rung: str, place: str) -> None:
    a = RNG.random((128, 128), "float32")
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend=backend_at(place, rung))
    assert calls[0].kernel_s is not None
    assert 0 < calls[0].kernel_s <= calls[0].seconds


def test_every_rung_has_a_source_with_a_head() -> None:
    assert [rung.name for rung in RUNGS] == list(RUNG_NAMES)
    for rung in RUNGS:
        own = kernel_text(f"{rung.name.replace('-', '_')}.cl")
        assert own.startswith(f"// {rung.name}: ")
        assert "// Source: " in own
        assert "// Traffic: " in own


def test_no_source_depends_on_the_runtime() -> None:
    for rung in RUNGS:
        assert not any(word in rung.text for word in ("CUDA_ARCH", "__CUDACC", "__OPENCL_VERSION__", "SYCL"))


@pytest.mark.parametrize("name", [rung.name for rung in RUNGS])
def test_parameters_that_a_device_cannot_run_are_errors(name: str) -> None:
    rung = next(rung for rung in RUNGS if rung.name == name)
    place = RUNG_AND_PLACE[0][1]
    backend = gemmlab.get_backend(backend_at(place, name))
    wild = {param.name: 1024 for param in rung.params}
    a = integers((3, 3), "float32")
    with pytest.raises(ValueError, match=r"work-items|local memory|numbers; the most|multiple|one of"):
        gemmlab.matmul(a, a, backend=backend.name, **wild)
    with pytest.raises(ValueError, match="an integer from 1 to 1024, not 0"):
        gemmlab.matmul(a, a, backend=backend.name, **{rung.params[0].name: 0})
    with pytest.raises(TypeError, match="its parameters: "):
        gemmlab.matmul(a, a, backend=backend.name, bs_r=3)
    assert np.array_equal(gemmlab.matmul(a, a, backend=backend.name), a @ a)
