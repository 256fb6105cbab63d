"""The report: a page, figures and sentences worked out from records.

    records ──> groups.py ──> verdicts.py   what the numbers say, a rule for every sentence
                   │          findings.py   the sources' figures beside ours
                   │          tables.py     rows of text
                   │          figures.py    one function a figure, drawn with drawing.py
                   │              │
                   └──────────────┴──> page.py + page.html ──> index.html, *.svg, *.png

`job.py` is the one place that measures, by the floors below, before anything is drawn.

`groups.py` sorts the records by device, number type and threads, and answers what everything else asks of
them. Whatever the page states is a sentence made by `verdicts.py` or `findings.py`; the template only places it.

Drawing needs matplotlib and Jinja2, the extra `report`; the sentences need neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gemmlab._errors import GemmlabError

__all__ = ["ReportUnavailable", "draw_rooflines", "render", "require"]


class ReportUnavailable(GemmlabError, RuntimeError):
    """A package that the report is drawn with is not installed."""


def require() -> None:
    """Raise unless what the report is drawn with is installed.

    Call it before a long measurement, so that the lack shows at once and not at the end.

    Raises
    ------
    ReportUnavailable
        If matplotlib or Jinja2 is missing.
    """
    if not (find_spec("matplotlib") and find_spec("jinja2")):
        raise ReportUnavailable("the report needs matplotlib and jinja2: pip install 'gemmlab[report]'")


def render(records: Sequence[Mapping[str, Any]], directory: Path) -> Path:
    """Write the report on `records` as ``directory/index.html``, with each figure as PNG and SVG beside it.

    Parameters
    ----------
    records : sequence of dict
        Records as described in ``docs/records.md``, of any number of devices, number types and thread counts.
    directory : Path
        Where to write; made if missing. Other files in it are left alone.

    Returns
    -------
    Path
        The page. It is one file: styles and figures are inside, and it asks nothing of the network.

    Raises
    ------
    ValueError
        If there is no record.
    ReportUnavailable
        If matplotlib or Jinja2 is missing.
    """
    require()
    from gemmlab.report.page import write

    return write(records, directory)


def draw_rooflines(records: Sequence[Mapping[str, Any]], directory: Path) -> list[Path]:
    """Draw the roofline of each device and number type into `directory`, as SVG and PNG; returns the files.

    Raises
    ------
    ValueError
        If no record is of a product.
    CannotWrite
        If `directory` is not there or cannot be written.
    """
    require()
    from gemmlab.report.page import write_rooflines

    return write_rooflines(records, directory)
