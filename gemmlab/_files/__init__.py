"""Files that are whole or not there, and locks between processes: what every writer of files here uses.

    replacing(path)     writes a file aside, and gives it its name when all is written
    take_lock(file)     an open file is one process's, until it is closed
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None


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
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
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
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
