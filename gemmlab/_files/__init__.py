"""Files that are whole or not there, and locks between processes: what every writer of files here uses.

    replacing(path)     writes a file aside, and gives it its name when all is written
    take_lock(file)     an open file is one process's, until it is closed
    sync(file)          what was written is on disk
    sync_path(path)     the same of a file, or of a folder's list of files, by its name
    check_regular(path) refuses pipes and devices, before they are read
    reserve(file, n)    a new file's space, so that no later write finds the disk full
    read_at, write_at   some bytes of an open file, all of them

Some file systems (over a network, in user space) have no locks, cannot reserve space, or do not sync a folder: the work
goes on without that, and a warning says so once.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None
NOT_HERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOLCK}  # of a file system without it


def read_at(descriptor: int, numbers: memoryview, offset: int) -> bool:
    """Fill some bytes from an open file; False if it ends before."""
    while numbers:
        count = os.preadv(descriptor, [numbers], offset)
        if count == 0:
            return False
        offset, numbers = offset + count, numbers[count:]
    return True


def write_at(descriptor: int, numbers: memoryview, offset: int) -> None:
    """Write some bytes to an open file."""
    while numbers:
        count = os.pwritev(descriptor, [numbers], offset)
        offset, numbers = offset + count, numbers[count:]


@contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to; at the end of the block it replaces `path` in one step. After an error `path` is as it was.

    With `private`, only its user may read it. What a killed process leaves is called `<name>.<random>.tmp`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "x")) as file:
    ...         _ = file.write(b"all of it")
    ...     Path(folder, "x").read_bytes()
    b'all of it'
    """
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def take_lock(file: int | IO[bytes] | IO[str]) -> None:
    """Take the lock of an open file, which closing it gives back; BlockingIOError if another process has it.

    Where the system has no locks, nothing is taken.
    """
    if fcntl is not None:
        _if_it_can(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), NO_LOCK)


def sync(file: int | IO[bytes]) -> None:
    """Wait until what was written to an open file is on disk."""
    _if_it_can(lambda: os.fsync(file), NO_SYNC)


def sync_path(path: Path) -> None:
    """Wait until a file's content, or a folder's list of files, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def reserve(file: int, size: int) -> None:
    """Make an open file as long as that, with its space where the file system can reserve it."""
    os.ftruncate(file, size)
    if hasattr(os, "posix_fallocate"):
        _if_it_can(lambda: os.posix_fallocate(file, 0, size), NO_SPACE)


NO_LOCK = "has no locks: nothing keeps another process from writing the same output"
NO_SYNC = "cannot sync: after a loss of power, an output may lack what was written last"
NO_SPACE = "cannot reserve space: the disk may be full before an output is whole"


def _if_it_can(ask: Callable[[], object], else_said: str) -> None:
    try:
        ask()
    except OSError as error:
        if error.errno not in NOT_HERE:
            raise
        _say_once(else_said)


@cache
def _say_once(what: str) -> None:
    warnings.warn(f"this file system {what}", RuntimeWarning, stacklevel=4)


def check_regular(path: str | os.PathLike[str]) -> None:
    """ValueError if a path is there and is no regular file: a pipe may be waited for for ever, and a device never ends.

    Examples
    --------
    >>> check_regular(os.devnull)
    Traceback (most recent call last):
    ...
    ValueError: /dev/null is no regular file: copy what it has into one
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)} is no regular file: copy what it has into one")
