"""Moving pictures of the CPU ladder: in a real browser they count what the simulator and the compiled loops count."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import numpy as np
import pytest
from browser import needs_browser, opened, printed
from randomness import RNG
from sweeps import swept

from gemmlab import _registry
from gemmlab._cpu.rungs.traffic import ABOVE
from gemmlab._problem import Problem
from gemmlab.course.play import moving_pictures
from gemmlab.course.play.cpu import BLOCKS, CACHES, DTYPE, PADS, SIZES, data_of, moving_picture
from gemmlab.course.rungs import all_rungs, ladders
from gemmlab.roofline.simulation import simulate

RUNGS = {rung.page: rung for rung in ladders()["CPU"]}
LINE = 64
DRAWS = 5  # of settings, for each rung


def drawn(rung, count):
    """Settings of a page, as its controls may give them."""
    data = data_of(rung)
    for _ in range(count):
        blocks = {name: int(RNG.choice(values)) for name, values in data["blocks"].items()}
        levels = [data["caches"][name][RNG.integers(len(data["caches"][name]))][1:] for name in CACHES]
        pad = int(RNG.choice(PADS)) if data["nest"] else 0
        yield {"n": int(RNG.choice(SIZES)), "size": 4, "pad": pad, "blocks": blocks, "levels": levels}


@needs_browser
@pytest.mark.parametrize("name", swept(["cpu-five-loops", *(name for name in RUNGS if name != "cpu-five-loops")]))
def test_counts_are_those_of_the_simulator(name, tmp_path):
    rung = RUNGS[name]
    (tmp_path / "page.html").write_text(moving_picture(rung), encoding="utf-8")
    asked = list(drawn(rung, DRAWS))
    found = printed(opened(tmp_path / "page.html", "#check=" + quote(json.dumps(asked))), "checked")
    for settings, (touches, *moved) in zip(asked, found, strict=True):
        levels = zip(CACHES, settings["levels"], strict=True)
        caches = {level: (LINE * sets * ways, ways) for level, (sets, ways) in levels}
        n = settings["n"]
        counted = simulate(name, n, n, n, DTYPE, settings["blocks"], caches, settings["pad"])
        assert dict(zip(ABOVE, moved, strict=True)) == counted, settings
        assert touches > 0


@pytest.mark.parametrize("name", RUNGS)
def test_the_model_is_that_of_the_rung_for_each_choice(name):
    data = data_of(RUNGS[name])
    choices = [SIZES, *data["blocks"].values(), range(len(CACHES["L1"])), range(len(CACHES["L2"]))]
    assert len(data["model"]) == np.prod([len(choice) for choice in choices])
    n, *blocks, i, j = (int(RNG.choice(list(choice))) for choice in choices)
    problem = Problem.from_call(np.empty((n, n), DTYPE), np.empty((n, n), DTYPE))
    sizes = {"L1": CACHES["L1"][i], "L2": CACHES["L2"][j], "L3": CACHES["L3"][0]}
    moved = _registry.get(name).traffic(problem, sizes, **dict(zip(data["blocks"], blocks, strict=True)))
    assert data["model"][",".join(map(str, (n, *blocks, i, j)))] == [moved[level] for level in ABOVE]


def test_every_rung_has_a_page_that_needs_no_other_file():
    pages = moving_pictures()
    assert list(pages) == [f"play-{rung.page}.html" for rung in all_rungs()]
    for page in pages.values():
        assert not re.search(r'(src|href)="(?!cpu-|gpu-)', page)
        assert len(page) < 200_000
    assert set(BLOCKS) == set(data_of(RUNGS["cpu-blocked"])["blocks"])
