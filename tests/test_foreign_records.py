"""Records from elsewhere: every command that reads them ends with a page, or with one line that says what is wrong."""

from __future__ import annotations

import copy
import json
import os
import warnings
from importlib.util import find_spec
from pathlib import Path

import made_up_records as made
import pytest
from randomness import RNG
from sweeps import swept

from gemmlab.cli import main
from gemmlab.measure import read, write

DRAWN = pytest.mark.skipif(not (find_spec("matplotlib") and find_spec("jinja2")), reason="needs matplotlib and jinja2")
DELETED = object()
VALUES = [
    DELETED, None, True, 7, 1.5, -1, 0, 1e-11, 1e15, 10**30, 10**400, float("nan"), float("inf"), [1], {"x": 1}, "",
    "a$b$\\frac{", "<b>\"'&amp;", "{} %s \\", "a\nb", "a\x1b[31m", "x" * 900, "x" * 2000, "../../x",
]  # fmt: skip
READERS = (
    ["report", "--from", "new.jsonl", "--out", "page"],
    ["roofline", "--from", "new.jsonl", "--out", "figures"],
    ["roofline", "--compare", "old.jsonl", "new.jsonl", "--out", "figures"],
)


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A few records of a CPU and of a GPU, also in the file old.jsonl of the working directory."""
    monkeypatch.chdir(tmp_path)
    few = made.ladder([64, 256], without=["cpu-naive", "cpu-blocked", "cpu-numpy", "cpu-blas", "cpu-mkl"])
    gpu = made.gpu([64])
    write(
        "old.jsonl", [*few, made.not_run("cpu-blis", "skipped", "not here"), *made.ceilings()[::4], *gpu[:2], gpu[-1]]
    )
    return read("old.jsonl")


def mutations(records):
    """Every key of one record of each sort, also those of objects inside, with every value: (line, keys, value)."""

    def places(holder, above=()):
        for key, value in holder.items():
            yield (*above, key)
            if isinstance(value, dict):
                yield from places(value, (*above, key))

    sorts = {(record["kind"], record["threads"], record.get("status"), record.get("ceiling")): line
             for line, record in enumerate(records)}  # fmt: skip
    return [(line, keys, value) for line in sorts.values() for keys in places(records[line]) for value in VALUES]


def mutated(record, keys, value):
    """A copy of a record with another value at one place."""
    changed = holder = copy.deepcopy(record)
    for key in keys[:-1]:
        holder = holder[key]
    if value is DELETED:
        del holder[keys[-1]]
    else:
        holder[keys[-1]] = value
    return changed


def write_mutated(records, line, keys, value):
    changed = [*records[:line], mutated(records[line], keys, value), *records[line + 1 :]]
    Path("new.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in changed))


def refusal(path):
    """Why a file is not read; empty if it is."""
    try:
        read(path)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("share", swept([0.2, 1]))
def test_what_is_wrong_with_a_record_is_one_line_with_its_place(whole, share):
    found = mutations(whole)
    chosen = RNG.permutation(len(found))[: int(share * len(found))]
    refused = 0
    for line, keys, value in (found[at] for at in chosen):
        Path("new.jsonl").write_text("\n" * line + json.dumps(mutated(whole[line], keys, value)))
        if says := refusal("new.jsonl"):
            refused += 1
            assert says.startswith(f"new.jsonl:{line + 1}: ")
            assert says.isprintable()
    assert refused > len(chosen) / 2


@DRAWN
@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [8])
def test_every_reader_draws_what_it_does_not_refuse(whole, capsys, count):
    found = mutations(whole)
    for at in RNG.permutation(len(found)):
        line, keys, value = found[at]
        write_mutated(whole, line, keys, value)
        if refusal("new.jsonl"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a font without a letter
            for reader in READERS:
                assert main(reader) == 0, (reader, line, keys, value, capsys.readouterr().err)
        count -= 1
        if not count:
            break


@pytest.mark.exhaustive
@DRAWN
@pytest.mark.parametrize("name", ["$x_1$ and $\\nope{$", "<b>\"'&amp;</b>", "{} %s \\ _x"])
def test_names_are_shown_as_they_are(whole, capsys, name):
    for record in whole:
        record["device"] = record["environment"]["cpu"] = record["environment"]["isa"] = name
        record |= {"isa": name, "operation": "load", "memory": name} if record["kind"] == "ceiling" else {}
        if record["kind"] == "gemm":
            record["backend"] = record["backend"].replace("cpu-ikj", name)
            record["params"] = {name: name}
            record["problem"] |= {"suite": name, "label": name}
    write("old.jsonl", whole)
    write("new.jsonl", whole)
    for reader in READERS:
        assert main(reader) == 0, capsys.readouterr().err
    page = Path("page", "index.html").read_text(encoding="utf-8")
    assert "<b>" not in page
    assert "$x_1$" in page or "$" not in name


@pytest.mark.parametrize("reader", [*READERS, ["bench", "--sizes", "8", "--against", "new.jsonl"]], ids=" ".join)
@pytest.mark.parametrize(
    ("line", "says"),
    [("{", "not JSON"), ('{"median_s": NaN}', "NaN"), ("{}", "schema_version"), ("\x00", "not JSON")],
)
def test_every_reader_names_the_line(whole, capsys, reader, line, says):
    good = Path("old.jsonl").read_text().splitlines()[0]
    Path("new.jsonl").write_text(f"{good}\n{line}\n")
    assert main(reader) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("gemmlab: new.jsonl:2: ")
    assert says in err
    assert sorted(os.listdir()) == ["new.jsonl", "old.jsonl"]


@pytest.mark.parametrize("problem", [{}, {"m": 8}, None, "8"])
def test_a_problem_without_sizes_is_refused(whole, problem):
    write_mutated(whole, 0, ("problem",), problem)
    with pytest.raises(ValueError, match=r"^new\.jsonl:1: problem "):
        read("new.jsonl")


def test_times_out_of_order_are_refused(whole):
    write_mutated(whole, 0, ("p20_s",), 2 * whole[0]["p80_s"])
    with pytest.raises(ValueError, match=r"^new\.jsonl:1: min_s, p20_s, median_s, p80_s are not in ascending order"):
        read("new.jsonl")
