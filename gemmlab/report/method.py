"""How the figures of a report were come by: sentences that follow from the records, and the caveats."""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab.report.groups import Record, is_good

CEILING_CAVEAT = (
    "A ceiling is the best that gemmlab's own loop reached, so it is a lower bound of what the hardware can do: "
    "a share of a ceiling is at most that share of the hardware's limit, and a product may come out above it."
)
TRAFFIC_CAVEAT = (
    "Intensity counts bytes by the backend's own model of its memory traffic; where it has none, each operand is "
    "counted once, which is the least possible. Neither is a measurement of traffic: simulated bytes and those that "
    "counters measured stand beside them where there are any."
)


def how_measured(records: Sequence[Record]) -> list[str]:
    """The way of measuring, in sentences; `records` are those of one device."""
    products = [record for record in records if record["kind"] == "gemm"]
    said = [_turns(products), _samples(list(filter(is_good, products))), _transfers(products), _kernels(products)]
    said.append(_age(records, products))
    said.append("GFLOP/s is 2 m n k / 10⁹, times the batch, divided by the median time.")
    return [text for text in said if text]


def _turns(products: Sequence[Record]) -> str:
    policies = {str(record["wait_policy"]) for record in products if record["wait_policy"]}
    suspended = not any("not suspended" in policy for policy in policies)
    while_timed = "; while one is timed, the others are suspended" if suspended else ""
    return (
        "Each backend lives in a process of its own. On every product the backends take turns, so that a machine "
        f"that slows down does so for all of them{while_timed}. Every product is checked against its error bound, "
        "and a wrong one has no time."
    )


def _samples(timed: Sequence[Record]) -> str:
    if not timed:
        return ""
    counts = [record["samples"] for record in timed if record["samples"]]
    low, high = min(counts, default=0), max(counts, default=0)
    number = f"{low}" if low == high else f"{low} to {high}"
    noisy = sum(bool(record["noisy"]) for record in timed)
    return (
        f"A time is the median of {number} samples; ranges and bars run from the 20th to the 80th percentile, and "
        f"two times whose ranges overlap count as no difference seen. Of {len(timed)} times, {noisy} are noisy: "
        "their samples spread, their turns disagree, or something else was at work beside them; each says which."
    )


def _age(records: Sequence[Record], products: Sequence[Record]) -> str:
    """That ceilings are older than the products under them, if they are."""
    ceilings = [record for record in records if record["kind"] == "ceiling"]
    if not ceilings or not products:
        return ""
    first, oldest = (min(str(record["time_utc"]) for record in some) for some in (products, ceilings))
    if first[:10] == oldest[:10] or oldest > first:
        return ""
    return f"Its ceilings were measured on {oldest[:10]} and kept; `--fresh` measures them again."


def _kernels(products: Sequence[Record]) -> str:
    if not any(record["kernel_s"] for record in products):
        return ""
    return (
        "“Kernel” is the time of the kernels of one call alone, by the device's own clock. Without transfers the calls "
        "of a sample are started one after another, and one wait at its end is in the time."
    )


def _transfers(products: Sequence[Record]) -> str:
    counted = {record["transfers_counted"] for record in products} - {None}
    if counted == {True}:
        return "Moving operands to the device and back is in the times."
    if counted == {False}:
        return "Moving operands to the device and back is not in the times."
    return "Moving operands to the device and back is in the times marked “+ transfers” only." if counted else ""
