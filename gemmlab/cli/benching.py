"""`gemmlab bench`: time backends at products, and compare with an earlier run or with a baseline beside them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from gemmlab._errors import GemmlabError
from gemmlab.cli.progress import progress
from gemmlab.cli.selection import measurable, say_left_out, to_measure, wrapped

if TYPE_CHECKING:
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Case
    from gemmlab.measure.comparison import Comparison
    from gemmlab.measure.records import Record

INCONCLUSIVE = 3  # exit status: a product may be slower, or may not
CEILINGS_S = 8.0  # of listed products: they have a roof


def run_bench(arguments: Namespace) -> int:
    """gemmlab bench"""
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Settings, compare

    _take_files_from_names(arguments)
    if arguments.fail_if_slower is not None and not (arguments.against or arguments.paired):
        raise ValueError("--fail-if-slower compares: give an earlier run with --against, or a baseline with --paired")
    if arguments.against and arguments.paired:
        raise ValueError("give one of --against and --paired")
    check_another_file(arguments.csv, [arguments.out, arguments.against])
    old = _earlier_products(arguments.against) if arguments.against else None
    baseline = _Baseline(arguments.paired)
    cases = _cases(arguments)
    names = measurable(to_measure(arguments.backends), [case.dtype for case in cases], arguments.cold)
    settings = Settings(
        params=dict.fromkeys(names, _params(arguments.param, names)), threads=arguments.threads, cold=arguments.cold,
        transfers=arguments.transfers, cap_s=arguments.cap, rounds=arguments.rounds, budget_s=arguments.budget,
        paired_command=baseline.command,
    )  # fmt: skip
    ceilings_s = CEILINGS_S * bool(arguments.cases)
    campaign = Campaign(cases, [*baseline.names(names), *names], settings, ceilings_s)
    records: list[Record] = []
    try:
        _measure_into(campaign, arguments.out, arguments.csv, records)
    finally:
        comparison: Comparison | None = None
        if arguments.paired:
            comparison, records = baseline.compared(records), baseline.without(records)
        elif old is not None:
            comparison = compare(old, records)
        _print_bench(arguments, cases, records, comparison)
    say_left_out(arguments.backends)
    return _status(arguments, records, comparison)


def _status(arguments: Namespace, records: Sequence[Record], comparison: Comparison | None) -> int:
    """The exit status: 1 for what is wrong or slower, 3 for what may be slower."""
    from gemmlab.measure.comparison_table import nothing_in_common

    if comparison is not None and not comparison.products:
        raise GemmlabError(nothing_in_common(comparison, arguments.against or arguments.paired, "this run"))
    slower = _speed_status(comparison, arguments.fail_if_slower) if comparison else 0
    return 1 if any(record.get("status") in ("wrong", "failed") for record in records) else slower


def _speed_status(comparison: Comparison, percent: float | None) -> int:
    """0, or 1 if a product is slower by more than `percent`, or 3 if that is open; a line on each of these products."""
    from gemmlab.measure.comparison_table import bounds, name_of_pair, times

    if percent is None:
        return 0
    slower, is_open = comparison.slower(percent), comparison.inconclusive(percent)
    for pair in slower:
        text = f"slower by more than {percent:g} %: {name_of_pair(pair)}, {times(pair)} times the speed"
        print(wrapped(text), file=sys.stderr)
    for pair in is_open:
        text = f"may be slower by more than {percent:g} %: {name_of_pair(pair)}, {bounds(pair)}"
        print(wrapped(text), file=sys.stderr)
    if is_open and not slower:
        print("inconclusive: measure again, with more --rounds, or when the machine is quiet", file=sys.stderr)
    return 1 if slower else INCONCLUSIVE if is_open else 0


class _Baseline:
    """What `--paired` names: a backend, or another Python, in which a gemmlab is installed."""

    def __init__(self, what: str | None) -> None:
        from gemmlab import _registry
        from gemmlab.measure.isolated.backend import worker_of

        self.backend, self.command = "", None
        if what is None:
            return
        python = shutil.which(what)
        if os.path.isdir(what) or (os.sep in what and python is None):
            raise ValueError(f"--paired {what} is no Python that can be run: give its path, such as old/bin/python")
        if python is not None:
            self.command = worker_of(python)
        else:
            self.backend = _registry.get(what).name

    def names(self, candidates: Sequence[str]) -> list[str]:
        """The baseline, unless it is one of the candidates."""
        return [self.backend] if self.backend and self.backend not in candidates else []

    def without(self, records: Sequence[Record]) -> list[Record]:
        """The records that are not the baseline's alone: those of another Python."""
        return [record for record in records if not _is_paired(record)]

    def compared(self, records: Sequence[Record]) -> Comparison:
        """The products against the baseline's."""
        from gemmlab.measure.comparison import compare, compare_with_backend

        if self.backend:
            return compare_with_backend(records, self.backend)
        return compare(list(filter(_is_paired, records)), self.without(records))


def _is_paired(record: Record) -> bool:
    from gemmlab.measure.session import PAIRED

    return str(record["run_id"]).endswith(PAIRED)


def check_another_file(csv_path: str | None, others: Sequence[str | None]) -> None:
    """ValueError if rows would be written over a file that is read or holds records."""
    if csv_path and os.path.realpath(csv_path) in {os.path.realpath(path) for path in others if path} - {os.devnull}:
        raise ValueError(f"--csv {csv_path} is the file of records: give it another name")


def _measure_into(campaign: Campaign, path: str | None, csv_path: str | None, records: list[Record]) -> None:
    """Carry a campaign out: each record goes to `records`, and to both files if it is of this Python."""
    from gemmlab.campaign import carry_out
    from gemmlab.measure import RecordFile
    from gemmlab.measure.flat import CsvFile

    with RecordFile(path or os.devnull) as file, CsvFile(csv_path or os.devnull) as rows, progress() as show:

        def keep(record: Record) -> None:
            records.append(record)
            if not _is_paired(record):
                file.write(record)
                rows.write(record)

        carry_out(campaign, uuid.uuid4().hex[:12], show, keep)


def _print_bench(
    arguments: Namespace, cases: Sequence[Case], records: Sequence[Record], comparison: Comparison | None
) -> None:
    from gemmlab.analysis.cases import cases_text, of_cases
    from gemmlab.measure.comparison_table import comparison_text
    from gemmlab.measure.table import gemm_table
    from gemmlab.roofline import peak_of

    if arguments.json:
        with_comparison = None if comparison is None else {"records": records, "against": comparison.to_dict()}
        print(json.dumps(with_comparison or records, indent=1))
        return
    if records:
        listed = arguments.cases and cases_text(of_cases(records, cases))
        print(listed or gemm_table(records, peak_of(records)))
    if comparison is not None and comparison.products:
        before = arguments.against or arguments.paired
        print(f"\n{comparison_text(comparison, before, 'this run', ceilings=False)}")


def _earlier_products(path: str) -> list[Record]:
    """The records of an earlier run, which must have timed a product."""
    from gemmlab.measure.comparison import is_good
    from gemmlab.measure.records import read

    records = read(path)
    if not any(record["kind"] == "gemm" and is_good(record) for record in records):
        raise ValueError(f"{path} holds no timed product to compare with: `gemmlab bench --out FILE` writes some")
    return records


def _take_files_from_names(arguments: Namespace) -> None:
    """`--backends cpu-packed cpu-blas A.npy B.npy` ends with two files."""
    names = arguments.backends or []
    files = [name for name in names if name.endswith(".npy")]
    if files:
        arguments.input = [*arguments.input, *files]
        arguments.backends = [name for name in names if name not in files] or None


def _cases(arguments: Namespace) -> list[Case]:
    """The products that `gemmlab bench` is to measure."""
    from gemmlab.measure import problems
    from gemmlab.measure.case_file import read_cases

    if len(arguments.input) not in (0, 2):
        raise ValueError(f"give two .npy files, A.npy and B.npy, or none; not {len(arguments.input)}")
    given = bool(arguments.input), arguments.sizes is not None, arguments.suite is not None, bool(arguments.cases)
    if sum(given) > 1:
        raise ValueError("give one of --sizes, --suite, --cases and two .npy files")
    if arguments.input:
        if arguments.layout or arguments.dtype:
            raise ValueError("two .npy files have their own layout and dtype: leave out --layout and --dtype")
        return [problems.from_files(*arguments.input)]
    dtype = arguments.dtype or "float32"
    if arguments.cases:
        cases = read_cases(arguments.cases, dtype)
    elif arguments.sizes:
        cases = problems.sized([shape for shapes in arguments.sizes for shape in shapes], dtype)
    else:
        cases = problems.SUITES[arguments.suite or "squares"](arguments.suite is None, dtype)
    return [replace(case, layout=arguments.layout or case.layout) for case in cases]


def _params(pairs: Sequence[str], names: Sequence[str]) -> list[dict[str, int | str]]:
    """Every combination of the values in NAME=VALUES pairs, checked against every backend that will get them."""
    import gemmlab
    from gemmlab._backend import check_params

    values: dict[str, list[int | str]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"--param takes NAME=VALUE or NAME=VALUE,VALUE,..., not {pair!r}")
        given = values.setdefault(name, [])
        given += [int(value) if value.lstrip("-").isdigit() else value for value in text.split(",")]
    found = [dict(zip(values, own, strict=True)) for own in product(*(dict.fromkeys(own) for own in values.values()))]
    for backend in names if values else ():
        for params in found:
            check_params(gemmlab.get_backend(backend), params)
    return found
