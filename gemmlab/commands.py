"""What each command of `gemmlab` does: call, print, and return the exit status. `cli.py` parses.

Whatever a command needs is imported when it runs, so that `gemmlab --help` costs nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

WIDTH = 80


def run_report(arguments: Any) -> int:
    """gemmlab report"""
    from gemmlab.report import render, require

    require()
    if arguments.source:
        from gemmlab.measure.records import read

        page = render([record for path in arguments.source for record in read(path)], arguments.out)
    else:
        from gemmlab.report import job

        names = _contestants(arguments.backends)
        plan = job.PLANS[arguments.plan](tuple(arguments.input) if arguments.input else None, names, arguments.threads)
        plan = replace(plan, fresh=arguments.fresh)
        with _progress() as progress:
            page = job.make(plan, arguments.out, progress)
        _say_left_out(arguments.backends)
    print(page)
    return 0


def run_backends(arguments: Any) -> int:
    """gemmlab backends"""
    import gemmlab
    from gemmlab.measure.table import Column, text_table

    rows = []
    for info in gemmlab.backends().values():
        works = _tiny_product(info.name) if info.available else ""
        rows.append({**asdict(info), "params": sorted(info.params), "works": works})
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        columns = [
            Column("backend", lambda row: row["name"], number=False),
            Column("kind", lambda row: row["kind"], number=False),
            Column("works", lambda row: row["works"] or "no", number=False),
            Column("what", lambda row: row["summary"], number=False),
        ]
        print(text_table(rows, columns))
        missing: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if not row["available"]:
                missing.setdefault((row["reason"], row["fix"]), []).append(row["name"])
        for (reason, fix), names in missing.items():
            print(_wrapped(f"{', '.join(names)}: {reason}"))
            if fix:
                print(_wrapped(f"    fix: {fix}"))
    return 1 if any(row["works"] not in ("", "yes") for row in rows) else 0


def _wrapped(text: str) -> str:
    """Text in 80 columns; a command to copy stays whole."""
    return fill(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _tiny_product(name: str) -> str:
    import numpy as np

    import gemmlab

    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    try:
        right = np.array_equal(gemmlab.matmul(a, a.T, backend=name), [[5, 14], [14, 50]])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "yes" if right else "wrong product"


def run_bench(arguments: Any) -> int:
    """gemmlab bench"""
    from gemmlab.measure import compare
    from gemmlab.measure.comparison_table import comparison_text, nothing_in_common
    from gemmlab.measure.table import gemm_table
    from gemmlab.report import job
    from gemmlab.roofline import peak_of

    old = _products_of(arguments.against) if arguments.against else None
    names = _contestants(arguments.backends)
    params = dict.fromkeys(names, _params(arguments.param, names))
    plan = job.Plan(
        _cases(arguments), names, arguments.threads, ceilings_s=0, cap_s=arguments.cap,
        rounds=arguments.rounds, budget_s=arguments.budget, params=params, transfers=arguments.transfers,
    )  # fmt: skip
    records: list[dict[str, Any]] = []
    try:
        with _progress() as progress:
            job.measure(plan, arguments.out or os.devnull, progress, records)
    finally:
        comparison = None if old is None else compare(old, records)
        if arguments.json:
            found: Any = records if comparison is None else {"records": records, "against": comparison.to_dict()}
            print(json.dumps(found, indent=1))
        else:
            print(gemm_table(records, peak_of(records)))
            if comparison is not None and comparison.products:
                print(f"\n{comparison_text(comparison, arguments.against, 'this run', ceilings=False)}")
    _say_left_out(arguments.backends)
    if comparison is not None and not comparison.products:
        raise ValueError(nothing_in_common(comparison, arguments.against, "this run"))
    return 1 if any(record.get("status") in ("wrong", "failed") for record in records) else 0


def _products_of(path: str) -> list[dict[str, Any]]:
    """The records of an earlier run, which has to have timed a product."""
    from gemmlab.measure.comparison import is_good
    from gemmlab.measure.records import read

    records = read(path)
    if not any(record["kind"] == "gemm" and is_good(record) for record in records):
        raise ValueError(f"{path} holds no timed product to compare with: `gemmlab bench --out FILE` writes some")
    return records


def _cases(arguments: Any) -> list[Any]:
    """The products that `gemmlab bench` was asked for."""
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


def _params(pairs: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE pairs, checked against every backend that will get them."""
    import gemmlab
    from gemmlab._backend import check_params

    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--param takes NAME=VALUE, not {pair!r}")
        params[name] = int(value) if value.lstrip("-").isdigit() else value
    for backend in names if params else ():
        check_params(gemmlab.get_backend(backend), params)
    return params


def run_roofline(arguments: Any) -> int:
    """gemmlab roofline"""
    from gemmlab.measure.records import read
    from gemmlab.report import draw_rooflines, job, require

    require()
    if arguments.compare:
        return _compare(arguments)
    records: list[dict[str, Any]] = []
    if arguments.source:
        records = read(arguments.source)
        if not records:
            raise ValueError(f"{arguments.source} holds no records: measure some with gemmlab roofline")
    else:
        names = _contestants(arguments.backends)
        job.make_folder(arguments.out)
        plan = replace(job.roofline(None, names, arguments.threads), fresh=arguments.fresh)
        with _progress() as progress:
            job.measure(plan, arguments.out / "records.jsonl", progress, records)
    figures = draw_rooflines(records, arguments.out)
    ceilings = [record for record in records if record["kind"] == "ceiling"]
    print(json.dumps(ceilings, indent=1) if arguments.json else "\n".join(map(str, figures)))
    return 0


def _compare(arguments: Any) -> int:
    """gemmlab roofline --compare: the two files as text, and their products under the newer one's roofs."""
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


def run_study(arguments: Any) -> int:
    """gemmlab study"""
    from gemmlab import studies

    if arguments.name is None:
        listed = studies.listing()
        print(json.dumps(listed, indent=1) if arguments.json else studies.listing_text(listed))
        return 0
    study = studies.named(arguments.name)
    directory = arguments.out or Path(f"study-{study.name}")
    if arguments.source:
        from gemmlab.measure.records import read

        outcome = studies.conclude(study, read(arguments.source), directory)
    else:
        options = studies.Options(
            tuple(arguments.runtime), tuple(arguments.sizes), arguments.quick, arguments.threads, arguments.cap
        )
        with _progress() as progress:
            outcome = studies.run(study, options, directory, progress)
    if arguments.json:
        print(json.dumps(outcome.to_dict(), indent=1))
    else:
        print("\n".join([outcome.text, "", *map(str, outcome.files)]))
    return 1 if outcome.failed else 0


def run_tune(arguments: Any) -> int:
    """gemmlab tune"""
    from gemmlab import tune
    from gemmlab._profile import path as profile_path

    dtypes = arguments.dtype or tune.DTYPES
    with _progress() as progress:
        found = tune.tune(arguments.backend, dtypes, rounds=arguments.rounds, edges=arguments.sizes, progress=progress)
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return 0
    for one in found:
        print(one)
    print(f"kept in {profile_path()}")
    return 0


def run_verify(arguments: Any) -> int:
    """gemmlab verify"""
    from gemmlab.verify import verify

    audits = []
    for name in _ready(arguments.backend):
        with _progress() as progress:
            audits.append(verify(name, seed=arguments.seed, thorough=arguments.thorough, progress=progress))
        if not arguments.json:
            print(audits[-1], end="\n\n")
    if arguments.json:
        print(json.dumps([audit.to_dict() for audit in audits], indent=1))
    return 0 if all(audit.passed for audit in audits) else 1


def run_cache(arguments: Any) -> int:
    """gemmlab cache"""
    from gemmlab._gpu.cache import clear, summary

    programs = clear() if arguments.action == "clear" else summary()
    if arguments.json:
        print(json.dumps(_program_cache(programs), indent=1))
    elif arguments.action == "clear":
        print(f"removed {_kept(programs)} from {programs.folder}")
    else:
        print(f"{_kept(programs)} in {programs.folder}")
    return 0


def _program_cache(programs: Any) -> dict[str, Any]:
    """A summary of the program cache as JSON."""
    return asdict(programs) | {"folder": str(programs.folder), "runtimes": ["opencl", "cuda"]}


def _kept(programs: Any) -> str:
    """A summary of the program cache in words."""
    return f"{programs.programs} program{'s' * (programs.programs != 1)}, {programs.bytes / 2**20:.1f} MiB"


def run_info(arguments: Any) -> int:
    """gemmlab info"""
    from gemmlab._config import config
    from gemmlab._gpu import devices
    from gemmlab._gpu.cache import summary
    from gemmlab.measure.environment import environment, versions

    facts = environment() | {"threads": config.threads, "cache_dir": str(config.cache_dir)} | versions()
    programs = summary()
    found = devices()
    if arguments.json:
        plain = {name: own if isinstance(own, str) else list(map(asdict, own)) for name, own in found.items()}
        print(json.dumps({**facts, "program_cache": _program_cache(programs), "devices": plain}, indent=1))
        return 0
    facts["openmp"] = facts["openmp"] or "none: this build runs on one thread"
    for name, value in facts.items():
        for line in value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]:
            print(f"{name:<20}{_words(line)}")
    print(f"{'program cache':<20}{_kept(programs)} in {programs.folder};")
    print(f"{'':<20}opencl and cuda (sycl programs cannot be kept)")
    for runtime, own in found.items():
        rows = [own] if isinstance(own, str) else [f"{d.index}: {d.label} ({d.kind}), driver {d.driver}" for d in own]
        for row in rows:
            print(fill(f"{runtime + ' device':<20}{row}", WIDTH, subsequent_indent=" " * 20, break_on_hyphens=False))
    return 0


def _words(value: Any) -> str:
    """A value of `gemmlab info` in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def _ready(names: Sequence[str] | None) -> list[str]:
    """Names and families turned into names, none into all that can run; an unknown or unavailable one fails here."""
    from gemmlab import _registry

    return [_registry.get(name).name for name in names or ()] or _registry.available_names()


def _contestants(names: Sequence[str] | None) -> list[str]:
    """As `_ready`, but of what nobody named, a CPU behind a runtime is left out: minutes, for what few ask."""
    left_out = [] if names else _left_out()
    return [name for name in _ready(names) if name not in left_out]


def _left_out() -> list[str]:
    from gemmlab import _registry

    return [name for name in _registry.available_names() if _registry.on_cpu_device(name)]


def _say_left_out(names: Sequence[str] | None) -> None:
    """Name at the end what `_contestants` has left out."""
    if not names and (left_out := _left_out()):
        runtimes = ", ".join(dict.fromkeys(name.partition("-")[0] for name in left_out))
        print(_wrapped(f"not measured: {runtimes} on CPU devices; name them in --backends"), file=sys.stderr)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with the time left on a terminal, and plain lines elsewhere, on standard error."""
    if not (sys.stderr.isatty() and find_spec("tqdm")):
        yield _plain_lines()
        return
    from tqdm import tqdm

    with tqdm(total=1, unit="step", leave=False, dynamic_ncols=True,
              bar_format="{percentage:3.0f}% |{bar}| {elapsed} gone, {remaining} left  {desc}") as bar:  # fmt: skip

        def show(done: int, total: int, doing: str) -> None:
            bar.total = total
            bar.set_description_str(doing[:30], refresh=False)
            bar.update(done - bar.n)

        yield show


def _plain_lines() -> Callable[[int, int, str], None]:
    last = -1

    def show(done: int, total: int, doing: str) -> None:
        nonlocal last
        if (tenth := 10 * done // total) > last:
            last = tenth
            print(f"{10 * tenth} % {doing}", file=sys.stderr, flush=True)

    return show
