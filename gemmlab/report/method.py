"""How the records of a report were measured, as far as that differs from report to report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gemmlab.measure.comparison import is_good
from gemmlab.measure.records import Record

TRANSFERS = {
    frozenset({True}): "Moving operands to the device and back is included in the times.",
    frozenset({False}): "Moving operands to the device and back is not included in the times.",
    frozenset({True, False}): "Moving operands to the device and back is included only in times marked “+ transfers”.",
}
KERNELS = (
    "“Kernel” is the time of the kernels of one call by the device's own clock. Without transfers, the calls of a "
    "sample are started one after another, and the time includes one wait at the end."
)


def how_measured(records: Sequence[Record]) -> Iterator[str]:
    """What the records of one device say about how they were measured, in sentences."""
    products = [record for record in records if record["kind"] == "gemm"]
    if timed := list(filter(is_good, products)):
        counts = sorted({record["samples"] for record in timed if record["samples"]} or {0})
        samples = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        noisy = sum(bool(record["noisy"]) for record in timed)
        yield (
            f"A time is the median of {samples} samples. Ranges and bars are from the 20th to the 80th percentile, and "
            f"two times whose ranges overlap count as no difference seen. Of {len(timed)} times, {noisy} are noisy and "
            "say why; docs/measuring.md explains the reasons."
        )
    if counted := frozenset(record["transfers_counted"] for record in products) - {None}:
        yield TRANSFERS[counted]
    if any(record["kernel_s"] for record in products):
        yield KERNELS
    first = min((str(record["time_utc"]) for record in products), default="")
    oldest = min((str(record["time_utc"]) for record in records if record["kind"] == "ceiling"), default=first)
    if oldest < first and oldest[:10] != first[:10]:
        yield f"The ceilings were measured on {oldest[:10]} and cached; `--fresh` measures them again."
