"""Settings: read once from the environment, later changed by code, for good or within a `with` block."""

from __future__ import annotations

import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from gemmlab._words import quoted

if TYPE_CHECKING:
    from gemmlab._api import Call
    from gemmlab._backend import Params

MAX_THREADS = 1024
MAX_BYTES = 2**63  # of a memory
NO_CACHE = Path(os.devnull, "gemmlab")  # where no file can be, and nobody else can put one
SETTINGS = ("backend", "block", "cache_dir", "device_memory", "threads")
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{middle}b": base**power
    for middle, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("kmgt", 1)
}


@dataclass(frozen=True)
class Scope:
    """The settings of the enclosing `use` and `trace` blocks."""

    backend: str | None = None
    threads: int | None = None
    params: Params = field(default_factory=dict)
    traces: tuple[list[Call], ...] = ()


# None outside all blocks, so that the common case needs one look-up only.
scope: ContextVar[Scope | None] = ContextVar("gemmlab_scope", default=None)


def check_threads(threads: SupportsIndex | None) -> int | None:
    """Return `threads` if it is None or a valid number of threads; raise ValueError otherwise."""
    if threads is None:
        return None
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"threads must be an integer from 1 to {MAX_THREADS}, or None, not {quoted(threads)}")
    return count


def check_bytes(size: object) -> int | None:
    """A number of bytes, given as an integer or as text such as "2GiB" or "500 MB"; None for None.

    ValueError for anything else.
    """
    if size is None:
        return None
    is_size = (isinstance(size, int) and 0 < size < MAX_BYTES) or isinstance(size, str)
    found = re.fullmatch(r"(\d+\.?\d*) ?([a-z]*)", str(size).strip().lower()) if is_size else None
    if found and not isinstance(size, bool) and found[2] in _UNITS:
        count = float(found[1]) * _UNITS[found[2]]
        if 1 <= count < MAX_BYTES:
            return int(count)
    raise ValueError(f"a size of memory must be a number of bytes, or text such as 500MB or 2GiB, not {quoted(size)}")


class Config:
    """The defaults of this process, as `gemmlab.config`.

    Attributes
    ----------
    backend : str
        The backend if neither the call nor `gemmlab.use` names one. From GEMMLAB_BACKEND; "auto".
    threads : int or None
        Threads per product; None: as many as this process may use. From GEMMLAB_THREADS.
    block : frozenset of str
        Backends that are never loaded. From GEMMLAB_BLOCK, names separated by commas.
    cache_dir : pathlib.Path
        The directory of compiled programs and profiles. From GEMMLAB_CACHE_DIR.
    device_memory : int or None
        Bytes that a product of host arrays may take on a device; a larger one is streamed through it in tiles. May be
        set as text, such as "2GiB". None: as much as the device has free. From GEMMLAB_DEVICE_MEMORY.

    Examples
    --------
    >>> import gemmlab
    >>> gemmlab.config.backend
    'auto'
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._backend = environ.get("GEMMLAB_BACKEND") or "auto"
        self._backend_setting = f"GEMMLAB_BACKEND={self._backend}"
        self._threads = _threads_from(environ.get("GEMMLAB_THREADS", ""))
        self._block = _names(environ.get("GEMMLAB_BLOCK", ""))
        self._isa = environ.get("GEMMLAB_ISA") or None
        self._cache_dir = Path(environ.get("GEMMLAB_CACHE_DIR") or _default_cache(environ))
        self._has_warned = False
        self._device_memory = _bytes_from(environ.get("GEMMLAB_DEVICE_MEMORY", ""))

    if not TYPE_CHECKING:  # type checkers reject unknown names only where they see no __setattr__

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_") and not hasattr(Config, name):
                from difflib import get_close_matches

                from gemmlab._errors import suggestion

                near = get_close_matches(name, SETTINGS, n=1)
                raise AttributeError(f"gemmlab.config has no setting {name!r}: {suggestion(near, SETTINGS)}")
            super().__setattr__(name, value)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` now and after every change. (The compiled way keeps copies of settings.)"""
        self._listeners.append(listener)
        listener()

    def changed(self) -> None:
        """Call all listeners: a setting is another, or a limit that threadpoolctl sets for this library."""
        for listener in self._listeners:
            listener()

    @property
    def backend(self) -> str:
        return self._backend

    @backend.setter
    def backend(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"config.backend must be a backend's name, not {name!r}")
        self._backend, self._backend_setting = name, f"gemmlab.config.backend = {name!r}"
        self.changed()

    @property
    def backend_setting(self) -> str:
        """How `backend` was set, for errors about its value."""
        return self._backend_setting

    @property
    def threads(self) -> int | None:
        return self._threads

    @threads.setter
    def threads(self, threads: int | None) -> None:
        self._threads = check_threads(threads)
        self.changed()

    @property
    def block(self) -> frozenset[str]:
        return self._block

    @block.setter
    def block(self, names: str | Iterable[str]) -> None:
        self._block = _names(names) if isinstance(names, str) else frozenset(names)
        self.changed()

    @property
    def cache_dir(self) -> Path:
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, directory: str | os.PathLike[str]) -> None:
        self._cache_dir = Path(directory)

    def cache_to_write(self) -> Path:
        """`cache_dir`; warns once where nothing can be kept there, since the user has no home."""
        if self._cache_dir == NO_CACHE and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "gemmlab keeps no cache, since there is no home folder: set GEMMLAB_CACHE_DIR to keep one",
                RuntimeWarning, stacklevel=3,
            )  # fmt: skip
        return self._cache_dir

    @property
    def device_memory(self) -> int | None:
        return self._device_memory

    @device_memory.setter
    def device_memory(self, size: int | str | None) -> None:
        self._device_memory = check_bytes(size)

    @property
    def isa(self) -> str | None:
        """GEMMLAB_ISA at import, or None. The compiled modules are chosen by it, so that it cannot be changed."""
        return self._isa

    def __repr__(self) -> str:
        block = ",".join(sorted(self.block)) or None
        return f"<gemmlab.config backend={self.backend!r} threads={self.threads} block={block!r}>"


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _threads_from(text: str) -> int | None:
    try:
        return check_threads(int(text)) if text.strip() else None
    except ValueError:
        raise ValueError(f"GEMMLAB_THREADS must be an integer from 1 to {MAX_THREADS}, not {quoted(text)}") from None


def _bytes_from(text: str) -> int | None:
    try:
        return check_bytes(text.strip() or None)
    except ValueError as error:
        raise ValueError(f"GEMMLAB_DEVICE_MEMORY: {error}") from None


def _default_cache(environ: Mapping[str, str]) -> Path:
    if os.name == "nt":
        folder = environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    else:
        home, folder = environ.get("HOME", os.path.expanduser("~")), environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(folder):  # so says XDG
            folder = os.path.join(home, ".cache") if os.path.isabs(home) and os.path.isdir(home) else "~"
    return NO_CACHE if folder.startswith("~") else Path(folder) / "gemmlab"


config = Config(os.environ)
