"""A profile that is damaged, or is no file at all, counts as none: products go on, and `gemmlab tune` replaces it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from fresh_profile import forget, profile_in
from helpers import output_of

import gemmlab
from gemmlab import _profile
from gemmlab._cpu import isa

MACHINE = isa.profile_name()
ONES = np.ones((60, 60), np.float32)


@pytest.fixture(autouse=True)
def own_profile(monkeypatch, tmp_path):
    """A profile of the test's own; the function makes the next product read it again."""
    with profile_in(tmp_path, monkeypatch):
        yield forget


def profile(**backends):
    return json.dumps({"version": 1, "machines": {MACHINE: {n.replace("_", "-"): own for n, own in backends.items()}}})


def params():
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(ONES, ONES, backend="cpu-packed")
    assert np.array_equal(c, ONES @ ONES)
    assert np.array_equal(gemmlab.matmul(ONES, ONES), ONES @ ONES)  # by auto, with what it reads
    return calls[0].params


def write(text):
    _profile.path().write_text(text)


NO_PROFILE = {
    "nested": lambda: write("[" * 100_000),
    "nested in its place": lambda: write('{"version": 1, "machines": ' + '{"x":' * 100_000),
    "huge": lambda: write(profile(cpu_packed={"float32": {"kc": 192}}) + " " * (_profile.MAX_BYTES + 1)),
    "a directory": lambda: _profile.path().mkdir(),
    "a pipe": lambda: os.mkfifo(_profile.path()),
    "a device": lambda: _profile.path().symlink_to("/dev/zero"),
    "a loop": lambda: _profile.path().symlink_to(_profile.path()),
    "no text": lambda: _profile.path().write_bytes(b"\xff\xfe{"),
    "a long number": lambda: write(profile(cpu_packed={"float32": {"kc": 1}}).replace("1}", "1" * 5000 + "}")),
    "a list of machines": lambda: write('{"version": 1, "machines": []}'),
    "a list of backends": lambda: write(json.dumps({"version": 1, "machines": {MACHINE: []}})),
    "a list of dtypes": lambda: write(profile(cpu_packed=[])),
    "a list of values": lambda: write(profile(cpu_packed={"float32": []})),
    "a name": lambda: write(profile(auto={"float32": "cpu-numpy"})),
}


@pytest.mark.skipif(os.name == "nt", reason="files as on Unix")
@pytest.mark.parametrize("what", NO_PROFILE)
def test_what_is_no_profile_counts_as_none(what, own_profile):
    usual = params()
    NO_PROFILE[what]()
    own_profile()
    assert params() == usual


NO_SIZES = [10**23, 2**63, 0, -1, True, 1.5, "many", None, [], {}, float("nan")]
PARAMETERS = [(name, value) for name in ("mc", "kc", "nc", "team_flop") for value in NO_SIZES]


@pytest.mark.parametrize(("name", "value"), [*PARAMETERS, ("mc", 2**40), ("kc", 2**40), ("nc", 2**40)])
def test_a_value_that_no_call_could_pass_counts_as_none(name, value, own_profile):
    usual = params()
    write(profile(cpu_packed={"float32": {name: value}}))
    own_profile()
    assert params() == usual


@pytest.mark.parametrize("value", NO_SIZES)
def test_an_extent_that_is_no_size_counts_as_none(value, own_profile):
    write(profile(auto={"float32": {"cpu-numpy": value}}))
    own_profile()
    params()
    with gemmlab.trace() as calls:
        gemmlab.matmul(ONES, ONES)
    assert calls[0].backend == "cpu-packed"


def test_a_value_beside_a_wrong_one_is_followed(own_profile):
    write(profile(cpu_packed={"float32": {"kc": 10**23, "mc": 84, "surprise": 3}}))
    own_profile()
    assert params()["mc"] == 84


def test_a_damaged_profile_is_replaced(own_profile):
    write("[" * 100_000)
    _profile.store(MACHINE, "cpu-packed", {"float32": {"mc": 84}})
    own_profile()
    assert params()["mc"] == 84


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name here")
def test_a_pipe_does_not_hold_up_another_process(tmp_path):
    os.mkfifo(tmp_path / "profile.json")
    output_of("import gemmlab, numpy as np; gemmlab.matmul(np.eye(2), np.eye(2))", GEMMLAB_CACHE_DIR=str(tmp_path))
