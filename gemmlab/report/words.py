"""Numbers, times and lists as a reader wants them: three digits, and the unit that fits."""

from __future__ import annotations

from collections.abc import Sequence

DASH = "–"


def number(value: float | None) -> str:
    """Three significant digits, never an exponent below a million; a dash for nothing.

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
    """A share of one as a percentage: whole, with a digit more below ten.

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
    """A time with the unit that fits.

    Examples
    --------
    >>> seconds(0.00123), seconds(2.5)
    ('1.23 ms', '2.5 s')
    """
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))


def size(value: float | None) -> str:
    """A number of bytes in binary units, named the way processors' data sheets do.

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


def sentence(text: str) -> str:
    """The text with a capital first letter and a full stop, unless it ends with a mark already.

    A backend's name, or a word with a digit in it, keeps its own first letter.

    Examples
    --------
    >>> sentence("over the time cap"), sentence("cpu-mkl is missing.")
    ('Over the time cap.', 'cpu-mkl is missing.')
    """
    text = text.strip()
    first = text.split(" ", 1)[0]
    if first.isalpha() and first.islower():
        text = text[0].upper() + text[1:]
    return text if not text or text[-1] in ".!?" else text + "."
