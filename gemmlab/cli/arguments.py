"""Every command of `gemmlab` with its options, and the checks of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gemmlab._config import MAX_THREADS, check_bytes, check_threads
from gemmlab._version import __version__
from gemmlab.cli import benching, inspecting, learning, measuring, new_rung, product, tuning, workloads

EXAMPLES = """examples:
  gemmlab report                 measure this machine, write report/index.html
  gemmlab course                 learn how the kernels work, on your own figures
  gemmlab bench --backends cpu-blocked,cpu-blas --sizes 512,1024
  gemmlab bench A.npy B.npy      your own matrices
  gemmlab verify cpu-mkl         is it right?
  gemmlab product A.npy B.npy --out C.npy          files larger than memory

`gemmlab COMMAND --help` lists a command's options, defaults in parentheses.
"""


class _Joined(argparse.Action):
    """Joins the lists that an option's values are."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: object = None) -> None:
        setattr(namespace, self.dest, [each for value in values for each in value])


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = argparse.ArgumentParser(
        prog="gemmlab",
        description="A laboratory for matrix multiplication.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = subparsers.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    _report(command("report", measuring.run_report, "measure this machine and every backend, write a page about it"))
    _course(command("course", learning.run_course, "open the course: a page for each rung, with your own figures"))
    _asm(command("asm", learning.run_asm, "show the machine code of a rung's inner loop"))
    _json(command("backends", inspecting.run_backends, "list every backend; those that can run compute a tiny product"))
    _bench(command("bench", benching.run_bench, "time backends, each in an isolated process"))
    _roofline(command("roofline", measuring.run_roofline, "measure the limits of this machine and draw its roofline"))
    _study(command("study", measuring.run_study, "repeat an experiment that others reported, and compare figures"))
    _tune(command("tune", tuning.run_tune, "find the fastest block sizes or backends for this machine"))
    _verify(command("verify", inspecting.run_verify, "check that a backend multiplies correctly, or all that can run"))
    _product(command("product", product.run_product, "multiply two large files into a third, resumable, and check it"))
    _gpp(
        command("gpp", workloads.run_gpp, "compute a self-energy of the GPP model, BerkeleyGW's mini-app, and check it")
    )
    _postings(command("postings", workloads.run_postings, "intersect the posting lists of queries, and check it"))
    _records(command("records", measuring.run_records, "show files of records as a table, or write them as CSV"))
    _cache(command("cache", inspecting.run_cache, "show the compiled GPU programs on disk, or remove them"))
    _new_rung(command("new-rung", new_rung.run_new_rung, "write a plugin package in which to write your own rung"))
    _json(command("info", inspecting.run_info, "show CPU, caches, instruction sets, devices, libraries and versions"))
    return top


def _report(report: argparse.ArgumentParser) -> None:
    size = report.add_mutually_exclusive_group()
    for name, text in (
        ("quick", "two minutes at most on two cores (the default)"),
        ("full", "squares to N = 4032 and all layers, both dtypes: tens of minutes"),
        ("smallest", "a few seconds: shows that it works, not how fast it is"),
    ):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=text)
    report.set_defaults(size="quick")
    report.add_argument("--input", nargs=2, metavar=("A.npy", "B.npy"), help="add the product of your own matrices")
    _cases(report, "measure the products of this CSV file (see bench), and give each a verdict")
    _fresh(report)
    _dtype(report)
    report.add_argument("--out", type=Path, default=Path("report"), help="directory to write (report)")
    report.add_argument("--from", dest="source", nargs="+", metavar="RECORDS",
                        help="make the page of these files of records; measure nothing")  # fmt: skip
    _selection(report)


def _course(course: argparse.ArgumentParser) -> None:
    course.add_argument("--out", type=Path, help="write the pages into this directory, and open no browser")
    course.add_argument("--from", dest="source", nargs="+", metavar="RECORDS",
                        help="show these files of records beside those that ship (the last report, else a minute)")


def _asm(asm: argparse.ArgumentParser) -> None:
    asm.add_argument("backend", help="a rung, such as cpu-register or cuda-tuned")
    _dtype(asm)
    asm.add_argument("--isa", help="what need not run here: another build of a CPU rung (v2, v3, v4, neon, plain), or "
                                   "for cuda rungs an architecture such as sm_90 (what is in force here)")  # fmt: skip
    _json(asm)


def _bench(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("input", nargs="*", metavar="A.npy B.npy", help="two of your own matrices")
    bench.add_argument("--sizes", type=_shapes, nargs="+", metavar="SIZES",
                       help="squares and m x n x k, such as 512,1024 512x64x2048; 8*64: eight of them")  # fmt: skip
    bench.add_argument("--suite", choices=("squares", "layers", "shapes", "classes"),
                       help="a suite of products (a few squares)")  # fmt: skip
    _cases(bench, "the products of this CSV file: its header has m, n, k and, if you like, name, batch, dtype, layout")
    bench.add_argument("--layout", type=str.upper, metavar="ABC",
                       help="a letter each for A, B and C: C row-major, F column-major, S strided (CCC)")  # fmt: skip
    _dtype(bench)
    bench.add_argument("--transfers", choices=("both", "with", "without"), default="both",
                       help="for a device: whether times include moving operands (both)")  # fmt: skip
    bench.add_argument("--param", action="append", default=[], metavar="NAME=VALUES",
                       help="a parameter of all backends; of several values, such as 4,16,64, each")  # fmt: skip
    bench.add_argument("--cold", action="store_true", help="empty the CPU's caches before each timed call")
    bench.add_argument("--cap", type=_positive, default=5.0, metavar="SECONDS", help="skip what takes longer (5)")
    bench.add_argument("--rounds", type=_count, default=5, help="rounds of each backend at each product, at least (5)")
    bench.add_argument("--budget", type=_positive, default=1.0, metavar="SECONDS", help="time of each at a product (1)")
    bench.add_argument("--out", metavar="FILE", help="write the records here, one JSON object a line")
    _csv(bench)
    bench.add_argument("--against", metavar="RECORDS", help="compare with the products of an earlier run")
    bench.add_argument("--paired", metavar="WHAT",
                       help="time a baseline in turn, and compare with it: a backend, or another Python with a gemmlab")
    bench.add_argument("--fail-if-slower", type=_percent, metavar="PERCENT",
                       help="with --against or --paired: exit status 1 if a product is slower by more, 3 if it may be")
    _selection(bench)
    _json(bench)


def _roofline(roofline: argparse.ArgumentParser) -> None:
    of_files = roofline.add_mutually_exclusive_group()
    of_files.add_argument("--from", dest="source", metavar="RECORDS", help="draw this file of records; measure nothing")
    of_files.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two files of records")
    _fresh(roofline)
    roofline.add_argument("--out", type=Path, default=Path("roofline"), help="directory for the figures (roofline)")
    _selection(roofline)
    _json(roofline)


def _study(study: argparse.ArgumentParser) -> None:
    study.add_argument("name", nargs="?", help="name of a study; without one, studies are listed")
    study.add_argument("--quick", action="store_true", help="a short version, for a first look")
    study.add_argument("--sizes", type=_sizes, default=[], help="sizes of squares, instead of the source's")
    study.add_argument("--runtime", type=_runtimes, default=[], metavar="NAMES",
                       help="opencl, sycl, cuda, or a device such as opencl:1 (all that can run)")  # fmt: skip
    study.add_argument("--threads", type=_threads, help="threads of CPU backends (all CPUs this process may use)")
    study.add_argument("--cap", type=_positive, metavar="SECONDS", help="skip products that take longer (2 to 10)")
    study.add_argument("--from", dest="source", metavar="RECORDS", help="judge this file of records; measure nothing")
    study.add_argument("--out", type=Path, help="directory for records, figures and text (study-NAME)")
    _json(study)


def _tune(tune: argparse.ArgumentParser) -> None:
    tune.add_argument("backend", nargs="?", default="cpu-packed",
                      help="cpu-packed: its block sizes; auto: which backend it chooses; a rung of the GPU ladder, "
                           "such as opencl-register or cuda-local:1: its parameters on that device (cpu-packed)")
    tune.add_argument("--dtype", type=_names, metavar="NAMES", help="dtypes, separated by commas (float32,float64)")
    tune.add_argument("--sizes", type=_shapes, default=[], metavar="SIZES",
                      help="what is multiplied: squares (384 to 1536; auto: 256 to 4096); on a device also MxNxK, each "
                           "with parameters of its own (1024,4096; on a CPU device 256,1024)")  # fmt: skip
    tune.add_argument("--rounds", type=_count, help="how often a choice is measured at the end; not on a device (7)")
    tune.add_argument("--minutes", type=_positive, help="how long to search; not for auto (5)")
    tune.add_argument("--log", type=Path, metavar="FILE",
                      help="what was tried; an earlier search goes on; not for auto (one in the cache)")  # fmt: skip
    tune.add_argument("--replay", type=Path, metavar="LOG", help="say what a log found; measures nothing")
    _json(tune)


def _verify(verify: argparse.ArgumentParser) -> None:
    verify.add_argument("backend", nargs="*", help="names of backends (all that can run)")
    verify.add_argument("--seed", type=int, help="the seed of an earlier audit, to repeat it")
    verify.add_argument("--thorough", action="store_true", help="more sizes")
    verify.add_argument("--dtype", type=_names, metavar="NAMES", help="dtypes, such as int8,float16 (all it has)")
    verify.add_argument("-v", "--details", action="store_true", help="every check, also of a backend that passed")
    _json(verify)


def _product(product: argparse.ArgumentParser) -> None:
    product.add_argument("a", metavar="A", help="a matrix: a .npy file, or a Zarr array in a folder")
    product.add_argument("b", metavar="B", help="another, with as many rows as A has columns")
    product.add_argument("--out", metavar="C", required=True, help="the product to write, .npy or .zarr")
    product.add_argument("--memory", type=_bytes, metavar="SIZE",
                         help="what tiles may take, such as 2GiB (half of the free memory)")  # fmt: skip
    product.add_argument("--backend", help="who multiplies (auto)")
    product.add_argument("--threads", type=_threads, help="threads (all CPUs this process may use)")
    product.add_argument("--dask", metavar="ADDRESS",
                         help="use a Dask cluster: a scheduler's address, or local for one here")  # fmt: skip
    _json(product)


def _gpp(gpp: argparse.ArgumentParser) -> None:
    gpp.add_argument("sizes", nargs="+", metavar="N",
                     help="bands, occupied bands, columns of eps, nodes a group, such as 512 2 32768 20; or a file of "
                          "the inputs, .npz or .h5")  # fmt: skip
    gpp.add_argument("--form", default="fused", help="fused, factored, npgw and others: see the docs (fused)")
    gpp.add_argument("--backend", help="who multiplies; for a form on a device its runtime, such as opencl:1")
    gpp.add_argument("--inputs", choices=("constant", "away", "near"), default="constant",
                     help="the mini-app's constants; random, poles away from frequencies or near")  # fmt: skip
    gpp.add_argument("--nend", type=_count, default=3, help="number of frequencies (3)")
    gpp.add_argument("--seed", type=int, default=0, help="seed of random inputs (0)")
    gpp.add_argument("--threads", type=_threads, help="threads (all CPUs this process may use)")
    _json(gpp)


def _postings(postings: argparse.ArgumentParser) -> None:
    postings.add_argument("index", metavar="INDEX", help="32-bit little-endian numbers: for each list its length, then "
                          "its numbers in increasing order")  # fmt: skip
    postings.add_argument("queries", metavar="QUERIES", help="text: a line each, with the numbers of its lists")
    postings.add_argument("--method", default="auto", help="auto, merge, svs, adp, skip, bucket or bitmap (auto)")
    postings.add_argument("--backend", default="cpu", help="cpu, or a runtime or device, such as opencl:1 (cpu)")
    postings.add_argument("--threads", type=_threads, help="threads (all CPUs this process may use)")
    postings.add_argument("--out", metavar="FILE", help="write what each query found here, in the format of INDEX")
    _json(postings)


def _cache(cache: argparse.ArgumentParser) -> None:
    cache.add_argument("action", nargs="?", choices=("show", "clear"), default="show", help="what to do (show)")
    _json(cache)


def _new_rung(new: argparse.ArgumentParser) -> None:
    new.add_argument("name", metavar="NAME", help="the rung's name, and the folder to write, such as my-rung")
    new.add_argument("--language", choices=new_rung.LANGUAGES, default="cython",
                     help="cython: for CPUs; opencl: for GPUs, and for CPUs through PoCL (cython)")  # fmt: skip


def _records(records: argparse.ArgumentParser) -> None:
    records.add_argument("files", nargs="+", metavar="FILE", help="files of records")
    _cases(records, "show the products of this CSV file (see bench) alone, in its order, each with a verdict")
    _csv(records)
    _json(records)


def _csv(made: argparse.ArgumentParser) -> None:
    made.add_argument("--csv", metavar="FILE", help="write the records here as CSV, a row each")


def _cases(made: argparse.ArgumentParser, text: str) -> None:
    made.add_argument("--cases", metavar="FILE", help=text)


def _dtype(made: argparse.ArgumentParser) -> None:
    names = "float64, float16, bfloat16, complex64, complex128, int8 to uint64, bool"
    made.add_argument("--dtype", metavar="DTYPE", help=f"{names} (float32)")


def _selection(made: argparse.ArgumentParser) -> None:
    made.add_argument("--backends", type=_names, nargs="+", action=_Joined, metavar="NAMES",
                      help="names, with commas or spaces between them (all that can run)")  # fmt: skip
    made.add_argument("--threads", type=_threads, help="threads of each product (all CPUs this process may use)")


def _fresh(made: argparse.ArgumentParser) -> None:
    made.add_argument("--fresh", action="store_true", help="measure the ceilings, also if they are in the cache")


def _json(made: argparse.ArgumentParser) -> None:
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise argparse.ArgumentTypeError("must be names of backends separated by commas, such as cpu-blocked,cpu-blas")
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


def _bytes(text: str) -> int | None:
    try:
        return check_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _percent(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) < 100:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be per cent, from 0 to below 100, not {text!r}")


def _shapes(text: str) -> list[tuple[int, int, int, int]]:
    """Sizes between commas or spaces, each as (batch, m, n, k)."""
    found = []
    for part in re.split(r"\s*,\s*|\s+", text.strip()):
        numbers = re.fullmatch(r"(?:(\d{1,9})\*)?(\d{1,9})(?:x(\d{1,9})x(\d{1,9}))?", part.lower())
        if numbers is None:
            raise argparse.ArgumentTypeError(
                f"must be sizes of squares or m x n x k without spaces, such as 512 or 512x64x2048, not {part!r}"
            )
        batch, m, n, k = (int(number or 0) for number in numbers.groups())
        found.append((1 if numbers[1] is None else batch, m, *((n, k) if numbers[3] else (m, m))))
    if min(map(min, found)) < 1:
        raise argparse.ArgumentTypeError("sizes must be at least 1")
    return found


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be integers and commas, such as 512,1024, not {text!r}") from None
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError("sizes must be at least 1")
    return sizes
