"""The command `gemmlab` in the process of a test."""

from __future__ import annotations

from types import SimpleNamespace

from gemmlab.cli import main


def runner(capsys):
    """A function that runs the command with its arguments: status, out and err."""

    def run(*arguments):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err)

    return run
