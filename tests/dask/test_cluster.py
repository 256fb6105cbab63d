"""Products on a cluster of two processes: memory, killed workers, lost connections, a full disk."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from helpers import run_python
from randomness import RNG

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
import dask  # noqa: E402

import gemmlab.dask  # noqa: E402
from gemmlab.dask import graph, storing, tasks  # noqa: E402

MARK = "gemmlab_unfinished"
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


@contextmanager
def two_workers(memory="256MiB"):
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": memory, "dashboard_address": ":0"}
    with (
        dask.config.set(scheduler=None),  # which a client that is lost leaves at "distributed"
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def in_zarr(folder, size, chunk):
    """Two operands of whole numbers, an output, and their product."""
    arrays = [zarr.create_array(folder / f"{name}.zarr", shape=(size, size), chunks=(chunk, chunk), dtype="f4")
              for name in "abc"]  # fmt: skip
    for x in arrays[:2]:
        x[...] = RNG.integers(-8, 9, (size, size)).astype("f4")
    return *arrays, arrays[0][...] @ arrays[1][...]


IN_LITTLE_MEMORY = """
import resource, sys
import distributed, zarr
import gemmlab

folder, size = sys.argv[1], 256 << 20
a, b, out = (zarr.open_array(f"{folder}/{name}.zarr", mode="r+") for name in "abc")
options = {"threads_per_worker": 1, "memory_limit": size, "dashboard_address": None}
with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
    client.run(resource.setrlimit, resource.RLIMIT_DATA, (size, size))
    gemmlab.matmul(a, b, out=out)
"""


def test_a_product_of_4000_where_a_worker_has_256_mib_of_data(tmp_path):
    """In a process of its own: what pytest has loaded would be loaded by the workers too."""
    _, _, out, right = in_zarr(tmp_path, 4000, 500)
    done = run_python("-c", IN_LITTLE_MEMORY, tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(out[...], right)
    assert MARK not in out.attrs


def test_a_killed_worker_costs_time_alone(tmp_path):
    a, b, out, right = in_zarr(tmp_path, 2000, 250)
    with two_workers() as client:
        pids = [*client.run(os.getpid).values()]

        def kill(done, total, what):
            if done >= 2 and pids:
                os.kill(pids.pop(), signal.SIGKILL)
                pids.clear()

        gemmlab.dask.matmul(a, b, out=out, memory="256MiB", progress=kill)
        assert not pids
        np.testing.assert_array_equal(out[...], right)
        lazy = gemmlab.dask.matmul(da.from_array(a[...], chunks=250), da.from_array(b[...], chunks=250))
        future = client.compute(lazy)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        np.testing.assert_array_equal(future.result(), right)


def test_a_chunk_that_cannot_be_read_is_one_clear_error(tmp_path):
    a, b, out, _ = in_zarr(tmp_path, 400, 100)
    damaged = tmp_path / "a.zarr" / "c" / "1" / "2"
    damaged.write_bytes(damaged.read_bytes()[:50])
    with two_workers(), pytest.raises(gemmlab.dask.Unfinished, match=r"^cannot read \[100:200, 200:300\] of [^\n]*$"):
        gemmlab.dask.matmul(a, b, out=out)
    assert out.attrs[MARK]


@pytest.mark.parametrize("patience", [60.0, 0.0])
def test_no_task_writes_after_the_error(tmp_path, monkeypatch, patience):
    """A late tile of the first product would be in the second one, into the same output."""
    a, b, out, _ = in_zarr(tmp_path, 400, 100)
    folder = tmp_path / "seen"
    folder.mkdir()

    def slow(target, box, *given):
        place = "-".join(str(side.start) for side in box)
        (folder / f"{place}.begun").touch()
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            time.sleep(0.7)
        else:
            raise OSError("the first one fails")
        done = tasks.stored(target, box, *given)
        (folder / f"{place}.ended").touch()
        return done

    def seen():
        return [len([*folder.glob(f"*.{what}")]) for what in ("begun", "ended")]

    monkeypatch.setattr(graph, "stored", slow)
    monkeypatch.setattr(storing, "STOP_S", patience)
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        says = "^a task failed: OSError: the first one fails; " + ("" if patience else "some tasks still write")
        with pytest.raises(gemmlab.dask.Unfinished, match=says):
            gemmlab.dask.matmul(a, b, k_group=4, out=out, memory=4_000_000)
        before = seen()
        time.sleep(1.5)
        begun, ended = seen()
        assert 1 < begun == before[0] < out.nchunks
        assert (ended == before[1]) == bool(patience)


@pytest.mark.parametrize("lost", ["cluster", "client"])
def test_a_lost_connection_is_one_clear_error(tmp_path, lost):
    a, b, out, _ = in_zarr(tmp_path, 4000, 250)  # a cluster takes a while to close, and products are fast
    with two_workers() as client:
        ending = threading.Thread(target=client.cluster.close)

        def lose(done, total, what):
            if done == 1:
                ending.start() if lost == "cluster" else client.close()

        with pytest.raises(gemmlab.dask.Unfinished, match=r"^the (connection to the cluster was lost|client was clos)"):
            gemmlab.dask.matmul(a, b, out=out, progress=lose)
        if lost == "cluster":
            ending.join()
    assert out.attrs[MARK]


def test_a_full_disk_for_chunks_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(storing, "STUCK_S", 4.0)
    out = zarr.create_array(tmp_path / "c.zarr", shape=(4000, 4000), chunks=(500, 500), dtype="f4")
    a = da.random.default_rng(1).random((4000, 4000), chunks=500, dtype="f4")
    full = {"distributed.worker.memory.max-spill": "1MB"}
    unfinished = pytest.raises(gemmlab.dask.Unfinished, match="workers are paused")
    with dask.config.set(full), two_workers("180MiB"), unfinished:
        gemmlab.dask.matmul(a, a, out=out)
    assert out.attrs[MARK]


def test_workers_are_found_and_advice_names_them(tmp_path):
    memory = zarr.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="f8")
    with two_workers("512MiB"):
        advice = gemmlab.dask.advise(np.eye(4), np.eye(4))
        assert (advice.workers.count, advice.workers.threads, advice.workers.memory) == (2, 1, 512 << 20)
        assert "OMP_NUM_THREADS=1" in str(advice)
        with pytest.raises(ValueError, match="out is in the memory of this process"):
            gemmlab.dask.matmul(np.eye(4), np.eye(4), out=memory)
        np.testing.assert_array_equal(gemmlab.dask.matmul(memory, np.eye(4)).compute(), memory[...])
    assert gemmlab.dask.advise(np.eye(4), np.eye(4)).workers.count == 1
