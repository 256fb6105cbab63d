"""Homes and caches: empty, relative, absent."""

from __future__ import annotations

import pytest
from helpers import run_python

HOMES = [
    ({"HOME": ""}, "tmp"), ({"HOME": "/no/such/home"}, "tmp"), ({"HOME": "relative"}, "tmp"),
    ({"XDG_CACHE_HOME": "relative"}, "home"), ({"XDG_CACHE_HOME": ""}, "home"),
    ({"XDG_CACHE_HOME": "/x/y"}, "/x/y/gemmlab"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "where"), HOMES, ids=str)
def test_homes_and_caches_follow_xdg(environ, where, tmp_path):
    given = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "TMPDIR": "/tmp", "GEMMLAB_CACHE": ""} | environ
    done = run_python("-c", "from gemmlab import config; print(config.cache_dir)", **given)
    expected = {"tmp": "/tmp/gemmlab", "home": f"{tmp_path}/.cache/gemmlab"}.get(where, where)
    assert done.stdout.strip() == expected, done.stderr
    assert not list(tmp_path.iterdir())
