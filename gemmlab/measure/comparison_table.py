"""A comparison as plain text: a row a pair, what that comes to for each backend, and what only one run has."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from gemmlab.measure.comparison import NO_DIFFERENCE, Comparison, Pair, isa_of, problem_key, speed
from gemmlab.measure.records import Record
from gemmlab.measure.table import NOTHING, WIDTH, Column, filled, heading, size, text_table, three_digits

_LEGEND = """new / old: how many times the speed; in brackets the least and the most that
the p20 to p80 intervals of both times allow. No difference: they overlap, or
they would at the same clock, as the probes beside both times tell it."""
_NOISY = "!: noisy; the record says why."
_OTHER_MACHINE = "Another device, instruction set or number of threads is another machine, and not compared."
_MACHINE = {"device", "instruction set", "threads"}
_LISTED = 4  # of a trait's values that only one run has

# What a product's record must share with another, as a reader calls it.
_TRAITS: Mapping[str, Callable[[Record], Any]] = {
    "device": lambda record: record["device"],
    "instruction set": isa_of,
    "threads": lambda record: record["threads"],
    "transfers": lambda record: {True: "counted", False: "not counted"}.get(record["transfers_counted"]),
    "dtype": lambda record: record["problem"]["dtype"],
    "backend": lambda record: record["backend"],
    "size": lambda record: size(record["problem"]),
    "layout": lambda record: record["problem"]["layout"],
}


def comparison_text(comparison: Comparison, old: str, new: str, ceilings: bool = True) -> str:
    """Return a comparison as text of 80 columns.

    Parameters
    ----------
    comparison : Comparison
        Of `gemmlab.measure.comparison.compare`.
    old, new : str
        What the two runs are called.
    ceilings : bool, optional
        Whether ceilings have a table, or a line alone.
    """
    parts = [_wrapped(f"{new} (new) against {old} (old): {_counted(len(comparison.products), 'product')} in both.")]
    for title, pairs in _apart(comparison.products, heading).items():
        parts += _products(title, pairs)
    for device, pairs in _apart(comparison.ceilings, lambda record: record["device"]).items():
        parts.append(_ceilings(device, pairs) if ceilings else _tally(f"Ceilings of {device}", pairs))
    parts += ["\n".join(_changed(comparison.products)), "\n".join(map(_wrapped, _alone(comparison, old, new)))]
    shown = (*comparison.products, *(comparison.ceilings if ceilings else ()))
    parts.append("\n".join([_LEGEND] * bool(shown) + [_NOISY] * any(pair.noisy for pair in shown)))
    return "\n\n".join(filter(None, parts))


def nothing_in_common(comparison: Comparison, old: str, new: str) -> str:
    """One line on two runs without a pair: what each has that the other lacks."""
    return " ".join([f"{new} and {old} have nothing in common that was timed.", *_alone(comparison, old, new)])


def times(pair: Pair) -> str:
    """A ratio with its interval, or that no difference was seen.

    Examples
    --------
    >>> from gemmlab.measure.comparison import ratio
    >>> slow = {"kind": "gemm", "gflop": 1.0, "p20_s": 0.19, "median_s": 0.2, "p80_s": 0.21}
    >>> times(ratio(slow, slow | {"p20_s": 0.1, "median_s": 0.1, "p80_s": 0.1}))
    '2.00 (1.90-2.10)'
    """
    if not pair.seen:
        return NO_DIFFERENCE
    return f"{three_digits(pair.ratio)} ({three_digits(pair.low)}-{three_digits(pair.high)})"


_THREADS = Column("thr", lambda pair: str(pair.new["threads"] or NOTHING))
_OLD = Column("old", lambda pair: _marked(pair.old))
_NEW = Column("new", lambda pair: _marked(pair.new))
_RATIO = Column("new / old", times, number=False)


def _products(title: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """The table of a dtype on a device, and how many differ of each backend."""
    by_backend = _apart(sorted(pairs, key=lambda pair: pair.new["gflop"]), lambda record: record["backend"])
    rows = [pair for own in by_backend.values() for pair in own]
    titles = _titles(rows)
    columns = [
        Column("backend", lambda pair: titles[id(pair)], number=False),
        Column("m x n x k", lambda pair: size(pair.new["problem"])),
        _THREADS, _OLD, _NEW, _RATIO,
    ]  # fmt: skip
    yield f"{_wrapped(f'{title}, GFLOP/s')}\n\n{text_table(rows, filled(columns, rows))}"
    if same := [backend for backend, own in by_backend.items() if not any(pair.seen for pair in own)]:
        yield _wrapped(f"No difference seen at any product of {', '.join(same)}.")
    yield "\n".join(_tally(backend, own) for backend, own in by_backend.items() if backend not in same)


def _apart(pairs: Iterable[Pair], of: Callable[[Record], str]) -> dict[str, list[Pair]]:
    """Pairs by something that their new records have."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(of(pair.new), []).append(pair)
    return found


def _ceilings(device: str, pairs: Sequence[Pair]) -> str:
    columns = [Column("ceiling", lambda pair: _ceiling(pair.new), number=False), _THREADS, _OLD, _NEW, _RATIO]
    title = _wrapped(f"Ceilings of {device}: multiply-adds in GFLOP/s, all else in GB/s")
    return f"{title}\n\n{text_table(pairs, filled(columns, pairs))}\n\n{_tally('Ceilings', pairs)}"


def _titles(pairs: Sequence[Pair]) -> dict[int, str]:
    """Each pair's backend, with those parameters that tell it from others at the same problem."""
    together: dict[Any, list[Pair]] = {}
    for pair in pairs:
        together.setdefault((pair.new["backend"], pair.new["threads"], problem_key(pair.new)), []).append(pair)
    titles = {}
    for own in together.values():
        names = [name for name in own[0].new["params"] if len({str(pair.new["params"].get(name)) for pair in own}) > 1]
        for pair in own:
            words = [pair.new["backend"], *(f"{name}={pair.new['params'].get(name)}" for name in names)]
            titles[id(pair)] = " ".join(words)
    return titles


def _ceiling(record: Record) -> str:
    if record["ceiling"] == "fma":
        return f"multiply-adds {record['dtype']} {record['isa']}"
    runtime = f", {record['isa']}" * (record["threads"] is None)
    if record["ceiling"] == "bandwidth":
        return f"{record['level']} {record['operation']}{runtime}"
    return f"{record['operation']}, {record['memory']}{runtime}"


def _tally(what: str, pairs: Sequence[Pair]) -> str:
    """How many differ; a mean ratio only where more than half of them do."""
    said = [f"{verdict} at {count}" for verdict, count in Counter(pair.verdict for pair in pairs).most_common()]
    text = f"{what}: {', '.join(said)} of {len(pairs)}"
    seen = [pair.ratio for pair in pairs if pair.seen]
    if 1 < len(pairs) < 2 * len(seen):
        over = "" if len(seen) == len(pairs) else f" over those {len(seen)}"
        text += f"; {three_digits(geometric_mean(seen))} times the speed in the geometric mean{over}"
    return _wrapped(f"{text}.")


def _changed(pairs: Sequence[Pair]) -> Iterator[str]:
    """A line on every backend that was compared with other parameters."""
    changed: dict[str, dict[str, dict[str, None]]] = {}
    for pair in pairs:
        for name, values in pair.changed_params.items():
            step = " to ".join("unset" if value is None else str(value) for value in values)
            changed.setdefault(pair.new["backend"], {}).setdefault(name, {})[step] = None
    for backend, params in changed.items():
        said = "; ".join(f"{name} {_listed(list(values))}" for name, values in params.items())
        yield _wrapped(f"{backend} ran with other parameters, old to new: {said}.")


def _alone(comparison: Comparison, old: str, new: str) -> Iterator[str]:
    """What each run has alone: how many, and what it is about them that the other lacks."""
    before = [*comparison.only_old, *(pair.old for pair in comparison.products)]
    after = [*comparison.only_new, *(pair.new for pair in comparison.products)]
    other_machine = False
    for name, records, others in ((old, comparison.only_old, after), (new, comparison.only_new, before)):
        if records:
            own = _own_traits(records, others) if others else {}
            said = "; ".join(f"{trait} {_listed(values)}" for trait, values in own.items())
            yield f"Only in {name}: {_counted(len(records), 'product')}{f' ({said})' * bool(said)}."
            other_machine |= bool(_MACHINE & own.keys())
    if other_machine:
        yield _OTHER_MACHINE


def _own_traits(records: Sequence[Record], others: Sequence[Record]) -> dict[str, list[Any]]:
    """What some records have that no other has."""
    own = {}
    for trait, value_of in _TRAITS.items():
        lacking = {None, *map(value_of, others)}
        if values := [value for value in dict.fromkeys(map(value_of, records)) if value not in lacking]:
            own[trait] = values
    return own


def _listed(values: Sequence[Any]) -> str:
    text = ", ".join(map(str, values[:_LISTED]))
    return text if len(values) <= _LISTED else f"{text} and {len(values) - _LISTED} more"


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' * (count != 1)}"


def _marked(record: Record) -> str:
    return f"{three_digits(speed(record))}{'!' if record['noisy'] else ' '}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)
