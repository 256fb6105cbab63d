"""The journal of an output that is not finished: what was asked for, and which tiles are whole.

It is a file of JSON lines beside the output. The first line says how the product is computed; each later line names a
tile, or how much of one is in its partial sums, and is written, and synced, after these data were. The last member of a
line is a checksum of the line and of all before it, so that no line can be changed, left out or added. A last line that
a kill, or a loss of power, has cut or garbled is ignored. While a process works on the output it holds a lock on the
journal.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from gemmlab._errors import CannotWrite, GemmlabError
from gemmlab._files import HAS_LOCKS, sync, sync_path, take_lock
from gemmlab._words import escaped, shortened

VERSION = 3
MAX_BYTES = 1 << 26  # of a journal: a million tiles
SUM = b', "sha256": "'  # before the checksum


class Part(NamedTuple):
    """A tile of which so many steps are in a copy of its sums."""

    tile: int
    steps: int
    copy: int


class CannotResume(GemmlabError, ValueError):
    """What was begun is not what is asked for now; the message says what differs, and how to start over."""


class Journal:
    """The journal in a file, locked; a context manager.

    Attributes
    ----------
    path : Path
    header : dict or None
        The first line; None if nothing has begun.
    whole : set of int
        The tiles that are on disk.
    part : Part or None
        What is on disk of a tile that is not whole.
    checked : bool
        Whether the product has passed its check.

    Raises
    ------
    CannotWrite
        Another process holds the lock.
    CannotResume
        The file is no journal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] | None = None
        self.whole: set[int] = set()
        self.part: Part | None = None
        self.checked = False
        self._sum = b""  # of all lines
        self._descriptor = _locked(path)
        try:
            self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.header is None and self.path.exists():  # nothing was begun
            self.path.unlink()
        os.close(self._descriptor)

    def _read(self) -> None:
        with open(self.path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise self.cannot_resume("its journal is damaged: it is too large")
        lines, length = content.split(b"\n")[:-1], 0  # what follows the last line's end was cut
        for number, line in enumerate(lines, 1):
            body, _, given = line.rpartition(SUM)
            checksum = self._sum_with(body)
            if given != checksum + b'"}':
                if number == len(lines) > 1:
                    break
                other = ", or of another version of gemmlab" if number == 1 else ""
                raise self.cannot_resume(f"its journal is damaged in line {number}{other}")
            try:
                self._take(json.loads(body + b"}"))
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
                if isinstance(error, CannotResume):
                    raise
                raise self.cannot_resume(f"its journal is damaged in line {number}") from None
            self._sum, length = checksum, length + len(line) + 1
        os.ftruncate(self._descriptor, length)

    def _take(self, entry: dict[str, Any]) -> None:
        """What a line of ours says."""
        if self.header is None:
            self.header = entry
            if entry.get("journal") != VERSION:
                raise self.cannot_resume("its journal is of another version of gemmlab")
        elif type(tile := entry.get("tile")) is int:
            self.whole.add(tile)
            self.part = None
        elif "part" in entry:
            self.part = Part(*(number for number in entry["part"] if type(number) is int))
        elif 0 <= float(entry["checked"]) <= 1:
            self.checked = True
        else:
            raise ValueError

    def _sum_with(self, body: bytes) -> bytes:
        """The checksum of a line, and of all before it."""
        return sha256(self._sum + body).hexdigest()[:16].encode()

    def begin(self, header: Mapping[str, object]) -> None:
        """Write the first line."""
        self.header = {"journal": VERSION, **header}
        self._append(self.header)
        sync_path(self.path.parent)  # its name

    def add_tile(self, number: int) -> None:
        """Say that a tile is on disk."""
        self._append({"tile": number})
        self.whole.add(number)
        self.part = None

    def add_part(self, part: Part) -> None:
        """Say that a copy of a tile's sums is on disk."""
        self._append({"part": part})
        self.part = part

    def add_check(self, error: float) -> None:
        """Say that the product has passed its check, with this error over its bound."""
        self._append({"checked": error})
        self.checked = True

    def _append(self, entry: Mapping[str, object]) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_END)
        body = json.dumps(entry).encode()[:-1]
        self._sum = self._sum_with(body)
        line = body + SUM + self._sum + b'"}\n'
        while line:
            line = line[os.write(self._descriptor, line) :]
        sync(self._descriptor)

    def compare(self, asked: Mapping[str, object]) -> None:
        """CannotResume if what is asked for is not what was begun."""
        assert self.header is not None
        now = json.loads(json.dumps(asked))  # tuples as lists
        for name, value in now.items():
            was = self.header.get(name)
            if was != value:
                raise self.cannot_resume(f"{name} was {_shown(was)} and is now {_shown(value)}")

    def cannot_resume(self, why: str) -> CannotResume:
        """The error that says why, and how to start over."""
        return CannotResume(f"cannot resume: {why}; delete {self.path} to start over")

    def remove(self) -> None:
        """Remove the file: the output is finished."""
        self.path.unlink()


def check_system() -> None:
    """GemmlabError where the system has no locks of files, or no reads at an offset."""
    if not HAS_LOCKS or not hasattr(os, "preadv"):
        raise GemmlabError("a product of files needs POSIX locks and preadv: on Windows, run it in WSL")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return "missing" if value is None else shortened(escaped(text), 80)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a read of it might wait for ever
            os.close(descriptor)
            raise CannotWrite(f"{path} is no regular file: remove it, or choose another name for the output")
        try:
            take_lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            raise CannotWrite(f"another process works on this output: it holds {path}; wait until it ends") from None
        if _is_file(path, descriptor):
            return descriptor
        os.close(descriptor)  # its owner has finished and removed it meanwhile


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
