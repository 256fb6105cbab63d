"""A GPU rung of its own kind is a kernel, a module and a row: added to a copy of gemmlab, it works everywhere.

It has two kernels, a workspace that is cleared, a dtype that no other rung has, a parameter that is fitted to the size,
and, in a second row, a demand that no device meets.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from devices import FIRST_PLACES
from helpers import ROOT, run_python

pytestmark = [
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here"),
]

KERNEL = """
// toy: adds the products of a block of k to a workspace, and ends with a copy.

__kernel GROUP void gemm(OPERANDS, const int begin, const int end)
{
    THIS_PRODUCT;
    const int i = get_global_id(1), j = get_global_id(0);
    if (i >= m || j >= n)
        return;
    real sum = 0;
    for (int p = begin; p < end; p++)
        sum += A[i * lda + p] * B[p * ldb + j];
    C[i * ldc + j] += sum;
}
"""

MODULE = '''
"""The rung toy."""

from __future__ import annotations

import numpy as np

from gemmlab._backend import Param
from gemmlab._gpu.batches import Layout
from gemmlab._gpu.ladder import traffic
from gemmlab._gpu.ladder.numbers import NUMBERS, Numbers
from gemmlab._gpu.ladder.rung import Rung, count
from gemmlab._gpu.plans.launches import Launches, Place, Workspace, copies


class Toy(Rung):
    """Blocks of k, one after another, by a workspace."""

    def resolve(self, given, kind, size=None, compute_units=1):
        params = super().resolve(given, kind, size, compute_units)
        return params if size is None or params["depth"] else {**params, "depth": -(-size.k // 2) or 1}

    def launches(self, params, dtype, size, layouts, device):
        (a, b, c), workspace, itemsize = layouts, Workspace(), self.numbers[dtype].itemsize
        inside = Layout(workspace.take(size.batch * size.m * size.n, itemsize), size.n, size.m * size.n)
        sides, kernels = [(Place.A, a), (Place.B, b), (Place.WORKSPACE, inside)], []
        depth, macros = params["depth"] or size.k or 1, self.defines(params, dtype)
        for begin in range(0, size.k, depth):
            more = np.int32(begin), np.int32(min(size.k, begin + depth))
            kernels += self.gemm(params, macros, size, sides, 1, *more)
        shape = size.batch, size.m, size.n
        kernels += copies(itemsize, shape, (*sides[2], 1), (Place.C, c, 1))
        return Launches(tuple(kernels), workspace.nbytes, clear_bytes=workspace.nbytes)


TOY = Toy(
    "toy", "blocks of k by a workspace", "a test",
    (count("group_x", "work-items along a row of C", 8, 16),
     Param("depth", None, (0, 64), "k of a block; 0 chooses", "an integer from 0 on", lambda value: int(value) >= 0)),
    dict.fromkeys(("gpu", "cpu"), {"group_x": 8, "depth": 0}),
    group=lambda params: (params["group_x"], 1), block=lambda params: (params["group_x"], 1),
    model=traffic.private, over={"private": "adds blocks of k"}, dtypes=("float32", "int32"),
    numbers={**NUMBERS, "int32": Numbers(4, "int", 4, "int")}, kept=("depth",),
)
'''

ROWS = """    TOY,
    replace(TOY, name="toy-wanting", files=("toy.cl",), over={}, demand=lambda device: "has no second clock"),
)  # fmt: skip
RUNG_NAMES"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A folder with a copy of gemmlab that has the rung. Two files are new, and one is another than before."""
    folder = tmp_path_factory.mktemp("with-a-rung")
    shutil.copytree(ROOT / "gemmlab", folder / "gemmlab", ignore=shutil.ignore_patterns("__pycache__"))
    here = folder / "gemmlab" / "_gpu"
    (here / "kernels" / "toy.cl").write_text(KERNEL, encoding="utf-8")
    (here / "ladder" / "toy.py").write_text(MODULE, encoding="utf-8")
    rows = here / "ladder" / "rungs.py"
    text = rows.read_text(encoding="utf-8")
    first = "from gemmlab._gpu.ladder.tuned import"
    text = text.replace(first, f"from gemmlab._gpu.ladder.toy import TOY\n{first}", 1)
    rows.write_text(text.replace(")  # fmt: skip\nRUNG_NAMES", ROWS, 1), encoding="utf-8")
    return folder


@pytest.fixture
def done(copied, tmp_path, monkeypatch):
    """Run `python -m gemmlab` of the copy in an empty folder; what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, path=(), status=0):
        own = {"GEMMLAB_CACHE_DIR": str(tmp_path / "cache")}
        ended = run_python("-m", *arguments, timeout=300, path=[copied, *path], **own)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout

    return run


@pytest.mark.exhaustive
def test_the_command_line_and_the_library_know_it(done):
    listed = {row["name"]: row for row in json.loads(done("gemmlab", "backends", "--json"))}
    assert listed["opencl-toy"]["available"]
    assert not listed["opencl-toy-wanting"]["available"]
    assert "has no second clock" in listed["opencl-toy-wanting"]["reason"]
    script = Path("script.py")
    script.write_text(
        "import gemmlab, numpy as np\n"
        "from gemmlab._gpu.device_arrays import to_device, to_host\n"
        "rng = np.random.default_rng()\n"
        "for dtype in ('float32', 'int32'):\n"
        "    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((2, 33, 129), (129, 65)))\n"
        "    with gemmlab.trace() as calls:\n"
        "        assert np.array_equal(gemmlab.matmul(a, b, backend='opencl-toy'), a @ b)\n"
        "        x, y = (to_device(gemmlab.get_backend('opencl-toy'), one) for one in (a, b))\n"
        "        for _ in range(3):\n"
        "            assert np.array_equal(to_host(gemmlab.matmul(x, y, backend='opencl-toy')), a @ b)\n"
        "    assert [call.params['depth'] for call in calls] == [65] * 4, calls\n"
        "print(gemmlab.explain(a, b, backend='opencl-toy').rows[0])\n",
        encoding="utf-8",
    )
    assert "('opencl-toy', True" in done("script", path=["."])


@pytest.mark.exhaustive
def test_it_is_verified_and_tuned(done):
    verified = done("gemmlab", "verify", "opencl-toy")
    assert "passed" in verified
    assert "2 dtypes" in verified
    brief = ["--minutes", "0.1", "--sizes", "64", "--dtype", "float32", "--json"]
    found = json.loads(done("gemmlab", "tune", "opencl-toy", *brief))
    assert found[0]["parameters"]["depth"] == 0


@pytest.mark.exhaustive
def test_it_is_in_the_studies_and_in_the_report(done):
    assert "opencl-toy" in done("gemmlab", "study", "gpu-ladder", "--quick", "--sizes", "64", "--runtime", "opencl:0")
    brief = ["--sizes", "64", "--rounds", "1", "--budget", "0.01", "--out", "records.jsonl"]
    rows = done("gemmlab", "bench", "--backends", "opencl-private,opencl-toy", *brief)
    assert "opencl-toy" in rows
    done("gemmlab", "report", "--from", "records.jsonl", "--out", "page")
    pages = [path.read_text(encoding="utf-8") for path in Path().rglob("*.html")]
    assert any("opencl-toy" in page for page in pages)
