"""The keys of a record, and what each value may be: the data that `records.py` writes and checks records by.

Records may come from anywhere, and are drawn, printed and divided by. So what a table cannot hold (a line break in a
name), what a figure cannot place (a time of 0, NaN), and what nobody can have measured is refused when it is read. A
value may be null unless `REQUIRED` has its key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

MAX_LETTERS = 1000
MAX_COUNT = 2**53
MAX_NUMBER = 1e30
_SHOWN_LETTERS = 60


class Rule(NamedTuple):
    """What a value may be, in words and as a function; of an object, the rules of what is `inside`."""

    says: str
    holds: Callable[[Any], bool]
    inside: Mapping[str, Any] = MappingProxyType({})


Rules = dict[str, Rule]


def _number(low: float, high: float = MAX_NUMBER) -> Rule:
    is_number = (int, float)
    return Rule(
        f"a number from {low:g} to {high:g}",
        lambda value: isinstance(value, is_number) and not isinstance(value, bool) and low <= value <= high,
    )


def _count(low: int) -> Rule:
    return Rule(
        f"an integer from {low} to {MAX_COUNT}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= MAX_COUNT,
    )


def _one_of(*choices: str) -> Rule:
    return Rule(f"one of {', '.join(choices)}", lambda value: value in choices)


def _matching(pattern: str, says: str) -> Rule:
    return Rule(says, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def _object(rules: Rules) -> Rule:
    return Rule("a JSON object", lambda value: isinstance(value, dict) and not any(_broken(value, rules)), rules)


def _mapping(rule: Rule) -> Rule:
    """An object with any names, whose values are all of one rule."""
    return Rule(
        f"a JSON object whose values are each null or {rule.says}",
        lambda value: (
            isinstance(value, dict)
            and all(NAME.holds(name) and (one is None or rule.holds(one)) for name, one in value.items())
        ),
    )


def _list(rule: Rule) -> Rule:
    return Rule(f"a list of {rule.says}", lambda value: isinstance(value, list) and all(map(rule.holds, value)))


LINE = Rule(
    f"a line of at most {MAX_LETTERS} printable characters",
    lambda value: isinstance(value, str) and value.isprintable() and len(value) <= MAX_LETTERS,
)
NAME = Rule(f"{LINE.says}, not blank", lambda value: LINE.holds(value) and bool(value.strip()))
PROSE = Rule(
    "text without control characters",
    lambda value: isinstance(value, str) and all(letter.isprintable() or letter.isspace() for letter in value),
)
FLAG = Rule("true or false", lambda value: isinstance(value, bool))
SCALAR = Rule(
    "a number, true, false or a name",
    lambda value: FLAG.holds(value) or NAME.holds(value) or _number(-MAX_NUMBER).holds(value),
)
SECONDS = _number(1e-12, 1e9)
KERNEL_SECONDS = _number(0, 1e9)  # a device's clock may be too coarse
RATE = _number(1e-9, 1e15)
AMOUNT = _number(0)
DTYPE = _matching("[a-z][a-z0-9_]{0,30}", "the name of a dtype, such as float32")

PROBLEM: Rules = {
    "suite": NAME, "label": LINE, "m": _count(1), "n": _count(1), "k": _count(1), "dtype": DTYPE,
    "layout": _matching("[CFS]{3}", "three letters, each C, F or S"), "batch": _count(1),
}  # fmt: skip

ENVIRONMENT: Rules = {
    **dict.fromkeys(("gemmlab", "python", "numpy", "scipy", "os", "cpu", "processor", "numpy_library", "isa",
                     "governor", "huge_pages", "compiler", "openmp"), NAME),
    "isa_available": _list(NAME), "cpus_machine": _count(1), "cpus_usable": _count(1),
    "cache_bytes": _mapping(_count(1)), "mhz": AMOUNT, "virtual_machine": FLAG, "numa_nodes": _count(1),
    "load_1min": AMOUNT, "thread_pools": _list(_mapping(SCALAR)),
}  # fmt: skip

_COMMON: Rules = {
    "schema_version": _count(1), "kind": NAME, "run_id": NAME, "time_utc": NAME, "device": NAME, "threads": _count(1),
    "samples": _count(1), "calls_per_sample": _count(1), "median_s": SECONDS, "p20_s": SECONDS, "p80_s": SECONDS,
    "min_s": SECONDS, "noise_percent": AMOUNT, "noisy": FLAG,
}  # fmt: skip
_GEMM: Rules = {
    "status": _one_of("ok", "skipped", "wrong", "failed"), "reason": PROSE, "backend": NAME, "params": _mapping(SCALAR),
    "problem": _object(PROBLEM), "transfers_counted": FLAG, "cold": FLAG, "copies": _count(0),
    "kernel_s": KERNEL_SECONDS, "kernel_p20_s": KERNEL_SECONDS, "kernel_p80_s": KERNEL_SECONDS,
    "build_s": KERNEL_SECONDS, "start_s": KERNEL_SECONDS, "gflop": RATE, "gflop_per_s": RATE,
    "error_over_bound": AMOUNT, "error_norms": AMOUNT, "error_componentwise": AMOUNT, "bytes_compulsory": _number(1),
    **{f"bytes_model_{level}": AMOUNT for level in ("local", "l1", "l2", "l3", "dram")},
    **{f"bytes_simulated_{level}": AMOUNT for level in ("l2", "l3", "dram")},
    "packing_percent": AMOUNT, "rounds": _count(1), "interval_percent": AMOUNT, "noisy_because": PROSE,
    "probe_gflop_per_s": RATE, "wait_policy": NAME, "thread_scope": PROSE,
}  # fmt: skip
_CEILING: Rules = {
    "ceiling": NAME, "isa": NAME, "dtype": DTYPE, "gflop_per_s": RATE, "operation": NAME, "level": NAME,
    "memory": NAME, "working_set_bytes": _number(1), "gb_per_s": RATE, "clock_ghz": AMOUNT,
}  # fmt: skip
_ENVIRONMENT = {"environment": _object(ENVIRONMENT)}

RULES: Mapping[str, Rules] = {"gemm": _COMMON | _GEMM | _ENVIRONMENT, "ceiling": _COMMON | _CEILING | _ENVIRONMENT}
KEYS = {kind: tuple(rules) for kind, rules in RULES.items()}

# What is never null: in any record of a kind, in one with a time, and in one of these ceilings.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "gemm": ("device", "status", "backend", "params", "problem", "gflop", "bytes_compulsory", "environment"),
    "ceiling": ("device", "ceiling", "environment"),
    "timed": ("p20_s", "p80_s", "min_s", "noise_percent", "noisy"),
    "timed gemm": ("gflop_per_s",),
    "fma": ("median_s", "isa", "dtype", "gflop_per_s"),
    "bandwidth": ("median_s", "level", "operation", "gb_per_s"),
    "sweep": ("median_s", "operation", "working_set_bytes", "gb_per_s"),
    "transfer": ("median_s", "operation", "memory", "gb_per_s"),
}
_IN_ORDER = ("min_s", "p20_s", "median_s", "p80_s")


def fault(record: Mapping[str, Any]) -> str | None:
    """What is wrong with a record that has every key of its kind; None if nothing is.

    Examples
    --------
    >>> from gemmlab.measure.schema import KEYS, fault
    >>> fault(dict.fromkeys(KEYS["ceiling"]) | {"kind": "ceiling", "median_s": -1.0})
    'median_s is -1.0, not a number from 1e-12 to 1e+09'
    """
    return next(_faults(record), None)


def _faults(record: Mapping[str, Any]) -> Iterator[str]:
    yield from _broken(record, RULES[record["kind"]])
    sorts = [record["kind"], record.get("ceiling")]
    if record["median_s"] is not None:
        sorts += ["timed", f"timed {record['kind']}"]
    yield from (f"{key} is null" for sort in sorts for key in REQUIRED.get(sort, ()) if record[key] is None)
    if record["kind"] == "gemm":
        yield from (f"problem has no {key}" for key in PROBLEM if record["problem"].get(key) is None)
    times = [record[key] for key in _IN_ORDER if record[key] is not None]
    if times != sorted(times):
        yield f"{', '.join(_IN_ORDER)} are not in ascending order"


def _broken(record: Mapping[str, Any], rules: Mapping[str, Rule]) -> Iterator[str]:
    """The values that their rules refuse; of an object, what is wrong inside."""
    for key, value in record.items():
        if value is None or key not in rules or rules[key].holds(value):
            continue
        if rules[key].inside and isinstance(value, dict):
            yield from (f"{key}: {what}" for what in _broken(value, rules[key].inside))
        else:
            shown = json.dumps(value)
            shown = shown if len(shown) <= _SHOWN_LETTERS else f"{shown[:_SHOWN_LETTERS]}…"
            yield f"{key} is {shown}, not {rules[key].says}"
