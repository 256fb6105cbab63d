"""A page for the command line, made from its parser, and one for Python, made from the docstrings."""

from __future__ import annotations

import argparse

import gemmlab
from gemmlab.cli import parser

FOLDER = "reference"
PYTHON_INTRODUCTION = """# Python

The names of `gemmlab`, all of them. [What we promise](../promises.md) says what may be relied on, and
[adding a backend](../adding-a-backend.md) is the manual of the classes below."""
COMMAND_LINE_INTRODUCTION = """# The command line

Exit status: 0 done, 1 a check failed, 2 wrong usage or cannot write, 130 interrupted. Ctrl-C keeps what was
measured."""


def everything() -> dict[str, str]:
    """The text of both pages, by their paths below docs/."""
    return {f"{FOLDER}/python.md": python(), f"{FOLDER}/command-line.md": command_line()}


def python() -> str:
    """The page on the public names, by kind; Sphinx fills in their docstrings."""
    kinds: dict[str, list[str]] = {"Functions": [], "Settings": [], "Classes": [], "Errors": []}
    for name in gemmlab.__all__:
        kinds[_kind(name)].append(_directive(name))
    sections = [f"## {kind}\n\n```{{eval-rst}}\n{chr(10).join(found)}\n```" for kind, found in kinds.items()]
    return "\n\n".join([PYTHON_INTRODUCTION, *sections]) + "\n"


def _kind(name: str) -> str:
    value = getattr(gemmlab, name)
    if isinstance(value, type):
        return "Errors" if issubclass(value, Exception) else "Classes"
    return "Functions" if callable(value) else "Settings"


def _directive(name: str) -> str:
    """What Sphinx is told of a name. `gemmlab.verify` is a package that can be called: the function is meant."""
    if name == "__version__":
        return ".. py:data:: __version__\n   :module: gemmlab\n\n   The version, as a string.\n"
    if name == "verify":
        return ".. autofunction:: gemmlab.verify.verify\n"
    directive = {"Functions": "autofunction", "Settings": "autodata", "Classes": "autoclass", "Errors": "autoexception"}
    members = "   :members:\n" if name == "Backend" else ""
    shown = "   :no-value:\n" if name == "config" else ""
    return f".. {directive[_kind(name)]}:: gemmlab.{name}\n{members}{shown}"


def command_line() -> str:
    """The page on the commands and their options."""
    commands = next(action for action in parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    return "\n\n".join([COMMAND_LINE_INTRODUCTION, *(_command(made) for made in commands.choices.values())]) + "\n"


def _command(made: argparse.ArgumentParser) -> str:
    actions = [action for action in made._actions if action.dest != "help"]
    operands = [f"[{_value(action)}]" for action in actions if not action.option_strings]
    usage = " ".join([made.prog, *operands, "[options]"])
    description = f"{(made.description or '').capitalize()}."
    return "\n\n".join([f"## {made.prog}", description, f"```text\n{usage}\n```", *map(_option, actions)])


def _option(action: argparse.Action) -> str:
    """An option and its meaning, as an item of a definition list."""
    takes = "" if action.nargs == 0 else f" {_value(action)}"
    name = ", ".join(action.option_strings) + takes
    said = action.help or "one of these"
    default = f"({action.default})" if takes and action.option_strings and isinstance(action.default, str) else ""
    said += f" {default}" if default not in said else ""
    return f"`{name.strip()}`\n: {said[:1].upper()}{said[1:]}."


def _value(action: argparse.Action) -> str:
    """What stands for an option's value, or for an operand."""
    value = action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()
    return " ".join(value) if isinstance(value, tuple) else value
