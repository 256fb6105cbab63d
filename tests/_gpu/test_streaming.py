"""Products in tiles: every layout, every cut, the bits of one piece; the tiles that the model chooses; trouble."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import DTYPES, FIRST_PLACES, PLACES, backend_at, integers
from randomness import RNG

import gemmlab
from gemmlab import DeviceError
from gemmlab._gpu import runtime_named, streaming
from gemmlab._gpu.runtime import Queue
from gemmlab._gpu.streaming import rates
from gemmlab._gpu.streaming.pipeline import steps_of
from gemmlab._gpu.streaming.tiles import ALIKE, Rates, Size, choose
from gemmlab._gpu.transfers import staging

pytestmark = pytest.mark.skipif(not PLACES, reason="no device")
PLACE = FIRST_PLACES[0] if FIRST_PLACES else ""
NAME = backend_at(PLACE, "local")
A_GPU = Rates(50e9, 50e9, 80e9, 50e12)


def queue_of(place: str) -> Queue:
    runtime, _, index = place.partition(":")
    return runtime_named(runtime).queue(runtime_named(runtime).device(index))


@pytest.fixture(autouse=True)
def measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that were not measured: what they are changes no result."""
    monkeypatch.setattr(rates, "_transfer_rates", lambda *_: (10e9, 10e9, 15e9))
    monkeypatch.setattr(rates, "_flop_rate", lambda *_: 10e9)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda size: monkeypatch.setattr(gemmlab.config, "_device_memory", size)


# The product


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("a_shape", "b_shape", "size"),
    [
        ((130, 90), (90, 77), 20000),  # all of k in a tile
        ((33, 700), (700, 41), 12000),  # blocks of k
        ((1, 3000), (3000, 1), 5000),
        ((2, 3, 30, 20), (20, 17), 16000),  # batches, and an operand for all of them
        ((5, 40, 30), (5, 30, 50), 9000),
        ((500, 3), (3, 2), 4000),
    ],
)
def test_a_product_in_tiles_is_right(
    dtype: str, place: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...], size: int, limit: Any
) -> None:
    a, b = integers(a_shape, dtype), integers(b_shape, dtype)
    out = np.full(np.matmul(a, b).shape, np.nan, dtype)
    limit(size)
    name = backend_at(place, "local")
    assert "streamed" in str(gemmlab.explain(a, b, backend=name))
    assert gemmlab.matmul(a, b, out=out, backend=name) is out
    assert np.array_equal(out, np.matmul(a, b))


@pytest.mark.parametrize("rung", ["naive", "local4", "register"])
def test_tiles_have_the_bits_of_one_piece(rung: str, limit: Any) -> None:
    name = backend_at(PLACE, rung)
    a, b = RNG.random((150, 65), np.float32), RNG.random((65, 131), np.float32)
    whole = gemmlab.matmul(a, b, backend=name)
    limit(30000)
    assert " blocks of k" not in str(gemmlab.explain(a, b, backend=name))
    assert np.array_equal(gemmlab.matmul(a, b, backend=name), whole)


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_operands_and_out_of_any_layout(place: str, limit: Any) -> None:
    name = backend_at(place, "private")
    a, b = integers((90, 60), "float32"), integers((60, 70), "float32")
    limit(10000)
    for x in (a, np.asfortranarray(a), np.repeat(a, 2, 1)[:, ::2], a[::-1][::-1], np.pad(a, 3)[3:-3, 3:-3]):
        for y in (b, np.asfortranarray(b), b[:, ::-1]):
            for out in (np.empty((90, 70), "f4"), np.empty((70, 90), "f4").T, np.empty((90, 140), "f4")[:, ::2]):
                out[...] = np.nan
                gemmlab.matmul(x, y, out=out, backend=name)
                assert np.array_equal(out, np.matmul(x, y))


def test_files_in_and_out(tmp_path: Path, limit: Any) -> None:
    a, b = integers((80, 64), "float32"), integers((64, 72), "float32")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    out = np.lib.format.open_memmap(tmp_path / "c.npy", "w+", np.float32, (80, 72))
    limit(20000)
    found = gemmlab.matmul(
        np.load(tmp_path / "a.npy", mmap_mode="r"), np.load(tmp_path / "b.npy", mmap_mode="r"), out=out, backend=NAME
    )
    assert found is out
    out.flush()
    assert np.array_equal(np.load(tmp_path / "c.npy"), a @ b)


def test_an_audit_of_streamed_products(limit: Any) -> None:
    limit(1 << 16)
    audit = gemmlab.verify(backend_at(PLACE, "private"), dtypes=["float32"])
    assert audit.passed, audit


def test_the_trace_says_what_ran(limit: Any) -> None:
    a = integers((64, 64), "float32")
    limit(10000)
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend=NAME)
    assert (calls[0].backend, calls[0].copies, calls[0].m) == (NAME, 0, 64)
    assert calls[0].kernel_s is not None
    assert calls[0].kernel_s >= 0


def test_on_a_gpu_large_products_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(PLACE)
    a = integers((40, 40), "float32")
    assert "streamed" not in str(gemmlab.explain(a, a, backend=NAME))
    monkeypatch.setattr(queue, "device", replace(queue.device, kind="gpu"))
    monkeypatch.setattr(streaming, "OVERLAP_PAYS_BYTES", 1000)
    assert "streamed" in str(gemmlab.explain(a, a, backend=NAME))
    assert np.array_equal(gemmlab.matmul(a, a, backend=NAME), a @ a)


# The tiles


def random_size() -> Size:
    m, n, k = (int(2 ** RNG.uniform(0, 16)) for _ in range(3))
    return Size(int(RNG.choice([1, 1, 7, 100])), m, n, k, 4)


def test_tiles_fit_and_cover_the_product() -> None:
    for _ in range(200):
        size = random_size()
        least = 10 * size.itemsize
        limit = int(RNG.integers(least, 2 * least + size.m * size.n + size.k * (size.m + size.n) * 4))
        tiles = choose(size, limit, limit // 2 + least, A_GPU)
        assert tiles.nbytes <= limit
        assert tiles.largest_bytes <= limit // 2 + least
        rows, columns, blocks = tiles.panels
        steps = list(tiles.steps()) if rows * columns * blocks < 10**5 else []
        if steps:
            assert len({*steps}) == len(steps) == rows * columns * blocks
            assert max(steps) == (rows - 1, *max((j, p) for i, j, p in steps if i == rows - 1))


def test_the_steps_cover_every_element_once() -> None:
    a, b = np.ones((3, 40, 30), np.float32), np.ones((3, 30, 20), np.float32)
    c = np.zeros((3, 40, 20), np.float32)
    tiles = choose(Size(3, 40, 20, 30, 4), 3000, 10**6, A_GPU)
    for step in steps_of(a, b, c, tiles):
        step.c[...] += step.a @ step.b
    assert np.array_equal(c, a @ b)


def test_with_room_for_all_nothing_comes_twice() -> None:
    tiles = choose(Size(1, 8192, 8192, 8192, 4), 70 << 30, 70 << 30, A_GPU)
    assert tiles.order == "shells"
    assert (tiles.a_slots, tiles.b_slots) == tiles.panels[:2]
    assert 0.022 < tiles.seconds < 0.028  # 1.1 TFLOP of work at 50 TFLOP/s, and the first and last tiles


def test_the_predicted_time_does_not_rise_with_the_memory() -> None:
    size = Size(1, 32768, 32768, 32768, 4)
    predicted = [choose(size, gigabytes << 30, 70 << 30, A_GPU).seconds for gigabytes in (1, 2, 4, 8, 16)]
    assert all(more <= ALIKE * less for less, more in itertools.pairwise(predicted))


def test_of_tiles_that_take_about_as_long_the_fewest_are_chosen() -> None:
    slow = Rates(7.6e9, 12.7e9, 9.6e9, 48e12)  # as a busy host measured them: then small tiles seem to pay
    assert math.prod(choose(Size(1, 8192, 8192, 8192, 4), 70 << 30, 70 << 30, slow).panels) <= 16


def test_memory_for_nothing_is_one_line(limit: Any) -> None:
    limit(10)
    a = integers((50, 50), "float32")
    out = np.full((50, 50), 7, np.float32)
    with pytest.raises(DeviceError, match=r"not 10: raise gemmlab.config.device_memory"):
        gemmlab.matmul(a, a, out=out, backend=NAME)
    assert (out == 7).all()


# Transfers


@pytest.mark.parametrize("place", PLACES)
def test_staged_transfers_of_any_strides(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(place)
    if not queue.can_stage:
        pytest.skip("copies go straight there")
    monkeypatch.setattr(staging, "LEAST_PIECE_BYTES", 4096)
    for dtype in DTYPES:
        whole = integers((3, 70, 130), dtype)
        some = whole[:, 3:60, 5:100], whole.swapaxes(1, 2), whole[1, ::-2, ::3], whole[0, :, 7], whole[0, 2:3]
        for x in (whole, *some):
            memory, back = queue.allocate(x.nbytes), np.full(x.shape, np.nan, dtype)
            queue.staging.upload(memory, x)
            queue.staging.download(back, memory)
            assert np.array_equal(back, x)
            scattered = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, dtype)[..., ::2]
            queue.staging.download(scattered, memory)
            assert np.array_equal(scattered, x)


# Trouble


@pytest.mark.parametrize("place", FIRST_PLACES)
@pytest.mark.parametrize("broken", ["up", "down", "start"])
def test_a_failure_reaches_the_caller_and_the_next_product_works(
    place: str, broken: str, limit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = backend_at(place, "private")
    a, b = integers((60, 50), "float32"), integers((50, 60), "float32")
    limit(8000)
    gemmlab.matmul(a, b, backend=name)
    queue = queue_of(place)
    lanes, seen = queue.lanes, []

    def fails_at_the_third(*arguments: Any) -> Any:
        seen.append(arguments)
        if len(seen) == 3:
            raise DeviceError("lost in a test")
        return works(*arguments)

    one = {"up": "start_upload", "down": "start_download"} if queue.can_stage else {"up": "upload", "down": "download"}
    where = {"up": lanes.queues[0], "down": lanes.queues[1], "start": queue}[broken]
    works = getattr(where, one.get(broken, broken))
    monkeypatch.setattr(where, one.get(broken, broken), fails_at_the_third)
    with pytest.raises(DeviceError, match="lost in a test"):
        gemmlab.matmul(a, b, backend=name)
    monkeypatch.undo()
    assert np.array_equal(gemmlab.matmul(a, b, backend=name), a @ b)


def test_a_device_that_others_use_gets_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, allocate, refused = queue_of(PLACE), queue_of(PLACE).allocate, []
    monkeypatch.setattr(queue, "device", replace(queue.device, memory_bytes=40000))

    def full(nbytes: int) -> Any:
        if nbytes > 6000:
            refused.append(nbytes)
            raise DeviceError("out of memory in a test")
        return allocate(nbytes)

    monkeypatch.setattr(queue, "allocate", full)
    a = integers((90, 90), "float32")
    assert np.array_equal(gemmlab.matmul(a, a, backend=NAME), a @ a)
    assert refused
