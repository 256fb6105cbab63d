"""Links that work on a code host made to work in the site too.

A page of docs/ may link to any file of the project. In the site, the file of a rung is the rung's page, and another
file gets a page that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path

from course.rungs import ROOT, every

DOCS = ROOT / "docs"
FOLDER = "sources"
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[#)])")
LEXER = {".h": "c", ".cl": "c", ".py": "python", ".pyx": "cython", ".toml": "toml"}


def everything() -> dict[str, str]:
    """A page for each file that a page of docs/ links to, by its path below docs/."""
    return {_page_of(file): _page(file) for page in written_pages() for file in _files_linked(page)}


def written_pages() -> list[Path]:
    """The pages that people write: all of docs/ but what is made from it."""
    made = ("_build", FOLDER, "rungs", "reference")
    return sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in made)


def for_the_site(text: str, page: Path) -> str:
    """The text of a page with its links to files changed to links to pages."""

    def changed(found: re.Match[str]) -> str:
        file = (page.parent / found[1]).resolve()
        return found[1] if _is_page(file) else relpath(DOCS / _page_of(file), page.parent)

    return LINK.sub(changed, text)


def _files_linked(page: Path) -> Iterator[Path]:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    files = {(page.parent / target).resolve() for target in targets}
    of_rungs = {rung.files[0] for rung in every()}
    return (file for file in files if not _is_page(file) and file not in of_rungs)


def _is_page(file: Path) -> bool:
    return file.suffix == ".md" and file.is_relative_to(DOCS)


def _page_of(file: Path) -> str:
    rung = next((rung.page for rung in every() if rung.files[0] == file), None)
    return f"rungs/{rung}.md" if rung else f"{FOLDER}/{file.name}.md"


def _page(file: Path) -> str:
    path = relpath(file, DOCS / FOLDER)
    include = f"```{{literalinclude}} {path}\n:language: {LEXER.get(file.suffix, 'text')}\n:lineno-match:\n```"
    return f"---\norphan: true\n---\n\n# {file.name}\n\n`{file.relative_to(ROOT)}`\n\n{include}\n"
