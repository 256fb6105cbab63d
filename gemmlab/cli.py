"""The command line: parse, call, print. Exit status 0 done, 1 a check failed, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

from gemmlab._config import MAX_THREADS, check_threads
from gemmlab._errors import GemmlabError

WIDTH = 80
EXAMPLES = """examples:
  gemmlab report                 measure this machine, write report/index.html
  gemmlab bench --backends cpu-blocked,cpu-blas --sizes 512,1024
  gemmlab bench A.npy B.npy      your own matrices
  gemmlab verify cpu-mkl         is it right?
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (GemmlabError, ValueError, TypeError, OSError) as error:
        print(f"gemmlab: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = argparse.ArgumentParser(
        prog="gemmlab",
        description="A laboratory for matrix multiplication.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Any], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    report = command("report", run_report, "measure this machine and every backend, write a page about it")
    size = report.add_mutually_exclusive_group()
    for plan, text in (
        ("quick", "about two minutes on two cores (the default)"),
        ("full", "to N = 4032, both dtypes, every layer"),
        ("smallest", "seconds: to see that it works, not how fast"),
    ):
        size.add_argument(f"--{plan}", dest="plan", action="store_const", const=plan, help=text)
    report.set_defaults(plan="quick")
    report.add_argument("--input", nargs=2, metavar=("A.npy", "B.npy"), help="add the product of your own matrices")
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write (report)")
    report.add_argument("--from", dest="source", metavar="RECORDS", help="draw records again, measure nothing")
    _selection(report)

    _json(command("backends", run_backends, "list every backend, with a tiny product on each that can run"))

    bench = command("bench", run_bench, "time backends, each in a process of its own")
    bench.add_argument("input", nargs="*", metavar="A.npy B.npy", help="two matrices of your own")
    bench.add_argument("--sizes", type=_sizes, help="edges of squares, such as 512,1024")
    bench.add_argument("--suite", choices=("squares", "layers"), help="a suite of sizes (squares)")
    bench.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    bench.add_argument("--transfers", choices=("both", "with", "without"), default="both",
                       help="of a device: times with moving operands there and back, without, or both")  # fmt: skip
    bench.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of all of them")
    bench.add_argument("--cap", type=_positive, default=5.0, metavar="SECONDS", help="skip what takes longer (5)")
    bench.add_argument("--rounds", type=_count, default=5, help="turns of each backend at a product (5)")
    bench.add_argument("--budget", type=_positive, default=1.0, metavar="SECONDS", help="timing of each at a product")
    bench.add_argument("--out", metavar="FILE", help="write the records here, one JSON object a line")
    _selection(bench)
    _json(bench)

    roofline = command("roofline", run_roofline, "measure this machine's ceilings and draw the roofline")
    roofline.add_argument("--from", dest="source", metavar="RECORDS", help="draw records again, measure nothing")
    roofline.add_argument("--out", type=Path, default=Path("roofline"), help="folder for records and figure (roofline)")
    _selection(roofline)
    _json(roofline)

    study = command("study", run_study, "run a source document's experiment again, its figures beside ours")
    study.add_argument("name", nargs="?", help="a study; none: list them")
    study.add_argument("--quick", action="store_true", help="a short version, for CPU devices and a first look")
    study.add_argument("--sizes", type=_sizes, default=[], help="edges of squares instead of the source's")
    study.add_argument("--runtime", type=_runtimes, default=[], metavar="NAMES",
                       help="opencl, sycl, cuda, with commas, also opencl:1 (all that can run)")  # fmt: skip
    study.add_argument("--threads", type=_threads, help="threads of CPU backends (all CPUs this process may use)")
    study.add_argument("--cap", type=_positive, metavar="SECONDS", help="skip what takes longer (2 to 10)")
    study.add_argument("--from", dest="source", metavar="RECORDS", help="draw and judge records again")
    study.add_argument("--out", type=Path, help="folder for records, figures and text (study-NAME)")
    _json(study)

    verify = command("verify", run_verify, "audit the correctness of a backend, or of all that can run")
    verify.add_argument("backend", nargs="*", help="a name; none: every available backend")
    verify.add_argument("--seed", type=int, help="repeat an audit")
    verify.add_argument("--thorough", action="store_true", help="more sizes")
    _json(verify)

    cache = command("cache", run_cache, "show the compiled GPU programs on disk, or remove them")
    cache.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="(show)")
    _json(cache)

    _json(command("info", run_info, "show CPU, caches, instruction sets, devices, libraries and versions"))
    return top


def _selection(made: argparse.ArgumentParser) -> None:
    made.add_argument("--backends", type=_names, metavar="NAMES", help="names, with commas (all that can run)")
    made.add_argument("--threads", type=_threads, help="threads of each product (all CPUs this process may use)")


def _json(made: argparse.ArgumentParser) -> None:
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise argparse.ArgumentTypeError("must be names of backends with commas, such as cpu-blocked,cpu-blas")
    return names


def _runtimes(text: str) -> list[str]:
    return [] if text == "all" else _names(text)


def _positive(text: str) -> float:
    with suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of seconds over 0, not {text!r}")


def _count(text: str) -> int:
    with suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")


def _threads(text: str) -> int | None:
    try:
        return check_threads(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to {MAX_THREADS}, not {text!r}") from None


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be integers with commas, such as 512,1024, not {text!r}") from None
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError("sizes must be at least 1")
    return sizes


def run_report(arguments: Any) -> int:
    """gemmlab report"""
    from gemmlab.report import render, require

    require()
    if arguments.source:
        from gemmlab.measure.records import read

        page = render(read(arguments.source), arguments.out)
    else:
        from gemmlab.report import job

        names = _contestants(arguments.backends)
        plan = job.PLANS[arguments.plan](tuple(arguments.input) if arguments.input else None, names, arguments.threads)
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
    from gemmlab.measure.table import gemm_table
    from gemmlab.report import job
    from gemmlab.roofline import peak_of

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
        print(json.dumps(records, indent=1) if arguments.json else gemm_table(records, peak_of(records)))
    _say_left_out(arguments.backends)
    return 1 if any(record.get("status") in ("wrong", "failed") for record in records) else 0


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
    return problems.SUITES[arguments.suite or "squares"](True, arguments.dtype)


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
    records: list[dict[str, Any]] = []
    if arguments.source:
        records = read(arguments.source)
        if not records:
            raise ValueError(f"{arguments.source} holds no records: measure some with gemmlab roofline")
    else:
        names = _contestants(arguments.backends)
        job.make_folder(arguments.out)
        plan = job.roofline(None, names, arguments.threads)
        with _progress() as progress:
            job.measure(plan, arguments.out / "records.jsonl", progress, records)
    figures = draw_rooflines(records, arguments.out)
    ceilings = [record for record in records if record["kind"] == "ceiling"]
    print(json.dumps(ceilings, indent=1) if arguments.json else "\n".join(map(str, figures)))
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
    found = {name: rows if isinstance(rows, str) else [asdict(row) for row in rows] for name, rows in devices().items()}
    if arguments.json:
        print(json.dumps({**facts, "program_cache": _program_cache(programs), "devices": found}, indent=1))
        return 0
    facts["openmp"] = facts["openmp"] or "none: this build runs on one thread"
    for name, value in facts.items():
        for line in value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]:
            print(f"{name:<20}{_words(line)}")
    print(f"{'program cache':<20}{_kept(programs)} in {programs.folder};")
    print(f"{'':<20}opencl and cuda (sycl programs cannot be kept)")
    for runtime, rows in found.items():
        for row in [rows] if isinstance(rows, str) else rows:
            what = row if isinstance(row, str) else f"{row['index']}: {row['name']} ({row['kind']}), {row['driver']}"
            print(f"{runtime + ' device':<20}{what}")
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


if __name__ == "__main__":
    sys.exit(main())
