"""Carrying a campaign out: ceilings, then products, each a record as soon as it is measured."""

from __future__ import annotations

import math
import os
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from gemmlab._cpu import machine
from gemmlab._errors import CannotWrite
from gemmlab._name import BackendName
from gemmlab._registry import availability
from gemmlab.campaign.campaigns import LADDER_EDGE, Campaign
from gemmlab.measure.environment import environment
from gemmlab.measure.problems import Case, sized
from gemmlab.measure.records import Record, RecordFile, complete
from gemmlab.measure.session import OnRecord, Progress, Session
from gemmlab.roofline.ceilings import cache, probe_loop
from gemmlab.roofline.ceilings.cpu import LATE
from gemmlab.roofline.ceilings.isolated import isolated_ceilings, isolated_device_ceilings
from gemmlab.roofline.simulation import refusal, simulate

PEAK_S = 1.5
LAST_PEAK_S = 3.0  # of the time limit, with the start of its process
LADDER_S = 16.0  # of the time limit, for GPU rungs on a CPU: most of it is building kernels
SHORT_SIMULATION = 2e7  # accesses: about a tenth of a second
MIN_CACHED_S = 5.0  # ceilings measured in less time are not stored, nor those of a busy machine
DEVICE_SHARE = 0.4  # of a CPU's time for its ceilings: a device has no instruction sets, thread counts and sweep

Completed = Callable[[Iterable[Record], str], list[Record]]  # measured ceilings of a device, as whole records


def measure(campaign: Campaign, path: str | os.PathLike[str], progress: Progress, records: list[Record]) -> None:
    """Carry a campaign out, write its records to the file `path`, and append each to `records`."""
    with RecordFile(path, records) as file:
        carry_out(campaign, uuid.uuid4().hex[:12], progress, file.write)


def carry_out(campaign: Campaign, run_id: str, progress: Progress, on_record: OnRecord) -> None:
    """Carry a campaign out, and call `on_record` with each record.

    The CPU's peak is measured before the products, and after them if there is time, which shows whether the machine's
    speed changed. All other ceilings come from the cache of this machine, or are measured once and stored there. With a
    time limit the products have what the ceilings leave, less a share for the GPU rungs on a CPU. Progress is then
    counted in seconds.
    """
    start_s, facts = perf_counter(), environment(pools=[])

    def gone_s() -> float:
        return perf_counter() - start_s

    def show(done: int, total: int, text: str) -> None:
        if campaign.limit_s < math.inf:
            done, total = min(round(gone_s()), round(campaign.limit_s)), round(campaign.limit_s)
        progress(done, total, text)

    def completed(found: Iterable[Record], device: str) -> list[Record]:
        return [complete(record, run_id=run_id, device=device, environment=facts) for record in found]

    def pass_on(records: Iterable[Record]) -> None:
        for record in records:
            on_record(record)

    pass_on(_cpu_ceilings(campaign, completed, show))
    pass_on(_device_ceilings(campaign, completed, show))
    with Session(run_id=run_id, probe_command=probe_loop.COMMAND) as session:

        def measured(backends: Sequence[str], cases: Sequence[Case], kept_s: float, **changes: Any) -> None:
            limit_s = campaign.limit_s - gone_s() - kept_s
            session.measure(
                backends, cases, replace(campaign.settings, limit_s=limit_s, **changes), progress=show,
                on_record=lambda record: on_record(record | simulated_bytes(record)),
            )  # fmt: skip

        measured(campaign.backends, campaign.cases, LAST_PEAK_S + LADDER_S * bool(campaign.ladder))
        if campaign.ladder:
            measured(campaign.ladder, sized([LADDER_EDGE], suite="squares"), LAST_PEAK_S, transfers="without")
    if gone_s() + PEAK_S < campaign.limit_s:
        peaks = completed(_peaks(campaign), machine.cpu_name())
        pass_on(peaks)
        cache.raise_peaks(peaks)


def _cpu_ceilings(campaign: Campaign, completed: Completed, progress: Progress) -> list[Record]:
    """The cached ceilings of the CPU with its peak of now after them, or all of them measured."""
    device, threads = machine.cpu_name(), campaign.settings.thread_count
    known = cache.cached(device, threads) if campaign.uses_cache else []
    progress(0, 1, f"ceilings: {cache.age(known)}, --fresh measures them again" if known else "ceilings")
    if known or not campaign.ceilings_s:
        return [*known, *completed(_peaks(campaign), device)]
    begun_s = perf_counter()
    found = completed(isolated_ceilings(seconds=campaign.ceilings_s, threads=threads), device)
    in_time = perf_counter() - begun_s < LATE * campaign.ceilings_s
    return _stored(campaign, found) if in_time else found


def _device_ceilings(campaign: Campaign, completed: Completed, progress: Progress) -> Iterator[Record]:
    """The ceilings of each device, cached or measured; without `ceilings_s` its peak alone."""
    for device, backend in devices_of(campaign.backends).items():
        if known := cache.cached(device) if campaign.uses_cache else []:
            yield from known
            continue
        progress(0, 1, f"ceilings of {device}")
        seconds = DEVICE_SHARE * (campaign.ceilings_s or PEAK_S)
        try:
            found = isolated_device_ceilings(backend, seconds=seconds, bandwidth=campaign.ceilings_s > 0)
        except RuntimeError as error:  # other devices can be measured all the same
            warnings.warn(f"{device}: {error}", stacklevel=2)
        else:
            yield from _stored(campaign, completed(found, device))


def _stored(campaign: Campaign, ceilings: list[Record]) -> list[Record]:
    """These ceilings, in the cache too if enough time was spent on them."""
    if campaign.ceilings_s >= MIN_CACHED_S:
        cache.store(ceilings)
    return ceilings


def _peaks(campaign: Campaign) -> list[Record]:
    """The CPU's multiply-add rates as they are now."""
    return isolated_ceilings(seconds=PEAK_S, threads=campaign.settings.thread_count, bandwidth=False)


def simulated_bytes(record: Record) -> dict[str, float]:
    """Bytes that simulated caches move for a product; empty where the simulation cannot be done, or takes long."""
    problem = record["problem"]
    shape = record["backend"], problem["m"], problem["n"], problem["k"], problem["dtype"]
    can_be = record["status"] == "ok" and problem["layout"] == "CCC" and problem["batch"] == 1
    if not can_be or refusal(*shape, most_accesses=SHORT_SIMULATION) is not None:
        return {}
    found = simulate(*shape, record["params"], record["environment"]["cache_bytes"])
    return {f"bytes_simulated_{level}": moved for level, moved in found.items()}


def devices_of(backends: Iterable[str]) -> dict[str, str]:
    """The devices that backends run on, each with the first of its backends."""
    found: dict[str, str] = {}
    for name in backends:
        if BackendName.of(name).runtime and not BackendName.of(name).is_all:
            found.setdefault(availability(name).device, name)
    return found


def make_directory(directory: Path) -> None:
    """Make `directory`; CannotWrite if that cannot be done."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot write into {directory}: {error.strerror}; choose another --out") from None
