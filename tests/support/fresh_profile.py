"""A machine's profile that belongs to one test."""

from __future__ import annotations

from contextlib import contextmanager

import gemmlab
from gemmlab import _front, _profile
from gemmlab._gpu import configurations


def forget():
    """The next product reads the profile again."""
    _profile._own.cache_clear()
    configurations.forget()
    gemmlab.get_backend("cpu-packed").forget()
    _front.settings_changed()


@contextmanager
def profile_in(directory, monkeypatch):
    """Within the block, the profile is in this directory, which may hold none."""
    monkeypatch.setattr(gemmlab.config, "cache_dir", directory)
    forget()
    yield
    monkeypatch.undo()
    forget()
