"""Compiled programs on disk: a kernel is built once on a machine, not once a process.

    <config.cache_dir>/programs/<key>.program      key: SHA-256 of all that the program depends on
        gemmlab-program 1 <key> <SHA-256 of the binary>
        <binary>

A binary runs on the device, so nothing is read that another user may have put there. Whatever is wrong with an
entry, or with the disk, the answer is "not here" and the program is built from its source.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import astuple, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp

from gemmlab._config import config
from gemmlab._version import __version__

LIMIT_BYTES = 256 * 2**20  # of all programs together
_OWN_NAME = re.compile(r"[0-9a-f]{64}\.program(\..+\.tmp)?")


@dataclass(frozen=True)
class Entry:
    """The place of one program. Its key is made of every field and of gemmlab's version.

    `target` is what else a binary depends on, such as the architecture.
    """

    source: str
    options: str
    runtime: str
    device: str
    driver: str
    platform: str
    target: str

    def load(self) -> bytes | None:
        """Return the binary; None for anything that is not whole, not ours or not of this key."""
        path, header, binary = self._path(), b"", b""
        with suppress(OSError):
            if path.is_file() and _is_private(path.parent.stat()):  # to open a pipe would wait for its writer
                with open(path, "rb") as file:
                    if _is_private(os.fstat(file.fileno())):
                        header, _, binary = file.read().partition(b"\n")
        if header != self._header(binary):
            return None
        with suppress(OSError):  # what is used last is removed last; a read-only folder can still be read
            os.utime(path)
        return binary

    def store(self, binary: bytes) -> None:
        """Keep the binary: whole or not at all, and not at all where the disk does not let us."""
        path, content = self._path(), self._header(binary) + b"\n" + binary
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(content) > LIMIT_BYTES or not _is_private(path.parent.stat()):
                return
            _make_room(len(content))
            descriptor, temporary = mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp")  # mode 0600
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def drop(self) -> None:
        """Remove the entry, if it is there."""
        with suppress(OSError):
            self._path().unlink()

    def _path(self) -> Path:
        key = json.dumps([__version__, *astuple(self)])
        return _folder() / f"{sha256(key.encode()).hexdigest()}.program"

    def _header(self, binary: bytes) -> bytes:
        return f"gemmlab-program 1 {self._path().stem} {sha256(binary).hexdigest()}".encode()


@dataclass(frozen=True)
class Summary:
    """Programs in a folder. `bytes` also counts what killed processes left half written."""

    folder: Path
    programs: int
    bytes: int


def summary() -> Summary:
    """What is kept now."""
    return _summed(_own_files())


def clear() -> Summary:
    """Remove all that we keep, and nothing else; returns what was removed. OSError where that is not allowed."""
    files = _own_files()
    for path in files:
        path.unlink(missing_ok=True)  # another process may be faster
    return _summed(files)


def _folder() -> Path:
    return config.cache_dir / "programs"


def _is_own(status: os.stat_result) -> bool:
    return os.name == "nt" or status.st_uid == os.geteuid()


def _is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written it; Windows keeps a user's folders by other means."""
    return os.name == "nt" or (_is_own(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _own_files() -> dict[Path, int]:
    """Programs, and what killed processes left of some, with their bytes; the least recently used first."""
    found = {}
    with suppress(OSError):
        for path in _folder().iterdir():
            with suppress(FileNotFoundError):  # another process has just removed it
                status = path.lstat()
                if _OWN_NAME.fullmatch(path.name) and stat.S_ISREG(status.st_mode) and _is_own(status):
                    found[path] = status
    return {path: found[path].st_size for path in sorted(found, key=lambda path: found[path].st_mtime_ns)}


def _summed(files: dict[Path, int]) -> Summary:
    return Summary(_folder(), sum(path.suffix == ".program" for path in files), sum(files.values()))


def _make_room(nbytes: int) -> None:
    """Remove the least recently used until so many bytes more fit."""
    files = _own_files()
    excess = sum(files.values()) + nbytes - LIMIT_BYTES
    for path, size in files.items():
        if excess > 0:
            path.unlink(missing_ok=True)
            excess -= size
