"""How the figures of a report were measured: sentences that follow from the records, and the caveats."""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab.measure.comparison import is_good
from gemmlab.measure.records import Record

CEILING_CAVEAT = (
    "A measured ceiling is the best rate that gemmlab's own loop reached, so it is a lower bound of what the hardware "
    "can do, and a product may be above it."
)
TRAFFIC_CAVEAT = (
    "Flop per byte counts the bytes of the backend's own model of its memory traffic. Where a backend has no model, "
    "each operand counts once, which is the minimum. Neither is measured traffic; bytes from a cache simulation are "
    "shown beside them where there are any."
)
PROCESS = (
    "Each backend runs in an isolated process, and on every product the backends take their samples in rounds, so that "
    "a change of the machine's speed affects all of them. Every product is checked against its error bound; a wrong "
    "one has no time."
)
KERNELS = (
    "“Kernel” is the time of the kernels of one call by the device's own clock. Without transfers, the calls of a "
    "sample are started one after another, and the time includes one wait at the end."
)


def how_measured(records: Sequence[Record]) -> list[str]:
    """How the records of one device were measured, in sentences."""
    products = [record for record in records if record["kind"] == "gemm"]
    timed = list(filter(is_good, products))
    kernels = KERNELS if any(record["kernel_s"] for record in products) else ""
    said = [PROCESS, _samples(timed), _transfers(products), kernels, _age_of_ceilings(records, products)]
    said.append("GFLOP/s is 2 m n k / 10⁹, times the batch, divided by the median time.")
    return list(filter(None, said))


def _samples(timed: Sequence[Record]) -> str:
    if not timed:
        return ""
    counts = sorted({record["samples"] for record in timed if record["samples"]} or {0})
    samples = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    noisy = sum(bool(record["noisy"]) for record in timed)
    return (
        f"A time is the median of {samples} samples. Ranges and bars are from the 20th to the 80th percentile, and two "
        f"times whose ranges overlap count as no difference seen. Of {len(timed)} times, {noisy} are noisy, and each "
        "of these says why; docs/measuring.md explains the reasons."
    )


def _age_of_ceilings(records: Sequence[Record], products: Sequence[Record]) -> str:
    """That the ceilings are older than the products, if they are."""
    times = [str(record["time_utc"]) for record in records if record["kind"] == "ceiling"]
    first = min((str(record["time_utc"]) for record in products), default="")
    oldest = min(times, default=first)
    if oldest >= first or oldest[:10] == first[:10]:
        return ""
    return f"The ceilings were measured on {oldest[:10]} and cached; `--fresh` measures them again."


def _transfers(products: Sequence[Record]) -> str:
    counted = {record["transfers_counted"] for record in products} - {None}
    if counted == {True}:
        return "Moving operands to the device and back is included in the times."
    if counted == {False}:
        return "Moving operands to the device and back is not included in the times."
    return "Moving operands to the device and back is included only in times marked “+ transfers”." if counted else ""
