"""Writing a directory of files so that no reader finds a half-written one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmlab._errors import CannotWrite

PAGE = "index.html"


@contextmanager
def written_into(directory: Path) -> Iterator[Path]:
    """Give a temporary directory whose files move into `directory` at the end, the page last.

    After an exception nothing is moved. Other files in `directory` are left alone.

    Raises
    ------
    CannotWrite
        One line with the directory and the reason.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Beside the directory, so that the files are moved within one file system.
        drafts = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            yield drafts
            directory.mkdir(exist_ok=True)
            for path in sorted(drafts.iterdir(), key=lambda path: path.name == PAGE):
                os.replace(path, directory / path.name)
        finally:
            shutil.rmtree(drafts, ignore_errors=True)
    except OSError as error:
        raise CannotWrite(f"cannot write into {directory}: {error.strerror or error}") from None
