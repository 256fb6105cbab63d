"""What the pytest plugin makes of the products that it timed: records, the ceilings of their machine, and a table.

The plugin imports this file with the first product, or for one of its options; other runs of pytest never do.
"""

from __future__ import annotations

import os
import textwrap
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from gemmlab._api import Call
from gemmlab._backend import FullBackend
from gemmlab._cpu import machine
from gemmlab._name import BackendName
from gemmlab._problem import Array, Problem
from gemmlab._registry import get, names
from gemmlab.analysis.attainable import lowest_limit, share_of_peak
from gemmlab.analysis.groups import devices
from gemmlab.measure.comparison import Pair, beside, compare, problem_key
from gemmlab.measure.comparison_table import nothing_in_common, times
from gemmlab.measure.environment import environment, thread_pools
from gemmlab.measure.noise import summarise
from gemmlab.measure.records import Record, RecordFile, complete, read, titled
from gemmlab.measure.table import ERROR, LEGEND, NOISE, SPEED, THREADS, WIDTH, Column, filled, shown, size, text_table
from gemmlab.roofline.ceilings import cache
from gemmlab.roofline.ceilings.isolated import isolated_ceilings
from gemmlab.roofline.model import LEVELS, PEAK_DTYPES

PEAK_S = 1.0
_PEAK = "thr: threads. peak: share of the multiply-add rate measured on as many."
_ROOF = "roof: share of what the lowest of its roofs allows."


@dataclass(frozen=True)
class Row:
    """A product that was timed: its record, the name of its backend, its shares of the peak and of its roof."""

    record: Record
    name: str
    share_of_peak: float | None
    share_of_roof: float | None

    def extra_info(self) -> Record:
        """What goes to pytest-benchmark's records."""
        keys = ("params", "device", "threads", "transfers_counted", "gflop_per_s", "error_over_bound")
        problem = {key: self.record["problem"][key] for key in ("m", "n", "k", "batch", "dtype")}
        shares = {"share_of_peak": self.share_of_peak, "share_of_roof": self.share_of_roof}
        return {key: self.record[key] for key in keys} | {"problem": problem, **shares, "process": "shared"}


class Products:
    """The products of one run of pytest.

    Parameters
    ----------
    out : str, optional
        File for the records. Tried at once.
    against : str, optional
        What to compare the products with: a file of records, or the name of a backend of the same run.

    Raises
    ------
    CannotWrite, OSError, ValueError
        One line: for a file that cannot be written or read, and for what is neither a file nor a name.
    """

    def __init__(self, out: str | None = None, against: str | None = None) -> None:
        self.rows: list[Row] = []
        self._against = against
        self._old = None if against is None else _records_of(against)
        self._run_id = uuid.uuid4().hex[:12]
        self._environment = environment(pools=[])
        self._ceilings: list[Record] = []
        self._file = None if out is None else RecordFile(out)

    def add(self, name: str, asked: Problem, call: Call, seconds: Sequence[float], calls: int, error: float) -> Row:
        """Add a product; each of its samples, in seconds a call, is of `calls` calls."""
        record = self._completed(_measured(asked, call, seconds, calls, error), call.device)
        self._keep([record])
        self._know_peak(record)
        group = devices([record, *self._ceilings])[0].groups[0]
        where = lowest_limit(group, record)
        self.rows.append(Row(record, name, share_of_peak(group, record), where.share if where else None))
        return self.rows[-1]

    def text(self) -> str:
        """The table, what it is compared with, and where the records are."""
        parts = [self._table()] if self.rows else []
        if self._file is not None:
            path, count = self._file.path, len(self._file.kept)
            drawn = f"records: {path}; gemmlab roofline --from {path} draws them"
            parts.append(drawn if count else f"{path} was not written: no product was timed")
        return "\n\n".join(parts)

    def close(self) -> None:
        """Give the file of records its name."""
        if self._file is not None:
            self._file.close()

    def _completed(self, record: Record, device: str) -> Record:
        facts = {**self._environment, "thread_pools": thread_pools()}
        return complete(record, run_id=self._run_id, device=device, environment=facts)

    def _keep(self, records: Iterable[Record]) -> None:
        if self._file is not None:
            for record in records:
                self._file.write(record)

    def _know_peak(self, record: Record) -> None:
        """Get the cached ceilings, or the multiply-add rate on as many threads as a product of a CPU ran on."""
        if record["threads"] is None or record["problem"]["dtype"] not in PEAK_DTYPES:
            return
        found = [] if self._ceilings else cache.cached(machine.cpu_name(), machine.usable_cpus())
        if not any(ceiling["threads"] == record["threads"] for ceiling in (*self._ceilings, *found)):
            with suppress(RuntimeError):  # a run of tests goes on without a peak
                measured = isolated_ceilings(seconds=PEAK_S, threads=record["threads"], bandwidth=False)
                found += [self._completed(ceiling, record["device"]) for ceiling in measured]
        self._ceilings += found
        self._keep(found)

    def _table(self) -> str:
        """Blocks of the same problem on the same device, the fastest first, with a legend."""
        rows = sorted(self.rows, key=lambda row: (_problem(row.record), row.record["device"], row.record["median_s"]))
        pairs = {id(row): self._pair(row.record) for row in rows}
        devices_seen = {row.record["device"] for row in rows}
        columns = [
            Column("backend", lambda row: row.name, number=False),
            *(Column(own.head, partial(_of_record, own.cell)) for own in (THREADS, SPEED)),
            Column("peak", lambda row: shown("{:.0%}".format, row.share_of_peak)),
            Column("roof", lambda row: shown("{:.0%}".format, row.share_of_roof)),
            *(Column(own.head, partial(_of_record, own.cell)) for own in (NOISE, ERROR)),
            Column("against", lambda row: shown(times, pairs[id(row)])),
        ]
        table = text_table(rows, filled(columns, rows), partial(_block, with_device=len(devices_seen) > 1))
        roof = [_ROOF] * any(row.share_of_roof for row in rows)
        return "\n".join([table, "", _PEAK, *roof, LEGEND, *self._about_against(any(pairs.values()))])

    def _pair(self, record: Record) -> Pair | None:
        """A product and the one that it is compared with; None without."""
        if self._old is not None:
            return next(iter(compare(self._old, [record]).products), None)
        return beside(record, (row.record for row in self.rows if row.record["backend"] == self._against))

    def _about_against(self, any_pair: bool) -> list[str]:
        if self._against is None:
            return []
        if any_pair:
            where = f"in {self._against}" if self._old is not None else f"of {self._against} on the same product"
            text = f"against: how many times the speed {where}, with its interval."
        elif self._old is not None:
            comparison = compare(self._old, [row.record for row in self.rows])
            text = nothing_in_common(comparison, self._against, "this run")
        else:
            text = f"against: no other backend was timed on a product of {self._against}."
        return textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def title(backend: str, params: Iterable[str], call: Call) -> str:
    """A backend as it was named, the one that ran, and the parameters that were given."""
    ran = f" ({call.backend})" if BackendName.of(backend).plain != BackendName.of(call.backend).plain else ""
    return " ".join([f"{backend}{ran}", *(f"{name}={call.params[name]}" for name in params)])


def _records_of(against: str) -> list[Record] | None:
    """The records of a file; None for the name of a backend."""
    if os.path.exists(against):
        return read(against)
    if BackendName.of(against).plain in names():
        return None
    raise ValueError(f"{against} is neither a file of records nor the name of a backend")


def _measured(asked: Problem, call: Call, seconds: Sequence[float], calls: int, error: float) -> Record:
    """What is known of a product, under its names in a record."""
    times_s = summarise(seconds)
    gflop = 2e-9 * asked.m * asked.n * asked.k * asked.batch
    numbers = asked.m * asked.k + asked.k * asked.n + asked.m * asked.n
    backend = get(call.backend)
    on_device = backend.runtime is not None
    problem = {key: getattr(asked, key) for key in ("m", "n", "k", "batch")} | {"dtype": asked.dtype.name}
    layout = "".join(map(_letter, (asked.a, asked.b, asked.out)))
    return times_s | {
        "kind": "gemm",
        "status": "ok",
        "backend": BackendName.of(call.backend).plain,
        "params": dict(call.params),
        "problem": {"suite": "pytest", "label": size(problem), **problem, "layout": layout},
        "threads": None if on_device else call.threads,
        "transfers_counted": True if on_device else None,
        "copies": call.copies,
        "calls_per_sample": calls,
        "gflop": gflop,
        "gflop_per_s": gflop / max(times_s["median_s"], 1e-9),
        "error_over_bound": error,
        "bytes_compulsory": numbers * asked.batch * asked.dtype.itemsize,
        **_traffic(backend, asked, call),
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
        "thread_scope": "pytest's process, shared with the threads of other libraries",
    }


def _traffic(backend: FullBackend, asked: Problem, call: Call) -> Record:
    """Bytes that the backend's model expects to pass from each memory level."""
    moved = backend.traffic(asked, machine.caches(), **call.params)
    return {f"bytes_model_{level.lower()}": moved.get(level.lower()) for level in LEVELS}


def _letter(x: Array) -> str:
    """C for row-major, F for column-major, S for other strides."""
    matrix = x[(0,) * (x.ndim - 2)] if x.size else x
    return "C" if matrix.flags.c_contiguous else "F" if matrix.flags.f_contiguous else "S"


def _problem(record: Record) -> tuple[object, ...]:
    """What makes two products the same, on any backend; the order of the table's blocks."""
    return record["problem"]["dtype"], record["gflop"], problem_key(record)


def _block(row: Row, with_device: bool) -> str:
    problem = row.record["problem"]
    words = [size(problem), problem["dtype"], problem["layout"] * (problem["layout"] != "CCC")]
    text = " ".join(filter(None, words)) + f" on {row.record['device']}" * with_device
    return titled(text, row.record["transfers_counted"])


def _of_record(cell: Callable[[Record], str], row: Row) -> str:
    return cell(row.record)
