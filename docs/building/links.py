"""Changes links to files of the project, which work on a code host, into links to pages of the site.

A page in docs/ may link to any file of the project. In the site, a link to the file of a rung leads to the page of that
rung. Every other linked file gets a generated page that shows its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path

from gemmlab.course.rungs import ROOT, all_rungs

DOCS = ROOT / "docs"
FOLDER = "sources"
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[#)])")
LEXER = {".h": "c", ".hpp": "c++", ".cpp": "c++", ".cl": "c", ".py": "python", ".pyx": "cython", ".toml": "toml"}


def all_pages() -> dict[str, str]:
    """The generated page of each file that a page in docs/ links to, by its path below docs/."""
    return {_page_of(file): _page(file) for page in written_pages() for file in _linked_files(page)}


def written_pages() -> list[Path]:
    """The hand-written pages: all Markdown files in docs/ except generated ones."""
    generated = ("_build", FOLDER, "rungs", "reference")
    return sorted(page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in generated)


def for_the_site(text: str, page: Path) -> str:
    """The text of a page, with its links to files changed into links to pages of the site."""

    def site_link(link: re.Match[str]) -> str:
        file = (page.parent / link[1]).resolve()
        return link[1] if _is_page(file) else relpath(DOCS / _page_of(file), page.parent)

    return LINK.sub(site_link, text)


def _linked_files(page: Path) -> Iterator[Path]:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    files = {(page.parent / target).resolve() for target in targets}
    rung_files = {rung.files[0] for rung in all_rungs()}
    return (file for file in files if not _is_page(file) and file not in rung_files)


def _is_page(file: Path) -> bool:
    return file.suffix == ".md" and file.is_relative_to(DOCS)


def _page_of(file: Path) -> str:
    rung = next((rung.page for rung in all_rungs() if rung.files[0] == file), None)
    return f"rungs/{rung}.md" if rung else f"{FOLDER}/{file.name}.md"


def _page(file: Path) -> str:
    path = relpath(file, DOCS / FOLDER)
    include = f"```{{literalinclude}} {path}\n:language: {LEXER.get(file.suffix, 'text')}\n:lineno-match:\n```"
    return f"---\norphan: true\n---\n\n# {file.name}\n\n`{file.relative_to(ROOT)}`\n\n{include}\n"
