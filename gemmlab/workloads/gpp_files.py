"""The inputs of a self-energy from a file: arrays by the names of `Problem`, in .npz or HDF5."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from os import PathLike, fspath
from typing import Any

import numpy as np

from gemmlab._files import check_regular
from gemmlab._words import printable, shortened
from gemmlab.workloads.gpp_problem import Problem

NEEDED = ("aqsm", "aqsn", "eps", "wt", "vcoul", "wx", "nvband")
OPTIONAL = ("indinv", "inv_igp_index")
HDF5_ENDS = (".h5", ".hdf5")


def read_problem(path: str | PathLike[str]) -> Problem:
    """The problem in a file that `numpy.savez` or h5py wrote: an array for each name, `nvband` a number.

    Raises
    ------
    ValueError
        One line that names the file and what is wrong with it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/problem.npz"
    ...     np.savez(path, **vars(Problem.constant(8, 2, 64, 4)))
    ...     read_problem(path).ngpown
    16
    """
    path = fspath(path)
    check_regular(path)
    try:
        with _opened(path) as file:
            missing = [name for name in NEEDED if name not in file]
            if missing:
                raise ValueError(f"has no {', '.join(missing)}; it needs {', '.join(NEEDED)}")
            arrays = {name: np.asarray(file[name][()]) for name in (*NEEDED, *OPTIONAL) if name in file}
        nvband = arrays.pop("nvband")
        if nvband.size != 1 or nvband.dtype.kind not in "iu":
            raise ValueError("nvband is one whole number, the count of occupied bands")
        return Problem(**arrays, nvband=int(nvband.reshape(())))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'not a readable file'}") from None
    except Exception as error:  # a damaged file can raise nearly anything
        raise ValueError(f"{path}: {shortened(printable(str(error)), 160)}") from None


def _opened(path: str) -> AbstractContextManager[Mapping[str, Any]]:
    if not path.endswith(HDF5_ENDS):
        archive: Any = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array; numpy.savez stores several by their names")
        found: AbstractContextManager[Mapping[str, Any]] = archive
        return found
    try:
        import h5py
    except ModuleNotFoundError:
        raise ValueError("an HDF5 file is read by h5py: pip install h5py") from None
    file: AbstractContextManager[Mapping[str, Any]] = h5py.File(path, "r")
    return file
