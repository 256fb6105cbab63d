"""The commands that measure, or show what was measured: report, bench, roofline, study, tune."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab.cli.progress import progress
from gemmlab.cli.selection import ladder_on_cpu, say_left_out, to_measure

if TYPE_CHECKING:
    from gemmlab.campaign import Campaign
    from gemmlab.measure import Case
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
        campaign = CAMPAIGNS[arguments.size](inputs, to_measure(arguments.backends), arguments.threads)
        ladder = [] if arguments.backends or arguments.size == "smallest" else ladder_on_cpu()
        records = []
        page = _measure_and_render(replace(campaign, fresh=arguments.fresh, ladder=ladder), arguments.out, records)
        say_left_out(arguments.backends, ladder)
    print(f"{summary(records)}\n\n{page}")
    return 0


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
    from gemmlab.campaign import Campaign, measure
    from gemmlab.measure import Settings, compare
    from gemmlab.measure.comparison_table import comparison_text, nothing_in_common
    from gemmlab.measure.table import gemm_table
    from gemmlab.roofline import peak_of

    old = _earlier_products(arguments.against) if arguments.against else None
    names = to_measure(arguments.backends)
    settings = Settings(
        params=dict.fromkeys(names, _params(arguments.param, names)), threads=arguments.threads,
        transfers=arguments.transfers, cap_s=arguments.cap, rounds=arguments.rounds, budget_s=arguments.budget,
    )  # fmt: skip
    campaign = Campaign(_cases(arguments), names, settings)
    records: list[Record] = []
    try:
        with progress() as show:
            measure(campaign, arguments.out or os.devnull, show, records)
    finally:
        comparison = None if old is None else compare(old, records)
        if arguments.json:
            with_comparison = None if comparison is None else {"records": records, "against": comparison.to_dict()}
            print(json.dumps(with_comparison or records, indent=1))
        else:
            print(gemm_table(records, peak_of(records)))
            if comparison is not None and comparison.products:
                print(f"\n{comparison_text(comparison, arguments.against, 'this run', ceilings=False)}")
    say_left_out(arguments.backends)
    if comparison is not None and not comparison.products:
        raise ValueError(nothing_in_common(comparison, arguments.against, "this run"))
    return 1 if any(record.get("status") in ("wrong", "failed") for record in records) else 0


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
        return [problems.from_files(*arguments.input)]
    if arguments.sizes:
        return problems.sized(arguments.sizes, arguments.dtype)
    return problems.SUITES[arguments.suite or "squares"](arguments.suite is None, arguments.dtype)


def _params(pairs: Sequence[str], names: Sequence[str]) -> dict[str, int | str]:
    """NAME=VALUE pairs, checked against every backend that will get them."""
    import gemmlab
    from gemmlab._backend import check_params

    params: dict[str, int | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--param takes NAME=VALUE, not {pair!r}")
        params[name] = int(value) if value.lstrip("-").isdigit() else value
    for backend in names if params else ():
        check_params(gemmlab.get_backend(backend), params)
    return params


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
        raise ValueError(nothing_in_common(comparison, old_path, new_path))
    figures = draw_comparison(old, new, (old_path, new_path), arguments.out)
    if arguments.json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        print("\n".join([comparison_text(comparison, old_path, new_path), "", *map(str, figures)]).rstrip())
    return 0


def run_study(arguments: Namespace) -> int:
    """gemmlab study"""
    from gemmlab import studies
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
        print("\n".join([outcome.text, "", *map(str, outcome.files)]))
    return 1 if outcome.failed else 0


def run_tune(arguments: Namespace) -> int:
    """gemmlab tune"""
    from gemmlab import tune
    from gemmlab._profile import path as profile_path

    dtypes = arguments.dtype or tune.DTYPES
    with progress() as show:
        found = tune.tune(arguments.backend, dtypes, rounds=arguments.rounds, edges=arguments.sizes, progress=show)
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return 0
    for one in found:
        print(one)
    print(f"stored in {profile_path()}")
    return 0
