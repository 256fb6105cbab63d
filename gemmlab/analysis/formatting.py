"""Sentences, and problems as text; numbers are in `_words`."""

from __future__ import annotations

import re

from gemmlab.measure.comparison import problem_key
from gemmlab.measure.records import Record


def sentence(text: str) -> str:
    """The text with a capital first letter and a full stop, unless it ends with a mark already.

    The first word keeps its case where it is a name with a dash or a digit, such as cpu-mkl.

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


def threads_text(threads: int) -> str:
    """The number of threads with its noun: 1 thread, 2 threads."""
    return f"{threads} thread" + "s" * (threads != 1)


def problem_text(record: Record) -> str:
    """The extents of a problem: "N = 512", or "m × n × k = 64 × 3136 × 576, batch 8"."""
    m, n, k, batch, layout, is_cold = problem_key(record)
    text = f"N = {m}" if m == n == k else f"m × n × k = {m} × {n} × {k}"
    text += f", batch {batch}" if batch > 1 else ""
    return text + (f", layout {layout}" if layout != "CCC" else "") + ", cold caches" * is_cold


def product_text(record: Record) -> str:
    """The extents of a problem after its name in the suite, where that is more than the extents again."""
    label, extents = str(record["problem"]["label"] or ""), problem_text(record)
    is_name = not extents.startswith("N =") and re.search(r"[^\W\dx]", label)
    return f"{label}: {extents}" if is_name else extents
