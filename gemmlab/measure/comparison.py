"""Two runs compared: what is in both, the ratio of the speeds, and whether a difference was seen.

One rule decides, here and in the report: where the p20 to p80 intervals of two times overlap, no difference was seen,
and no ratio is given. The interval of a ratio is from the slow end of one time against the fast end of the other, and
back. A pair is noisy if one of its records is, or if the machine ran at another speed: the probes beside the two differ
by more than 1 %. What decides something (`gemmlab tune`, the table of `auto`) uses `least` and `most`, where such marks
widen the interval. Nothing here measures or prints: a comparison is made from records alone.

    products   the same backend, problem, layout, threads and transfers, on the same device and instruction set
    ceilings   the same loop, memory level, number type and threads, on the same device

Where a run has several times of one product, the fastest counts. Where it has several sets of parameters of a backend,
equal sets are compared. With one set each, the two are compared and the parameters that differ are named: most are
computed from machine and problem, and a comparison may be about two ways to compute them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gemmlab.measure.records import Record

Key = tuple[object, ...]
NO_DIFFERENCE = "no difference seen"
SAME_SPEED_PERCENT = 1.0  # by which the probes beside two records may differ

_CEILING_KEYS = ("device", "isa", "threads", "ceiling", "dtype", "operation", "level", "memory")
_COMPARED_CEILINGS = ("fma", "bandwidth", "transfer")  # bandwidths are computed from the points of the sweep


@dataclass(frozen=True)
class Pair:
    """The same work measured twice: `ratio` is the new speed divided by the old one, `low` to `high` its interval."""

    old: Record
    new: Record
    ratio: float
    low: float
    high: float

    @property
    def seen(self) -> bool:
        """Whether a difference was seen; if not, the ratio means nothing."""
        return self.low > 1 or self.high < 1

    @property
    def verdict(self) -> str:
        """The pair in a word or three: "faster", "slower" or "no difference seen"."""
        if not self.seen:
            return NO_DIFFERENCE
        return "faster" if self.ratio > 1 else "slower"

    @property
    def machine_percent(self) -> float:
        """How much faster the machine was beside the new record, in per cent of its probe; 0 where that is not known.

        Probes on another number of threads say nothing of it, nor do probes of the CPU of a device.
        """
        before, after = self.old.get("probe_gflop_per_s"), self.new.get("probe_gflop_per_s")
        threads = self.old.get("threads")
        if not before or not after or threads is None or threads != self.new.get("threads"):
            return 0.0
        return float(100 * (after / before - 1))

    @property
    def other_speed(self) -> bool:
        """Whether the machine ran at another speed."""
        return abs(self.machine_percent) > SAME_SPEED_PERCENT

    @property
    def noisy(self) -> bool:
        """Whether one of the two records is noisy, or the machine ran at another speed."""
        return bool(self.old["noisy"] or self.new["noisy"] or self.other_speed)

    @property
    def margin_percent(self) -> float:
        """By how much the marks of a noisy pair leave its ratio open: the 95 % intervals of both times, or their spread
        where there is none, and the machine's change of speed; 0 without a mark."""
        if not self.noisy:
            return 0.0
        known = (record.get("interval_percent") for record in (self.old, self.new))
        own = (self.old["noise_percent"], self.new["noise_percent"])
        doubts = (spread if interval is None else interval for interval, spread in zip(known, own, strict=True))
        return float(sum(doubts)) + abs(self.machine_percent)

    @property
    def least(self) -> float:
        """The ratio is at least this beyond noise."""
        return min(self.low, self.ratio / (1 + self.margin_percent / 100))

    @property
    def most(self) -> float:
        """The ratio is at most this beyond noise."""
        return max(self.high, self.ratio * (1 + self.margin_percent / 100))

    @property
    def changed_params(self) -> dict[str, tuple[object, object]]:
        """Parameters of a product whose values differ: the old one and the new one."""
        old, new = self.old.get("params") or {}, self.new.get("params") or {}
        return {name: (old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)}


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common; `only_old` and `only_new` hold the timed products that are in one run only."""

    products: tuple[Pair, ...]
    ceilings: tuple[Pair, ...]
    only_old: tuple[Record, ...]
    only_new: tuple[Record, ...]

    def slower(self, percent: float) -> list[Pair]:
        """Products that are slower by more than `percent`, beyond noise."""
        return [pair for pair in self.products if pair.most < 1 - percent / 100]

    def inconclusive(self, percent: float) -> list[Pair]:
        """Products that may be slower by more than `percent`, or may not: the interval of the ratio holds the limit."""
        return [pair for pair in self.products if pair.least < 1 - percent / 100 <= pair.most]

    def to_dict(self) -> dict[str, object]:
        """The comparison for JSON; there is no ratio where no difference was seen."""
        return {
            "products": [_row(pair, ("backend", "problem", "transfers_counted")) for pair in self.products],
            "ceilings": [_row(pair, _CEILING_KEYS) for pair in self.ceilings],
            "only_old": len(self.only_old),
            "only_new": len(self.only_new),
        }


def compare(old: Sequence[Record], new: Sequence[Record]) -> Comparison:
    """Compare the records of two runs: pairs in the order of `new`, and what only one of them has."""
    before, after = _sorted(old), _sorted(new)
    pairs = [pair for key, own in after.items() for pair in _pairs(before.get(key, {}), own)]
    paired = {id(record) for pair in pairs for record in (pair.old, pair.new)}
    products, ceilings = (tuple(pair for pair in pairs if pair.new["kind"] == kind) for kind in ("gemm", "ceiling"))
    return Comparison(products, ceilings, _products_but(before, paired), _products_but(after, paired))


def compare_with_backend(records: Sequence[Record], baseline: str) -> Comparison:
    """Compare the products of a run with those of one of its backends, by `beside`."""
    good = [record for record in records if record["kind"] == "gemm" and is_good(record) and record["gflop"]]
    olds, news = ([one for one in good if (one["backend"] == baseline) is is_old] for is_old in (True, False))
    pairs = tuple(pair for new in news if (pair := beside(new, olds)) is not None)
    paired = {id(record) for pair in pairs for record in (pair.old, pair.new)}
    only_old, only_new = (tuple(one for one in own if id(one) not in paired) for own in (olds, news))
    return Comparison(pairs, (), only_old, only_new)


def beside(record: Record, baseline: Iterable[Record]) -> Pair | None:
    """A product against a baseline's on the same problem: on as many threads, or on the most; None without another."""

    def problem(one: Record) -> Key:
        return one["problem"]["dtype"], *problem_key(one)

    same = [old for old in baseline if problem(old) == problem(record)]
    best = max(same, key=lambda old: (old["threads"] == record["threads"], old["threads"] or 0), default=None)
    return None if best is None or best is record else ratio(best, record)


def ratio(old: Record, new: Record) -> Pair:
    """Two records of the same work as a pair, whatever else differs: the run, or the backend.

    Examples
    --------
    >>> slow = {"kind": "gemm", "gflop": 1.0, "p20_s": 0.19, "median_s": 0.2, "p80_s": 0.21}
    >>> pair = ratio(slow, slow | {"p20_s": 0.1, "median_s": 0.1, "p80_s": 0.1})
    >>> pair.verdict, pair.ratio, round(pair.low, 2), round(pair.high, 2)
    ('faster', 2.0, 1.9, 2.1)
    """
    before, after = _of_a_unit(old), _of_a_unit(new)
    low, high = before["p20_s"] / after["p80_s"], before["p80_s"] / after["p20_s"]
    return Pair(old, new, before["time_s"] / after["time_s"], low, high)


def overlap(first: Record, second: Record) -> bool:
    """Whether the p20 to p80 intervals of two measurements overlap: then no difference was seen."""
    return bool(first["p20_s"] <= second["p80_s"] and second["p20_s"] <= first["p80_s"])


def is_good(record: Record) -> bool:
    """Whether a product ran and its error is within the bound, so that its time counts."""
    return record["status"] == "ok" and bool(record["median_s"]) and not is_wrong(record)


def is_wrong(record: Record) -> bool:
    """Whether the product came out wrong: it says so, or its error is over the bound."""
    error = record["error_over_bound"]
    return record["status"] == "wrong" or (error is not None and not error <= 1)


def problem_key(record: Record) -> tuple[int, int, int, int, str, bool]:
    """What makes two problems the same: sizes, batch, layout, and whether the caches were cold."""
    problem, is_cold = record["problem"], bool(record.get("cold"))
    return problem["m"], problem["n"], problem["k"], problem["batch"] or 1, problem["layout"] or "CCC", is_cold


def isa_of(record: Record) -> str | None:
    """The instruction set that a product ran in; None on a device, which has its own."""
    return None if record["threads"] is None else record["environment"].get("isa")


def _sorted(records: Iterable[Record]) -> dict[Key, dict[Key, Record]]:
    """Records that can be compared, by `_key`, then by parameters; of several with the same, the fastest."""
    found: dict[Key, dict[Key, Record]] = {}
    for record in records:
        if (key := _key(record)) is not None:
            own = found.setdefault(key, {})
            params = tuple(sorted((name, repr(value)) for name, value in (record.get("params") or {}).items()))
            if params not in own or ratio(own[params], record).ratio > 1:
                own[params] = record
    return found


def _key(record: Record) -> Key | None:
    """What two records of a pair have in common; None for a record without a time, or one that is not compared."""
    if record["kind"] == "gemm" and is_good(record) and record["gflop"] and record["p20_s"]:
        where = record["device"], isa_of(record), record["threads"], bool(record["transfers_counted"])
        return *where, record["backend"], record["problem"]["dtype"], *problem_key(record)
    if record["kind"] == "ceiling" and record["ceiling"] in _COMPARED_CEILINGS and record["min_s"]:
        return tuple(record[key] for key in _CEILING_KEYS)
    return None


def _pairs(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> Iterator[Pair]:
    if len(old) == len(new) == 1:
        yield ratio(*old.values(), *new.values())
    else:
        yield from (ratio(old[params], record) for params, record in new.items() if params in old)


def _products_but(found: Mapping[Key, Mapping[Key, Record]], paired: set[int]) -> tuple[Record, ...]:
    alone = (record for own in found.values() for record in own.values() if id(record) not in paired)
    return tuple(record for record in alone if record["kind"] == "gemm")


def _of_a_unit(record: Record) -> dict[str, float]:
    """Seconds for a unit of the work: the time that gives the speed, and its interval.

    The speed of multiply-adds is that of the fastest sample, all others are from the median. Two versions of a
    ceiling's loop may do different amounts of work a call, so times are compared for a unit of work.
    """
    time_s = record["min_s" if record.get("ceiling") == "fma" else "median_s"]
    work = record["gflop"] if record["kind"] == "gemm" else time_s * speed(record)
    return {"time_s": time_s / work, "p20_s": min(time_s, record["p20_s"]) / work, "p80_s": record["p80_s"] / work}


def speed(record: Record) -> float:
    """GFLOP/s of a product or of multiply-adds, GB/s of memory."""
    return float(record["gflop_per_s"] or record["gb_per_s"])


def _row(pair: Pair, keys: Iterable[str]) -> Record:
    unit = "gflop_per_s" if pair.new["gflop_per_s"] else "gb_per_s"
    row = {"device": pair.new["device"], "threads": pair.new["threads"]} | {key: pair.new[key] for key in keys}
    if pair.changed_params:
        row["changed_params"] = {name: list(values) for name, values in pair.changed_params.items()}
    return row | {
        f"old_{unit}": speed(pair.old),
        f"new_{unit}": speed(pair.new),
        "verdict": pair.verdict,
        "ratio": pair.ratio if pair.seen else None,
        "ratio_low": pair.low,
        "ratio_high": pair.high,
        "noisy": pair.noisy,
        "machine_percent": pair.machine_percent,
    }
