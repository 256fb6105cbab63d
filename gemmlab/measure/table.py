"""Records as plain text: one row a record, numbers under each other, 80 columns at most."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gemmlab.measure.problems import extents
from gemmlab.measure.records import Record, grouped, name_of, titled

WIDTH = 80
_GAP = "  "
_SHORTEST_TEXT = 6
NOTHING = "-"
LEGEND = """noise: p20 to p80 spread of the samples; !: noisy, the record says why.
err/bd: largest error divided by its bound; over 1 would be wrong."""
_CPU_LEGEND = "thr: threads."
_DEVICE_LEGEND = """kernel: the kernels of one call alone, by the device's own clock.
+ transfers: with moving operands to the device and the result back."""

Peak = Callable[[Record], float | None]


class Column(NamedTuple):
    """A column: its head, the text of a row in it, and whether it holds numbers."""

    head: str
    cell: Callable[[Any], str]
    number: bool = True


def text_table(rows: Sequence[Any], columns: Sequence[Column], block: Callable[[Any], str] | None = None) -> str:
    """Align rows under their heads: numbers to the right, text to the left.

    Where the columns do not fit into 80 characters, the widest columns of text are cut, with an ellipsis. `block` gives
    the title of the block that a row is in, shown above the block's first row.

    Examples
    --------
    >>> print(text_table([{"n": 8}, {"n": 16}], [Column("edge", lambda row: str(row["n"]))]))
    edge
    ----
       8
      16
    """
    cells = [[column.cell(row) for column in columns] for row in rows]
    lines = [[column.head for column in columns], *cells]
    widths = _fitted([max(len(line[i]) for line in lines) for i in range(len(columns))], columns)

    def laid_out(line: list[str]) -> str:
        parts = (
            text.rjust(width) if column.number else _cut(text, width).ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        )
        return _GAP.join(parts).rstrip()

    text = [laid_out(lines[0]), _GAP.join("-" * width for width in widths)]
    title = None
    for row, line in zip(rows, cells, strict=True):
        if block is not None and block(row) != title:
            title = block(row)
            text += ["", wrapped(title)]
        text.append(laid_out(line))
    return "\n".join(text)


def gemm_table(records: Iterable[Record], peak: Peak | None = None) -> str:
    """Records of kind "gemm" as text: a table for each dtype and device, then what was not measured.

    Times with transfers have a separate table. A column without any value is left out. `peak` gives the GFLOP/s that a
    record's device could reach, or None, for the column "peak".
    """
    products = [record for record in records if record["kind"] == "gemm"]
    measured = [record for record in products if record["status"] == "ok" and record["median_s"]]
    parts = list(filter(None, [wrapped(warning_of_noise(measured))]))
    for title, group in grouped(sorted(measured, key=heading), heading).items():
        rows = sorted(group, key=lambda row: (row["gflop"], row["problem"]["label"]))
        parts.append(f"{wrapped(title)}\n\n{_products(rows, peak)}")
    if measured:
        parts.append(_legend(measured))
    if others := [record for record in products if record["status"] != "ok"]:
        reasons = (f"{name_of(one)} {size(one['problem'])} {one['status']}: {one['reason']}" for one in others)
        indented = (textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="      ") for text in reasons)
        parts.append("\n".join(["Not measured:", *indented]))
    return "\n\n".join(parts)


def warning_of_noise(records: Iterable[Record]) -> str:
    """What to know before all else where most of the timed products are noisy; else empty.

    Examples
    --------
    >>> quiet = {"kind": "gemm", "status": "ok", "median_s": 1.0, "noisy": False}
    >>> noisy = quiet | {"noisy": True}
    >>> warning_of_noise([quiet, noisy])
    ''
    >>> warning_of_noise([noisy]).partition(".")[0]
    '1 of 1 timings is noisy: do not quote them'
    """
    timed = [one for one in records if one["kind"] == "gemm" and one["status"] == "ok" and one["median_s"]]
    noisy = sum(bool(record["noisy"]) for record in timed)
    if 2 * noisy <= len(timed):
        return ""
    text = f"{noisy} of {len(timed)} timings {'is' if noisy == 1 else 'are'} noisy: do not quote them."
    return f"{text} Measure again when the machine is quiet, or for longer."


def _products(rows: Sequence[Record], peak: Peak | None) -> str:
    """The table of a dtype on a device; where parameters were swept, a block for each backend, with what differs."""
    titles = varying_params(rows)
    if not any(titles.values()):
        return text_table(rows, filled([_BACKEND, *_columns(peak)], rows))
    by_backend = sorted(rows, key=lambda row: (str(row["backend"]), row["gflop"]))
    parameters = Column("parameters", lambda row: titles[id(row)] or NOTHING, number=False)
    return text_table(by_backend, filled([parameters, *_columns(peak)], rows), lambda row: str(row["backend"]))


def varying_params(records: Iterable[Record]) -> dict[int, str]:
    """By the `id` of each record, those of its parameters that differ among the records of one backend and problem."""
    found = {}
    for own in grouped(records, lambda record: (name_of(record), record["threads"], str(record["problem"]))).values():
        names = [name for name in own[0]["params"] if len({str(record["params"].get(name)) for record in own}) > 1]
        for record in own:
            found[id(record)] = " ".join(f"{name}={record['params'].get(name)}" for name in names)
    return found


def filled(columns: Iterable[Column], rows: Iterable[Any]) -> list[Column]:
    """The columns in which some row has something."""
    rows = list(rows)
    return [column for column in columns if any(column.cell(row) != NOTHING for row in rows)]


def seconds(value: float) -> str:
    """Three digits of a time, with the unit that suits it.

    Examples
    --------
    >>> seconds(0.01234)
    '12.3 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{three_digits(value / size)} {unit}"
    return f"{three_digits(value / 1e-9)} ns"


def size(problem: Record) -> str:
    """Return "512" for a square product, else "m x n x k" without spaces, after the batch if there is one."""
    return extents(*(problem[key] for key in ("batch", "m", "n", "k")))


_BACKEND = Column("backend", lambda row: str(row["backend"]), number=False)
THREADS = Column("thr", lambda row: shown(str, row["threads"]))
SPEED = Column("GFLOP/s", lambda row: three_digits(row["gflop_per_s"]))
NOISE = Column("noise", lambda row: f"{row['noise_percent']:.0f}%{'!' if row['noisy'] else ' '}")
ERROR = Column("err/bd", lambda row: f"{row['error_over_bound']:.2g}")


def _columns(peak: Peak | None) -> list[Column]:
    return [
        Column("m x n x k", lambda row: size(row["problem"])),
        THREADS,
        Column("median", lambda row: seconds(row["median_s"])),
        Column("kernel", lambda row: shown(seconds, row["kernel_s"])),
        SPEED,
        Column("peak", lambda row: shown(lambda top: f"{100 * row['gflop_per_s'] / top:.0f}%", peak and peak(row))),
        NOISE,
        ERROR,
    ]


def heading(record: Record) -> str:
    """What a product's table is about: number type, device, layout, cold caches, and whether transfers are counted."""
    cold = ", cold caches" * bool(record.get("cold"))
    layout = record["problem"]["layout"]
    title = f"{record['problem']['dtype']} on {record['device']}{f', layout {layout}' * (layout != 'CCC')}{cold}"
    return titled(title, record["transfers_counted"])


def _legend(measured: Sequence[Record]) -> str:
    on_device = [record["transfers_counted"] is not None for record in measured]
    return "\n".join([_CPU_LEGEND] * (not all(on_device)) + [LEGEND] + [_DEVICE_LEGEND] * any(on_device))


def wrapped(text: str) -> str:
    """Text in lines of 80 characters; a word or a path that is longer is not broken."""
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def shown(text: Callable[[Any], str], value: Any) -> str:
    """A value's text, or a dash for None."""
    return NOTHING if value is None else text(value)


def three_digits(value: float) -> str:
    """A number with two or three digits, or all digits before its point.

    Examples
    --------
    >>> three_digits(0.0123), three_digits(1.234), three_digits(1234.5)
    ('0.012', '1.23', '1234')
    """
    if value >= 100:
        return f"{value:.0f}"
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _fitted(widths: list[int], columns: Sequence[Column]) -> list[int]:
    """Take what exceeds the line's width from the widest columns of text."""
    of_text = [i for i, column in enumerate(columns) if not column.number]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - WIDTH
    for i in sorted(of_text, key=lambda i: -widths[i]):
        taken = min(max(excess, 0), max(widths[i] - _SHORTEST_TEXT, 0))
        widths[i] -= taken
        excess -= taken
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
