"""The output: its temporary name, what is refused before the work, and its final name after it.

    C.npy                     there only when it is whole and checked; an earlier file of this name stays until then
    C.npy.gemmlab-part        the output while it is computed
    C.npy.gemmlab-journal     what is done (journal.py)
    C.npy.gemmlab-sums        sums of a tile that is not finished (sums.py)
    C.zarr.gemmlab-old        an earlier folder, for the moment in which the new one takes its place
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmlab._errors import CannotWrite
from gemmlab._files import sync_path
from gemmlab._problem import DType
from gemmlab.product import npy, zarrs
from gemmlab.product.matrices import FORMATS, is_zarr

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Output:
    """The path of an output, and the paths beside it.

    Attributes
    ----------
    path, part, journal, sums, old : Path
        See the head of this module; a symbolic link is followed, so that what it points to is replaced.
    is_zarr : bool

    Raises
    ------
    ValueError
        If the name is of no known format, or if the output would replace an input.
    CannotWrite
        If something else than a matrix has this name.
    """

    def __init__(self, path: Path, *inputs: Path) -> None:
        if path.suffix not in FORMATS:
            raise ValueError(f"the output must end in {' or '.join(FORMATS)}, not be {path}")
        self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.part, self.journal, self.sums, self.old = (
            self.path.with_name(f"{self.path.name}.gemmlab-{name}") for name in ("part", "journal", "sums", "old")
        )
        self.is_zarr = path.suffix == ".zarr"
        for own in (self.path, self.part, self.journal, self.sums, self.old):
            for source in inputs:
                if _touches(own, source):
                    raise ValueError(f"the output would overwrite the input {source}: choose another name")
        self._refuse_what_is_no_matrix()

    def _refuse_what_is_no_matrix(self) -> None:
        if not self.path.parent.is_dir():
            raise CannotWrite(f"there is no folder {self.path.parent}: make it, or choose another name")
        if not os.path.lexists(self.path):
            return
        is_ours = zarrs.is_array(self.path) if self.is_zarr else npy.is_npy(self.path)
        if not is_ours:
            kind = "Zarr array" if self.is_zarr else ".npy file"
            raise CannotWrite(f"{self.path} exists and is no {kind}: choose another name")

    def create(self, shape: tuple[int, int], dtype: DType, chunks: tuple[int, int]) -> None:
        """Make the temporary output, without any number in it. CannotWrite if the disk has too little space."""
        self.discard()
        needed, free = shape[0] * shape[1] * dtype.itemsize, shutil.disk_usage(self.path.parent).free
        if not self.is_zarr and needed > free:  # what Zarr's codec will need cannot be known
            raise CannotWrite(
                f"{self.path} needs {needed / 1e9:.3g} GB and its disk has {free / 1e9:.3g} GB free: make room, or "
                "choose another disk"
            )
        try:
            with full_disk_in_one_line(self.path, "nothing was begun: make room, or choose another disk"):
                if self.is_zarr:
                    zarrs.create(self.part, shape, dtype, chunks)
                else:
                    npy.create(self.part, shape, dtype)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the temporary output."""
        self.sums.unlink(missing_ok=True)
        if self.part.is_dir():
            shutil.rmtree(self.part)
        else:
            self.part.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the output its final name. May be called again where an earlier call was killed."""
        self.sums.unlink(missing_ok=True)
        if not self.is_zarr:
            if self.part.exists():
                os.replace(self.part, self.path)
            sync_path(self.path.parent)
            return
        if self.part.exists():
            zarrs.remove_leftovers(self.part)
            if self.path.exists():
                self._remove_old()
                os.replace(self.path, self.old)
            os.replace(self.part, self.path)
        sync_path(self.path.parent)
        self._remove_old()

    def _remove_old(self) -> None:
        if self.old.exists():
            shutil.rmtree(self.old)


@contextmanager
def full_disk_in_one_line(path: Path, what_to_do: str) -> Iterator[None]:
    """CannotWrite, with what to do, in place of the system's error about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise CannotWrite(f"no space left on the disk of {path}: {what_to_do}") from None


def _touches(own: Path, source: Path) -> bool:
    """Whether two paths are one file or folder, also by another name, or one is inside the other."""
    if own.exists() and source.exists() and os.path.samefile(own, source):
        return True
    own, source, holds_files = Path(os.path.realpath(own)), Path(os.path.realpath(source)), is_zarr(source)
    return own == source or own in source.parents or (holds_files and source in own.parents)
