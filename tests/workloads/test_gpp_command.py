"""`gemmlab gpp`: sums, check and parts; what does not fit is refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command import runner

from gemmlab._cpu import machine
from gemmlab.cli import workloads
from gemmlab.workloads import gpp, gpp_check, gpp_files

SIZES = (12, 3, 200, 7)


@pytest.fixture
def command(capsys):
    return runner(capsys)


@pytest.mark.parametrize("inputs", ["constant", "away", "near"])
@pytest.mark.parametrize("form", ["fused", "npgw", "blocked-planes"])
def test_sums_check_and_time_in_80_columns(command, inputs, form):
    found = command("gpp", *SIZES, "--inputs", inputs, "--form", form, "--nend", 2)
    assert (found.status, max(map(len, found.out.splitlines())) <= 80) == (0, True)
    problem = gpp.Problem.constant(*SIZES, nend=2) if inputs == "constant" else gpp.Problem.random(
        *SIZES, nend=2, poles=inputs
    )  # fmt: skip
    first = gpp.self_energy(problem, form).ach[0]
    assert f"{first.real:.8e} {first.imag:+15.8e} i" in found.out
    assert ("closed form" in found.out) == (inputs == "constant")
    assert f"100 % {form}" in found.err


def test_json_has_the_same(command):
    found = json.loads(command("gpp", *SIZES, "--json", "--form", "factored").out)
    problem = gpp.Problem.constant(*SIZES)
    np.testing.assert_allclose([complex(*pair) for pair in found["ach"]], problem.closed_form(), rtol=1e-13)
    assert found["ngpown"] == problem.ngpown
    assert set(found["parts_s"]) == {"operands", "product", "weights"}
    assert 0 < sum(found["parts_s"].values()) <= found["seconds"]


@pytest.fixture
def saved(tmp_path):
    """A random problem and the arrays of its file, which a test may change before it is written by the name."""
    problem = gpp.Problem.random(*SIZES, poles="near")
    return problem, vars(problem).copy(), str(tmp_path / "problem.npz")


def test_a_file_has_the_problem(command, saved):
    problem, arrays, path = saved
    np.savez(path, **arrays)
    found = json.loads(command("gpp", path, "--json").out)
    np.testing.assert_allclose([complex(*pair) for pair in found["ach"]], gpp.self_energy(problem).ach)
    assert found["cold_seconds"] > 0


def test_a_file_of_hdf5_has_it_too(saved, tmp_path):
    h5py = pytest.importorskip("h5py")
    _, arrays, _ = saved
    with h5py.File(tmp_path / "problem.h5", "w") as file:
        for name, value in arrays.items():
            file[name] = value
    read = gpp_files.read_problem(tmp_path / "problem.h5")
    assert all(np.array_equal(value, getattr(read, name)) for name, value in arrays.items())


@pytest.mark.parametrize(("change", "says"), [
    ({"wt": None, "nvband": None}, "has no wt, nvband"), ({"nvband": 1.5}, "one whole number"),
    ({"eps": np.ones((2, 3))}, "has shape"), ({"vcoul": np.ones(200, complex)}, "is real"),
    ({"aqsm": np.array([[{}]], object)}, "pickle"),
])  # fmt: skip
def test_a_file_that_is_no_problem_is_one_line(command, saved, change, says):
    _, arrays, path = saved
    kept = {name: value for name, value in {**arrays, **change}.items() if value is not None}
    np.savez(path, **kept)
    found = command("gpp", path)
    assert (found.status, found.out, len(found.err.splitlines())) == (2, "", 1)
    assert path in found.err
    assert says in found.err


def test_a_long_call_is_not_repeated(command, monkeypatch):
    monkeypatch.setattr(workloads, "LONG_S", 0.0)
    found = command("gpp", *SIZES)
    assert found.status == 0
    assert "cold" not in found.out


def test_a_wrong_sum_fails_the_check(command, monkeypatch):
    monkeypatch.setattr(gpp_check, "LIMIT", 0.0)
    found = command("gpp", *SIZES, "--inputs", "away")
    assert found.status == 1
    assert "TOO LARGE" in found.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((12, 13, 200, 7), "nvband"), ((12, 3, 200, 201), "nodes_per_group"), ((0, 0, 2, 1), "nb is at least 1"),
     ((*SIZES, "--form", "nix"), "choose one of"), ((*SIZES, "--form", "npgw", "--backend", "cpu-packed"), "leave the"),
     ((512, 2, 10**7, 20), "take a smaller one"),
     ((12, 3, 200), "give four whole numbers"), (("no.npz",), "no.npz"), ((1, 2, "x", 3), "not 1 2 x 3"),
     ((*SIZES, "--form", "device-fused", "--backend", "hip"), "runtime")],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_one_line(command, arguments, says):
    found = command("gpp", *arguments)
    assert (found.status, found.out) == (2, "")
    assert says in found.err.splitlines()[-1]


def test_forms_that_store_more_are_refused_earlier(command, monkeypatch):
    nb, _, ncouls, nodes = SIZES
    needed = 16 * ncouls * (nb + ncouls // nodes)
    monkeypatch.setattr(machine, "free_memory_bytes", lambda: needed)
    assert command("gpp", *SIZES).status == 0
    assert "--form fused" in command("gpp", *SIZES, "--form", "factored").err
