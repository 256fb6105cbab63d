"""The log of a search: JSON lines, one for each configuration that was tried on a shape.

    {"gemmlab_tune": 1, "backend", "device", "driver", "text_sha256", "names", "defaults", "seed", ...}
    {"seconds", "dtype", "shape", "values", "outcome", ...}

The outcome of an entry is "measured", "slow" (left after its first run), "wrong", or "failed", with a reason; the last
two count for every shape, and have none. `against_defaults` marks the last comparison; `kept` says there whether the
configuration was kept; where it is missing, the faster of the two was. `values` are in the order of the header's
`names`, and so are `defaults`, by dtype where each has its own. A search goes on from its log: what is in it is not
tried again. A last line that a kill has cut is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from gemmlab._backend import by_todays_names
from gemmlab._config import config
from gemmlab._errors import CannotWrite, GemmlabError
from gemmlab._files import check_regular, take_lock
from gemmlab._profile import Cost, cost_of, todays_key
from gemmlab.tune.search.ranking import COSTED, Entry, Fastest, Ranking, Values

VERSION = 1
START = b'{"gemmlab_tune"'
MAX_BYTES = 15 * 2**20  # of a log: more is not written
SAME = ("backend", "device", "driver", "text_sha256", "names")  # what must be the same to go on
Header = Mapping[str, Any]


class CannotGoOn(GemmlabError, ValueError):
    """A log is no log, or one of another search; the message says what to do."""


class Log:
    """A log that is being written; a context manager. It holds a lock, so that no other process writes it.

    Raises
    ------
    CannotGoOn
        The file is of another backend, device, driver or kernel; on a CPU, of other threads or sizes.
    CannotWrite
        It cannot be written, or another process writes it.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        check_regular(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115, closed by close
            take_lock(self._file)
        except BlockingIOError:
            self._file.close()
            raise CannotWrite(f"another search is writing {path}: wait for it, or give another --log") from None
        except OSError as error:
            raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from None
        try:
            self.header, self.entries = self._begun(header)
            self.before_s = self.entries[-1].get("seconds", 0.0) if self.entries else 0.0  # of earlier calls
        except BaseException:
            self.close()
            raise

    def _begun(self, header: Header) -> tuple[Header, list[Entry]]:
        """What the file has, after its last line, if it was cut; the new header in an empty file."""
        self._file.seek(0)
        content = self._file.read()
        if b"\n" not in content:
            if not START.startswith(content[: len(START)]):
                raise CannotGoOn(f"{self.path} is no log of gemmlab tune: give another --log")
            self._file.truncate(0)
            self._write(header)
            return header, []
        old, entries = parsed(content, self.path)
        for name in SAME:
            if old.get(name) != header[name]:
                other = "another kernel" if name in ("text_sha256", "names") else f"{old.get(name)}, not {header[name]}"
                raise CannotGoOn(f"{self.path} is of {other}: give another --log")
        self._file.truncate(content.rindex(b"\n") + 1)
        return old, entries

    @property
    def is_full(self) -> bool:
        """Whether it takes no more entries."""
        return self._file.tell() >= MAX_BYTES

    def append(self, entry: Entry) -> None:
        """Write an entry, as one line."""
        self._write(entry)
        self.entries.append(entry)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file, which frees the lock."""
        self._file.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> tuple[Header, list[Entry]]:
    """The header and the entries of a log. CannotGoOn if the file is none; OSError if it cannot be read."""
    check_regular(path)
    if os.stat(path).st_size > 2 * MAX_BYTES:
        raise CannotGoOn(f"{path} is too large for a log of gemmlab tune")
    return parsed(path.read_bytes(), path)


def parsed(content: bytes, path: Path) -> tuple[Header, list[Entry]]:
    """The header and the entries of a log's content."""
    try:
        lines = [json.loads(line) for line in content[: content.rindex(b"\n") + 1].splitlines()]
        header, entries = lines[0], lines[1:]
        if header["gemmlab_tune"] != VERSION:
            raise CannotGoOn(f"{path} is of another version of gemmlab: give another --log")
        header["names"] = list(by_todays_names(dict.fromkeys(header["names"])))
        header["device"] = todays_key(header.get("device", ""))
        _fastest(header, entries)
    except CannotGoOn:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise CannotGoOn(f"{path} is no log of gemmlab tune, or a damaged one: give another --log") from None
    return header, entries


def rankings_of(header: Header, entries: list[Entry]) -> dict[tuple[str, tuple[int, int, int]], Ranking]:
    """The ranking of each dtype and shape that a log has."""
    pairs = {(entry["dtype"], shape_of(entry)): None for entry in entries if entry["shape"]}
    return {pair: ranking_of(pair, entries) for pair in pairs}


def ranking_of(pair: tuple[str, tuple[int, int, int]], entries: list[Entry]) -> Ranking:
    """The ranking of a dtype and shape; what failed on other shapes failed on this one too."""
    ranking = Ranking(*pair)
    for entry in entries:
        if pair[0] == entry["dtype"] and (not entry["shape"] or shape_of(entry) == pair[1]):
            ranking.add(values_of(entry), entry)
    return ranking


def costs_of(entries: list[Entry]) -> dict[tuple[str, Values], Cost | None]:
    """What configurations cost, by dtype and values; None where times made no sense."""
    costs = (entry for entry in entries if entry["outcome"] == COSTED)
    return {(entry["dtype"], values_of(entry)): cost_of(entry["cost"]) for entry in costs}


def replay(path: Path) -> list[Fastest]:
    """What a log says is the fastest, by dtype and shape; nothing is measured.

    Raises
    ------
    CannotGoOn
        If the file is no log.
    OSError
        If it cannot be read.
    """
    return _fastest(*read(path))


def _fastest(header: Header, entries: list[Entry]) -> list[Fastest]:
    rankings = rankings_of(header, entries).values()
    found = (ranking.fastest(header["names"], defaults_of(header, ranking.dtype)) for ranking in rankings)
    return [one for one in found if one is not None]


def defaults_of(header: Header, dtype: str) -> Values:
    """The values of the defaults for a dtype."""
    given = header["defaults"]
    return tuple(given[dtype] if isinstance(given, Mapping) else given)


def usual_path(header: Header) -> Path:
    """The log in the cache of the searches that can go on from one another."""
    digest = sha256(repr([header[name] for name in SAME]).encode()).hexdigest()[:12]
    return config.cache_to_write() / "tune" / f"{header['backend']}-{digest}.jsonl"


def shape_of(entry: Entry) -> tuple[int, int, int]:
    """The m, n and k of an entry."""
    m, n, k = entry["shape"]
    return int(m), int(n), int(k)


def values_of(entry: Entry) -> Values:
    """The values of an entry's parameters."""
    return tuple(int(value) for value in entry["values"])
