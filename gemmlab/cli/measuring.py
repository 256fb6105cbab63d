"""The commands that measure, or show what was measured: report, bench, records, roofline, study."""

from __future__ import annotations

import json
import os
import sys
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab._errors import GemmlabError
from gemmlab.cli.progress import progress
from gemmlab.cli.selection import ladder_on_cpu, say_left_out, that_do, to_measure, wrapped

if TYPE_CHECKING:
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Case
    from gemmlab.measure.comparison import Comparison
    from gemmlab.measure.records import Record


def run_report(arguments: Namespace) -> int:
    """gemmlab report"""
    from gemmlab.analysis.summary import summary
    from gemmlab.measure.records import read
    from gemmlab.report import render, require

    require()
    if arguments.source:
        records = [record for path in arguments.source for record in read(path)]
        page = render(records, arguments.out)
    else:
        from gemmlab.campaign import CAMPAIGNS

        inputs = tuple(arguments.input) if arguments.input else None
        names = to_measure(arguments.backends)
        if arguments.dtype:
            names = _that_do(names, arguments.dtype)
        campaign = CAMPAIGNS[arguments.size](inputs, names, arguments.threads)
        if arguments.dtype:
            campaign = replace(campaign, cases=_in_dtype(campaign.cases, arguments.dtype))
        ladder = [] if arguments.backends or arguments.dtype or arguments.size == "smallest" else ladder_on_cpu()
        records = []
        page = _measure_and_render(replace(campaign, fresh=arguments.fresh, ladder=ladder), arguments.out, records)
        say_left_out(arguments.backends, ladder)
    print(f"{summary(records)}\n\n{page}")
    return 0


def _in_dtype(cases: Sequence[Case], dtype: str) -> list[Case]:
    """The cases in another dtype, each once; the user's matrices as they are."""
    return list(dict.fromkeys(case if case.a_path else replace(case, dtype=dtype) for case in cases))


def _that_do(names: Sequence[str], dtype: str, cold: bool = False) -> list[str]:
    """The backends that can be measured so, after a line on each of the others; ValueError if there is none."""
    found, left_out = that_do(names, dtype, cold)
    for line in left_out:
        print(line, file=sys.stderr)
    if not found:
        raise ValueError(f"no backend is left that multiplies {dtype}{' from cold caches' * cold}")
    return found


def _measure_and_render(campaign: Campaign, directory: Path, records: list[Record]) -> Path:
    """Carry a campaign out into ``directory/records.jsonl`` and `records`, and write the report on it.

    Interrupted, it writes the report on what was measured so far, and raises KeyboardInterrupt again.
    """
    from gemmlab.campaign import make_directory, measure
    from gemmlab.report import render

    make_directory(directory)
    try:
        with progress() as show:
            measure(campaign, directory / "records.jsonl", show, records)
    except KeyboardInterrupt:
        if records:
            render(records, directory)
        raise
    return render(records, directory)


def run_bench(arguments: Namespace) -> int:
    """gemmlab bench"""
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Settings, compare
    from gemmlab.measure.comparison_table import nothing_in_common

    if arguments.fail_if_slower is not None and not arguments.against:
        raise ValueError("--fail-if-slower compares with an earlier run: give its records with --against")
    _check_another_file(arguments.csv, [arguments.out, arguments.against])
    old = _earlier_products(arguments.against) if arguments.against else None
    cases = _cases(arguments)
    names = _that_do(to_measure(arguments.backends), cases[0].dtype, arguments.cold)
    settings = Settings(
        params=dict.fromkeys(names, _params(arguments.param, names)), threads=arguments.threads, cold=arguments.cold,
        transfers=arguments.transfers, cap_s=arguments.cap, rounds=arguments.rounds, budget_s=arguments.budget,
    )  # fmt: skip
    records: list[Record] = []
    try:
        _measure_into(Campaign(cases, names, settings), arguments.out, arguments.csv, records)
    finally:
        comparison = None if old is None else compare(old, records)
        _print_bench(arguments, records, comparison)
    say_left_out(arguments.backends)
    if comparison is not None and not comparison.products:
        raise GemmlabError(nothing_in_common(comparison, arguments.against, "this run"))
    too_slow = _too_slow(comparison, arguments.fail_if_slower) if comparison else False
    return 1 if too_slow or any(record.get("status") in ("wrong", "failed") for record in records) else 0


def _check_another_file(csv_path: str | None, others: Sequence[str | None]) -> None:
    """ValueError if rows would be written over a file of records."""
    if csv_path and os.path.realpath(csv_path) in {os.path.realpath(path) for path in others if path} - {os.devnull}:
        raise ValueError(f"--csv {csv_path} is the file of records: give it another name")


def _measure_into(campaign: Campaign, path: str | None, csv_path: str | None, records: list[Record]) -> None:
    """Carry a campaign out, and write each record to both files, and to `records`."""
    from gemmlab.campaign import carry_out
    from gemmlab.measure import RecordFile
    from gemmlab.measure.flat import CsvFile

    with RecordFile(path or os.devnull, records) as file, CsvFile(csv_path or os.devnull) as rows, progress() as show:

        def keep(record: Record) -> None:
            file.write(record)
            rows.write(record)

        carry_out(campaign, uuid.uuid4().hex[:12], show, keep)


def _print_bench(arguments: Namespace, records: Sequence[Record], comparison: Comparison | None) -> None:
    from gemmlab.measure.comparison_table import comparison_text
    from gemmlab.measure.table import gemm_table
    from gemmlab.roofline import peak_of

    if arguments.json:
        with_comparison = None if comparison is None else {"records": records, "against": comparison.to_dict()}
        print(json.dumps(with_comparison or records, indent=1))
        return
    if records:
        print(gemm_table(records, peak_of(records)))
    if comparison is not None and comparison.products:
        print(f"\n{comparison_text(comparison, arguments.against, 'this run', ceilings=False)}")


def _too_slow(comparison: Comparison, percent: float | None) -> bool:
    """Whether a product is slower by more than `percent`; names those that are, and says how many cannot be judged."""
    from gemmlab.measure.comparison_table import name_of_pair, times

    if percent is None:
        return False
    slower = comparison.slower(percent)
    for pair in slower:
        text = f"slower by more than {percent:g} %: {name_of_pair(pair)}, {times(pair)} times the speed"
        print(wrapped(text), file=sys.stderr)
    if noisy := sum(pair.noisy for pair in comparison.products):
        print(f"{noisy} of {len(comparison.products)} products are noisy, and cannot fail", file=sys.stderr)
    return bool(slower)


def run_records(arguments: Namespace) -> int:
    """gemmlab records"""
    from gemmlab.measure import read
    from gemmlab.measure.flat import CsvFile
    from gemmlab.measure.table import gemm_table
    from gemmlab.roofline import peak_of

    _check_another_file(arguments.csv, arguments.files)
    records = [record for path in arguments.files for record in read(path)]
    if not records:
        raise ValueError(f"{arguments.files[0]} holds no records")
    if arguments.csv:
        with CsvFile(arguments.csv) as rows:
            for record in records:
                rows.write(record)
    if arguments.json:
        print(json.dumps(records, indent=1))
    elif not arguments.csv:
        ceilings = sum(record["kind"] == "ceiling" for record in records)
        table = gemm_table(records, peak_of(records))
        print("\n\n".join(filter(None, [table, f"{len(records) - ceilings} products, {ceilings} ceilings"])))
    return 0


def _earlier_products(path: str) -> list[Record]:
    """The records of an earlier run, which must have timed a product."""
    from gemmlab.measure.comparison import is_good
    from gemmlab.measure.records import read

    records = read(path)
    if not any(record["kind"] == "gemm" and is_good(record) for record in records):
        raise ValueError(f"{path} holds no timed product to compare with: `gemmlab bench --out FILE` writes some")
    return records


def _cases(arguments: Namespace) -> list[Case]:
    """The products that `gemmlab bench` is to measure."""
    from gemmlab.measure import problems

    if len(arguments.input) not in (0, 2):
        raise ValueError(f"give two .npy files, A.npy and B.npy, or none; not {len(arguments.input)}")
    if sum((bool(arguments.input), arguments.sizes is not None, arguments.suite is not None)) > 1:
        raise ValueError("give one of --sizes, --suite and two .npy files")
    if arguments.input:
        if arguments.layout or arguments.dtype:
            raise ValueError("two .npy files have their own layout and dtype: leave out --layout and --dtype")
        return [problems.from_files(*arguments.input)]
    dtype = arguments.dtype or "float32"
    if arguments.sizes:
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


def run_roofline(arguments: Namespace) -> int:
    """gemmlab roofline"""
    from gemmlab.campaign import make_directory, measure, roofline
    from gemmlab.measure.records import read
    from gemmlab.report import draw_rooflines, require

    require()
    if arguments.compare:
        return _compare(arguments)
    records: list[Record] = []
    if arguments.source:
        records = read(arguments.source)
        if not records:
            raise ValueError(f"{arguments.source} holds no records: measure some with gemmlab roofline")
    else:
        campaign = roofline(None, to_measure(arguments.backends), arguments.threads)
        make_directory(arguments.out)
        with progress() as show:
            measure(replace(campaign, fresh=arguments.fresh), arguments.out / "records.jsonl", show, records)
    figures = draw_rooflines(records, arguments.out)
    ceilings = [record for record in records if record["kind"] == "ceiling"]
    print(json.dumps(ceilings, indent=1) if arguments.json else "\n".join(map(str, figures)))
    return 0


def _compare(arguments: Namespace) -> int:
    """gemmlab roofline --compare: two files compared as text, and their products under the newer one's roofs."""
    from gemmlab.measure import compare, read
    from gemmlab.measure.comparison_table import comparison_text, nothing_in_common
    from gemmlab.report import draw_comparison

    old_path, new_path = arguments.compare
    old, new = read(old_path), read(new_path)
    comparison = compare(old, new)
    if not (comparison.products or comparison.ceilings):
        raise GemmlabError(nothing_in_common(comparison, old_path, new_path))
    figures = draw_comparison(old, new, (old_path, new_path), arguments.out)
    if arguments.json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        print("\n".join([comparison_text(comparison, old_path, new_path), "", *map(str, figures)]).rstrip())
    return 0


def run_study(arguments: Namespace) -> int:
    """gemmlab study"""
    from gemmlab import studies
    from gemmlab._words import escaped
    from gemmlab.measure.records import read

    if arguments.name is None:
        listed = studies.listing()
        print(json.dumps(listed, indent=1) if arguments.json else studies.listing_text(listed))
        return 0
    study = studies.named(arguments.name)
    directory = arguments.out or Path(f"study-{study.name}")
    if arguments.source:
        outcome = studies.conclude(study, read(arguments.source), directory)
    else:
        options = studies.Options(
            tuple(arguments.runtime), tuple(arguments.sizes), arguments.quick, arguments.threads, arguments.cap
        )
        with progress() as show:
            outcome = studies.run(study, options, directory, show)
    if arguments.json:
        print(json.dumps(outcome.to_dict(), indent=1))
    else:
        print("\n".join([outcome.text, "", *(escaped(str(path)) for path in outcome.files)]))
    return 1 if outcome.failed else 0
