"""Homes and caches: empty, relative, absent."""

from __future__ import annotations

import pytest
from helpers import run_python

HOMES = [
    ({"HOME": ""}, "none"), ({"HOME": "/no/such/home"}, "none"), ({"HOME": "relative"}, "none"),
    ({"XDG_CACHE_HOME": "relative"}, "home"), ({"XDG_CACHE_HOME": ""}, "home"),
    ({"XDG_CACHE_HOME": "/x/y"}, "/x/y/gemmlab"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "where"), HOMES, ids=str)
def test_homes_and_caches_follow_xdg(environ, where, tmp_path):
    given = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "TMPDIR": "/tmp", "GEMMLAB_CACHE": ""} | environ
    done = run_python("-c", "from gemmlab import config; print(config.cache_dir)", **given)
    expected = {"none": "/dev/null/gemmlab", "home": f"{tmp_path}/.cache/gemmlab"}.get(where, where)
    assert done.stdout.strip() == expected, done.stderr
    assert not list(tmp_path.iterdir())


def test_without_a_home_no_cache_is_kept_and_that_is_said_once(tmp_path):
    code = """
import warnings
import numpy as np
import gemmlab
from gemmlab import _profile
from gemmlab._gpu import cache
from gemmlab.roofline.ceilings import cache as ceilings

x = np.ones((100, 100))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert (gemmlab.matmul(x, x) == 100).all()
    assert not said
    entry = cache.Entry(*"abcdefg")
    for _ in range(2):
        entry.store(b"a program")
        ceilings.store([])
    assert entry.load() is None
    assert ceilings.cached("a CPU") == []
assert len(said) == 1 and "GEMMLAB_CACHE_DIR" in str(said[0].message), [str(one.message) for one in said]
try:
    _profile.store("a CPU", "cpu-packed", {})
except OSError:
    pass
else:
    raise AssertionError
"""
    folders = {"HOME": "", "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    done = run_python("-W", "ignore", "-c", code, **folders)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
