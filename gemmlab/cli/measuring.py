"""The commands that measure, or show what was measured: report, records, roofline, study; bench has a separate file."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab._errors import GemmlabError
from gemmlab.cli.benching import check_another_file
from gemmlab.cli.progress import progress
from gemmlab.cli.selection import ladder_on_cpu, measurable, say_left_out, to_measure

if TYPE_CHECKING:
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Case
    from gemmlab.measure.records import Record


def run_report(arguments: Namespace) -> int:
    """gemmlab report"""
    from gemmlab.analysis.cases import of_cases
    from gemmlab.analysis.summary import summary
    from gemmlab.measure.case_file import read_cases
    from gemmlab.measure.records import read
    from gemmlab.report import render, require

    require()
    cases = read_cases(arguments.cases, arguments.dtype or "float32") if arguments.cases else []
    if arguments.source:
        records = [record for path in arguments.source for record in read(path)]
        page = render(of_cases(records, cases) if cases else records, arguments.out)
    else:
        from gemmlab.campaign import CAMPAIGNS

        inputs = tuple(arguments.input) if arguments.input else None
        names = to_measure(arguments.backends)
        campaign = CAMPAIGNS[arguments.size](inputs, names, arguments.threads)
        if cases:
            campaign = replace(campaign, cases=[case for case in campaign.cases if case.a_path] + cases)
        elif arguments.dtype:
            campaign = replace(campaign, cases=_in_dtype(campaign.cases, arguments.dtype))
        if arguments.dtype or cases:
            campaign = replace(campaign, backends=measurable(names, [case.dtype for case in campaign.cases]))
        chosen = arguments.backends or arguments.dtype or cases or arguments.size == "smallest"
        ladder = [] if chosen else ladder_on_cpu()
        records = []
        page = _measure_and_render(replace(campaign, fresh=arguments.fresh, ladder=ladder), arguments.out, records)
        say_left_out(arguments.backends, ladder)
    print(f"{summary(records)}\n\n{page}")
    return 0


def _in_dtype(cases: Sequence[Case], dtype: str) -> list[Case]:
    """The cases in another dtype, each once; the user's matrices as they are."""
    return list(dict.fromkeys(case if case.a_path else replace(case, dtype=dtype) for case in cases))


def _measure_and_render(campaign: Campaign, directory: Path, records: list[Record]) -> Path:
    """Carry a campaign out into ``directory/records.jsonl`` and `records`, and write the report on it.

    Interrupted, it writes the report on what was measured so far, and raises KeyboardInterrupt again.
    """
    from gemmlab.campaign import last, make_directory, measure
    from gemmlab.report import render

    make_directory(directory)
    try:
        with progress() as show:
            measure(campaign, directory / "records.jsonl", show, records)
    except KeyboardInterrupt:
        if records:
            render(_in_order(records, campaign.cases), directory)
        raise
    last.keep(records)
    return render(_in_order(records, campaign.cases), directory)


def _in_order(records: list[Record], cases: Sequence[Case]) -> list[Record]:
    """The records with listed products in the order of their list, after those of a user's matrices."""
    from gemmlab.analysis.cases import of_cases
    from gemmlab.measure.case_file import SUITE

    listed = [case for case in cases if case.suite == SUITE]
    others = [one for one in records if one["kind"] == "gemm" and one["problem"]["suite"] != SUITE]
    return [*others, *of_cases(records, listed)] if listed else records


def run_records(arguments: Namespace) -> int:
    """gemmlab records"""
    from gemmlab.analysis.cases import cases_text, of_cases
    from gemmlab.measure import read
    from gemmlab.measure.case_file import read_cases
    from gemmlab.measure.flat import CsvFile
    from gemmlab.measure.table import gemm_table
    from gemmlab.roofline import peak_of

    check_another_file(arguments.csv, [*arguments.files, arguments.cases])
    records = [record for path in arguments.files for record in read(path)]
    if not records:
        raise ValueError(f"{arguments.files[0]} holds no records")
    if arguments.cases:
        records = of_cases(records, read_cases(arguments.cases))
        if not any(record["kind"] == "gemm" for record in records):
            raise ValueError(f"{arguments.files[0]} has none of the products of {arguments.cases}")
    if arguments.csv:
        with CsvFile(arguments.csv) as rows:
            for record in records:
                rows.write(record)
    if arguments.json:
        print(json.dumps(records, indent=1))
    elif not arguments.csv:
        ceilings = sum(record["kind"] == "ceiling" for record in records)
        table = cases_text(records) if arguments.cases else gemm_table(records, peak_of(records))
        print("\n\n".join(filter(None, [table, f"{len(records) - ceilings} products, {ceilings} ceilings"])))
    return 0


def run_roofline(arguments: Namespace) -> int:
    """gemmlab roofline"""
    from gemmlab.campaign import make_directory, measure, roofline
    from gemmlab.measure.records import read
    from gemmlab.report import draw_rooflines, require
    from gemmlab.roofline.ceilings.table import ceilings_text

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
    if arguments.json:
        print(json.dumps(ceilings, indent=1))
    else:
        print("\n\n".join(filter(None, [ceilings_text(ceilings), "\n".join(map(str, figures))])))
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
