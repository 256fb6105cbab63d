"""`gemmlab new-rung`: what it writes builds, passes its own test, and gives a row in `gemmlab bench`."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, run_python
from randomness import RNG

import gemmlab
from gemmlab import Param
from gemmlab._cpu import flags, isa
from gemmlab._registry import registered
from gemmlab.cli import main, new_rung

pytestmark = pytest.mark.usefixtures("quick_builds")

PIP = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]


def installed(*names):
    try:
        return all(version(name) for name in names)
    except PackageNotFoundError:
        return False


can_build = pytest.mark.skipif(not installed("pip", "setuptools", "Cython"), reason="needs pip, setuptools and Cython")
on_opencl = pytest.mark.skipif(
    not gemmlab.backends()["opencl-private"].available, reason="OpenCL sees no device: pip install 'gemmlab[opencl]'"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.exhaustive
@can_build
@pytest.mark.parametrize(
    ("language", "name", "backend"),
    [("cython", "my-rung", "my-rung"), pytest.param("opencl", "mine", "opencl-mine", marks=on_opencl)],
)
def test_from_an_empty_folder_to_a_passing_test_and_a_row_in_bench(folder, language, name, backend):
    def done(*arguments, **options):
        ended = run_python("-m", *arguments, timeout=300, **options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    said = done("gemmlab", "new-rung", name, "--language", language, path=[ROOT])
    assert f"gemmlab bench --backends {new_rung.WORDS[language]['below']},{backend}" in said
    site = folder / "site"
    done("pip", "install", *PIP, "--target", site, folder / name)
    places = {"path": [ROOT, site]}
    assert "passed" in done("pytest", "-q", "-p", "no:cacheprovider", folder / name, **places)
    brief = ["--sizes", "33", "--rounds", "1", "--budget", "0.01"]
    rows = done("gemmlab", "bench", "--backends", f"{backend},cpu-ikj", *brief, **places).splitlines()
    assert [row for row in rows if row.split()[:2] == [backend, "33"]]


def test_every_template_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folder = ROOT / "gemmlab" / "cli"
    packed = {path for pattern in settings["package-data"]["gemmlab.cli"] for path in folder.glob(pattern)}
    assert packed
    assert packed == {path for path in (folder / "templates").rglob("*") if path.is_file()}


@pytest.mark.parametrize("language", new_rung.LANGUAGES)
def test_every_file_is_filled_in_and_python_compiles(folder, capsys, language):
    assert main(["new-rung", "my-own-2", "--language", language]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    files = [path for path in (folder / "my-own-2").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"pyproject.toml", "README.md", "test_gemmlab_my_own_2.py", "backend.py"}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "$" not in text
        if path.suffix == ".py":
            compile(text, str(path), "exec")


def test_the_cython_kernel_starts_as_the_rung_that_the_lab_sheet_compares_it_with(folder):
    """The loops of `cpu-ikj`: so that the first measurement shows no difference."""
    main(["new-rung", "mine"])
    ours = (ROOT / "gemmlab/_cpu/rungs/ikj.pyx").read_text()
    loops = ours[ours.index("        for p in range(k)") : ours.index("cdef Gemm32")].strip()
    assert loops in (folder / "mine/gemmlab_mine/kernel.pyx").read_text()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["My-Rung"], "lower-case letters"),
        (["../up"], "lower-case letters"),
        (["cpu-naive"], "exists already"),
        (["auto"], "exists already"),
        (["opencl"], "exists already"),
        (["naive", "--language", "opencl"], "'opencl-naive' exists already"),
        (["opencl-mine"], "--language opencl"),
        (["cuda-mine", "--language", "opencl"], "GPU runtime: take another name\n"),
        (["there"], "there exists already"),
        (["mine", "--language", "fortran"], "invalid choice"),
    ],
)
def test_a_name_that_cannot_be_writes_nothing(folder, capsys, arguments, reason):
    (folder / "there").mkdir()
    try:
        status = main(["new-rung", *arguments])
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status == 2
    assert reason in error
    assert "Traceback" not in error
    assert list(folder.iterdir()) == [folder / "there"]
    assert not list((folder / "there").iterdir())


def test_a_module_of_the_packages_name_is_not_hidden(folder, capsys, monkeypatch):
    (folder / "gemmlab_mine.py").touch()
    monkeypatch.syspath_prepend(str(folder))
    assert main(["new-rung", "mine"]) == 2
    assert "'gemmlab_mine' exists already" in capsys.readouterr().err
    assert not (folder / "mine").exists()


def test_a_write_that_fails_leaves_nothing(folder, capsys, monkeypatch):
    written = []

    def write_text(path, text, **options):
        written.append(path)
        if len(written) == 3:
            raise OSError("No space left on device")
        path.write_bytes(text.encode())

    monkeypatch.setattr(Path, "write_text", write_text)
    assert main(["new-rung", "mine"]) == 2
    assert capsys.readouterr().err == "gemmlab: No space left on device\n"
    assert not list(folder.iterdir())


def shape(params):
    return params["group_x"], 1


@pytest.mark.parametrize(
    ("name", "default", "reason"),
    [("mine", 4, "begins with opencl-"), ("opencl-", 4, "begins with opencl-"), ("opencl-mine", None, "group_x")],
)
def test_an_opencl_rung_that_cannot_be_says_why(name, default, reason):
    param = Param("group_x", default, (4,), "work-items of a group")
    with pytest.raises(ValueError, match=reason):
        gemmlab.opencl_rung(name, "", params=[param], group=shape, block=shape)


def test_an_opencl_rung_is_a_backend_with_the_defaults_of_its_parameters():
    param = Param("group_x", 4, (4,), "work-items of a group")
    backend = gemmlab.opencl_rung("opencl-mine", "text", params=[param], group=shape, block=shape, summary="a rung")
    assert isinstance(backend, gemmlab.Backend)
    assert (backend.name, backend.kind, backend.summary) == ("opencl-mine", "rung", "a rung")
    assert backend.rung.resolve({}, "cpu") == backend.rung.resolve({}, "gpu") == {"group_x": 4}
    assert backend.rung.text.endswith("text")
    assert backend.rung.text is backend.rung.text


KERNEL = """
__kernel GROUP void gemm(OPERANDS)
{
    THIS_PRODUCT;
    const int i = get_global_id(1), j = get_global_id(0) * WIDTH;
    if (i < m)
        for (int column = j; column < min(j + WIDTH, n); column++) {
            real sum = 0;
            for (int p = 0; p < k; p++)
                sum += A[i * lda + p] * B[p * ldb + column];
            C[i * ldc + column] = sum;
        }
}
"""


@on_opencl
@pytest.mark.parametrize("kind", ["text", "file"])
def test_what_the_compiler_says_names_the_users_file_and_line(tmp_path, kind):
    damaged = KERNEL.replace("real sum = 0;", "real sum = wrong;")
    line = damaged.splitlines().index(next(x for x in damaged.splitlines() if "wrong" in x)) + 1
    (file := tmp_path / "my \"kernel.cl").write_text(damaged)
    width = Param("width", 3, (1, 3), "columns of C per work-item")
    backend = gemmlab.opencl_rung(
        "opencl-made-up", file if kind == "file" else damaged, params=[width], group=lambda params: (8, 1),
        block=lambda params: (8 * params["width"], 1),
    )  # fmt: skip
    name = "my kernel.cl" if kind == "file" else "opencl-made-up"
    with registered(backend), pytest.raises(gemmlab.DeviceError) as caught:
        gemmlab.matmul(np.ones((3, 3), "f4"), np.ones((3, 3), "f4"), backend="opencl-made-up")
    assert str(caught.value).splitlines()[-1] == f"{name}:{line}: real sum = wrong;"
    assert f"{name}:{line}:" in str(caught.value).rpartition("\n")[0]


@on_opencl
def test_an_opencl_rung_multiplies_with_its_parameter_as_a_macro():
    width = Param("width", 3, (1, 3), "columns of C per work-item")
    backend = gemmlab.opencl_rung(
        "opencl-made-up", KERNEL, params=[width], group=lambda params: (8, 1),
        block=lambda params: (8 * params["width"], 1), traffic=lambda m, n, k, params: {"l1": 2 * m * n * k},
    )  # fmt: skip
    a, b = RNG.integers(-9, 9, (2, 5, 37)).astype(np.float32), RNG.integers(-9, 9, (37, 50)).astype(np.float32)
    with registered(backend), gemmlab.trace() as calls:
        for given in ({}, {"width": 1}):
            out = np.full((2, 5, 50), np.nan, np.float32)
            assert np.array_equal(gemmlab.matmul(a, b, out=out, backend="opencl-made-up", **given), a @ b)
    assert [call.params for call in calls] == [{"width": 3}, {"width": 1}]
    moved = backend.traffic(gemmlab.Problem.from_call(a, b), {})
    assert moved == {"l1": 4 * 2 * 5 * 50 * 37 * 2, "dram": 4 * 2 * (5 * 37 + 37 * 50 + 5 * 50)}


def test_a_package_is_compiled_as_the_rung_that_it_begins_with(folder):
    assert main(["new-rung", "my-rung"]) == 0
    text = (folder / "my-rung" / "setup.py").read_text(encoding="utf-8")
    assert text.split('RUNG_FLAGS = """')[1].split('"""')[0].split() == flags.of_ikj(isa.chosen())
