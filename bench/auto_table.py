"""Rows of the table of `auto`, from two runs of `gemmlab bench` on one machine.

    python bench/auto_table.py FIRST.jsonl SECOND.jsonl [--write]

Both files have `cpu-packed` and `cpu-numpy` at the same products, such as those of `--suite classes`. For each dtype,
layout and class of shape the table has the speed of `cpu-packed` over that of NumPy in both runs, the geometric mean
over the shapes. A class becomes a row where this is below LIMIT beyond noise in both. It is mixed where `cpu-packed` is
as far ahead at one of its shapes, in both. `--write` stores the rows in gemmlab/data/auto.json, in place of those of
the same classes; the records are then to be in docs/measured/.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeAlias

from gemmlab._auto import CLASSES, shape_class
from gemmlab.measure import read
from gemmlab.measure.comparison import Pair, is_good, problem_key, ratio

LIMIT = 0.95
LEAST_SHAPES = 5  # of a class
ROOT = Path(__file__).parents[1]
TABLE = ROOT / "gemmlab" / "data" / "auto.json"
PLACE = ("processor", "isa", "library", "threads", "dtype", "layout", "shape_class")
Record: TypeAlias = Mapping[str, Any]
Class: TypeAlias = tuple[Any, ...]  # the values of PLACE
Shape: TypeAlias = tuple[Any, ...]


def class_of(record: Record) -> Class:
    """Where a record was measured, and the class of its product; ValueError if it does not say where."""
    facts, problem = record["environment"], record["problem"]
    where = facts.get("processor"), facts.get("isa"), facts.get("numpy_library")
    if None in where:
        raise ValueError("the records do not have their processor and NumPy's library: measure again")
    threads = max(pool["num_threads"] for pool in facts["thread_pools"])  # of the process, not of one small product
    kind = shape_class(problem["m"], problem["n"], problem["k"], problem["batch"])
    return *where, threads, problem["dtype"], problem["layout"], kind


def pairs_of(records: Sequence[Record]) -> dict[Class, dict[Shape, Pair]]:
    """NumPy's time and ours of each product that both multiplied in rows."""
    times: dict[tuple[str, Class, Shape], Record] = {}
    for record in records:
        if record["kind"] == "gemm" and is_good(record) and record["problem"]["layout"].endswith("C"):
            times[record["backend"], class_of(record), problem_key(record)] = record
    found: dict[Class, dict[Shape, Pair]] = {}
    for (backend, kind, shape), record in times.items():
        if backend == "cpu-packed" and (numpys := times.get(("cpu-numpy", kind, shape))) is not None:
            found.setdefault(kind, {})[shape] = ratio(numpys, record)
    return found


def judged(first: Mapping[Shape, Pair], second: Mapping[Shape, Pair]) -> dict[str, Any]:
    """What two runs say of a class."""
    shapes = [shape for shape in first if shape in second]
    runs = [[run[shape] for shape in shapes] for run in (first, second)]
    found: dict[str, Any] = {"shapes": len(shapes)}
    if len(shapes) < LEAST_SHAPES:
        return found | {"verdict": f"not measured: fewer than {LEAST_SHAPES} shapes"}
    found["ratios"] = [round(geometric_mean(pair.ratio for pair in run), 3) for run in runs]
    found["lowest"] = min(pair.ratio for run in runs for pair in run)
    found["highest"] = max(pair.ratio for run in runs for pair in run)
    is_ahead = any(min(run[shape].least for run in (first, second)) > 1 / LIMIT for shape in shapes)
    if all(geometric_mean(pair.most for pair in run) < LIMIT for run in runs):
        return found | {"verdict": "mixed: cpu-packed is ahead at a shape" if is_ahead else "a row"}
    slower = all(mean < LIMIT for mean in found["ratios"])
    return found | {"verdict": "within noise" if slower else "no row"}


def table(first: str, second: str) -> list[dict[str, Any]]:
    """A line for each class that both files have, in the order of CLASSES."""
    runs = [pairs_of(read(path)) for path in (first, second)]
    lines = [dict(zip(PLACE, kind, strict=True)) | judged(own, runs[1][kind])
             for kind, own in runs[0].items() if kind in runs[1]]  # fmt: skip
    return sorted(lines, key=lambda line: (line["threads"], line["dtype"], line["layout"],
                                           CLASSES.index(line["shape_class"])))  # fmt: skip


HEAD = "threads  dtype       layout  class of shape   shapes  run 1  run 2  lowest  highest  verdict"


def text_of(line: Mapping[str, Any]) -> str:
    """A line of the printed table."""
    place = "{threads:7}  {dtype:<10}  {layout:<6}  {shape_class:<15}  {shapes:6}".format(**line)
    speeds = [*line.get("ratios", ()), line.get("lowest"), line.get("highest")]
    numbers = [f"{speed:5.2f}" for speed in speeds if speed is not None] or [""] * 4
    return f"{place}  {'{:5}  {:5}  {:>6}  {:>7}'.format(*numbers)}  {line['verdict']}"


def kept_names(paths: Sequence[str]) -> list[str]:
    """The files' names from the project's root; ValueError if they are not where records are kept."""
    names = []
    for path in map(Path, paths):
        if not path.resolve().is_relative_to(ROOT / "docs" / "measured"):
            raise ValueError(f"{path} is not in docs/measured/: rows name records that are kept")
        names.append(path.resolve().relative_to(ROOT).as_posix())
    return names


def write(lines: Sequence[Mapping[str, Any]], records: Sequence[str]) -> None:
    """Store the rows, in place of those of all classes that were measured."""
    measured = [tuple(line[key] for key in PLACE) for line in lines if "ratios" in line]
    rows = [row for row in json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
            if tuple(row[key] for key in PLACE) not in measured]  # fmt: skip
    rows += [{key: line[key] for key in (*PLACE, "ratios")} | {"records": list(records)}
             for line in lines if line["verdict"] == "a row"]  # fmt: skip
    rows.sort(key=lambda row: [str(row[key]) for key in PLACE])
    text = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    TABLE.write_text(f'{{\n  "rows": [\n{text}{chr(10) * bool(text)}  ]\n}}\n', encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and store its rows if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("records", nargs=2, metavar="FILE", help="records of `gemmlab bench`")
    parser.add_argument("--write", action="store_true", help="store the rows in gemmlab/data/auto.json")
    given = parser.parse_args(arguments)
    try:
        lines = table(*given.records)
        names = kept_names(given.records) if given.write else []
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not lines:
        parser.error("the two files have no product in common that cpu-packed and cpu-numpy multiplied")
    print(HEAD)
    for line in lines:
        print(text_of(line))
    if given.write:
        write(lines, names)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
