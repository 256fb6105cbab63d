"""Reads the head of a rung's file: the idea, the loop nest, the source, the traffic.

The head is the docstring of a .pyx file, the first comment of a .hpp file, or the // lines at the top of a .cl file.
Its first paragraph is "name: the idea", and two others begin with "Source:" and "Traffic:". An indented paragraph is
the loop nest if it begins with a loop; else it lists the ideas of a rung that has several, a line for each: the name,
spaces, and what it does. All other paragraphs are remarks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

INDENT = "    "
LOOP = re.compile(r"\s*(\d\w+ +)?(parallel )?(for|each) ")


@dataclass(frozen=True)
class Head:
    """The paragraphs of a head. All but the loop nest are joined to one line; a missing paragraph is "".

    `ideas` has what each of a rung's ideas does, by its name.
    """

    idea: str
    loops: str
    source: str
    traffic: str
    remarks: tuple[str, ...]
    ideas: dict[str, str]


def read_head(path: Path) -> Head:
    """Read the head of a rung's file.

    Raises
    ------
    ValueError
        If the file does not begin with a head.
    """
    first, *others = re.split(r"\n\s*\n", _comment(path)[0])
    labelled = {"Source:": "", "Traffic:": ""}
    loops, remarks, ideas = "", [], {}
    for block in others:
        word = block.split(maxsplit=1)[0]
        if block.startswith(INDENT) and LOOP.match(block):
            loops = loops or dedent(block)
        elif block.startswith(INDENT):
            ideas = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in block.splitlines())
        elif word in labelled:
            labelled[word] = _one_line(block.removeprefix(word))
        else:
            remarks.append(_one_line(block))
    idea = re.sub(r"^[\w-]+: ", "", _one_line(first))
    return Head(idea, loops, labelled["Source:"], labelled["Traffic:"], tuple(remarks), ideas)


def first_line_of_code(path: Path) -> int:
    """The number of the first non-empty line after the head, counted from 1."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = _comment(path)[1]
    return next(number for number, line in enumerate(lines[start:], start + 1) if line.strip())


def _comment(path: Path) -> tuple[str, int]:
    """The text of a file's first comment, and the number of lines up to its end."""
    text = path.read_text(encoding="utf-8")
    lines = path.suffix in (".cl", ".h")  # of comment
    patterns = {".pyx": r'(?:#[^\n]*\n)*"""(.*?)"""', ".hpp": r"/\*(.*?)\*/"}
    match = re.match(r"((?://.*\n)+)" if lines else patterns[path.suffix], text, 0 if lines else re.DOTALL)
    if match is None:
        raise ValueError(f"{path} does not begin with a head")
    inside = re.sub(r"^// ?", "", match[1], flags=re.MULTILINE) if lines else match[1]
    first, _, rest = inside.partition("\n")
    return f"{first.strip()}\n{dedent(rest)}".strip(), text[: match.end()].count("\n") + (not lines)


def _one_line(block: str) -> str:
    return " ".join(block.split())
