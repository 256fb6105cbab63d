"""The report in a terminal: the answer of each device, and a table of its backends, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from gemmlab._words import number, percent
from gemmlab.analysis.groups import Device, Group, devices, with_unique_devices
from gemmlab.analysis.verdicts import Verdict, answers, verdicts
from gemmlab.measure.records import Record
from gemmlab.measure.table import NOTHING, WIDTH, Column, filled, shown, size, text_table, warning_of_noise, wrapped

LIMITED_BY = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "instructions": "instructions or load latency",
    "thread": "fewer threads",
    "transfers": "transfers",
    "unknown": "not known",
    "above": "above its measured limit",
}
NOISY = "!: noisy, the page says why."


def summary(records: Sequence[Record]) -> str:
    """The answers and the backends of every device, the most important device first.

    Where most timings are noisy, the first line says so, and not a mark in every row.
    """
    warning = warning_of_noise(records)
    found = [_device(device, marked=not warning) for device in devices(with_unique_devices(records))]
    return "\n\n".join(filter(None, [wrapped(warning), *found]))


def _device(device: Device, marked: bool) -> str:
    main = device.groups[0]
    judged = verdicts(main)
    said = [f"{question}: {text}" for question, text in answers(main).items()][: 1 if device.through else None]
    lines = [wrapped(f"{device.name}, {main.title}"), *filter(None, [wrapped(device.through)])]
    lines += ["", *(fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for text in said)]
    if judged:
        lines += ["", text_table(judged, filled(_columns(main, marked), judged))]
    return "\n".join([*lines, *[NOISY] * (marked and any(v.noisy for v in judged))])


def _columns(group: Group, marked: bool) -> list[Column]:
    def problem(v: Verdict) -> str:
        best = group.largest(v.backend)
        return size(best["problem"]) if best else NOTHING

    return [
        Column("backend", lambda v: v.backend, number=False),
        Column("m x n x k", problem),
        Column("GFLOP/s", lambda v: shown(number, v.gflop_per_s) + ("! "[not v.noisy] if marked else "")),
        Column("of peak", lambda v: shown(percent, v.share_of_peak)),
        Column("limited by", _limit, number=False),
    ]


def _limit(v: Verdict) -> str:
    return v.summary if v.gflop_per_s is None else LIMITED_BY.get(v.bound or "", NOTHING)
