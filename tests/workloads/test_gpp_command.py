"""`gemmlab gpp`: sums, check and parts; what does not fit is refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command import runner

from gemmlab._cpu import machine
from gemmlab.workloads import gpp, gpp_check

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


def test_a_wrong_sum_fails_the_check(command, monkeypatch):
    monkeypatch.setattr(gpp_check, "LIMIT", 0.0)
    found = command("gpp", *SIZES, "--inputs", "away")
    assert found.status == 1
    assert "TOO LARGE" in found.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((12, 13, 200, 7), "nvband"), ((12, 3, 200, 201), "nodes_per_group"), ((0, 0, 2, 1), "nb is at least 1"),
     ((*SIZES, "--form", "nix"), "choose one of"), ((*SIZES, "--form", "npgw", "--backend", "cpu-packed"), "leave the"),
     ((512, 2, 10**7, 20), "take a smaller one"), ((*SIZES, "--form", "device-fused", "--backend", "hip"), "runtime")],
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
