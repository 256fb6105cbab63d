"""Generates pages of the documentation site: one per rung, one for the command line, one for the Python interface.

    rungs.py       the rungs in order: file, previous rung, parameters, questions
    heads.py       reads the head comment of a rung's file
    gains.py       compares a rung with the previous one, from records
    contradictions.py   rows of a table that contradict the text, and why
    pages.py       the page of each rung, and the overview of all rungs
    reference.py   the pages for the command line and for Python
    links.py       changes links to files of the project into links to pages of the site
    course.toml    which records the course shows, and the questions

Sphinx's configuration (`docs/conf.py`) calls `write`. Git ignores the generated pages.
"""

from __future__ import annotations

from pathlib import Path

from course import links, pages, reference

DOCS = Path(__file__).parents[1]


def write() -> None:
    """Write all generated pages into folders of docs/, and delete those that an earlier build left there."""
    generated = {**pages.all_pages(), **reference.all_pages(), **links.all_pages()}
    for folder in (pages.FOLDER, reference.FOLDER, links.FOLDER):
        for old in (DOCS / folder).glob("*"):
            if f"{folder}/{old.name}" not in generated:
                old.unlink()
    for path, text in generated.items():
        file = DOCS / path
        file.parent.mkdir(exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # Sphinx skips files that did not change
            file.write_text(text, encoding="utf-8")
