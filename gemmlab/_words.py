"""Numbers, shares, times, sizes of memory and lists in words; texts of others in messages."""

from __future__ import annotations

from collections.abc import Sequence

DASH = "–"
MOST_LETTERS = 300  # of a message that repeats what a file holds


def number(value: float | None) -> str:
    """Three significant digits, without an exponent from 0.0001 to a million; a dash for None.

    Examples
    --------
    >>> number(1234.5), number(0.03456), number(None)
    ('1230', '0.0346', '–')
    """
    if value is None:
        return DASH
    value = float(f"{value:.3g}")
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.1e}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A fraction as a percentage, with two digits below ten per cent.

    Examples
    --------
    >>> percent(0.423), percent(0.0423), percent(None)
    ('42 %', '4.2 %', '–')
    """
    if share is None:
        return DASH
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %"


def seconds(value: float | None) -> str:
    """A time in the unit that fits.

    Examples
    --------
    >>> seconds(0.00123), seconds(2.5)
    ('1.23 ms', '2.5 s')
    """
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))


def size(value: float | None) -> str:
    """A number of bytes in binary units.

    Examples
    --------
    >>> size(49152), size(33554432)
    ('48 KiB', '32 MiB')
    """
    return _scaled(value, ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")))


def _scaled(value: float | None, units: Sequence[tuple[float, str]]) -> str:
    if value is None:
        return DASH
    scale, unit = next((pair for pair in units if abs(value) >= pair[0]), units[-1])
    return f"{number(value / scale)} {unit}"


def listed(names: Sequence[str]) -> str:
    """Names as part of a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def printable(text: str) -> str:
    """A text in one line, whose control characters are escaped, so that a terminal shows them and does nothing else.

    Examples
    --------
    >>> printable("a\x1b[31m.npy is\\n damaged")
    'a\\\\x1b[31m.npy is damaged'
    """
    return escaped(" ".join(text.split()))


def escaped(text: str, keep: str = "") -> str:
    """A text without control characters but those to `keep`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text)


def shortened(text: str, most: int = MOST_LETTERS) -> str:
    """At most so many letters of a text, from its start and its end."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def quoted(value: object) -> str:
    """What somebody gave, in a message: at most 60 letters of it, on one line.

    Examples
    --------
    >>> quoted("two\\nlines"), len(quoted("9" * 1000))
    ("'two\\\\nlines'", 59)
    """
    try:
        return shortened(escaped(repr(value)), 60)
    except ValueError:  # an integer of thousands of digits
        return f"a huge {type(value).__name__}"
