"""Two more inputs of each kind of failure, written after the code and committed before they ran."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from devices import FIRST_PLACES
from helpers import output_of, run_python
from randomness import RNG

from gemmlab._cpu import cgroups
from gemmlab.product import CannotResume, product

pytestmark = pytest.mark.exhaustive
opencl = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")
needs_dask = pytest.mark.skipif(find_spec("dask") is None, reason="needs dask")
NUMPY = "import os, signal, sys, threading, time\nimport numpy as np\nimport gemmlab\n"


# Forks


def test_a_grandchild_multiplies_after_its_parent_did():
    output_of(f"""{NUMPY}
a = np.random.default_rng().integers(1, 9, (300, 300)).astype("f4")
right = a @ a.T
def check():
    for backend in ("cpu-packed", "cpu-blocked", "cpu-naive"):
        assert np.array_equal(gemmlab.matmul(a, a.T.copy(), backend=backend), right), backend
check()
if not (child := os.fork()):
    check()
    if not (grandchild := os.fork()):
        check()
        os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
check()
""", timeout=60)  # fmt: skip


def test_a_pool_of_forks_multiplies_beside_threads_in_products():
    output_of(f"""{NUMPY}
import multiprocessing
a = np.random.default_rng().integers(1, 9, (400, 400)).astype("f8")
def sums(i):
    return gemmlab.matmul(a, a + i, backend="cpu-packed").sum()
if __name__ == "__main__":
    stop = threading.Event()
    def work():
        while not stop.is_set():
            gemmlab.matmul(a, a, backend="cpu-packed", threads=2)
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(sums, range(6)) == [(a @ (a + i)).sum() for i in range(6)]
    stop.set()
    thread.join()
""", timeout=90)  # fmt: skip


# The end of the process


OBJECT = pytest.param("auto", "object")  # no device: Python imports nothing any more
FINALIZERS = [pytest.param(name, "finalizer", marks=[opencl] * (name != "auto")) for name in ("auto", "opencl-local")]


@pytest.mark.parametrize(("backend", "how"), [*FINALIZERS, OBJECT])
def test_a_product_when_the_last_objects_go(backend, how):
    made = {
        "finalizer": "import weakref\nweakref.finalize(x, multiply)",
        "object": "class Last:\n    def __del__(self):\n        multiply()\nlast = Last()",
    }[how]
    done = run_python("-c", f"""{NUMPY}
x = np.ones((200, 200), "f4")
def multiply(matmul=gemmlab.matmul, x=x.copy()):
    print(matmul(x, x, backend={backend!r})[0, 0])
multiply()
{made}
sys.exit(4)
""", timeout=60)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (4, "200.0\n200.0\n", "")


# Signals in a long product


@pytest.mark.parametrize("backend", ["cpu-packed", "cpu-ikj"])
def test_another_signals_exception_ends_a_product(backend):
    output_of(f"""{NUMPY}
class Late(Exception):
    pass
def late(*_):
    raise Late
signal.signal(signal.SIGALRM, late)
a = np.ones((4000, 4000))
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    while True:
        gemmlab.matmul(a, a, backend={backend!r})
except Late:
    signal.setitimer(signal.ITIMER_REAL, 0)
assert np.array_equal(gemmlab.matmul(a[:50], a[:, :50].copy(), backend={backend!r}), np.full((50, 50), 4000.0))
""", timeout=60)  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu-packed", "cpu-naive"])
def test_a_handler_that_returns_changes_nothing(backend):
    output_of(f"""{NUMPY}
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
a = np.random.default_rng().integers(1, 5, (900, 900)).astype("f8")
for _ in range(3):
    assert np.array_equal(gemmlab.matmul(a, a.T.copy(), backend={backend!r}), np.matmul(a, a.T))
while not seen:
    time.sleep(0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
""", timeout=60)  # fmt: skip


# OpenMP and affinity


@pytest.mark.parametrize("setting", [
    {"OMP_NUM_THREADS": "2,1"}, {"OMP_DYNAMIC": "true"}, {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "7"},
    {"OMP_PLACES": "{0}"}, {"OMP_PROC_BIND": "master"},
], ids=str)  # fmt: skip
def test_openmp_settings_of_another_form(setting):
    found = output_of(f"""{NUMPY}
before = os.sched_getaffinity(0)
x = np.random.default_rng().integers(1, 9, (500, 500)).astype("f8")
for backend in ("cpu-packed", "cpu-blocked"):
    with gemmlab.trace() as calls:
        assert np.array_equal(gemmlab.matmul(x, x.T.copy(), backend=backend), np.matmul(x, x.T))
    print(calls[0].threads)
assert os.sched_getaffinity(0) == before
""", **setting)  # fmt: skip
    if "OMP_THREAD_LIMIT" in setting:
        assert found.split() == ["1", "1"]


# Control groups


@pytest.mark.parametrize("own", ["max 100000", "nonsense", "", "-1 100000", "400000 100000 7"])
def test_a_quota_three_groups_up(tmp_path, monkeypatch, own):
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "USUAL", tmp_path / "none")
    here = tmp_path / "mounted" / "a" / "b.slice" / "c-1.scope" / "d"
    here.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cgroup").write_text("1:name=systemd:/x\n0::/a/b.slice/c-1.scope/d\n")
    mount = f"1 1 0:9 / {tmp_path}/mounted rw shared:4 - cgroup2 none rw,nsdelegate\n"
    (tmp_path / "proc" / "mountinfo").write_text(mount)
    (here / "cpu.max").write_text(own)
    (here.parents[2] / "cpu.max").write_text("120000 50000\n")
    assert cgroups.cpus() == 3
    (here.parents[1] / "memory.max").write_text(f"{1 << 29}\n")
    (here.parents[1] / "memory.current").write_text(f"{1 << 28}\n")
    assert (cgroups.memory_limit(), cgroups.free_memory()) == (1 << 29, 1 << 28)


@pytest.mark.parametrize("line", ["0::/../../../host", "0::relative", "0::/a/./b", "0:::/", "0::/a (deleted)"])
def test_a_group_that_cannot_be_found_is_the_top_of_the_mount(tmp_path, monkeypatch, line):
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    monkeypatch.setattr(cgroups, "USUAL", tmp_path / "top")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "cpu.max").write_text("200000 100000\n")
    (tmp_path / "cgroup").write_text(line + "\n")
    assert cgroups.cpus() == 2


# DLPack


@pytest.mark.parametrize("error", ["BufferError('no')", "RuntimeError('device lost')", "TypeError('odd')"])
def test_an_exporter_that_fails_is_one_line(error):
    output_of(f"""{NUMPY}
class Broken:
    shape, dtype, ndim = (2, 2), np.dtype("f4"), 2
    def __dlpack__(self, **options):
        raise {error}
    def __dlpack_device__(self):
        return 1, 0
try:
    gemmlab.matmul(Broken(), Broken())
except Exception as found:
    assert "\\n" not in str(found) and len(str(found)) <= 300, found
else:
    raise AssertionError
""")  # fmt: skip


def test_an_array_library_beside_a_number_is_one_line():
    output_of(f"""{NUMPY}
class Own:
    def __init__(self, x):
        self.x = np.asarray(x, "f4")
    def __dlpack__(self, **options):
        return self.x.__dlpack__()
    def __dlpack_device__(self):
        return 1, 0
for other in (3, "text", object()):
    try:
        gemmlab.matmul(Own(np.ones((2, 2))), other)
    except Exception as found:
        assert type(found) is not AttributeError, repr(found)
        assert "\\n" not in str(found)
""")  # fmt: skip


# pyopencl


@opencl
def test_arrays_of_a_pool_and_with_an_offset():
    output_of(f"""{NUMPY}
import pyopencl.array, pyopencl.tools
from gemmlab._gpu import runtime_named
runtime = runtime_named("opencl")
queue = runtime.queue(runtime.device("")).queue
pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(queue))
x = np.random.default_rng().integers(1, 9, (70, 60)).astype("f4")
on_device = pyopencl.array.to_device(queue, x, allocator=pool)
assert np.array_equal(gemmlab.matmul(on_device, on_device.T).get(), x @ x.T)
part = on_device[10:30]
assert np.array_equal(gemmlab.matmul(part, on_device.T).get(), x[10:30] @ x.T)
""", timeout=60)  # fmt: skip


# Dask


@needs_dask
def test_unknown_rows_and_no_rows():
    import dask.array as da

    from gemmlab import matmul

    x = da.from_array(RNG.standard_normal((60, 40)), chunks=(20, 20))
    unknown = x[x[:, 0] > -9]
    for call in (lambda: matmul(unknown, x.T), lambda: matmul(x.T, unknown)):
        with pytest.raises(ValueError, match="unknown"):
            call()
    none = x[:0]
    assert matmul(none, x.T).compute().shape == (0, 60)
    assert matmul(x.T[:, :0], none).compute().tolist() == np.zeros((40, 40)).tolist()


# File systems, streams, names


@pytest.mark.parametrize("name", ["a b'\"c.npy", "line\nbreak.npy", "\udcff.npy", "ünï.npy", "%s{0}.npy"], ids=ascii)
def test_names_of_files(tmp_path, name):
    np.save(tmp_path / "a.npy", RNG.standard_normal((30, 20)))
    np.save(tmp_path / "b.npy", RNG.standard_normal((20, 10)))
    command = [sys.executable, "-m", "gemmlab", "product", tmp_path / "a.npy", tmp_path / "b.npy", "--out"]
    done = subprocess.run([*command, os.fsencode(tmp_path / name)], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 8
    with open(tmp_path / name, "rb") as file:
        assert np.allclose(np.load(file), np.load(tmp_path / "a.npy") @ np.load(tmp_path / "b.npy"))


@pytest.mark.parametrize("stream", ["stdout", "stderr", "both"])
def test_streams_that_are_none(tmp_path, stream):
    np.save(tmp_path / "a.npy", np.ones((3, 4)))
    np.save(tmp_path / "b.npy", np.ones((4, 2)))
    gone = "".join(f"sys.{name} = None\n" for name in ("stdout", "stderr") if stream in (name, "both"))
    done = run_python("-c", f"""
import sys
{gone}
from gemmlab.cli import main
sys.exit(main(["product", {str(tmp_path / "a.npy")!r}, {str(tmp_path / "b.npy")!r},
               "--out", {str(tmp_path / "c.npy")!r}]))
""")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "c.npy").tolist() == [[4.0, 4.0]] * 3


@pytest.mark.parametrize("call", ["flock", "posix_fallocate", "fsync_folder"])
def test_a_zarr_output_on_such_a_file_system(tmp_path, failing_calls, call):
    pytest.importorskip("zarr")
    np.save(tmp_path / "a.npy", np.ones((30, 40)))
    np.save(tmp_path / "b.npy", np.ones((40, 20)))
    done = run_python("-m", "gemmlab", "product", tmp_path / "a.npy", tmp_path / "b.npy", "--out",
                      tmp_path / "c.zarr", **failing_calls(**{call: errno.EOPNOTSUPP}))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


# Damaged state


@pytest.fixture
def begun(tmp_path):
    """A product that was stopped in its second tile; (path of the journal, a function that goes on)."""
    np.save(tmp_path / "a.npy", RNG.standard_normal((330, 1100)))
    np.save(tmp_path / "b.npy", RNG.standard_normal((1100, 290)))

    def go_on(**options):
        paths = (tmp_path / name for name in ("a.npy", "b.npy", "c.npy"))
        return product(*paths, **({"memory": 1_300_000, "backend": "cpu-naive"} | options))

    def stop(done, total, doing):
        if doing.startswith("tile 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_on(progress=stop)
    return tmp_path / "c.npy.gemmlab-journal", go_on


@pytest.mark.parametrize("damage", ["empty", "a line twice", "another journal's line", "cut at the front"])
def test_a_journal_of_another_kind(begun, damage):
    path, go_on = begun
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join({
        "empty": [], "a line twice": [*lines, lines[-1]], "cut at the front": lines[1:],
        "another journal's line": [*lines, json.dumps({"tile": 3, "sha256": "0" * 16}).encode() + b"\n", lines[-1]],
    }[damage]))  # fmt: skip
    try:
        found = go_on()
    except CannotResume as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert found.ok
    folder = path.parent
    assert np.allclose(np.load(folder / "c.npy"), np.load(folder / "a.npy") @ np.load(folder / "b.npy"))


@pytest.mark.parametrize("size", [0, 1, 100, 10**6])
def test_an_output_that_was_cut_or_grew_meanwhile(begun, size):
    path, go_on = begun
    part = path.with_name("c.npy.gemmlab-part")
    with open(part, "r+b") as file:
        file.truncate(size)
    try:
        found = go_on()
    except (CannotResume, ValueError) as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert not (path.parent / "c.npy").exists()
        return
    folder = path.parent
    if found.ok:
        assert np.allclose(np.load(folder / "c.npy"), np.load(folder / "a.npy") @ np.load(folder / "b.npy"))
    else:
        assert found.path == part


# Homes


@pytest.mark.parametrize("environ", [
    {"HOME": "", "XDG_CACHE_HOME": ""}, {"HOME": "/dev/null"}, {"XDG_CACHE_HOME": "~/cache"},
    {"GEMMLAB_CACHE_DIR": "/proc/self/gemmlab"}, {"HOME": "/nowhere/\udcff"},
], ids=ascii)  # fmt: skip
def test_homes_that_are_none(tmp_path, environ):
    before = set(os.listdir("/"))
    done = run_python("-c", f"{NUMPY}\nx = np.ones((50, 50), 'f4')\nprint(gemmlab.matmul(x, x)[0, 0])", **environ)
    assert (done.returncode, done.stdout) == (0, "50.0\n"), done.stderr
    done = run_python("-m", "gemmlab", "cache", **environ)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert set(os.listdir("/")) == before


# explain, build errors, terminals


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((4, 5, 6), (6,)), ((3,), (2, 3, 4)), ((1, 1), (1, 1))], ids=str)
def test_explain_of_odd_operands(shapes):
    import gemmlab

    text = str(gemmlab.explain(*(np.ones(shape, "f4") for shape in shapes)))
    assert text
    assert "faster here" not in text or "measured" in text


@opencl
@pytest.mark.parametrize("name", ["my kernel.cl", 'quo"te.cl', "b\\slash.cl", "kernel.cl"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_build_errors_of_files_with_other_names_and_line_ends(tmp_path, name, ends):
    import gemmlab
    from gemmlab._registry import registered

    lines = ["// a comment", "", "__kernel GROUP void gemm(OPERANDS)", "{", "    int x = undeclared_name;", "}", ""]
    path = tmp_path / name
    path.write_bytes(ends.join(lines).encode())
    rung = gemmlab.opencl_rung("opencl-mine", path, params=[], group=lambda p: (8, 8), block=lambda p: (8, 8))
    with registered(rung), pytest.raises(gemmlab.DeviceError) as caught:
        gemmlab.matmul(np.eye(3, dtype="f4"), np.eye(3, dtype="f4"), backend="opencl-mine")
    shown = name.replace('"', "").replace("\\", "")  # what a #line can hold
    assert str(caught.value).splitlines()[-1] == f"{shown}:5: int x = undeclared_name;"


@pytest.mark.parametrize("where", ["argument", "setting", "file"])
def test_no_control_character_reaches_the_terminal(tmp_path, where):
    nasty = "cpu-\x1b[31mred\x07"
    if where == "argument":
        done = run_python("-m", "gemmlab", "verify", nasty)
    elif where == "setting":
        done = run_python("-m", "gemmlab", "bench", "--sizes", "8", GEMMLAB_BACKEND=nasty)
    else:
        path = tmp_path / "records\x1b[2J.jsonl"
        path.write_text('{"kind": "\x1b[31m"}\n')
        done = run_python("-m", "gemmlab", "report", path, "--out", tmp_path / "page")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
