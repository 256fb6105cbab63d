"""The team of threads that cpu-packed has: how it begins, what it follows, and how it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from helpers import output_of, run_python
from kernel_program import CPU, compiled, linked
from randomness import fresh_seed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
two_cpus = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU is all there is")

# Every program begins with this: a product that has pieces for several threads, and what the system knows of workers.
BEGIN = """
import ctypes, os, signal, sys, threading, time, warnings
import numpy as np
import gemmlab

gemmlab.config.backend = "cpu-packed"
rng = np.random.default_rng({seed})
a = rng.integers(-8, 9, (700, 600)).astype(float)
b = rng.integers(-8, 9, (600, 800)).astype(float)
right = gemmlab.matmul(a, b, threads=1)

def is_right(threads=2):
    return np.array_equal(gemmlab.matmul(a, b, threads=threads), right)

def workers():
    tasks = [f"/proc/self/task/{{task}}" for task in os.listdir("/proc/self/task")]
    return [task for task in tasks if open(f"{{task}}/comm").read().strip() == "gemmlab"]

def status(task, name):
    return next(line.split()[1] for line in open(f"{{task}}/status") if line.startswith(name + ":"))

def busy_ns():
    return sum(int(open(f"{{task}}/schedstat").read().split()[0]) for task in workers())

def in_child(multiply):
    signal.alarm(30)  # a child that waits for threads that are not there is ended
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ok = multiply()
        os._exit(0 if ok else 1)
    finally:
        os._exit(2)

def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def check(program, **options):
    seed = fresh_seed()
    return output_of(BEGIN.format(seed=seed) + program, timeout=90, **options)


# Its size


def test_a_product_starts_as_many_workers_as_it_may_have_and_no_more():
    check("""
assert not workers()
assert is_right(3) and len(workers()) == 2
assert is_right(2) and is_right(3) and len(workers()) == 2
""")


@two_cpus
def test_workers_do_a_part_of_the_work():
    check("""
is_right()
began = busy_ns(), time.perf_counter_ns()
while busy_ns() - began[0] < 5e6:  # on a busy machine they come late
    assert is_right() and time.perf_counter_ns() - began[1] < 60e9
""")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_NUM_THREADS": "3"}, 2),
        ({"OMP_NUM_THREADS": "1"}, 0),
        ({"OMP_NUM_THREADS": "8", "OMP_THREAD_LIMIT": "2"}, 1),
        ({"GEMMLAB_THREADS": "4"}, 3),
    ],
    ids=lambda value: ",".join(f"{key}={number}" for key, number in value.items()) if isinstance(value, dict) else None,
)
def test_the_number_of_threads_obeys_the_environment(variables, expected):
    cpus = len(os.sched_getaffinity(0))
    most = expected if "GEMMLAB_THREADS" in variables else min(expected, cpus - 1)
    check(f"gemmlab.matmul(a, b); assert len(workers()) == {most}, workers()", **variables)


def test_the_limit_of_threads_holds_for_a_number_that_is_asked_for():
    check("assert is_right(6) and len(workers()) == 2", OMP_THREAD_LIMIT="3")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_in_a_parallel_region_the_caller_is_alone(tmp_path):
    source = tmp_path / "region.c"
    source.write_text("""
#include <omp.h>
void in_region(void (*call)(void)) {
    #pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) call();
}
""")
    library = tmp_path / "region.so"
    subprocess.run(["gcc", "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    check(f"""
region = ctypes.CDLL({str(library)!r})
seen = []
@ctypes.CFUNCTYPE(None)
def call():
    seen.append(is_right(4))
region.in_region(call)
assert seen == [True] and not workers(), (seen, workers())
""")


# What workers are


def test_workers_take_no_signals():
    check("""
is_right(3)
for task in workers():
    blocked = int(status(task, "SigBlk"), 16)
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD
    assert all(blocked >> (number - 1) & 1 for number in numbers)
assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
""")


@two_cpus
def test_workers_may_run_where_the_main_thread_may():
    check("""
everywhere = os.sched_getaffinity(0)
one = {max(everywhere)}
def pinned():
    os.sched_setaffinity(threading.get_native_id(), one)
    assert is_right()
thread = threading.Thread(target=pinned)
thread.start(); thread.join()
def goes(cpus):  # asked for once a tick, by a product that has workers
    end = time.monotonic() + 60
    while os.sched_getaffinity(int(os.path.basename(workers()[0]))) != cpus:
        assert is_right() and time.monotonic() < end
goes(everywhere)
os.sched_setaffinity(0, one)
time.sleep(0.02)
gemmlab.matmul(a, b, threads=2)
goes(one)
os.sched_setaffinity(0, everywhere)
goes(everywhere)
""")


@two_cpus
def test_where_openmp_binds_its_threads_each_worker_has_a_place():
    check(
        """
assert is_right()
assert [len(os.sched_getaffinity(int(os.path.basename(task)))) for task in workers()] == [1]
""",
        OMP_PROC_BIND="true",
        OMP_NUM_THREADS="2",
    )


@two_cpus
def test_a_piece_is_rounded_as_its_caller_rounds():
    check("""
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
libm = ctypes.CDLL("libm.so.6")
x, y = rng.standard_normal((700, 600)), rng.standard_normal((600, 800))
gemmlab.matmul(x, y, threads=2)
nearest = gemmlab.matmul(x, y, threads=1)
began = busy_ns()
libm.fesetround(UPWARD)
upward = gemmlab.matmul(x, y, threads=1)
found = [gemmlab.matmul(x, y, threads=2) for _ in range(20)]
libm.fesetround(0)
assert all(c.tobytes() == upward.tobytes() for c in found) and (upward > nearest).any()
assert all(gemmlab.matmul(x, y, threads=2).tobytes() == nearest.tobytes() for _ in range(20))
""")


# The interpreter's lock


def test_short_products_of_several_threads_keep_the_lock():
    """A thread that gives the lock away often blocks until it has it back: once for each tenth product here."""
    check("""
import resource
few = a[:16, :16].copy()
stop, calls = threading.Event(), [0, 0, 0]
def multiply(i):
    while not stop.is_set():
        gemmlab.matmul(few, few)
        calls[i] += 1
threads = [threading.Thread(target=multiply, args=(i,)) for i in range(3)]
began = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
for thread in threads: thread.start()
while sum(calls) < 10000: time.sleep(0.01)
stop.set()
for thread in threads: thread.join()
blocked = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - began
assert blocked < sum(calls) / 30, (blocked, calls)
""")


# Forks


@pytest.mark.parametrize("fork", ["os.fork()", "ctypes.CDLL(None).fork()"], ids=["os.fork", "C's fork"])
def test_a_child_makes_a_team_of_its_own(fork):
    check(f"""
assert is_right(3)
child = {fork}
if not child:
    in_child(lambda: not workers() and is_right(3) and len(workers()) == 2 and is_right(3))
assert status_of(child) == 0 and is_right(3)
""")


def test_a_child_multiplies_while_other_threads_of_the_parent_do():
    check("""
stop = threading.Event()
def multiply():
    while not stop.is_set():
        gemmlab.matmul(a, b, threads=3)
threads = [threading.Thread(target=multiply) for _ in range(2)]
for thread in threads: thread.start()
try:
    for _ in range(20):
        child = os.fork()
        if not child:
            in_child(lambda: is_right(3))
        assert status_of(child) == 0
finally:
    stop.set()
for thread in threads: thread.join()
assert is_right(3)
""")


# The end of the process


@pytest.mark.parametrize("end", ["raise SystemExit(4)", "sys.exit(4)", "os._exit(4)"])
def test_a_product_in_a_daemon_thread_is_abandoned(end):
    program = f"""
large = np.ones((3000, 3000))
def multiply():
    while True:
        gemmlab.matmul(large, large, threads=3)
for _ in range(2):
    threading.Thread(target=multiply, daemon=True).start()
time.sleep(0.3)
{end}
"""
    done = run_python("-c", BEGIN.format(seed=1) + program, timeout=60)
    assert (done.returncode, done.stderr) == (4, "")


# Races


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_two_callers_at_once_are_clean_under_thread_sanitizer(tmp_path):
    options = ["-fsanitize=thread", "-O1"]  # and without OpenMP, whose runtime it does not know
    sources = CPU / "packed" / "kernels.cpp", CPU.parents[1] / "tests" / "_cpu" / "kernels_test.cpp"
    objects = [compiled("g++", source, tmp_path, *options) for source in sources]
    program = linked("g++", objects, tmp_path / "kernels_test", *options)
    done = subprocess.run([program, str(fresh_seed()), "20", "2"], capture_output=True, text=True, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not run on this kernel")
    assert done.returncode == 0, done.stdout + done.stderr
