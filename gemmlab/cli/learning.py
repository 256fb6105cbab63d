"""The commands for who learns how a kernel works: course, asm."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gemmlab._config import config
from gemmlab._words import escaped
from gemmlab.cli.progress import progress
from gemmlab.cli.selection import ladder_on_cpu, to_measure

if TYPE_CHECKING:
    from gemmlab.measure.records import Record


def run_course(arguments: Namespace) -> int:
    """gemmlab course"""
    from gemmlab.course import require
    from gemmlab.course.site import write_course

    require()
    page = write_course(_own_records(arguments.source), arguments.out or config.cache_dir / "course")
    print(escaped(str(page)))
    if arguments.out is None and has_display():
        webbrowser.open(page.resolve().as_uri())
    return 0


def _own_records(files: Sequence[str] | None) -> list[Record]:
    """The records of these files, else of the last report, else of a minute's measuring."""
    from gemmlab.campaign import brief, last, measure
    from gemmlab.measure.records import read

    if files:
        return [record for path in files for record in read(path)]
    if kept := last.kept():
        return kept
    records: list[Record] = []
    config.cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    campaign = replace(brief(to_measure(None)), ladder=ladder_on_cpu())
    with progress() as show:
        measure(campaign, last.path(), show, records)
    return records


def has_display() -> bool:
    """Whether a browser can open a window; on Unix a webbrowser without a display would fill the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_asm(arguments: Namespace) -> int:
    """gemmlab asm"""
    from gemmlab.disassembly.listing import inner_loop_of, text_of

    listing = inner_loop_of(arguments.backend, arguments.dtype or "float32", arguments.isa)
    print(json.dumps(listing.to_dict(), indent=1) if arguments.json else text_of(listing))
    return 0
