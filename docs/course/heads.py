"""What the head of a rung's file says: the idea, the loop nest, the source, the traffic.

A head is the docstring of a .pyx, the first comment of a .h, or the lines with // that a .cl begins with. Its first
paragraph is "name: the idea", an indented one is the loop nest, and two others begin with "Source:" and "Traffic:".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

NEST_INDENT = "    "


@dataclass(frozen=True)
class Head:
    """The paragraphs of a head, each in one line but the loop nest; "" for what it does not say."""

    idea: str
    loops: str
    source: str
    traffic: str
    remarks: tuple[str, ...]


def read_head(path: Path) -> Head:
    """Read the head of a rung's file.

    Raises
    ------
    ValueError
        If the file does not begin with a head.
    """
    first, *others = re.split(r"\n\s*\n", _comment(path)[0])
    named = {"Source:": "", "Traffic:": ""}
    loops, remarks = "", []
    for block in others:
        word = block.split(maxsplit=1)[0]
        if block.startswith(NEST_INDENT):
            loops = loops or dedent(block)
        elif word in named:
            named[word] = _one_line(block.removeprefix(word))
        else:
            remarks.append(_one_line(block))
    idea = re.sub(r"^[\w-]+: ", "", _one_line(first))
    return Head(idea, loops, named["Source:"], named["Traffic:"], tuple(remarks))


def first_line_of_code(path: Path) -> int:
    """The number of the first line after the head that is not empty."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = _comment(path)[1]
    return next(number for number, line in enumerate(lines[start:], start + 1) if line.strip())


def _comment(path: Path) -> tuple[str, int]:
    """The text of a file's first comment, and how many lines of the file end with it."""
    text = path.read_text(encoding="utf-8")
    patterns = {".pyx": r'(?:#[^\n]*\n)*"""(.*?)"""', ".h": r"/\*(.*?)\*/", ".cl": r"((?://.*\n)+)"}
    found = re.match(patterns[path.suffix], text, re.DOTALL if path.suffix != ".cl" else 0)
    if found is None:
        raise ValueError(f"{path} does not begin with a head")
    inside = re.sub(r"^// ?", "", found[1], flags=re.MULTILINE) if path.suffix == ".cl" else found[1]
    first, _, rest = inside.partition("\n")
    return f"{first.strip()}\n{dedent(rest)}".strip(), text[: found.end()].count("\n") + (path.suffix != ".cl")


def _one_line(block: str) -> str:
    return " ".join(block.split())
