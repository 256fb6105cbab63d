"""The course as a folder of pages to open in a browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gemmlab._errors import GemmlabError
from gemmlab.course.gains import OWN, Measured
from gemmlab.course.html import Entry, html_pages
from gemmlab.course.pages import FOLDER, all_pages
from gemmlab.course.play import moving_pictures
from gemmlab.course.rungs import ROOT, ladders
from gemmlab.disassembly.device_listing import on_nvidia
from gemmlab.disassembly.listing import inner_loop_of, text_of
from gemmlab.measure.records import Record
from gemmlab.report.directory import written_into

FIRST = "index.html"
DTYPE = "float32"  # of the machine code


def write_course(own: Sequence[Record], directory: Path) -> Path:
    """Write the pages into `directory`, with the records that they show of this machine; the path of the first page.

    Raises
    ------
    CannotWrite
        One line with the directory and the reason.
    """
    found = all_pages(Measured(own), _listings())
    pages = {path.removeprefix(f"{FOLDER}/"): text for path, text in found.items()}
    with written_into(directory) as folder:
        for name, text in pages.items():
            if not name.endswith(".md"):
                (folder / name).write_text(text, encoding="utf-8")
        for name, text in html_pages(pages, ROOT / "docs" / FOLDER, _entries()):
            (folder / name).write_text(text, encoding="utf-8")
        for name, text in moving_pictures().items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / OWN).write_text("".join(json.dumps(record) + "\n" for record in own), encoding="utf-8")
    return directory / FIRST


def _listings() -> dict[str, str]:
    """The machine code that can be shown here: of CPU rungs with a disassembler, of GPU rungs on an NVIDIA GPU."""
    found = {}
    for rung in ladders()["CPU"]:
        with suppress(GemmlabError):
            found[rung.page] = text_of(inner_loop_of(rung.page))
    for rung in ladders()["GPU"]:
        with suppress(GemmlabError):
            if (listing := on_nvidia(rung.backends["cuda"], DTYPE, None)) is not None:
                found[rung.page] = listing.text()
    return found


def _entries() -> list[Entry]:
    """The list at the side."""
    found = [Entry("The course"), Entry("All rungs at a glance", FIRST)]
    for ladder, rungs in ladders().items():
        found += [Entry(f"The {ladder} ladder"), *(Entry(rung.title, f"{rung.page}.html") for rung in rungs)]
    return found
