"""Moving pictures of the GPU ladder: in a real browser they make the accesses that the rung's compiled text makes."""

from __future__ import annotations

import json
from urllib.parse import quote

import numpy as np
import pytest
from browser import needs_browser, opened, printed
from randomness import RNG
from recorded_kernel import needs_compiler, recorded
from sweeps import swept

from gemmlab.course.play.gpu import KERNELS, PADS, data_of, launch_of, moving_picture
from gemmlab.course.rungs import ladders

RUNGS = {rung.page: rung for rung in ladders()["GPU"]}
WARP, SECTOR, BANKS, WORD = 32, 32, 32, 4
SIZES = (16, 24, 32)
DRAWS = 5  # of settings, for each rung


def drawn(data, count):
    """Settings of a page, as its controls may give them."""
    for _ in range(count):
        parameters = {name: int(RNG.choice(values)) for name, values in data["parameters"].items()}
        yield {"n": int(RNG.choice(SIZES)), "pad": int(RNG.choice(PADS)), "parameters": parameters}


def checksum(accesses):
    """As program.js sums up accesses, in no order."""
    group, interval, item, is_global, write, nbytes, address = accesses
    kind = 4 * is_global + 2 * write
    each = (group * 1000003 + interval * 10007 + item * 101 + address * 7 + nbytes * 3 + kind) % 1000000007
    return int(sum(map(int, each)) % 9007199254740881)


def together(accesses):
    """The accesses of each warp's instruction: (lane, global?, store?, bytes, address); none where items differ."""
    group, interval, item, *_ = accesses
    order = np.lexsort((item, interval, group))  # stable: the accesses of an item stay in their order
    some = accesses[:, order]
    starts = np.flatnonzero(np.any(np.diff(some[:3], prepend=-1) != 0, axis=0))
    nth = np.arange(some.shape[1]) - np.repeat(starts, np.diff([*starts, some.shape[1]]))
    items = np.diff([*starts, some.shape[1]])
    _, kinds = np.unique(some[:2, starts], axis=1, return_inverse=True)  # work-group and interval
    most, least = np.zeros(kinds.max() + 1), np.full(kinds.max() + 1, np.inf)
    np.maximum.at(most, kinds.ravel(), items), np.minimum.at(least, kinds.ravel(), items)
    warps = {}
    if (most != least).any():
        return []
    for place, access in zip(nth, some.T, strict=True):
        group, interval, item, *what = access
        warps.setdefault((group, interval, item // WARP, place), []).append((item % WARP, *what))
    return list(warps.values())


def sectors(lanes):
    return len({piece for *_, nbytes, at in lanes for piece in range(at // SECTOR, (at + nbytes - 1) // SECTOR + 1)})


def passes(lanes):
    words = {}
    for lane, *_, nbytes, at in lanes:
        for word in range(at // WORD, (at + nbytes) // WORD):
            words.setdefault((lane // (WARP * WORD // nbytes), word % BANKS), set()).add(word)
    parts = {part for part, _ in words}
    return sum(max(len(some) for (part, _), some in words.items() if part == mine) for mine in parts)


@needs_browser
@needs_compiler
@pytest.mark.parametrize("name", swept(["gpu-tuned", *(name for name in RUNGS if name != "gpu-tuned")]))
def test_accesses_are_those_of_the_compiled_text(name, tmp_path):
    page, data = tmp_path / "page.html", data_of(RUNGS[name])
    page.write_text(moving_picture(RUNGS[name]), encoding="utf-8")
    asked = list(drawn(data, DRAWS))
    found = printed(opened(page, "#check=" + quote(json.dumps(asked))), "checked")
    for i, (settings, counted) in enumerate(zip(asked, found, strict=True)):
        launch = launch_of(KERNELS[name], settings["parameters"], settings["n"], settings["pad"])
        accesses = recorded(launch, settings["n"], settings["pad"], tmp_path / str(i))
        is_global, nbytes = accesses[3], accesses[5]
        _, summed, global_bytes, moved, local_bytes, used = counted
        assert [global_bytes, local_bytes] == [nbytes[is_global == x].sum() for x in (1, 0)], settings
        assert summed == checksum(accesses), settings
        columns, rows = data["shapes"][",".join(map(str, settings["parameters"].values()))][2:]
        if settings["n"] % columns == settings["n"] % rows == 0 and (warps := together(accesses)):
            assert moved == sum(sectors(lanes) for lanes in warps if lanes[0][1]), settings
            assert used == sum(passes(lanes) for lanes in warps if not lanes[0][1]), settings


@pytest.mark.parametrize("name", RUNGS)
def test_the_model_is_that_of_the_rung(name):
    data, kernel = data_of(RUNGS[name]), KERNELS[name]
    (settings,), n = drawn(data, 1), data["sizes"][-1]
    params = {**kernel.defaults["gpu"], **settings["parameters"]}
    elements = kernel.model(n, n, n, params)
    key = ",".join(map(str, settings["parameters"].values()))
    assert data["model"][key][-1] == [round(4 * elements.get(level, 0)) for level in ("l1", "local")]
