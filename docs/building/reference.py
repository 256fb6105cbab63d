"""The reference pages: the command line, from its argument parser, and the Python interface, from docstrings."""

from __future__ import annotations

import argparse

import gemmlab
from gemmlab.cli import parser

FOLDER = "reference"
PYTHON_INTRODUCTION = """# Python

This page lists all public names of `gemmlab`. [What we promise](../promises.md) says what you can rely on.
[Adding a backend](../adding-a-backend.md) explains how to use the classes below."""
COMMAND_LINE_INTRODUCTION = """# The command line

Exit status: 0 for success, 1 if a check failed, 2 for wrong usage or if a file cannot be written, 130 if interrupted.
After Ctrl-C, what was measured so far is kept."""


def all_pages() -> dict[str, str]:
    """The text of both pages, by path below docs/."""
    return {f"{FOLDER}/python.md": python(), f"{FOLDER}/command-line.md": command_line()}


def python() -> str:
    """The page of the public names, grouped by kind. Sphinx inserts their docstrings."""
    kinds: dict[str, list[str]] = {"Functions": [], "Settings": [], "Classes": [], "Errors": []}
    for name in gemmlab.__all__:
        kinds[_kind(name)].append(_directive(name))
    sections = [f"## {kind}\n\n```{{eval-rst}}\n{chr(10).join(entries)}\n```" for kind, entries in kinds.items()]
    return "\n\n".join([PYTHON_INTRODUCTION, *sections]) + "\n"


def _kind(name: str) -> str:
    value = getattr(gemmlab, name)
    if isinstance(value, type):
        return "Errors" if issubclass(value, Exception) else "Classes"
    return "Functions" if callable(value) else "Settings"


def _directive(name: str) -> str:
    """The Sphinx directive for a name. `gemmlab.verify` is a callable package; the directive names its function."""
    if name == "__version__":
        return ".. py:data:: __version__\n   :module: gemmlab\n\n   The version, as a string.\n"
    if name == "verify":
        return ".. autofunction:: gemmlab.verify.verify\n"
    directive = {"Functions": "autofunction", "Settings": "autodata", "Classes": "autoclass", "Errors": "autoexception"}
    members = "   :members:\n" if name == "Backend" else ""
    no_value = "   :no-value:\n" if name == "config" else ""
    return f".. {directive[_kind(name)]}:: gemmlab.{name}\n{members}{no_value}"


def command_line() -> str:
    """The page of the commands and their options."""
    commands = next(action for action in parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    return "\n\n".join([COMMAND_LINE_INTRODUCTION, *map(_command, commands.choices.values())]) + "\n"


def _command(command: argparse.ArgumentParser) -> str:
    actions = [action for action in command._actions if action.dest != "help"]
    operands = [f"[{_value(action)}]" for action in actions if not action.option_strings]
    usage = " ".join([command.prog, *operands, "[options]"])
    description = f"{(command.description or '').capitalize()}."
    return "\n\n".join([f"## {command.prog}", description, f"```text\n{usage}\n```", *map(_option, actions)])


def _option(action: argparse.Action) -> str:
    """An option and its meaning, as an item of a definition list."""
    value = "" if action.nargs == 0 else f" {_value(action)}"
    name = ", ".join(action.option_strings) + value
    meaning = action.help or "one of these"
    default = f"({action.default})" if value and action.option_strings and isinstance(action.default, str) else ""
    meaning += f" {default}" if default not in meaning else ""
    return f"`{name.strip()}`\n: {meaning[:1].upper()}{meaning[1:]}."


def _value(action: argparse.Action) -> str:
    """The placeholder for the value of an option, or for a positional argument."""
    value = action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()
    return " ".join(value) if isinstance(value, tuple) else value
