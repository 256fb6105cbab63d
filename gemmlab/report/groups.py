"""The records of a run, sorted into groups, and the questions the report asks of them.

A comparison is fair only inside one group: one device, one number type, one number of threads, and moving operands
to a device either in the times or not. A product that ran on fewer threads than a group has (the serial reference,
or one too small to be worth more) stands in the group all the same, unless it was measured on more of them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The rules that all comparisons share; whoever asks about records finds them here with the rest.
from gemmlab.measure.comparison import is_good as is_good
from gemmlab.measure.comparison import is_wrong as is_wrong
from gemmlab.measure.comparison import overlap as overlap
from gemmlab.measure.comparison import problem_key as problem_key
from gemmlab.measure.records import titled
from gemmlab.roofline.model import Roof

Record = Mapping[str, Any]
Key = tuple[Any, ...]

# The order in which a reader should meet the backends; others follow as the records name them.
LADDER = (
    "cpu-naive", "cpu-ikj", "cpu-blocked", "cpu-blocked-local", "cpu-packed",
    "cpu-numpy", "cpu-blas", "cpu-mkl", "cpu-blis",
)  # fmt: skip
OWN_SUITE = "files"  # the reader's own matrices
BASELINE_ENDINGS = ("-numpy", "-blas", "-mkl", "-blis", "-clblast", "-onemkl", "-cublas")


@dataclass(frozen=True)
class Group:
    """What was asked of one device in one number type on one number of threads, with or without transfers.

    `products` holds the gemm records, whatever their status; `ceilings` those of the device, unsorted, and
    `roof` the model worked out from them, None without ceilings.
    """

    device: str
    dtype: str
    threads: int
    transfers: bool
    products: tuple[Record, ...]
    ceilings: tuple[Record, ...]
    roof: Roof | None

    @property
    def title(self) -> str:
        """The group in words, as headings and figures name it; a GPU counts no threads."""
        threads = f", {threads_text(self.threads)}" if self._counts_threads else ""
        return titled(f"{self.dtype}{threads}", self.transfers)

    @property
    def phrase(self) -> str:
        """The group as part of a sentence: "in float32 on 2 threads", "in float32 with transfers"."""
        threads = f" on {threads_text(self.threads)}" if self._counts_threads else ""
        return f"in {self.dtype}{threads}{' with transfers' * self.transfers}"

    @property
    def slug(self) -> str:
        """The group as part of a file name or an anchor."""
        return f"{self.dtype}{f'-{self.threads}t' * self._counts_threads}{'-transfers' * self.transfers}"

    @property
    def _counts_threads(self) -> bool:
        return any(record["threads"] for record in self.products or self.ceilings)

    def backends(self) -> list[str]:
        """Every backend asked, in the order of the ladder."""
        return in_order(record["backend"] for record in self.products)

    def of(self, backend: str) -> list[Record]:
        """The backend's records, whatever their status."""
        return [record for record in self.products if record["backend"] == backend]

    def timed(self, backend: str) -> dict[Key, Record]:
        """The backend's good records by problem, from few operations to many; of several, the fastest.

        A backend that gave a wrong product anywhere in the group has none: it is out of the contest.
        """
        fastest: dict[Key, Record] = {}
        own = self.of(backend)
        for record in filter(is_good, [] if any(map(is_wrong, own)) else own):
            key = problem_key(record)
            if key not in fastest or record["median_s"] < fastest[key]["median_s"]:
                fastest[key] = record
        return dict(sorted(fastest.items(), key=lambda item: item[1]["gflop"]))

    def squares(self, backend: str) -> list[Record]:
        """The backend's good records of square products, from small to large."""
        return [record for record in self.timed(backend).values() if is_square(record)]

    def largest(self, backend: str) -> Record | None:
        """The record to judge a backend by: its largest square, or its largest product where none is square."""
        return max(self.timed(backend).values(), key=_weight, default=None)

    def shared(self, first: str, second: str) -> tuple[Record, Record] | None:
        """The two backends' records of the largest product that both did, squares before others."""
        one, two = self.timed(first), self.timed(second)
        both = [key for key in one if key in two]
        best = max(both, key=lambda key: _weight(one[key]), default=None)
        return None if best is None else (one[best], two[best])

    def race(self, suite: str | None = None) -> list[Record]:
        """The fastest first, every good record of the problem that the group, or one of its suites, is judged by.

        That is the largest square that at least two backends did; failing that the largest other product
        that two did; failing that the largest of all.
        """
        by_problem: dict[Key, list[Record]] = {}
        for backend in self.backends():
            for key, record in self.timed(backend).items():
                if suite in (None, record["problem"]["suite"]):
                    by_problem.setdefault(key, []).append(record)
        runs = max(by_problem.values(), key=lambda runs: (len(runs) > 1, *_weight(runs[0])), default=[])
        return sorted(runs, key=lambda record: record["median_s"])


@dataclass(frozen=True)
class Device:
    """Everything the records say of one device; the first group is the one its headline is about.

    A device of which only ceilings are known has groups without products, so there is always a first one.
    """

    name: str
    groups: tuple[Group, ...]
    ceilings: tuple[Record, ...]
    records: tuple[Record, ...]


def told_apart(records: Sequence[Record]) -> list[Record]:
    """The records; where several machines have processors of one name, as virtual ones do, with a name for each."""
    machines: dict[str, dict[Key, str]] = {}
    for record in filter(_is_of_cpu, records):
        own, cpus = machines.setdefault(record["device"], {}), record["environment"].get("cpus_machine")
        name = f"{record['device']}, {cpus} CPUs"
        again = sum(other.startswith(name) for other in own.values())
        own.setdefault(_machine(record), f"{name} ({again + 1})" if again else name)
    names = {device: own for device, own in machines.items() if len(own) > 1}
    return [
        {**record, "device": names[record["device"]][_machine(record)]}
        if _is_of_cpu(record) and record["device"] in names else record for record in records
    ]  # fmt: skip


def _is_of_cpu(record: Record) -> bool:
    return bool(record["device"] == record["environment"].get("cpu"))


def _machine(record: Record) -> Key:
    """What tells one machine from another whose processor has the same name."""
    facts = record["environment"]
    return facts.get("cpus_machine"), *sorted((facts.get("cache_bytes") or {}).items())


def devices(records: Iterable[Record]) -> list[Device]:
    """Sort records by device: those with times first, those with ceilings alone last, else as products name them."""
    by_device: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record["kind"] != "gemm"):
        by_device.setdefault(record["device"], []).append(record)
    found = [_device(name, tuple(own)) for name, own in by_device.items()]
    return sorted(found, key=lambda device: not any(is_good(r) for group in device.groups for r in group.products))


def _device(name: str, records: tuple[Record, ...]) -> Device:
    products = [record for record in records if record["kind"] == "gemm"]
    ceilings = tuple(record for record in records if record["kind"] == "ceiling")
    roof = Roof(ceilings, name) if ceilings else None
    dtypes = dict.fromkeys(record["problem"]["dtype"] for record in products)
    groups = []
    for dtype in dtypes or {c["dtype"]: None for c in ceilings if c["ceiling"] == "fma"} or {"float32": None}:
        of_dtype = [record for record in products if record["problem"]["dtype"] == dtype]
        for transfers in sorted({bool(record["transfers_counted"]) for record in of_dtype} or {False}):
            own = [record for record in of_dtype if bool(record["transfers_counted"]) is transfers]
            for threads in _thread_counts(own or ceilings):
                groups.append(Group(name, dtype, threads, transfers, _on(own, threads), ceilings, roof))
    return Device(name, tuple(sorted(groups, key=_prominence)), ceilings, records)


def _thread_counts(records: Sequence[Record]) -> set[int]:
    """The most threads of all, and any lower number on which something ran that ran on more of them too."""
    seen: dict[Key, set[int]] = {}
    for record in records:
        if record["kind"] == "gemm" and record["status"] == "ok":
            seen.setdefault(_asked(record), set()).add(threads_of(record))
    most = max((max(counts) for counts in seen.values()), default=max(map(threads_of, records)))
    return {most} | {threads for counts in seen.values() for threads in counts if threads < max(counts)}


def _on(products: Sequence[Record], threads: int) -> tuple[Record, ...]:
    """What was asked on a number of threads: of each product, what ran on the most threads up to it."""
    most: dict[Key, int] = {}
    for record in products:
        if (own := threads_of(record)) <= threads:
            most[_asked(record)] = max(own, most.get(_asked(record), 0))
    return tuple(record for record in products if threads_of(record) == most.get(_asked(record)))


def _asked(record: Record) -> Key:
    return record["backend"], record["problem"]["suite"], problem_key(record)


def _prominence(group: Group) -> tuple[bool, int, bool, bool, int]:
    """Sort key: a group with times first, then by number of records, float32, without transfers, on more threads."""
    nothing_timed = not any(map(is_good, group.products))
    return nothing_timed, -len(group.products), group.dtype != "float32", group.transfers, -group.threads


def in_order(names: Iterable[str]) -> list[str]:
    """Names once each, the ladder's first and in its order."""
    unique = list(dict.fromkeys(names))
    return [name for name in LADDER if name in unique] + [name for name in unique if name not in LADDER]


def is_baseline(name: str) -> bool:
    """Whether the backend is a vendor's library rather than a rung of the ladder."""
    return name.endswith(BASELINE_ENDINGS)


def is_square(record: Record) -> bool:
    """Whether the problem is one product of square matrices."""
    problem = record["problem"]
    return bool(problem["m"] == problem["n"] == problem["k"]) and (problem["batch"] or 1) == 1


def threads_of(record: Record) -> int:
    """Threads the work ran on; a device that has none counts as one."""
    return int(record["threads"] or 1)


def on_threads(text: str, record: Record) -> str:
    """A text with the threads that a record's work ran on; a device that counts none leaves it as it is."""
    return f"{text}, {threads_text(threads_of(record))}" if record["threads"] else text


def threads_text(threads: int) -> str:
    """The number of threads in words: 1 thread, 2 threads."""
    return f"{threads} thread" + "s" * (threads != 1)


def problem_text(record: Record) -> str:
    """The problem in a few signs: "N = 512", or "m × n × k = 64 × 3136 × 576, batch 8"."""
    m, n, k, batch, layout = problem_key(record)
    text = f"N = {m}" if m == n == k else f"m × n × k = {m} × {n} × {k}"
    text += f", batch {batch}" if batch > 1 else ""
    return text + (f", layout {layout}" if layout != "CCC" else "")


def product_text(record: Record) -> str:
    """The problem with the name that its suite gives it, where that is more than its sizes again."""
    label, sizes = str(record["problem"]["label"] or ""), problem_text(record)
    says_more = not is_square(record) and re.search(r"[^\W\dx]", label)
    return f"{label}: {sizes}" if says_more else sizes


def _weight(record: Record) -> tuple[bool, float]:
    """Squares before others, then more operations: the order in which problems are fit to judge by."""
    return is_square(record), record["gflop"]
