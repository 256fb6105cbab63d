"""Carrying a campaign out: ceilings, then products, each a record as soon as it is measured."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from gemmlab._errors import CannotWrite
from gemmlab._name import BackendName
from gemmlab._registry import availability
from gemmlab.campaign.campaigns import LADDER_EDGE, Campaign
from gemmlab.campaign.turns import Turns
from gemmlab.measure.environment import environment
from gemmlab.measure.problems import Case, sized
from gemmlab.measure.records import Record, RecordFile, complete
from gemmlab.measure.session import OnRecord, OnRound, Progress, Session
from gemmlab.roofline.ceilings import probe_loop
from gemmlab.roofline.simulation import refusal, simulate

LADDER_SHARE = 0.5  # of the time limit may have gone by after the GPU rungs on a CPU: they are compiled
SHORT_SIMULATION = 2e7  # accesses: about a tenth of a second


def measure(campaign: Campaign, path: str | os.PathLike[str], progress: Progress, records: list[Record]) -> None:
    """Carry a campaign out, write its records to the file `path`, and append each to `records`."""
    with RecordFile(path, records) as file:
        carry_out(campaign, uuid.uuid4().hex[:12], progress, file.write)


def carry_out(campaign: Campaign, run_id: str, progress: Progress, on_record: OnRecord) -> None:
    """Carry a campaign out, and call `on_record` with each record.

    The CPU's ceilings are measured in turns (`turns.py`): before the products, in the middle of their rounds, and after
    them if there is time. Where the cache of this machine has them, the turns measure the peak alone. With a time limit
    GPU rungs on a CPU come first, and all other products have what is left. Progress is then counted in seconds.
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

    def take_a_turn() -> None:
        show(0, 1, "ceilings")
        turns.take()

    devices = devices_of(campaign.backends)
    turns = Turns(campaign, devices, completed, on_record)
    show(0, 1, f"ceilings: {turns.age}, --fresh measures them again" if turns.age else "ceilings")
    turns.take()
    for device in devices:
        show(0, 1, f"ceilings of {device}")
        turns.take_device(device)
    with Session(run_id=run_id, probe_command=probe_loop.COMMAND) as session:

        def measured(
            backends: Sequence[str], cases: Sequence[Case], kept_s: float, on_round: OnRound | None = None,
            **changes: Any,
        ) -> list[Record]:  # fmt: skip
            limit_s = campaign.limit_s - gone_s() - kept_s
            return session.measure(
                backends, cases, replace(campaign.settings, limit_s=limit_s, **changes), progress=show,
                on_record=lambda record: on_record(record | simulated_bytes(record)), on_round=on_round,
            )  # fmt: skip

        def in_the_middle(number: int) -> None:
            if number == campaign.settings.rounds // 2 > 0:
                take_a_turn()

        if campaign.ladder:  # first: one product of each, whose kernels may have to be compiled
            few = sized([LADDER_EDGE], suite="squares")
            measured(campaign.ladder, few, (1 - LADDER_SHARE) * campaign.limit_s, transfers="without", more_time=0.0)
        products = measured(campaign.backends, campaign.cases, turns.longest_s, in_the_middle)
    if gone_s() + turns.longest_s / 2 < campaign.limit_s:
        take_a_turn()
    turns.take_more(products, lambda: campaign.limit_s - gone_s())
    turns.keep()


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
