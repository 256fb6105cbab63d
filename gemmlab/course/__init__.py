"""The course: a page for each rung of both ladders, with the figures of the machines that ship and of one's own.

    rungs.py       the rungs in order: file, previous rung, parameters, questions
    heads.py       reads the head comment of a rung's file
    gains.py       compares a rung with the previous one, from records
    contradictions.py   rows of a table that contradict the text, and why
    shipped.py     the records of the machines that the course shows, in one file
    pages.py       the page of each rung, in Markdown
    overview.py    the first page: both ladders at a glance
    writing.py     what the pages have in common: tables, links, how a run is spoken of
    play/          moving pictures: a page for each rung that plays a small product, access by access
    html.py        these pages as HTML; page.html is the frame around each
    site.py        all of it as a folder, for `gemmlab course`
    course.toml    which records the course shows, and the questions

`gemmlab course` writes the folder. The documentation site (`docs/conf.py`) has the same pages.
"""

from __future__ import annotations

from importlib.util import find_spec

from gemmlab._words import listed
from gemmlab.report import ReportUnavailable

NEEDED = {  # modules, and the packages that they come in
    "matplotlib": "matplotlib", "jinja2": "jinja2", "markdown_it": "markdown-it-py",
    "mdit_py_plugins": "mdit-py-plugins", "pygments": "pygments", "pcpp": "pcpp", "pycparser": "pycparser",
}  # fmt: skip


def require() -> None:
    """Raise `ReportUnavailable` unless what the pages are made with is installed; call it before a measurement."""
    if missing := [name for module, name in NEEDED.items() if not find_spec(module)]:
        raise ReportUnavailable(f"the course needs {listed(missing)}: pip install 'gemmlab[report]'")
