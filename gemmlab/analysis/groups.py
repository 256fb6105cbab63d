"""The records of one run or several, sorted into groups that can be compared fairly.

A group is one device, one number type, one number of threads, and times either with operand transfers or without. A
product that ran on fewer threads than the group's (the serial reference, or one too small to be worth more) belongs
to the group too, unless the same backend did it on more threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from gemmlab._registry import BUILT_IN
from gemmlab.analysis.formatting import threads_text
from gemmlab.measure.comparison import is_good, is_wrong, problem_key
from gemmlab.measure.records import Record, grouped, titled
from gemmlab.roofline.ceilings.best import best
from gemmlab.roofline.model import Roof

Key = tuple[object, ...]

USER_SUITE = "files"  # the user's matrices
BASELINE_ENDINGS = ("-numpy", "-blas", "-mkl", "-blis", "-clblast", "-onemkl", "-cublas")


@dataclass(frozen=True)
class Group:
    """The products of one device in one number type, on one number of threads, with or without transfers.

    `products` holds the gemm records of any status, `ceilings` all ceiling records of the device, and `roof` the
    roofline model of those, or None without any.
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
        """The group in headings: "float32, 2 threads". A GPU has no number of threads."""
        return titled(", ".join(filter(None, (self.dtype, self._threads_text))), self.transfers)

    @property
    def phrase(self) -> str:
        """The group in a sentence: "in float32 on 2 threads", "in float32 with transfers"."""
        threads = f" on {self._threads_text}" if self._threads_text else ""
        return f"in {self.dtype}{threads}{' with transfers' * self.transfers}"

    @property
    def slug(self) -> str:
        """The group in file names and anchors."""
        return f"{self.dtype}{f'-{self.threads}t' if self._threads_text else ''}{'-transfers' * self.transfers}"

    @property
    def _threads_text(self) -> str:
        is_cpu = any(record["threads"] for record in self.products or self.ceilings)
        return threads_text(self.threads) if is_cpu else ""

    def backends(self) -> list[str]:
        """Every backend with a record, in ladder order."""
        return in_order(record["backend"] for record in self.products)

    def of(self, backend: str) -> list[Record]:
        """The backend's records of any status."""
        return [record for record in self.products if record["backend"] == backend]

    def timed(self, backend: str) -> dict[Key, Record]:
        """The backend's good records by problem, from few operations to many; of several, the fastest.

        There is none where any of the backend's products in the group came out wrong.
        """
        records = self.of(backend)
        good = [] if any(map(is_wrong, records)) else sorted(filter(is_good, records), key=itemgetter("gflop"))
        return {key: min(own, key=itemgetter("median_s")) for key, own in grouped(good, problem_key).items()}

    def squares(self, backend: str) -> list[Record]:
        """The backend's good records of square products, from small to large."""
        return [record for record in self.timed(backend).values() if is_square(record)]

    def largest(self, backend: str) -> Record | None:
        """The record that a backend is judged by: its largest square, or its largest product without squares."""
        return max(self.timed(backend).values(), key=_weight, default=None)

    def shared(self, first: str, second: str) -> tuple[Record, Record] | None:
        """The records of two backends for the largest problem that both did, squares first."""
        one, two = self.timed(first), self.timed(second)
        best = max((key for key in one if key in two), key=lambda key: _weight(one[key]), default=None)
        return None if best is None else (one[best], two[best])

    def ranking(self, suite: str | None = None) -> list[Record]:
        """The good records of one problem, the fastest first.

        The problem is the largest square that at least two backends did; without one, the largest other product that
        two did; without that, the largest of all. With `suite`, only its products count.
        """
        timed = [record for backend in self.backends() for record in self.timed(backend).values()]
        by_problem = grouped((r for r in timed if suite in (None, r["problem"]["suite"])), problem_key)
        rivals = max(by_problem.values(), key=lambda own: (len(own) > 1, *_weight(own[0])), default=[])
        return sorted(rivals, key=lambda record: float(record["median_s"]))


@dataclass(frozen=True)
class Device:
    """The records of one device; the first group is the one its headline is about.

    A device with nothing but ceilings has groups without products, so there is always a first group.
    """

    name: str
    groups: tuple[Group, ...]
    ceilings: tuple[Record, ...]
    records: tuple[Record, ...]

    @property
    def through(self) -> str:
        """What to know of a CPU behind a GPU runtime, whose name follows that of the CPU; empty for all others."""
        cpu = self.records[0]["environment"].get("cpu") or self.name
        runtime = self.name.removeprefix(cpu).strip(" ()")
        if not runtime or not self.name.startswith(cpu) or any(record["threads"] for record in self.records):
            return ""
        return f"These GPU rungs ran on the CPU, through {runtime}: they show how rungs differ, not how fast a GPU is."


def devices(records: Iterable[Record]) -> list[Device]:
    """Sort records by device: devices with times first, in the order in which products name them; CPUs as GPUs last."""
    products_first = sorted(records, key=lambda record: record["kind"] != "gemm")
    found = [_device(name, tuple(own)) for name, own in grouped(products_first, itemgetter("device")).items()]

    def last(device: Device) -> tuple[bool, bool]:
        return not any(is_good(r) for group in device.groups for r in group.products), bool(device.through)

    return sorted(found, key=last)


def with_unique_devices(records: Sequence[Record]) -> list[Record]:
    """The records, with processors of the same name in different machines renamed, as virtual machines have them."""
    by_device = grouped(records, itemgetter("device")).items()
    machines = {device: list(dict.fromkeys(map(_machine, own))) for device, own in by_device}

    def device(record: Record) -> str:
        names, machine = machines[record["device"]], _machine(record)
        if len(names) == 1:
            return str(record["device"])
        number = 1 + sum(other[0] == machine[0] for other in names[: names.index(machine)])
        return f"{record['device']}, {machine[0]} CPUs{f' ({number})' if number > 1 else ''}"

    return [{**record, "device": device(record)} for record in records]


def _machine(record: Record) -> Key:
    """What identifies a machine among others with the same processor; of a GPU nothing does."""
    facts = record["environment"]
    if record["device"] != facts.get("cpu"):
        return ("",)
    return facts.get("cpus_machine"), *sorted((facts.get("cache_bytes") or {}).items())


def _device(name: str, records: tuple[Record, ...]) -> Device:
    products = [record for record in records if record["kind"] == "gemm"]
    ceilings = tuple(best(record for record in records if record["kind"] == "ceiling"))
    roof = Roof(ceilings, name) if ceilings else None
    dtypes = dict.fromkeys(record["problem"]["dtype"] for record in products)
    groups = []
    for dtype in dtypes or {c["dtype"]: None for c in ceilings if c["ceiling"] == "fma"} or {"float32": None}:
        of_dtype = [record for record in products if record["problem"]["dtype"] == dtype]
        for transfers in sorted({bool(record["transfers_counted"]) for record in of_dtype} or {False}):
            own = [record for record in of_dtype if bool(record["transfers_counted"]) is transfers]
            for threads in _thread_counts(own or ceilings):
                groups.append(Group(name, dtype, threads, transfers, _on_threads(own, threads), ceilings, roof))
    return Device(name, tuple(sorted(groups, key=_prominence)), ceilings, records)


def _thread_counts(records: Sequence[Record]) -> set[int]:
    """The largest number of threads, and any smaller one on which a product ran that also ran on more."""
    timed = [record for record in records if record["kind"] == "gemm" and record["status"] == "ok"]
    largest = max(map(threads_of, timed or records))
    return {largest} | {count for own in grouped(timed, _task).values() for count in map(threads_of, own)
                        if count < max(map(threads_of, own))}  # fmt: skip


def _on_threads(products: Sequence[Record], threads: int) -> tuple[Record, ...]:
    """The products on `threads` threads, and of those that did not run on so many, the ones on the most below."""
    largest: dict[Key, int] = {}
    for record in products:
        if (own := threads_of(record)) <= threads:
            largest[_task(record)] = max(own, largest.get(_task(record), 0))
    return tuple(record for record in products if threads_of(record) == largest.get(_task(record)))


def _task(record: Record) -> Key:
    return record["backend"], record["problem"]["suite"], problem_key(record)


def _prominence(group: Group) -> tuple[bool, bool, int, bool, bool, int]:
    """Sort key: with times first, then the user's matrices, number of records, float32, no transfers, threads."""
    nothing_timed = not any(map(is_good, group.products))
    not_the_users = all(record["problem"]["suite"] != USER_SUITE for record in group.products)
    return nothing_timed, not_the_users, -len(group.products), group.dtype != "float32", group.transfers, -group.threads


def in_order(names: Iterable[str]) -> list[str]:
    """Names once each: those of gemmlab in ladder order, then the others as they come."""
    unique = list(dict.fromkeys(names))
    return [name for name in BUILT_IN if name in unique] + [name for name in unique if name not in BUILT_IN]


def is_baseline(name: str) -> bool:
    """Whether the backend is a vendor's library and not a rung of the ladder."""
    return name.endswith(BASELINE_ENDINGS)


def is_square(record: Record) -> bool:
    """Whether the problem is one product of square matrices."""
    problem = record["problem"]
    return bool(problem["m"] == problem["n"] == problem["k"]) and (problem["batch"] or 1) == 1


def threads_of(record: Record) -> int:
    """Threads that the work ran on; 1 for a device, which has no such number."""
    return int(record["threads"] or 1)


def _weight(record: Record) -> tuple[bool, float]:
    """Sort key of the problems to judge by: squares before others, then by number of operations."""
    return is_square(record), record["gflop"]
