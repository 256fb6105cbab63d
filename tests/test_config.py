"""Settings: names that do not exist, values that are wrong, and what the environment may say."""

from __future__ import annotations

import shutil
import sysconfig

import numpy as np
import pytest
from helpers import output_of, run_python

import gemmlab
from gemmlab import Availability, UnknownBackend, cli
from gemmlab._registry import registered

ONES = np.ones((3, 3))
WRONG = {
    "GEMMLAB_ISA": ("v9", r"GEMMLAB_ISA=v9 is not one of .*leave it unset"),
    "GEMMLAB_THREADS": ("x", "GEMMLAB_THREADS must be an integer from 1 to 1024, not 'x'"),
    "GEMMLAB_DEVICE_MEMORY": ("2x", "GEMMLAB_DEVICE_MEMORY: a size of memory must be .* or 2GiB, not '2x'"),
    "GEMMLAB_BACKEND": ("cpu-bloked", "GEMMLAB_BACKEND=cpu-bloked: no backend .* did you mean cpu-blocked"),
}
SCRIPT = shutil.which("gemmlab", path=sysconfig.get_path("scripts"))


class MadeUp:
    """NumPy's product, as a backend."""

    name, kind, summary, source, params = "made-up", "plugin", "", "", {}

    def probe(self):
        return Availability(True)

    def supports(self, problem):
        return True

    def gemm(self, problem):
        np.matmul(problem.a, problem.b, out=problem.out)


# Names


@pytest.mark.parametrize(("name", "near"), [("thread", "threads"), ("backends", "backend"), ("cachedir", "cache_dir")])
def test_a_setting_that_does_not_exist_cannot_be_set(name, near):
    with pytest.raises(AttributeError, match=rf"no setting '{name}': did you mean {near}\?"):
        setattr(gemmlab.config, name, 3)
    assert not hasattr(gemmlab.config, name)


def test_without_a_near_name_the_settings_are_listed():
    with pytest.raises(AttributeError, match=r"no setting 'zzz': known are backend, .*_dir, device_memory, threads"):
        gemmlab.config.zzz = 3


def test_the_instruction_set_is_fixed_at_import():
    with pytest.raises(AttributeError, match="isa"):
        gemmlab.config.isa = "v2"


def test_a_directory_may_be_text(monkeypatch, tmp_path):
    monkeypatch.setattr(gemmlab.config, "cache_dir", str(tmp_path))
    assert gemmlab.config.cache_dir == tmp_path


@pytest.mark.parametrize(
    ("size", "expected"),
    [("2GiB", 2 << 30), ("500 MB", 500 * 10**6), ("1.5kib", 1536), ("4096", 4096), (7, 7), (None, None)],
)
def test_a_size_of_memory_may_be_text(monkeypatch, size, expected):
    monkeypatch.setattr(gemmlab.config, "_device_memory", None)
    gemmlab.config.device_memory = size
    assert gemmlab.config.device_memory == expected


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "2x", "GiB", "", "0MB"])
def test_a_wrong_size_of_memory_is_refused(size):
    with pytest.raises(ValueError, match="such as 500MB or 2GiB, not "):
        gemmlab.config.device_memory = size


# The environment


@pytest.mark.parametrize("name", ["GEMMLAB_ISA", "GEMMLAB_THREADS", "GEMMLAB_DEVICE_MEMORY"])
def test_what_the_environment_gets_wrong_fails_at_import(name):
    value, message = WRONG[name]
    done = run_python("-c", "import gemmlab", **{name: value})
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert_matches(message, done.stderr.splitlines()[-1])


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("command", [["-m", "gemmlab"], [SCRIPT]], ids=["module", "script"])
def test_what_the_environment_gets_wrong_is_one_line_of_a_command(name, command):
    if command == [None]:
        pytest.skip("the script gemmlab is not installed")
    value, message = WRONG[name]
    done = run_python(*command, "info", **{name: value})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("gemmlab: ")
    assert_matches(message, done.stderr)


def test_a_program_that_imports_gemmlab_is_not_taken_for_the_command(tmp_path):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__init__.py").write_text("import gemmlab")
    (tmp_path / "program" / "__main__.py").touch()
    done = run_python("-m", "program", path=[tmp_path], GEMMLAB_THREADS="x")
    assert (done.returncode, done.stderr.splitlines()[-1].partition(":")[0]) == (1, "ValueError")


def assert_matches(pattern, text):
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


def test_an_unknown_default_says_where_it_comes_from():
    output_of(
        """
import gemmlab, numpy as np
def message(call):
    try:
        call(np.eye(2), np.eye(2))
    except gemmlab.UnknownBackend as error:
        return str(error)
hint = "no backend is named 'nope'"
for call in (gemmlab.matmul, gemmlab.explain):
    assert message(call).startswith("GEMMLAB_BACKEND=nope: " + hint), message(call)
assert message(lambda a, b: gemmlab.matmul(a, b, backend="nope")).startswith(hint)
with gemmlab.use("cpu-ikj"):
    gemmlab.matmul(np.eye(2), np.eye(2))
gemmlab.config.backend = "nope"
assert message(gemmlab.matmul).startswith("gemmlab.config.backend = 'nope': " + hint)
gemmlab.config.backend = "cpu-ikj"
gemmlab.matmul(np.eye(2), np.eye(2))
""",
        GEMMLAB_BACKEND="nope",
    )


def test_parameters_of_use_for_an_unknown_default_say_where_it_comes_from(monkeypatch):
    monkeypatch.setattr(gemmlab.config, "backend", "nope")
    with pytest.raises(UnknownBackend, match=r"gemmlab\.config\.backend = 'nope'"), gemmlab.use(bs_c=3):
        pass


def test_the_default_may_be_a_backend_that_is_known_later(monkeypatch):
    monkeypatch.setattr(gemmlab.config, "backend", "made-up")
    with registered(MadeUp()):
        assert np.array_equal(gemmlab.matmul(ONES, ONES), ONES @ ONES)


# Everything blocked


@pytest.mark.parametrize("command", [["verify"], ["bench", "--sizes", "8"], ["roofline"], ["report", "--smallest"]])
def test_a_command_without_any_backend_is_one_line(command, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gemmlab.config, "block", list(gemmlab.backends()))
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "GEMMLAB_BLOCK" in err
    assert list(tmp_path.iterdir()) == []
