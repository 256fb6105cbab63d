"""`gemmlab product --dask`: the cluster writes the temporary output, which is checked and gets its name as ever."""

from __future__ import annotations

import json
import os
import pickle
import socket
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from command import runner
from randomness import RNG

import gemmlab.dask
from gemmlab import GemmlabError, verify
from gemmlab.product import CannotResume, on_dask, product, product_on_dask
from gemmlab.product.job import open_matrix

zarr = pytest.importorskip("zarr")
dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")


@pytest.fixture
def files(tmp_path):
    """A matrix in Zarr, and one in a .npy file."""
    a, b = RNG.standard_normal((133, 301)), RNG.standard_normal((301, 77))
    zarr.create_array(tmp_path / "a.zarr", shape=a.shape, dtype=a.dtype, chunks=(50, 60))[:] = a
    np.save(tmp_path / "b.npy", b)
    return tmp_path


@pytest.fixture
def without_cluster(monkeypatch):
    """NumPy in place of the cluster; the calls that it gets."""
    calls = []

    def matmul(a, b, backend=None, k_group=None, out=None, threads=None, progress=None):
        calls.append((a, b, backend, threads))
        out[:] = np.asarray(a[:]) @ np.asarray(b)
        progress(1, 1, "tasks")

    monkeypatch.setattr(gemmlab.dask, "matmul", matmul, raising=False)
    monkeypatch.setattr(on_dask, "_client", lambda address: nullcontext())
    return calls


def paths(files):
    return files / "a.zarr", files / "b.npy", files / "c.zarr"


def assert_right(files):
    a, b, c = zarr.open_array(files / "a.zarr")[:], np.load(files / "b.npy"), zarr.open_array(files / "c.zarr")[:]
    assert verify.error_over_bound(a, b, c) < 1
    assert sorted(os.listdir(files)) == ["a.zarr", "b.npy", "c.zarr"]


def test_operands_reach_the_cluster_as_zarr_or_in_chunks(files, without_cluster):
    found = product_on_dask(*paths(files), "local", backend="cpu-packed", threads=2)
    assert (found.ok, found.engine, found.plan) == (True, "dask", None)
    ((a, b, backend, threads),) = without_cluster
    assert isinstance(a, zarr.Array)
    assert isinstance(b, dask_array.Array)
    assert (backend, threads) == ("cpu-packed", 2)
    assert zarr.open_array(files / "c.zarr").chunks == (50, 77)
    assert_right(files)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", ">f4"])
def test_an_operand_in_npy_is_pickled_as_its_path(tmp_path, monkeypatch, dtype, order):
    """Its tasks, on a worker in another folder, read their parts."""
    array = RNG.standard_normal((300, 201)).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    monkeypatch.setattr(on_dask, "CHUNK", 128)
    monkeypatch.chdir(tmp_path)
    lazy = on_dask._operand(open_matrix(Path("a.npy")))
    sent = pickle.dumps(dict(lazy.dask))
    assert len(sent) < 10_000 < array.nbytes
    assert (lazy.numblocks, lazy.dtype) == ((3, 2), array.dtype)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    tasks = pickle.loads(sent)
    blocks = [[(lazy.name, i, j) for j in range(2)] for i in range(3)]
    found = dask.get(tasks, blocks)
    np.testing.assert_array_equal(np.block([list(row) for row in found]), array)
    assert not any(isinstance(block, np.memmap) for row in found for block in row)


def test_workers_get_absolute_paths(files, without_cluster, monkeypatch):
    monkeypatch.chdir(files)
    working, outputs = gemmlab.dask.matmul, []

    def matmul(*given, out, **options):
        outputs.append(out)
        working(*given, out=out, **options)

    monkeypatch.setattr(gemmlab.dask, "matmul", matmul)
    assert product_on_dask("a.zarr", "b.npy", "c.zarr", "local").ok
    ((a, _, _, _),) = without_cluster
    assert [x.store.root for x in (a, *outputs)] == [files / "a.zarr", files / "c.zarr.gemmlab-part"]
    assert_right(files)


def test_what_was_interrupted_begins_anew(files, without_cluster, monkeypatch):
    working = gemmlab.dask.matmul

    def stop(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(gemmlab.dask, "matmul", stop)
    with pytest.raises(KeyboardInterrupt):
        product_on_dask(*paths(files), "local")
    assert not (files / "c.zarr").exists()
    assert (files / "c.zarr.gemmlab-part").exists()
    monkeypatch.setattr(gemmlab.dask, "matmul", working)
    with pytest.raises(CannotResume, match="engine was dask and is now tiles"):
        product(*paths(files))
    assert product_on_dask(*paths(files), "local").ok
    assert_right(files)


def test_a_wrong_product_keeps_its_temporary_name(files, without_cluster, monkeypatch):
    working = gemmlab.dask.matmul

    def wrong(a, b, *, out, **options):
        working(a, b, out=out, **options)
        out[3, 4] += 1

    monkeypatch.setattr(gemmlab.dask, "matmul", wrong)
    found = product_on_dask(*paths(files), "local")
    assert not found.ok
    assert found.path.name == "c.zarr.gemmlab-part"
    assert not (files / "c.zarr").exists()


def test_the_output_must_be_zarr(files):
    with pytest.raises(ValueError, match=r"ends in \.zarr"):
        product_on_dask(files / "a.zarr", files / "b.npy", files / "c.npy", "local")


def test_a_scheduler_that_does_not_answer_is_named(files, monkeypatch):
    distributed = pytest.importorskip("distributed")

    def nobody(address, timeout):
        raise OSError("Timed out")

    monkeypatch.setattr(distributed, "Client", nobody)
    with pytest.raises(GemmlabError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1: Timed out"):
        product_on_dask(*paths(files), "tcp://127.0.0.1:1")
    assert sorted(os.listdir(files)) == ["a.zarr", "b.npy"]


def test_the_command_names_the_cluster(files, without_cluster, capsys):
    command = runner(capsys)
    found = command("product", *paths(files)[:2], "--out", files / "c.zarr", "--dask", "local")
    assert (found.status, found.out.splitlines()[1]) == (0, "plan      tasks on a Dask cluster")
    found = command("product", *paths(files)[:2], "--out", files / "c.zarr", "--dask", "local", "--json")
    assert json.loads(found.out)["plan"] is None


@pytest.mark.skipif(not hasattr(gemmlab.dask, "matmul"), reason="gemmlab.dask has no matmul")
def test_on_a_cluster_of_this_machine_beside_another(files):
    pytest.importorskip("distributed")
    with socket.socket() as other:
        with suppress(OSError):  # there is another one
            other.bind(("", 8787))
            other.listen()
        assert product_on_dask(*paths(files), "local").ok
    assert_right(files)


@pytest.mark.exhaustive
def test_files_of_npy_on_a_cluster_of_two_processes(tmp_path, monkeypatch):
    """Their parts are read there: what goes to the scheduler is small."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(on_dask, "CHUNK", 128)
    a, b = RNG.standard_normal((700, 600)), np.asfortranarray(RNG.standard_normal((600, 500)))
    np.save(tmp_path / "a.npy", a), np.save(tmp_path / "b.npy", b)
    monkeypatch.chdir(tmp_path)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        (tmp_path / "other").mkdir()
        client.run(os.chdir, tmp_path / "other")
        assert product_on_dask("a.npy", "b.npy", "c.zarr", cluster.scheduler_address).ok
    assert verify.error_over_bound(a, b, zarr.open_array(tmp_path / "c.zarr")[:]) < 1
    assert not os.listdir(tmp_path / "other")
