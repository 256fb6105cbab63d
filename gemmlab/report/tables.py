"""The tables of the report, as text: products, traffic by memory level, ceilings, and the machine."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from gemmlab._words import DASH, listed, number, percent, seconds, size
from gemmlab.analysis.attainable import Limit, is_above_roof, isa_label, limits_by_backend, lowest_limit, share_of_peak
from gemmlab.analysis.cases import CaseVerdict, verdicts_of_cases
from gemmlab.analysis.formatting import product_text, threads_text
from gemmlab.analysis.groups import USER_SUITE, Group, threads_of
from gemmlab.measure.comparison import is_good, overlap, problem_key
from gemmlab.measure.records import Record, grouped
from gemmlab.roofline.model import DEFINITIONS, Definition, intensity, model_error, moved_bytes

REFERENCE = "cpu-ikj"


@dataclass(frozen=True)
class TableRow:
    """Cells of text; a `note` stands in for missing cells, and a `heading` begins a block of rows."""

    cells: tuple[str, ...]
    note: str = ""
    heading: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page; the first `text_columns` columns hold text, the others numbers."""

    slug: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    text_columns: int = 1
    note: str = ""


# Products


RESULT_COLUMNS = (
    "Backend", "GFLOP/s", "Of peak", f"Over {REFERENCE}", "Median", "p20–p80", "Noise", "Kernel", "Flop per byte",
    "Of its limit", "Error / bound", "Threads", "Copies",
)  # fmt: skip


def results(group: Group) -> list[Table]:
    """A table for each suite: every product of every backend, the fastest first, or why there is no time."""
    by_suite = grouped(group.products, lambda record: str(record["problem"]["suite"]))
    suites = sorted(by_suite, key=lambda suite: suite != USER_SUITE)
    return [_results(group, suite, by_suite[suite]) for suite in suites]


CASE_COLUMNS = ("Fastest", "GFLOP/s", "Of peak", "Of its limit", "Limited by", "Best", "Median", "Noise")


def cases(records: Sequence[Record]) -> Table:
    """The products that somebody listed, in their order: what is fastest at each, and how far it is from the limits."""
    rows = [_case(judged) for judged in verdicts_of_cases(records)]
    note = "Best is the shortest sample. Several names: no difference seen. The figures are those of the first."
    return Table("cases", "The products you listed", CASE_COLUMNS, tuple(rows), note=note)


def _case(judged: CaseVerdict) -> TableRow:
    heading = f"{judged.name}: {judged.problem}"
    if not judged.rows:
        return TableRow((DASH,), judged.text, heading, "skipped")
    best = judged.rows[0]
    record, limit = best.record, best.limit
    cells = (
        listed(judged.winners),
        number(record["gflop_per_s"]),
        percent(best.share_of_peak),
        percent(best.share_of_roof),
        limit.name if limit else DASH,
        seconds(record["min_s"]),
        seconds(record["median_s"]),
        percent(record["noise_percent"] / 100),
    )
    return TableRow(cells, heading=heading, mark="noisy" if record["noisy"] else "")


def results_slug(group: Group, suite: str) -> str:
    """The anchor of a table of products."""
    return f"results-{group.slug}-{suite}".replace(" ", "-")


def _results(group: Group, suite: str, records: Iterable[Record]) -> Table:
    fastest_first = sorted(records, key=lambda record: (record["gflop"], record["median_s"] or float("inf")))
    rows = []
    for same in grouped(fastest_first, problem_key).values():
        reference = next((record for record in same if record["backend"] == REFERENCE and is_good(record)), None)
        rows += [_result(group, record, reference) for record in same]
        rows[-len(same)] = replace(rows[-len(same)], heading=product_text(same[0]))
    note = "Times in italics are noisy; the point in a figure says why." if any(r.mark == "noisy" for r in rows) else ""
    title = "Your matrices" if suite == USER_SUITE else f"Suite “{suite}”"
    table = Table(results_slug(group, suite), f"{title}, {group.title}", RESULT_COLUMNS, tuple(rows), note=note)
    return _without_empty_columns(table)


def _result(group: Group, record: Record, reference: Record | None) -> TableRow:
    if not is_good(record):
        status = "wrong" if record["status"] == "ok" else record["status"]
        return TableRow((record["backend"],), f"{status}: {record['reason'] or 'no reason was recorded'}", mark=status)
    limit = lowest_limit(group, record)
    cells = (
        record["backend"],
        number(record["gflop_per_s"]),
        percent(share_of_peak(group, record)),
        _speed_up(record, reference),
        seconds(record["median_s"]),
        f"{seconds(record['p20_s'])} – {seconds(record['p80_s'])}",
        percent(record["noise_percent"] / 100),
        seconds(record["kernel_s"]),
        f"{number(limit.intensity)} ({limit.level if limit.is_memory else 'peak'})" if limit else DASH,
        _share(limit, is_above_roof(group, record)) if limit else DASH,
        number(record["error_over_bound"]),
        str(record["threads"] or DASH),
        DASH if record["copies"] is None else str(record["copies"]),
    )
    return TableRow(cells, mark="noisy" if record["noisy"] else "")


def _speed_up(record: Record, reference: Record | None) -> str:
    if reference is None:
        return DASH
    if record is not reference and overlap(record, reference):
        return "no difference"
    return number(reference["median_s"] / record["median_s"])


def _share(limit: Limit, is_above: bool) -> str:
    return percent(limit.share) + " (above)" * is_above


def _without_empty_columns(table: Table) -> Table:
    """The table without columns of dashes; without any whole row, all columns stay."""
    whole = [row.cells for row in table.rows if not row.note]
    kept = [i for i in range(len(table.columns)) if not whole or any(cells[i] != DASH for cells in whole)]

    def pick(cells: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cells[i] for i in kept if i < len(cells))

    rows = tuple(replace(row, cells=pick(row.cells)) for row in table.rows)
    return replace(table, columns=pick(table.columns), rows=rows)


# Traffic by memory level


LEVEL_COLUMNS = (
    "Level", *(f"Flop per byte, {definition}" for definition in DEFINITIONS), "Model against simulation",
    "Limit, GFLOP/s", "Of its limit",
)  # fmt: skip


def levels(group: Group) -> list[Table]:
    """Each backend at the product it is judged by: intensity by every definition, and its limit, level by level."""
    rows = []
    for backend, (record, found) in limits_by_backend(group).items():
        for limit in found:
            error = model_error(record, limit.level)
            cells = (
                limit.level,
                *(_intensity(record, limit.level, definition) for definition in DEFINITIONS),
                DASH if error is None else f"{'+' * (error > 0)}{percent(error)}",
                number(limit.attainable) if limit.holds else DASH,
                _share(limit, limit.is_exceeded) if limit.holds else DASH,
            )
            rows.append(TableRow(cells, heading=f"{backend}, {product_text(record)}" * (limit is found[0])))
    note = (
        "The limit is worked out from the modelled bytes, and without a model from the compulsory ones. There is none "
        "for levels behind the cache that the operands come from."
    )
    caption = f"Traffic level by level, {group.title}"
    table = Table(levels_slug(group), caption, LEVEL_COLUMNS, tuple(rows), note=note)
    return [_without_empty_columns(table)] if rows else []


def levels_slug(group: Group) -> str:
    """The anchor of a table of traffic."""
    return f"levels-{group.slug}"


def _intensity(record: Record, level: str, definition: Definition) -> str:
    known = moved_bytes(record, level, definition) is not None
    return number(intensity(record, level, definition)[0]) if known else DASH


# Ceilings


def ceilings(records: Sequence[Record]) -> list[Table]:
    """The measured ceilings: multiply-adds by instruction set, bandwidth by level, transfers, and the sweeps."""
    of = defaultdict(list, grouped(records, itemgetter("ceiling")))
    isa = "Instruction set" if any(record["threads"] for record in of["fma"]) else "Runtime"
    tables = [
        _grid(Table("ceilings-fma", "Multiply-adds, GFLOP/s", (isa,), ()), of["fma"],
              isa_label, lambda r: with_threads(r["dtype"], r)),
        _grid(Table("ceilings-bandwidth", "Bandwidth of each memory level, GB/s", ("Level",), ()), of["bandwidth"],
              itemgetter("level"), lambda r: with_threads(r["operation"], r)),
        _grid(Table("ceilings-transfer", "Transfers between host and device, GB/s", ("Host memory",), ()),
              of["transfer"], itemgetter("memory"), itemgetter("operation")),
    ]  # fmt: skip
    for threads, sweep in sorted(grouped(of["sweep"], threads_of).items(), reverse=True):
        tables.append(_sweep(threads, sweep))
    return [table for table in tables if table.rows]


def sweep_slug(threads: int) -> str:
    """The anchor of the table of a bandwidth sweep."""
    return f"ceilings-sweep-{threads}t"


def with_threads(text: str, record: Record) -> str:
    """A text with the threads that a record's work ran on; unchanged for a device."""
    return f"{text}, {threads_text(threads_of(record))}" if record["threads"] else text


def _sweep(threads: int, records: Sequence[Record]) -> Table:
    """Bandwidth over the working set; sizes within a tenth share a row, as each loop rounds them differently."""

    def step(record: Record) -> int:
        return round(7 * math.log2(record["working_set_bytes"]))

    records = sorted(records, key=lambda record: float(record["working_set_bytes"]))
    labels = {at: size(own[0]["working_set_bytes"]) for at, own in grouped(records, step).items()}
    caption = f"{with_threads('Bandwidth over the working set of a thread', records[0])}, GB/s"
    empty = Table(sweep_slug(threads), caption, ("Working set",), ())
    return _grid(empty, records, lambda r: labels[step(r)], itemgetter("operation"))


def _grid(
    empty: Table, records: Sequence[Record], row_of: Callable[[Record], str], column_of: Callable[[Record], str]
) -> Table:
    """The table with records in a grid; the best of several in one cell, as a ceiling is a lower bound."""
    columns = tuple(dict.fromkeys(map(column_of, records)))
    grid: dict[str, dict[str, float]] = {}
    for record in records:
        line = grid.setdefault(row_of(record), {})
        if rate := record["gflop_per_s"] or record["gb_per_s"]:
            line[column_of(record)] = max(rate, line.get(column_of(record), 0.0))
    rows = tuple(TableRow((name, *(number(line.get(column)) for column in columns))) for name, line in grid.items())
    return replace(empty, columns=(*empty.columns, *columns), rows=rows)


# The machine


ENVIRONMENT_LABELS = {
    "cpu": "Processor", "cpus_usable": "CPUs usable", "cpus_machine": "CPUs of the machine",
    "isa": "Instruction set in use", "isa_available": "Instruction sets available", "cache_bytes": "Caches of a core",
    "mhz": "Clock at the start, MHz", "governor": "Frequency governor", "virtual_machine": "Virtual machine",
    "numa_nodes": "NUMA nodes", "huge_pages": "Huge pages", "load_1min": "Load at the start", "os": "System",
    "gemmlab": "gemmlab", "python": "Python", "numpy": "NumPy", "scipy": "SciPy", "compiler": "Compiler",
    "openmp": "OpenMP",
}  # fmt: skip


def environment(records: Sequence[Record]) -> Table:
    """The machine and the software; a value that changed during the run is a range or a list."""
    found = [record["environment"] for record in records]
    keys = dict.fromkeys([*ENVIRONMENT_LABELS, *(key for facts in found for key in facts if key != "thread_pools")])
    cells = [(ENVIRONMENT_LABELS.get(key, key), _values([facts.get(key) for facts in found])) for key in keys]
    return Table("environment", "Machine and software", ("What", "Value"), tuple(map(TableRow, cells)), 2)


def thread_pools(records: Sequence[Record]) -> Table:
    """The libraries that each backend's process had loaded, as threadpoolctl found them."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record["kind"] == "gemm":
            for pool in record["environment"].get("thread_pools") or ():
                found.setdefault(record["backend"], {})[_pool(pool)] = None
    rows = tuple(TableRow((backend, "; ".join(pools))) for backend, pools in found.items())
    return Table("thread-pools", "Thread pools in each backend's process", ("Backend", "Libraries"), rows, 2)


def _pool(pool: Mapping[str, Any]) -> str:
    name = pool.get("internal_api") or pool.get("user_api") or "library"
    threads = threads_text(pool["num_threads"]) if pool.get("num_threads") else None
    parts = name, pool.get("version"), pool.get("architecture"), pool.get("threading_layer"), threads
    return ", ".join(str(part) for part in parts if part)


def _values(values: Iterable[object]) -> str:
    seen = list(dict.fromkeys(_value(value) for value in values if value is not None))
    return "; ".join(seen) or "not known"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {size(part) if part is not None else 'not known'}" for key, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
