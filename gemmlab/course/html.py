"""The course's pages as HTML that needs neither Sphinx nor a network: Markdown by markdown-it-py, code by Pygments.

Both are small, pure Python, MIT and BSD licensed, and Sphinx stands on the same two. Of Sphinx's directives the pages
use two: a figure, and the lines of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os.path import normpath
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.attrs import attrs_block_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

OPTION = re.compile(r"^:([\w-]+): ?(.*)$", re.MULTILINE)
DIRECTIVE = re.compile(r"\{(\w+)\} ?(.*)")
LIGHT, DARK = "xcode", "lightbulb"  # the styles whose colours all have a contrast of 4.5 and more


@dataclass(frozen=True)
class Entry:
    """A page in the list at the side: its title and its file; a part's title has no file."""

    title: str
    href: str = ""


def html_pages(pages: Mapping[str, str], folder: Path, entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Each page of Markdown as HTML, with its name. `folder` is where the pages' paths of files begin."""
    template = Environment(loader=PackageLoader("gemmlab.course", ""), autoescape=True).get_template("page.html")
    names, code_css = {name for name in pages if name.endswith(".md")}, _code_css()
    for name in sorted(names):
        body = _Page(folder, names).render(pages[name])
        title = re.search(r"^# (.*)$", pages[name], re.MULTILINE)
        yield name.removesuffix(".md") + ".html", template.render(
            title=title[1] if title else name, body=body, entries=entries, here=name.removesuffix(".md") + ".html",
            code_css=code_css,
        )  # fmt: skip


class _Page:
    """One page: its links lead to pages of the course, and what is not in it keeps its text alone."""

    def __init__(self, folder: Path, names: set[str]) -> None:
        self._folder, self._names = folder, names
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable("table").use(attrs_block_plugin)
        self._markdown.renderer.rules.update(  # type: ignore[attr-defined]
            fence=self._fence, link_open=self._link, link_close=self._link,
            table_open=lambda *_: '<div class="scroll" tabindex="0"><table>\n',
            table_close=lambda *_: "</table></div>\n",
        )  # fmt: skip
        self._open: list[bool] = []  # for each link that is open, whether it is one

    def render(self, text: str) -> str:
        """The page's body."""
        body: str = self._markdown.render(text)
        return body

    def _link(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        if tokens[index].type == "link_close":
            return "</a>" if self._open.pop() else ""
        target = str(tokens[index].attrs["href"])
        name, *anchors = target.split("#")
        kept = not name or name in self._names or target.startswith("http")
        self._open.append(kept)
        href = name.removesuffix(".md") + ".html" * name.endswith(".md") + "".join(f"#{anchor}" for anchor in anchors)
        return f'<a href="{escape(href)}">' if kept else ""

    def _fence(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        info, content = tokens[index].info.strip(), tokens[index].content
        directive = DIRECTIVE.fullmatch(info)
        if directive is None:
            return _code(content, info or "text")
        values = dict(OPTION.findall(content))
        if directive[1] == "figure":
            caption = MarkdownIt("commonmark").renderInline(OPTION.sub("", content).strip())
            image = f'<img src="{escape(directive[2])}" alt="{escape(values.get("alt", ""))}" loading="lazy">'
            return f"<figure>{image}<figcaption>{caption}</figcaption></figure>\n"
        if directive[1] == "literalinclude":
            path = Path(normpath(self._folder / directive[2]))  # the folder itself need not be there
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            first = int(values["lines"].rstrip("-"))
            return _code("".join(lines[first - 1 :]), values["language"], first)
        raise ValueError(f"the course has no directive {directive[1]}")


def _code(text: str, language: str, first_line: int | None = None) -> str:
    """Code in colours, with line numbers from `first_line` on."""
    numbers = {"linenos": "inline", "linenostart": first_line} if first_line is not None else {}
    formatter = HtmlFormatter(cssclass="code", wrapcode=True, **numbers)
    html: str = highlight(text, get_lexer_by_name(language), formatter)
    return html.replace('<div class="code">', '<div class="code scroll" tabindex="0">')


def _code_css() -> str:
    light, dark = (HtmlFormatter(style=style).get_style_defs(".code") for style in (LIGHT, DARK))
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"
