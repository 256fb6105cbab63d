"""What builds the course: pages for the rungs, for the command line and for Python, written anew with each build.

    rungs.py       the rungs in their order: file, step before, parameters, questions
    heads.py       what the head of a rung's file says
    gains.py       what the records say of two rungs
    pages.py       a page for each rung
    reference.py   a page for the command line, one for Python
    links.py       links that work on a code host made to work in the site too
    course.toml    which records the course shows, and the questions

`write` is all that Sphinx's configuration calls. What it writes is not kept in git.
"""

from __future__ import annotations

from pathlib import Path

from course import links, pages, reference

DOCS = Path(__file__).parents[1]


def write() -> None:
    """Write every generated page below docs/."""
    written = {**pages.everything(), **reference.everything(), **links.everything()}
    for path, text in written.items():
        place = DOCS / path
        place.parent.mkdir(exist_ok=True)
        if not place.exists() or place.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            place.write_text(text, encoding="utf-8")
