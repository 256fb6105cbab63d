"""The commands for who learns how a kernel works: course, asm."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab._config import NO_CACHE, config
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
    directory = arguments.out or (Path() if config.cache_dir == NO_CACHE else config.cache_dir) / "course"
    page = write_course(_own_records(arguments.source, directory), directory)
    print(escaped(str(page)))
    if arguments.out is None and has_display():
        webbrowser.open(page.resolve().as_uri())
    return 0


def _own_records(files: Sequence[str] | None, directory: Path) -> list[Record]:
    """The records of these files, else of the last report, else of a minute's measuring, which go into `directory`."""
    from gemmlab.campaign import brief, last, make_directory, measure
    from gemmlab.course.gains import OWN
    from gemmlab.measure.records import read

    if files:
        return [record for path in files for record in read(path)]
    if kept := last.kept():
        return kept
    records: list[Record] = []
    make_directory(directory)
    campaign = replace(brief(to_measure(None)), ladder=ladder_on_cpu())
    with progress() as show:
        measure(campaign, directory / OWN, show, records)
    last.keep(records)
    return records


def has_display() -> bool:
    """Whether a browser can open a window; on Unix a webbrowser without a display would fill the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_asm(arguments: Namespace) -> int:
    """gemmlab asm"""
    from gemmlab._name import BackendName
    from gemmlab.disassembly.device_listing import on_nvidia
    from gemmlab.disassembly.listing import inner_loop_of, text_of

    asked = arguments.backend, arguments.dtype or "float32", arguments.isa
    device = on_nvidia(*asked) if BackendName.of(arguments.backend).on_runtime else None
    if device is not None:
        print(json.dumps(device.to_dict(), indent=1) if arguments.json else device.text())
        return 0
    listing = inner_loop_of(*asked)
    print(json.dumps(listing.to_dict(), indent=1) if arguments.json else text_of(listing))
    return 0
