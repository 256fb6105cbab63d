"""Records: one JSON object a measurement, with the keys that `docs/records.md` describes.

Everything that draws or judges reads records, so nothing has to be measured twice.

Version 2 of the schema has `rounds` and `interval_percent`. Version 1 had `turns` for `rounds`, and keys that are gone:
`bytes_measured_dram`, `probe_drop_percent`, `steal_percent`. Files of both are read as records of version 2.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import IO, Any, TypeVar

from gemmlab._backend import by_todays_names
from gemmlab._errors import CannotWrite
from gemmlab._files import check_regular, take_lock
from gemmlab._words import quoted
from gemmlab.measure.schema import KEYS, fault

SCHEMA_VERSION = 2
Record = dict[str, Any]  # one measurement, with the keys below
Item = TypeVar("Item")
Group = TypeVar("Group")

# Keys that files of an earlier gemmlab may lack.
_LATER = (
    "kernel_s", "kernel_p20_s", "kernel_p80_s", "build_s", "start_s", "memory", "bytes_model_local",
    "bytes_simulated_l2", "bytes_simulated_l3", "bytes_simulated_dram", "packing_percent", "rounds",
    "interval_percent", "noisy_because", "probe_gflop_per_s", "clock_ghz", "cold", "error_norms",
    "error_componentwise",
)  # fmt: skip


def complete(record: Record, *, run_id: str, device: str, environment: Record) -> Record:
    """Return a whole record: what was measured, what the run adds, and null for the rest.

    `record` has at least its ``kind`` and the keys that apply; `environment` is from `gemmlab.measure.environment`.

    Raises
    ------
    ValueError
        For a kind or a key that `docs/records.md` does not have.
    """
    kind = record.get("kind")
    if kind not in KEYS:
        raise ValueError(f"a record's kind is one of {', '.join(KEYS)}, not {kind!r}")
    if unknown := record.keys() - set(KEYS[kind]):
        raise ValueError(f"not a key of a {kind} record: {', '.join(sorted(unknown))}")
    given = record | {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "environment": environment,
    }
    return {key: given.get(key) for key in KEYS[kind]}


def name_of(record: Record) -> str:
    """The backend, and whether transfers are in its time: with them it is compared with others."""
    return titled(record["backend"], record["transfers_counted"])


def titled(name: str, transfers_counted: bool | None) -> str:
    """A name that says whether transfers are counted."""
    return f"{name} + transfers" if transfers_counted else name


def grouped(items: Iterable[Item], group_of: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """Items by their group, all in the order in which they come.

    Examples
    --------
    >>> grouped(["cpu-mkl", "gpu-mkl", "cpu-blas"], lambda name: name[:3])
    {'cpu': ['cpu-mkl', 'cpu-blas'], 'gpu': ['gpu-mkl']}
    """
    found: dict[Group, list[Item]] = {}
    for item in items:
        found.setdefault(group_of(item), []).append(item)
    return found


class RecordFile:
    """A file of records that is whole, or does not exist.

    Records go to ``PATH.partial`` as they come; `close` gives that file its name, in place of an earlier one, also
    after an interruption. A device or a pipe is written directly. The path is tried at once. Each written record is
    also appended to `kept`. What a killed run has left in ``PATH.partial`` is renamed to ``PATH.killed-1``, or the next
    number that is free, with a warning.

    Raises
    ------
    CannotWrite
        One line with the path and the reason: here, from `write` and from `close`. Also where another process is
        writing the file.

    Examples
    --------
    >>> with RecordFile("/dev/null") as file:
    ...     file.write({"kind": "gemm"})
    """

    def __init__(self, path: str | os.PathLike[str], kept: list[Record] | None = None) -> None:
        self.path = os.fspath(path)
        self.kept = [] if kept is None else kept
        try:
            self._written = self.path if _is_special(self.path) else _partial(self.path)
            self._file = _opened(self._written)
            if self._written != self.path and os.path.getsize(self._written):
                self._file.close()
                _set_aside(self.path, self._written)
                self._file = _opened(self._written)
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            raise self._cannot(error) from None
        try:
            _try_to_write(self._file.fileno())
        except OSError as error:
            self._file.close()
            if self._written != self.path:
                os.unlink(self._written)
            raise self._cannot(error) from None

    def write(self, record: Record) -> None:
        """Append one record; when this returns, the system has it."""
        try:
            self._file.write(self._text(record))
            self._file.flush()
        except OSError as error:
            raise self._cannot(error) from None
        self.kept.append(record)

    def close(self) -> None:
        """Give the file its name; without a record there is no file, and an earlier one stays."""
        if self._file.closed:
            return
        try:
            self._file.close()
            if self._written == self.path:
                return
            if self.kept:
                os.replace(self._written, os.path.realpath(self.path))
            else:
                os.unlink(self._written)
        except OSError as error:
            raise self._cannot(error) from None

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _text(self, record: Record) -> str:
        """What is written for a record."""
        return _line(record)

    def _cannot(self, error: Exception) -> CannotWrite:
        return CannotWrite(f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}")


def write(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write records to a file, one a line; CannotWrite, one line, if that cannot be done."""
    with RecordFile(path) as file:
        for record in records:
            file.write(record)


def read(path: str | os.PathLike[str]) -> list[Record]:
    """Read a file of records.

    Raises
    ------
    ValueError
        One line, ``file:line: what is wrong``, for the first line that is not a whole record.
    OSError
        If the file cannot be read.
    """
    records = []
    check_regular(path)
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    records.append(_parse(line))
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"{os.fspath(path)}:{number}: {error}") from None
    return records


def _parse(line: bytes) -> Record:
    try:
        record: Record = json.loads(line, parse_constant=_refused)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(record, dict):
        raise ValueError("not a record (a JSON object)")
    if (version := record.get("schema_version")) not in (1, SCHEMA_VERSION):
        raise ValueError(f"schema_version is {quoted(version)}; this gemmlab reads 1 and {SCHEMA_VERSION}")
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        raise ValueError(f"kind is {quoted(kind)}, not one of {', '.join(KEYS)}")
    record = _of_today(record, KEYS[kind])
    if missing := [key for key in KEYS[kind] if key not in record]:
        raise ValueError(f"has no {', '.join(missing)}")
    if (wrong := fault(record)) is not None:
        raise ValueError(wrong)
    return record


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _of_today(record: Record, keys: Iterable[str]) -> Record:
    """A record of any version as one of today's, without keys that are not of its kind."""
    earlier = dict.fromkeys(_LATER) | ({"rounds": record.get("turns")} if record["schema_version"] == 1 else {})
    found = earlier | record | {"schema_version": SCHEMA_VERSION}
    if isinstance(params := found.get("params"), dict):
        found["params"] = by_todays_names(params)
    return {key: found[key] for key in keys if key in found}


def _line(record: Record) -> str:
    return json.dumps(_plain(record), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return `value` in JSON's types; NaN and infinity, which JSON lacks, become null, control characters "?"."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):  # a compiler's log may have colours
        return "".join(letter if letter.isprintable() or letter.isspace() else "?" for letter in value)
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_special(path: str) -> bool:
    """Whether the path is a device or a pipe; a directory is left for `open` to refuse."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode)


def _partial(path: str) -> str:
    if not os.path.basename(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    # Through a link to the file itself: the link stays, and the rename stays within one file system.
    return os.path.realpath(path) + ".partial"


def _opened(path: str) -> IO[str]:
    """The file, to append to it, and locked where the system can do that; OSError if another process has it."""
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115, closed by close
    try:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            take_lock(file)
    except BlockingIOError:
        file.close()
        raise OSError(errno.EBUSY, "another run is writing it") from None
    except BaseException:
        file.close()
        raise
    return file


def _set_aside(path: str, partial: str) -> None:
    """Keep what a killed run has left."""
    names = (f"{os.path.realpath(path)}.killed-{number}" for number in count(1))
    name = next(name for name in names if not os.path.exists(name))
    os.replace(partial, name)
    warnings.warn(f"{partial} is of a run that was killed; it is kept as {name}", stacklevel=3)


def _try_to_write(descriptor: int) -> None:
    """Find a full device before anything is measured, leaving nothing behind."""
    os.write(descriptor, b"")
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.write(descriptor, b" " * 4096)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.truncate(descriptor, 0)
