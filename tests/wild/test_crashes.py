"""An audit of a backend that ends its process: a result of this backend, and the others go on."""

from __future__ import annotations

import pytest
from helpers import run_python

# As a plugin that is installed, which the process of an audit knows too.
PLUGIN = """
import ctypes, os, signal, sys
import numpy as np
from gemmlab._backend import Availability

class Crashing:
    name, kind, summary, source, params = "crashing", "rung", "it crashes", "own", {{}}

    def probe(self):
        return Availability(True, device="a CPU")

    def supports(self, problem):
        return problem.dtype in ("f4", "f8")

    def gemm(self, problem, **params):
        if {when}:
            print("about to crash", flush=True)
            {how}
        np.matmul(problem.a, problem.b, out=problem.out)

"""
WHENS = {
    "at once": "True", "in float64": "problem.dtype == 'f8'", "in a batch": "problem.batch > 1",
    "where k is odd": "problem.k > 40 and problem.k % 2",
}  # fmt: skip
HOWS = {
    "SIGSEGV": "ctypes.memset(8, 0, 1)",
    "SIGABRT": "os.abort()",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "exit status 3": "os._exit(3)",
    "exit status 0": "os._exit(0)",
}


@pytest.fixture
def install(tmp_path):
    """Install the plugin in a folder, which is returned."""

    def installed(when, how):
        (tmp_path / "crashing.py").write_text(PLUGIN.format(when=when, how=how))
        metadata = tmp_path / "crashing-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[gemmlab.backends]\ncrashing = crashing:Crashing\n")
        return tmp_path

    return installed


@pytest.mark.parametrize("when", WHENS.values(), ids=WHENS)
def test_the_command_reports_it_and_goes_on(install, when):
    command = "from gemmlab.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    names = "crashing", "cpu-ikj"
    folder = install(when, HOWS["SIGSEGV"])
    done = run_python("-c", command, "verify", *names, "--dtype", "float32,float64", path=[folder])
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    assert said.startswith("crashing: FAILED")
    assert "cpu-ikj: passed" in said
    assert "its process ended (SIGSEGV): about to crash; the checks after it were not run" in said
    assert "about to crash" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(("how", "code"), HOWS.items(), ids=HOWS)
def test_the_function_reports_it(install, how, code):
    program = f"""
import gemmlab
audit = gemmlab.verify("crashing", dtypes=["float32"], seed=3)
assert not audit.passed
*before, last = audit.results
assert all(result.status == "passed" for result in before), audit
assert last.status == "failed" and "its process ended ({how})" in last.detail, last
assert gemmlab.verify("cpu-naive", dtypes=["float32"]).passed
"""
    done = run_python("-c", program, path=[install(WHENS["where k is odd"], code)])
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_a_backend_of_this_process_is_audited_in_it():
    program = """
import os
import numpy as np
import gemmlab
from gemmlab._backend import Availability
from gemmlab._registry import registered

class Here:
    name, kind, summary, source, params = "here", "rung", "", "own", {}
    processes = set()
    def probe(self):
        return Availability(True, device="a CPU")
    def supports(self, problem):
        return True
    def gemm(self, problem, **params):
        self.processes.add(os.getpid())
        np.matmul(problem.a, problem.b, out=problem.out)

with registered(Here()) as here:
    assert gemmlab.verify("here").passed
assert here.processes == {os.getpid()}
"""
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_settings_of_this_process_hold_there(tmp_path):
    program = f"""
import gemmlab
gemmlab.config.cache_dir = {str(tmp_path)!r}
gemmlab.config.threads = 1
gemmlab.config.block = "cpu-blis"
gemmlab.config.device_memory = "1GiB"
from gemmlab.verify import child
with child.Auditor("cpu-naive") as auditor:
    assert auditor.supported() == ["float32", "float64"]
    found = auditor._answer("hello", settings={{}})
assert found == {{
    "threads": 1, "block": ["cpu-blis"], "cache_dir": {str(tmp_path)!r}, "device_memory": 1 << 30
}}, found
"""
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_without_a_process_the_audit_is_here():
    program = """
import sys
import gemmlab
from gemmlab.verify import child
child.COMMAND = ("/there/is/no/python",)
assert gemmlab.verify("cpu-naive").passed
child.COMMAND = (sys.executable, "-c", "pass")
assert gemmlab.verify("cpu-naive").passed
"""
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr
