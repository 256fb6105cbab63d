"""The disk cache of compiled programs: a kernel is compiled once per machine, not once per process.

    <config.cache_dir>/programs/<key>.program      key: SHA-256 of everything that the program depends on
        gemmlab-program 1 <key> <SHA-256 of the binary>
        <binary>
    <config.cache_dir>/programs/<key>.passed       without a binary: programs passed configurations/check.py
    <config.cache_dir>/programs/<key>.rates        what configurations/rates.py probed on the device

A binary runs on the device, so a file that another user could have written is never read. If anything is wrong with an
entry or with the disk, the program counts as not cached and is compiled from its source.
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

from gemmlab._config import config
from gemmlab._files import replacing
from gemmlab._version import __version__

LIMIT_BYTES = 256 * 2**20  # total size of all programs
_OWN_NAME = re.compile(r"[0-9a-f]{64}\.(program|passed|rates)(\..+\.tmp)?")


@dataclass(frozen=True)
class Entry:
    """The cache entry of one program, of a check, or of rates (`kind`). Its key: all fields and gemmlab's version.

    `target` is anything else that the binary depends on, such as the architecture.
    """

    source: str
    options: str
    runtime: str
    device: str
    driver: str
    platform: str
    target: str
    kind: str = "program"

    def load(self) -> bytes | None:
        """Return the binary; None unless the file is complete, belongs to this user and has this key."""
        path, header, binary = self._path(), b"", b""
        with suppress(OSError):
            if path.is_file() and _is_private(path.parent.stat()):  # opening a pipe would block
                with open(path, "rb") as file:
                    if _is_private(os.fstat(file.fileno())):
                        header, _, binary = file.read().partition(b"\n")
        if header != self._header(binary):
            return None
        with suppress(OSError):  # for the least-recently-used order; fails in a read-only directory
            os.utime(path)
        return binary

    def store(self, binary: bytes) -> None:
        """Store the binary atomically. A failure to write is ignored."""
        path, content = self._path(), self._header(binary) + b"\n" + binary
        config.cache_to_write()
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(content) > LIMIT_BYTES or not _is_private(path.parent.stat()):
                return
            _make_room(len(content))
            with replacing(path, private=True) as file:
                file.write(content)

    def drop(self) -> None:
        """Remove the entry if it exists."""
        with suppress(OSError):
            self._path().unlink()

    def _path(self) -> Path:
        key = json.dumps([__version__, *astuple(self)])
        return _folder() / f"{sha256(key.encode()).hexdigest()}.{self.kind}"

    def _header(self, binary: bytes) -> bytes:
        return f"gemmlab-program 1 {self._path().stem} {sha256(binary).hexdigest()}".encode()


@dataclass(frozen=True)
class Summary:
    """The programs in the cache. `bytes` includes checks, and partial files that killed processes have left."""

    folder: Path
    programs: int
    bytes: int


def summary() -> Summary:
    """The current content of the cache."""
    return _summed(_own_files())


def clear() -> Summary:
    """Remove all cached programs and no other file; returns what was removed. OSError if that is not permitted."""
    files = _own_files()
    for path in files:
        path.unlink(missing_ok=True)  # another process may have removed it
    return _summed(files)


def _folder() -> Path:
    return config.cache_dir / "programs"


def _is_own(status: os.stat_result) -> bool:
    return os.name == "nt" or status.st_uid == os.geteuid()


def _is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written it; on Windows, access control lists protect a user's folders."""
    return os.name == "nt" or (_is_own(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _own_files() -> dict[Path, int]:
    """Programs and partial files of killed processes, with their sizes; the least recently used first."""
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
    """Remove the least recently used programs until `nbytes` more fit."""
    files = _own_files()
    excess = sum(files.values()) + nbytes - LIMIT_BYTES
    for path, size in files.items():
        if excess > 0:
            path.unlink(missing_ok=True)
            excess -= size
