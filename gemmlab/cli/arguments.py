"""Every command of `gemmlab` with its options, and the checks of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gemmlab._config import MAX_THREADS, check_threads
from gemmlab.cli import inspecting, measuring

EXAMPLES = """examples:
  gemmlab report                 measure this machine, write report/index.html
  gemmlab bench --backends cpu-blocked,cpu-blas --sizes 512,1024
  gemmlab bench A.npy B.npy      your own matrices
  gemmlab verify cpu-mkl         is it right?
"""


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = argparse.ArgumentParser(
        prog="gemmlab",
        description="A laboratory for matrix multiplication.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = subparsers.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    report = command("report", measuring.run_report, "measure this machine and every backend, write a page about it")
    size = report.add_mutually_exclusive_group()
    for plan, text in (
        ("quick", "two minutes on two quiet cores, up to five on noisy ones (the default)"),
        ("full", "to N = 4032, both dtypes, every layer"),
        ("smallest", "seconds: to see that it works, not how fast"),
    ):
        size.add_argument(f"--{plan}", dest="size", action="store_const", const=plan, help=text)
    report.set_defaults(size="quick")
    report.add_argument("--input", nargs=2, metavar=("A.npy", "B.npy"), help="add the product of your own matrices")
    _fresh(report)
    report.add_argument("--out", type=Path, default=Path("report"), help="folder to write (report)")
    report.add_argument("--from", dest="source", nargs="+", metavar="RECORDS",
                        help="draw records again, of several files on one page; measure nothing")  # fmt: skip
    _selection(report)

    _json(command("backends", inspecting.run_backends, "list every backend, with a tiny product on each that can run"))

    bench = command("bench", measuring.run_bench, "time backends, each in a process of its own")
    bench.add_argument("input", nargs="*", metavar="A.npy B.npy", help="two matrices of your own")
    bench.add_argument("--sizes", type=_sizes, help="edges of squares, such as 512,1024")
    bench.add_argument("--suite", choices=("squares", "layers", "shapes"), help="a whole suite (some of squares)")
    bench.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    bench.add_argument("--transfers", choices=("both", "with", "without"), default="both",
                       help="of a device: times with moving operands there and back, without, or both")  # fmt: skip
    bench.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of all of them")
    bench.add_argument("--cap", type=_positive, default=5.0, metavar="SECONDS", help="skip what takes longer (5)")
    bench.add_argument("--rounds", type=_count, default=5, help="turns of each backend at a product, at least (5)")
    bench.add_argument("--budget", type=_positive, default=1.0, metavar="SECONDS", help="timing of each at a product")
    bench.add_argument("--out", metavar="FILE", help="write the records here, one JSON object a line")
    bench.add_argument("--against", metavar="RECORDS", help="compare with the products of an earlier run")
    _selection(bench)
    _json(bench)

    roofline = command("roofline", measuring.run_roofline, "measure this machine's ceilings and draw the roofline")
    of_files = roofline.add_mutually_exclusive_group()
    of_files.add_argument("--from", dest="source", metavar="RECORDS", help="draw records again, measure nothing")
    of_files.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="two files of records beside each other")
    _fresh(roofline)
    roofline.add_argument("--out", type=Path, default=Path("roofline"), help="folder for records and figure (roofline)")
    _selection(roofline)
    _json(roofline)

    study = command("study", measuring.run_study, "run a source document's experiment again, its figures beside ours")
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

    tune = command("tune", measuring.run_tune, "search what is fastest here and keep it for this machine")
    tune.add_argument("backend", nargs="?", default="cpu-packed",
                      help="cpu-packed: its block sizes; auto: which backend it takes (cpu-packed)")  # fmt: skip
    tune.add_argument("--dtype", type=_names, metavar="NAMES", help="with commas (float32,float64)")
    tune.add_argument("--rounds", type=int, default=7, help="turns of each choice (7)")
    tune.add_argument("--sizes", type=_sizes, default=[],
                      help="edges of the squares that decide (384 to 1536; auto: 256 to 4096)")
    _json(tune)

    verify = command("verify", inspecting.run_verify, "audit the correctness of a backend, or of all that can run")
    verify.add_argument("backend", nargs="*", help="a name; none: every available backend")
    verify.add_argument("--seed", type=int, help="repeat an audit")
    verify.add_argument("--thorough", action="store_true", help="more sizes")
    _json(verify)

    cache = command("cache", inspecting.run_cache, "show the compiled GPU programs on disk, or remove them")
    cache.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="(show)")
    _json(cache)

    _json(command("info", inspecting.run_info, "show CPU, caches, instruction sets, devices, libraries and versions"))
    return top


def _selection(made: argparse.ArgumentParser) -> None:
    made.add_argument("--backends", type=_names, metavar="NAMES", help="names, with commas (all that can run)")
    made.add_argument("--threads", type=_threads, help="threads of each product (all CPUs this process may use)")


def _fresh(made: argparse.ArgumentParser) -> None:
    made.add_argument("--fresh", action="store_true", help="measure the ceilings again (else the kept ones)")


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

