"""A comparison as plain text: one row a pair, a sum for each backend, and what only one run has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean

from gemmlab.measure.comparison import NO_DIFFERENCE, Comparison, Pair, isa_of, speed
from gemmlab.measure.records import Record, grouped, name_of
from gemmlab.measure.table import NOTHING, Column, filled, heading, size, text_table, three_digits, varying_params
from gemmlab.measure.table import wrapped as wrapped

_LEGEND = """new / old: how many times the speed; in brackets the smallest and the largest
ratio within the p20 to p80 intervals of both times. No difference seen: these
intervals overlap."""
_NOISY = "!: noisy; beside a speed, its record says why."
_OTHER_MACHINE = "Another device, instruction set or number of threads is another machine, and not compared."
_MAX_LISTED = 4  # values of a property that only one run has

# What two records of a pair have in common, as a reader calls it.
_PROPERTIES: Mapping[str, Callable[[Record], object]] = {
    "device": lambda record: record["device"],
    "instruction set": isa_of,
    "threads": lambda record: record["threads"],
    "caches": lambda record: "cold" if record.get("cold") else "warm",
    "transfers": lambda record: {True: "counted", False: "not counted"}.get(record["transfers_counted"]),
    "dtype": lambda record: record["problem"]["dtype"],
    "backend": lambda record: record["backend"],
    "size": lambda record: size(record["problem"]),
    "layout": lambda record: record["problem"]["layout"],
}


def comparison_text(comparison: Comparison, old: str, new: str, ceilings: bool = True) -> str:
    """A comparison as text of 80 columns, of two runs called `old` and `new`; its ceilings as a table, or one line."""
    parts = [wrapped(f"{new} (new) against {old} (old): {_counted(len(comparison.products), 'product')} in both.")]
    for title, pairs in grouped(comparison.products, lambda pair: heading(pair.new)).items():
        parts += _products(title, pairs)
    for device, pairs in grouped(comparison.ceilings, lambda pair: str(pair.new["device"])).items():
        parts.append(_ceilings(device, pairs) if ceilings else _sum(f"Ceilings of {device}", pairs))
    parts += ["\n".join(_changed(comparison.products)), "\n".join(map(wrapped, _in_one_run(comparison, old, new)))]
    parts.append(_other_speed(comparison.products))
    shown = (*comparison.products, *(comparison.ceilings if ceilings else ()))
    parts.append("\n".join([_LEGEND] * bool(shown) + [_NOISY] * any(pair.noisy for pair in shown)))
    return "\n\n".join(filter(None, parts))


def nothing_in_common(comparison: Comparison, old: str, new: str) -> str:
    """One line on two runs without a pair: what each has that the other has not."""
    return " ".join([f"{new} and {old} have nothing in common that was timed.", *_in_one_run(comparison, old, new)])


def name_of_pair(pair: Pair) -> str:
    """A pair's backend, product, number type and threads in a line."""
    new = pair.new
    threads = f" on {_counted(new['threads'], 'thread')}" if new["threads"] else ""
    return f"{name_of(new)} at {size(new['problem'])} in {new['problem']['dtype']}{threads}"


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


def bounds(pair: Pair) -> str:
    """What a ratio is at least and at most, beyond noise."""
    return f"{three_digits(pair.least)} to {three_digits(pair.most)} times the speed"


_THREADS = Column("thr", lambda pair: str(pair.new["threads"] or NOTHING))
_OLD = Column("old", lambda pair: _speed(pair.old))
_NEW = Column("new", lambda pair: _speed(pair.new))
_RATIO = Column("new / old", lambda pair: times(pair) + " !" * (pair.seen and pair.other_speed), number=False)


def _products(title: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """The table of a dtype on a device, and how many differ of each backend."""
    by_backend = grouped(sorted(pairs, key=lambda pair: pair.new["gflop"]), lambda pair: str(pair.new["backend"]))
    rows = [pair for own in by_backend.values() for pair in own]
    titles = _titles(rows)
    columns = [
        Column("backend", lambda pair: titles[id(pair)], number=False),
        Column("m x n x k", lambda pair: size(pair.new["problem"])),
        _THREADS, _OLD, _NEW, _RATIO,
    ]  # fmt: skip
    yield f"{wrapped(f'{title}, GFLOP/s')}\n\n{text_table(rows, filled(columns, rows))}"
    if same := [backend for backend, own in by_backend.items() if not any(pair.seen for pair in own)]:
        yield wrapped(f"No difference seen at any product of {', '.join(same)}.")
    yield "\n".join(_sum(backend, own) for backend, own in by_backend.items() if backend not in same)


def _ceilings(device: str, pairs: Sequence[Pair]) -> str:
    columns = [Column("ceiling", lambda pair: _ceiling(pair.new), number=False), _THREADS, _OLD, _NEW, _RATIO]
    title = wrapped(f"Ceilings of {device}: multiply-adds in GFLOP/s, all others in GB/s")
    return f"{title}\n\n{text_table(pairs, filled(columns, pairs))}\n\n{_sum('Ceilings', pairs)}"


def _titles(pairs: Sequence[Pair]) -> dict[int, str]:
    """Each pair's backend, with the parameters that differ between several pairs of one problem."""
    params = varying_params([pair.new for pair in pairs])
    return {id(pair): f"{pair.new['backend']} {params[id(pair.new)]}".strip() for pair in pairs}


def _ceiling(record: Record) -> str:
    if record["ceiling"] == "fma":
        return f"multiply-adds {record['dtype']} {record['isa']}"
    runtime = f", {record['isa']}" * (record["threads"] is None)
    if record["ceiling"] == "bandwidth":
        return f"{record['level']} {record['operation']}{runtime}"
    return f"{record['operation']}, {record['memory']}{runtime}"


def _sum(what: str, pairs: Sequence[Pair]) -> str:
    """How many differ; a mean ratio only where more than half of them do."""
    verdicts = [f"{verdict} at {count}" for verdict, count in Counter(pair.verdict for pair in pairs).most_common()]
    text = f"{what}: {', '.join(verdicts)} of {len(pairs)}"
    seen = [pair.ratio for pair in pairs if pair.seen]
    if 1 < len(pairs) < 2 * len(seen):
        over = "" if len(seen) == len(pairs) else f" over those {len(seen)}"
        text += f"; {three_digits(geometric_mean(seen))} times the speed in the geometric mean{over}"
    return wrapped(f"{text}.")


def _changed(pairs: Sequence[Pair]) -> Iterator[str]:
    """A line on every backend that was compared with other parameters."""
    changed: dict[str, dict[str, dict[str, None]]] = {}
    for pair in (pair for pair in pairs if pair.old["backend"] == pair.new["backend"]):
        for name, values in pair.changed_params.items():
            step = " to ".join("unset" if value is None else str(value) for value in values)
            changed.setdefault(pair.new["backend"], {}).setdefault(name, {})[step] = None
    for backend, params in changed.items():
        steps = "; ".join(f"{name} {_listed(list(values))}" for name, values in params.items())
        yield wrapped(f"{backend} ran with other parameters, old to new: {steps}.")


def _other_speed(pairs: Sequence[Pair]) -> str:
    """A line on the pairs between which the machine's speed changed."""
    changes = [pair.machine_percent for pair in pairs if pair.other_speed]
    largest = max(changes, key=abs, default=0.0)
    return bool(changes) * wrapped(
        f"The machine ran at another speed at {len(changes)} of {len(pairs)} products: by up to {largest:+.1f} % in "
        "the new run, as the probes beside them say. A difference there may come from the clock or from another load."
    )


def _in_one_run(comparison: Comparison, old: str, new: str) -> Iterator[str]:
    """For each run, how many products only it has, and the properties that only they have."""
    before = [*comparison.only_old, *(pair.old for pair in comparison.products)]
    after = [*comparison.only_new, *(pair.new for pair in comparison.products)]
    own: set[str] = set()
    for run, records, others in ((old, comparison.only_old, after), (new, comparison.only_new, before)):
        only = {
            name: [one for one in dict.fromkeys(map(value_of, records)) if one not in {None, *map(value_of, others)}]
            for name, value_of in _PROPERTIES.items() if others
        }  # fmt: skip
        listed = "; ".join(f"{name} {_listed(values)}" for name, values in only.items() if values)
        if records:
            yield f"Only in {run}: {_counted(len(records), 'product')}{f' ({listed})' * bool(listed)}."
        own |= {name for name, values in only.items() if values}
    if own & {"device", "instruction set", "threads"}:
        yield _OTHER_MACHINE


def _listed(values: Sequence[object]) -> str:
    text = ", ".join(map(str, values[:_MAX_LISTED]))
    return text if len(values) <= _MAX_LISTED else f"{text} and {len(values) - _MAX_LISTED} more"


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' * (count != 1)}"


def _speed(record: Record) -> str:
    return f"{three_digits(speed(record))}{'!' if record['noisy'] else ' '}"
