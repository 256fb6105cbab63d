"""Generates pages of the documentation site: those of `gemmlab.course`, the command line, the Python interface.

    reference.py   the pages for the command line and for Python
    links.py       changes links to files of the project into links to pages of the site

Sphinx's configuration (`docs/conf.py`) calls `write`. Git ignores the generated pages.
"""

from __future__ import annotations

from pathlib import Path

from building import links, reference
from gemmlab.course import pages
from gemmlab.course.gains import Measured
from gemmlab.course.play import moving_pictures

DOCS = Path(__file__).parents[1]
EXTRA = "extra"  # what Sphinx copies as it is


def write() -> None:
    """Write all generated pages into folders of docs/, and delete those that an earlier build left there."""
    pictures = {f"{EXTRA}/{pages.FOLDER}/{name}": text for name, text in moving_pictures().items()}
    generated = {**pictures, **pages.all_pages(Measured()), **reference.all_pages(), **links.all_pages()}
    for folder in (f"{EXTRA}/{pages.FOLDER}", pages.FOLDER, reference.FOLDER, links.FOLDER):
        for old in (DOCS / folder).glob("*"):
            if f"{folder}/{old.name}" not in generated:
                old.unlink()
    for path, text in generated.items():
        file = DOCS / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # Sphinx skips files that did not change
            file.write_text(text, encoding="utf-8")
