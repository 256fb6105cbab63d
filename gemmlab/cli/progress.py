"""The progress of a long command, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gemmlab._words import printable
from gemmlab.cli.streams import say

Progress = Callable[[int, int, str], None]


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress bar with the time left on a terminal, and plain lines elsewhere."""
    if not (sys.stderr.isatty() and find_spec("tqdm")):
        yield _plain_lines()
        return
    from tqdm import tqdm

    with tqdm(total=1, unit="step", leave=False, dynamic_ncols=True,
              bar_format="{percentage:3.0f}% |{bar}| {elapsed} gone, {remaining} left  {desc}") as bar:  # fmt: skip

        def show(done: int, total: int, doing: str) -> None:
            bar.total = total
            bar.set_description_str(printable(doing)[:30], refresh=False)
            bar.update(done - bar.n)

        yield show


def _plain_lines() -> Progress:
    last = -1

    def show(done: int, total: int, doing: str) -> None:
        nonlocal last
        if (tenth := 10 * done // total) > last:
            last = tenth
            say(f"{10 * tenth} % {doing}")

    return show
