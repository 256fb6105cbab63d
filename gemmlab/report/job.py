"""The main job: measure the ceilings of this machine and its devices, and the backends, and write the report.

The one place of this folder that measures, and it does so by `measure` and `roofline` alone; what is drawn
comes from the records it writes first.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab._errors import CannotWrite
from gemmlab._gpu import RUNTIMES
from gemmlab._registry import availability, plain
from gemmlab.measure.environment import environment
from gemmlab.measure.problems import Case, from_files, layers, sized, squares
from gemmlab.measure.records import RecordFile, complete
from gemmlab.measure.session import Params, Session
from gemmlab.report import render, require
from gemmlab.roofline import kept, probe
from gemmlab.roofline.apart import measure_ceilings_apart, measure_device_ceilings_apart
from gemmlab.roofline.simulation import declined, simulate

Progress = Callable[[int, int, str], None]
Inputs = tuple[str, str] | None
Record = dict[str, Any]
SMALLEST = (64, 256)
PATH = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # of the roofline
PEAK_S = 1.5
SHORT_SIMULATION = 2e7  # accesses: about a tenth of a second
LEAST_KEPT_S = 5.0  # ceilings measured in less are not worth keeping
DEVICE_SHARE = 0.4  # of a CPU's time for its ceilings: a device has no instruction sets, thread counts and sweep


@dataclass(frozen=True)
class Plan:
    """What is measured, and how long that may take; without `ceilings_s` the peak is the only ceiling.

    `transfers` says which times of a device are wanted: "with" moving operands, "without", or "both". `fresh` has all
    ceilings measured again, where this machine's are kept already.
    """

    cases: Sequence[Case]
    backends: Sequence[str]
    threads: int | None
    ceilings_s: float
    cap_s: float
    rounds: int
    budget_s: float
    params: Mapping[str, Params] = field(default_factory=dict)
    transfers: str = "both"
    fresh: bool = False

    @property
    def count(self) -> int:
        """Threads of each product."""
        return self.threads or config.threads or machine.usable_cpus()


def quick(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Plan:
    """Two minutes on two quiet cores; up to five on noisy ones, where turns disagree."""
    cases = [*squares(True), *sized((256, 512, 1000), "float64", "squares"), *layers(True)]
    return Plan(_with(cases, inputs), backends, threads, ceilings_s=10.0, cap_s=0.5, rounds=5, budget_s=0.1)


def full(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Plan:
    """To N = 4032, in both dtypes, with every layer: tens of minutes."""
    cases = [case for dtype in ("float32", "float64") for suite in (squares, layers) for case in suite(False, dtype)]
    return Plan(_with(cases, inputs), backends, threads, ceilings_s=30.0, cap_s=10.0, rounds=7, budget_s=3.0)


def smallest(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Plan:
    """A few seconds: to see that everything works, not to learn how fast."""
    cases = sized(SMALLEST, suite="squares")
    return Plan(_with(cases, inputs), backends, threads, ceilings_s=1.0, cap_s=0.2, rounds=1, budget_s=0.05)


def roofline(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Plan:
    """Within a minute on two cores: the ceilings, and each backend's way over the squares, as far as it gets."""
    cases = _with(sized(PATH, suite="squares"), inputs)
    return Plan(cases, backends, threads, ceilings_s=12.0, cap_s=0.4, rounds=2, budget_s=0.06)


PLANS = {"quick": quick, "full": full, "smallest": smallest, "roofline": roofline}


def _with(cases: Iterable[Case], inputs: Inputs) -> list[Case]:
    """The cases, and the product of a user's own matrices."""
    return list(cases) if inputs is None else [from_files(*inputs), *cases]


def make(plan: Plan, directory: Path, progress: Progress) -> Path:
    """Measure by plan, and write ``directory/index.html`` with its figures and ``directory/records.jsonl``.

    Interrupted, it writes the report of what was measured so far, and raises KeyboardInterrupt again.

    Raises
    ------
    CannotWrite
        If the directory cannot be written, before anything is measured.
    ReportUnavailable
        If a package that draws is missing, before anything is measured.
    """
    require()
    make_folder(directory)
    records: list[Record] = []
    try:
        measure(plan, directory / "records.jsonl", progress, records)
    except KeyboardInterrupt:
        if records:
            render(records, directory)
        raise
    return render(records, directory)


def measure(plan: Plan, path: str | os.PathLike[str], progress: Progress, records: list[Record]) -> None:
    """Measure by plan into the file `path`, and append each record to `records` as it comes.

    The CPU's peak is measured before and after the products, so that a machine that changes its speed is seen; all
    other ceilings are those kept for this machine, or measured once and kept.
    """
    with RecordFile(path) as file:

        def keep(record: Record) -> None:
            records.append(record)
            file.write(record)

        carry_out(plan, uuid.uuid4().hex[:12], progress, keep)


def carry_out(plan: Plan, run_id: str, progress: Progress, keep: Callable[[Record], None]) -> None:
    """Measure by plan, and hand each record on as it comes."""
    facts = environment(pools=[])

    def keep_product(record: Record) -> None:
        keep(record | simulated_bytes(record))

    _cpu_ceilings(plan, run_id, facts, progress, keep)
    for device, backend in on_devices(plan.backends).items():
        try:
            _device_ceilings(plan, run_id, facts, device, backend, progress, keep)
        except RuntimeError as error:  # its products may fail too, and then say so, but not those of others
            warnings.warn(f"{device}: {error}", stacklevel=2)
    known = kept.usual_probe(machine.cpu_name(), plan.count)
    with Session(run_id=run_id, probe_command=probe.COMMAND, known_probe=known) as session:
        session.measure(
            plan.backends, plan.cases, params=plan.params, threads=plan.threads, transfers=plan.transfers,
            cap_s=plan.cap_s, rounds=plan.rounds, budget_s=plan.budget_s, progress=progress,
            on_record=keep_product,
        )  # fmt: skip
    if (found := session.probe_gflop_per_s) is not None:
        seen = probe.as_ceiling(found, plan.count)
        kept.keep_probe(complete(seen, run_id=run_id, device=machine.cpu_name(), environment=facts))
    peaks = _peaks(plan, run_id, facts)
    for record in peaks:
        keep(record)
    kept.lift(peaks)


def simulated_bytes(record: Record) -> dict[str, float]:
    """Bytes that this machine's caches move for a product by simulation; nothing where that is not done, or long."""
    problem = record["problem"]
    shape = record["backend"], problem["m"], problem["n"], problem["k"], problem["dtype"]
    plain = record["status"] == "ok" and problem["layout"] == "CCC" and problem["batch"] == 1
    if not plain or declined(*shape, most_accesses=SHORT_SIMULATION) is not None:
        return {}
    found = simulate(*shape, record["params"], record["environment"]["cache_bytes"])
    return {f"bytes_simulated_{level}": moved for level, moved in found.items()}


def _cpu_ceilings(
    plan: Plan, run_id: str, facts: Record, progress: Progress, keep: Callable[[Record], None]
) -> None:
    """Ceilings of the CPU: those that are kept, with the peak of now after them, or all of them measured."""
    device, count = machine.cpu_name(), plan.count
    own = [] if plan.fresh or not plan.ceilings_s else kept.kept(device, count)
    if not own and plan.ceilings_s:
        progress(0, 1, "ceilings")
        found = measure_ceilings_apart(seconds=plan.ceilings_s, threads=plan.threads)
        own = [complete(record, run_id=run_id, device=device, environment=facts) for record in found]
        if plan.ceilings_s >= LEAST_KEPT_S:
            kept.keep(own)
    else:
        progress(0, 1, f"ceilings: {kept.age(own)}, --fresh measures them again" if own else "ceilings")
        own = own + _peaks(plan, run_id, facts)
    for record in own:
        keep(record)


def _peaks(plan: Plan, run_id: str, facts: Record) -> list[Record]:
    """The CPU's multiply-add rates as they are now."""
    found = measure_ceilings_apart(seconds=PEAK_S, threads=plan.threads, bandwidth=False)
    return [complete(record, run_id=run_id, device=machine.cpu_name(), environment=facts) for record in found]


def _device_ceilings(
    plan: Plan, run_id: str, facts: Record, device: str, backend: str, progress: Progress,
    keep: Callable[[Record], None],
) -> None:  # fmt: skip
    """Ceilings of a device: those that are kept, or measured; without `ceilings_s` its peak alone."""
    own = [] if plan.fresh or not plan.ceilings_s else kept.kept(device)
    if not own:
        progress(0, 1, f"ceilings of {device}")
        seconds = DEVICE_SHARE * (plan.ceilings_s or PEAK_S)
        found = measure_device_ceilings_apart(backend, seconds=seconds, bandwidth=plan.ceilings_s > 0)
        own = [complete(record, run_id=run_id, device=device, environment=facts) for record in found]
        if plan.ceilings_s >= LEAST_KEPT_S:
            kept.keep(own)
    for record in own:
        keep(record)


def on_devices(backends: Iterable[str]) -> dict[str, str]:
    """The devices that backends run on, each with the first of its backends."""
    found: dict[str, str] = {}
    for name in backends:
        if plain(name).partition("-")[0] in RUNTIMES:
            found.setdefault(availability(name).device, name)
    return found


def make_folder(directory: Path) -> None:
    """Make `directory`; CannotWrite if that cannot be done."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot write into {directory}: {error.strerror}; choose another --out") from None
