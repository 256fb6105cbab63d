"""The tables of the report: records as rows of text, nothing rounded away that the figures show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemmlab.report.groups import (
    OWN_SUITE,
    Group,
    Record,
    is_good,
    on_threads,
    overlap,
    problem_key,
    product_text,
    threads_of,
    threads_text,
)
from gemmlab.report.roofs import by_level, is_above, loop_name, peak, standing
from gemmlab.report.words import DASH, number, percent, seconds, size
from gemmlab.roofline.model import DEFINITIONS, Definition, intensity, model_error, moved_bytes

REFERENCE = "cpu-ikj"


@dataclass(frozen=True)
class Row:
    """Cells of text; `note` takes the place of the cells that are missing; `block` names a block that begins here."""

    cells: tuple[str, ...]
    note: str = ""
    block: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table to place; the first `words` columns hold words, the others numbers."""

    slug: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: int = 1
    note: str = ""


RESULT_COLUMNS = (
    "Backend", "GFLOP/s", "Of peak", f"Over {REFERENCE}", "Median", "p20–p80", "Noise", "Kernel", "Flop per byte",
    "Of its roof", "Error / bound", "Threads", "Copies",
)  # fmt: skip


def results(group: Group) -> list[Table]:
    """One table a suite: every product asked of every backend, the fastest first, and why others have no time."""
    by_suite: dict[str, list[Record]] = {}
    for record in group.products:
        by_suite.setdefault(record["problem"]["suite"], []).append(record)
    suites = sorted(by_suite, key=lambda suite: suite != OWN_SUITE)
    return [_results(group, suite, by_suite[suite]) for suite in suites]


def results_slug(group: Group, suite: str) -> str:
    """The anchor of a table of results."""
    return f"results-{group.slug}-{suite}".replace(" ", "-")


def _results(group: Group, suite: str, records: Iterable[Record]) -> Table:
    blocks: dict[Any, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record["gflop"], record["median_s"] or float("inf"))):
        blocks.setdefault(problem_key(record), []).append(record)
    rows = []
    for block in blocks.values():
        reference = next((record for record in block if record["backend"] == REFERENCE and is_good(record)), None)
        rows += [_result(group, record, reference, product_text(record) * (record is block[0])) for record in block]
    noisy = any(row.mark == "noisy" for row in rows)
    note = "Noisy times (p20 to p80 over 10 % of the median) are in italics." if noisy else ""
    what = "Your matrices" if suite == OWN_SUITE else f"Suite “{suite}”"
    return _filled(Table(results_slug(group, suite), f"{what}, {group.title}", RESULT_COLUMNS, tuple(rows), 1, note))


def _filled(table: Table) -> Table:
    """The table without the columns in which no row has anything; without rows that are whole, all of them stay."""
    whole = [row.cells for row in table.rows if not row.note]
    kept = [i for i in range(len(table.columns)) if not whole or any(cells[i] != DASH for cells in whole)]

    def pick(cells: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(cells[i] for i in kept if i < len(cells))

    rows = tuple(replace(row, cells=pick(row.cells)) for row in table.rows)
    return replace(table, columns=pick(table.columns), rows=rows)


def _result(group: Group, record: Record, reference: Record | None, block: str) -> Row:
    if not is_good(record):
        status = "wrong" if record["status"] == "ok" else record["status"]
        return Row((record["backend"],), f"{status}: {record['reason'] or 'no reason was recorded'}", block, status)
    roof, where = peak(group), standing(group, record)
    cells = (
        record["backend"],
        number(record["gflop_per_s"]),
        percent(record["gflop_per_s"] / roof.gflop_per_s if roof else None),
        _over(record, reference),
        seconds(record["median_s"]),
        _range(seconds(record["p20_s"]), seconds(record["p80_s"])),
        percent(record["noise_percent"] / 100),
        seconds(record["kernel_s"]),
        f"{number(where.intensity)} ({where.level or 'peak'})" if where else DASH,
        percent(where.share) + " (above)" * is_above(group, record) if where else DASH,
        number(record["error_over_bound"]),
        str(record["threads"] or DASH),
        DASH if record["copies"] is None else str(record["copies"]),
    )
    return Row(cells, "", block, "noisy" if record["noisy"] else "")


def _range(low: str, high: str) -> str:
    """Two values with units as a range; a unit that they share stands once."""
    value, unit = low.rsplit(" ", 1)
    return f"{value} – {high}" if high.endswith(f" {unit}") else f"{low} – {high}"


def _over(record: Record, reference: Record | None) -> str:
    if reference is None:
        return DASH
    if record is reference:
        return "1"
    if overlap(record, reference):
        return "no difference"
    return number(reference["median_s"] / record["median_s"])


LEVEL_COLUMNS = (
    "Level", *(f"Flop per byte, {definition}" for definition in DEFINITIONS), "Model against simulation",
    "Roof, GFLOP/s", "Of its roof",
)  # fmt: skip


def levels(group: Group) -> list[Table]:
    """Each backend at the product it is judged by: its bytes by every definition, and its roof, level by level."""
    rows = []
    for backend, (record, found) in by_level(group).items():
        for level in found:
            error = model_error(record, level.name)
            cells = (
                level.name,
                *(_flop_per_byte(record, level.name, definition) for definition in DEFINITIONS),
                DASH if error is None else f"{'+' * (error > 0)}{percent(error)}",
                number(level.attainable) if level.holds else DASH,
                percent(level.share) + " (above)" * level.above if level.holds else DASH,
            )
            rows.append(Row(cells, "", f"{backend}, {product_text(record)}" * (level is found[0])))
    note = (
        "The roof is over the modelled bytes, and where there is no model over the compulsory ones. A level has none "
        "where the operands come from a nearer one."
    )
    table = Table(levels_slug(group), f"Traffic level by level, {group.title}", LEVEL_COLUMNS, tuple(rows), 1, note)
    return [_filled(table)] if rows else []


def levels_slug(group: Group) -> str:
    """The anchor of a table of traffic."""
    return f"levels-{group.slug}"


def _flop_per_byte(record: Record, level: str, definition: Definition) -> str:
    if moved_bytes(record, level, definition) is None:
        return DASH
    return number(intensity(record, level, definition)[0])


def ceilings(records: Sequence[Record]) -> list[Table]:
    """The measured ceilings: multiply-adds by instruction set, bandwidth by level, transfers, and the sweeps."""
    kinds = ("fma", "bandwidth", "transfer", "sweep")
    fma, levels, transfers, sweep = ([r for r in records if r["ceiling"] == kind] for kind in kinds)
    loops = "Instruction set" if any(record["threads"] for record in fma) else "Runtime"
    made = [
        _pivot("ceilings-fma", "Multiply-adds, GFLOP/s", loops, fma, loop_name,
               lambda r: on_threads(r["dtype"], r), "gflop_per_s"),
        _pivot("ceilings-bandwidth", "Bandwidth of each memory level, GB/s", "Level", levels, lambda r: str(r["level"]),
               lambda r: on_threads(r["operation"], r), "gb_per_s"),
        _pivot("ceilings-transfer", "Transfers between host and device, GB/s", "Host memory", transfers,
               lambda r: str(r["memory"]), lambda r: str(r["operation"]), "gb_per_s"),
    ]  # fmt: skip
    for threads in sorted(set(map(threads_of, sweep)), reverse=True):
        made.append(_sweep(threads, [record for record in sweep if threads_of(record) == threads]))
    return [table for table in made if table.rows]


def sweep_slug(threads: int) -> str:
    """The anchor of a bandwidth sweep's table."""
    return f"ceilings-sweep-{threads}t"


def _sweep(threads: int, records: Sequence[Record]) -> Table:
    """Bandwidth over the working set; sizes within a tenth share a row, as each loop rounds to its own multiples."""

    def step(record: Record) -> int:
        return round(7 * math.log2(record["working_set_bytes"]))

    records = sorted(records, key=lambda record: record["working_set_bytes"])
    labels: dict[int, str] = {}
    for record in records:
        labels.setdefault(step(record), size(record["working_set_bytes"]))
    caption = f"{on_threads('Bandwidth over the working set of a thread', records[0])}, GB/s"
    return _pivot(sweep_slug(threads), caption, "Working set", records, lambda r: labels[step(r)],
                  lambda r: str(r["operation"]), "gb_per_s")  # fmt: skip


def _pivot(
    slug: str, caption: str, corner: str, records: Sequence[Record],
    row_of: Callable[[Record], str], column_of: Callable[[Record], str], value: str,
) -> Table:  # fmt: skip
    """Records as a grid; where several fall into one cell, the best, as a ceiling is a lower bound."""
    columns = tuple(dict.fromkeys(map(column_of, records)))
    grid: dict[str, dict[str, float]] = {}
    for record in records:
        line = grid.setdefault(row_of(record), {})
        if record[value] is not None:
            line[column_of(record)] = max(record[value], line.get(column_of(record), 0.0))
    rows = tuple(Row((name, *(number(line.get(column)) for column in columns))) for name, line in grid.items())
    return Table(slug, caption, (corner, *columns), rows)


ENVIRONMENT_WORDS = {
    "cpu": "Processor", "cpus_usable": "CPUs usable", "cpus_machine": "CPUs of the machine",
    "isa": "Instruction set in use", "isa_available": "Instruction sets available", "cache_bytes": "Caches of a core",
    "mhz": "Clock at the start, MHz", "governor": "Frequency governor", "virtual_machine": "Virtual machine",
    "numa_nodes": "NUMA nodes", "huge_pages": "Huge pages", "load_1min": "Load at the start", "os": "System",
    "gemmlab": "gemmlab", "python": "Python", "numpy": "NumPy", "scipy": "SciPy", "compiler": "Compiler",
    "openmp": "OpenMP",
}  # fmt: skip


def environment(records: Sequence[Record]) -> Table:
    """The machine and the software; a value that changed during the run shows as a range or a list."""
    blocks = [record["environment"] for record in records]
    keys = dict.fromkeys([*ENVIRONMENT_WORDS, *(key for block in blocks for key in block)])
    rows = []
    for key in keys:
        if key != "thread_pools":
            text = _values([block.get(key) for block in blocks])
            rows.append(Row((ENVIRONMENT_WORDS.get(key, key), text)))
    return Table("environment", "Machine and software", ("What", "Value"), tuple(rows), 2)


def thread_pools(records: Sequence[Record]) -> Table:
    """Which libraries each backend's process had loaded, as threadpoolctl found them."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record["kind"] == "gemm":
            for pool in record["environment"].get("thread_pools") or ():
                found.setdefault(record["backend"], {})[_pool(pool)] = None
    rows = tuple(Row((backend, "; ".join(pools))) for backend, pools in found.items())
    return Table("thread-pools", "Thread pools in each backend's process", ("Backend", "Libraries"), rows, 2)


def _pool(pool: Mapping[str, Any]) -> str:
    name = pool.get("internal_api") or pool.get("user_api") or "library"
    details = [pool.get("version"), pool.get("architecture"), pool.get("threading_layer")]
    threads = [threads_text(pool["num_threads"])] if pool.get("num_threads") else []
    return ", ".join([str(part) for part in (name, *details) if part] + threads)


def _values(values: Sequence[Any]) -> str:
    seen = [value for i, value in enumerate(values) if value is not None and value not in values[:i]]
    if seen and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in seen):
        low, high = number(min(seen)), number(max(seen))
        return low if low == high else f"{low} to {high}"
    return "; ".join(map(_value, seen)) or "not known"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {size(part) if part is not None else 'not known'}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
