"""OpenMP's threads: after a fork, and where the system starts fewer than were asked for (cpu-packed: test_team.py)."""

from __future__ import annotations

import os
import sys

import pytest
from helpers import output_of

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="no limit on a process's memory here")

# The parent opens a parallel region in its own way; the child's product must return.
FORK = """
import os, signal, warnings
import numpy as np
import gemmlab

a = np.random.default_rng(0).integers(-8, 9, (200, 200)).astype(float)
right = a @ a
{parent}
child = os.fork()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
status = 1
signal.alarm(20)  # a child that waits for threads that are not there is ended
try:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        {child}
    assert [warning.category for warning in seen] == [RuntimeWarning], seen
    assert "fork" in str(seen[0].message)
    status = 0
finally:
    os._exit(status)
"""
PRODUCT = "assert np.array_equal(gemmlab.matmul(a, a, backend='cpu-ikj', threads=2), right)"
CEILINGS = """
from gemmlab.roofline.ceilings.cpu import measure_ceilings
records = measure_ceilings(seconds=0, threads=2, bandwidth=False)
"""
FMA = "from gemmlab.roofline._fma import Loops; Loops()"
STREAM = "from gemmlab.roofline._stream import Streams; Streams(1 << 15, 2)"


@needs_fork
@pytest.mark.parametrize(
    "parent",
    [
        CEILINGS,
        f'{FMA}.run("float32", 2, 1000)',
        f"{FMA}.clock_ghz(2, 1000)",
        STREAM,
    ],
    ids=["ceilings", "fma", "clock", "stream"],
)
def test_a_child_multiplies_whatever_started_the_parents_threads(parent):
    output_of(FORK.format(parent=parent, child=PRODUCT), timeout=60)


@needs_fork
def test_a_forked_child_measures_the_ceilings_of_one_thread():
    child = "; ".join([*CEILINGS.strip().splitlines(), "assert {one['threads'] for one in records} == {1}"])
    output_of(FORK.format(parent=PRODUCT, child=child), timeout=60)


# Memory for the stacks of a few threads alone: 64 MiB each, of 1 GiB that is left.
LIMITED = """
import resource, warnings
import numpy as np
import gemmlab

a = np.random.default_rng(0).integers(-8, 9, (300, 300)).astype(float)
right = a @ a
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 30),) * 2)
with warnings.catch_warnings(record=True) as seen, gemmlab.trace() as calls:
    warnings.simplefilter("always")
    for backend in ("{backend}", "cpu-blocked-local", "cpu-ikj"):
        assert np.array_equal(gemmlab.matmul(a, a, backend=backend, threads=60), right)
        assert np.array_equal(gemmlab.matmul(a, a, backend=backend, threads=2), right)
threads = [call.threads for call in calls]
assert 1 < threads[0] < 20 and threads == [threads[0], 2] * 3, threads
assert [warning.category for warning in seen] == [RuntimeWarning], seen
assert "60 threads" in str(seen[0].message) and "OMP_STACKSIZE" in str(seen[0].message), seen[0]
"""


@needs_limits
def test_threads_that_cannot_be_created_are_left_out_with_one_warning():
    output_of(LIMITED.format(backend="cpu-blocked"), OMP_STACKSIZE="64M", timeout=60)


# The system's limit on a user's threads does not bind root, who becomes a user that runs nothing else.
FEW_TASKS = """
import os, resource, warnings
import numpy as np
import gemmlab

a = np.ones((300, 300))
gemmlab.matmul(a, a, backend="{backend}", threads=1)
os.setgid(100000 + os.getpid()); os.setuid(100000 + os.getpid())
tasks = len(os.listdir("/proc/self/task"))
resource.setrlimit(resource.RLIMIT_NPROC, (tasks + 5, tasks + 5))
with warnings.catch_warnings(record=True) as seen, gemmlab.trace() as calls:
    warnings.simplefilter("always")
    assert (gemmlab.matmul(a, a, backend="{backend}", threads=60) == 300).all()
assert 1 < calls[0].threads < 10 and len(seen) == 1, (calls, seen)
"""


@needs_limits
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("backend", ["cpu-packed", "cpu-ikj"])
def test_a_limit_on_the_users_threads_is_kept_to(backend):
    output_of(FEW_TASKS.format(backend=backend), timeout=60)
