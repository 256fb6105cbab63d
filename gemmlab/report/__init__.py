"""The report: a page, figures and sentences worked out from records.

    job.py          measures by a plan, and hands the records on: the only file here that measures
    groups.py       records sorted by device, number type, threads and transfers; what all else asks of them
    roofs.py        where a product stands under the roofs
    verdicts.py     what the numbers say: a rule for every sentence
    levers.py       what would make a backend faster: a rule for every lever
    findings.py     the sources' figures beside ours, and whether they hold
    method.py       how it was measured, and the caveats
    tables.py       rows of text
    words.py        numbers and lists as text
    figures.py      the backends' figures by name
      roofline_figures.py  speed_figures.py  product_figures.py      one function a figure
    machine_figures.py      those of the machine itself
    roof_lines.py   the roofs that products stand under
    dots.py  details.py     marks that say what they are when pointed at, and what they say
    comparison_figure.py    two runs under one roofline
    drawing.py      what the figures share: looks, labels, SVG for a page
    album.py        which figures a report has, in which order, under which words
    page.py  page.html                      everything in its place: index.html
    folder.py       files that appear whole or not at all

Whatever the page states is made by `verdicts.py`, `levers.py`, `findings.py` or `method.py` from records, so a page
can be made again from a file. Drawing needs matplotlib and Jinja2, the extra `report`; the sentences need neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gemmlab._errors import GemmlabError

__all__ = ["ReportUnavailable", "draw_comparison", "draw_rooflines", "render", "require"]


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
    CannotWrite
        If the directory cannot be written; what was in it stays.
    """
    require()
    from gemmlab.report.groups import told_apart
    from gemmlab.report.page import write

    return write(told_apart(records), directory)


def draw_rooflines(records: Sequence[Mapping[str, Any]], directory: Path) -> list[Path]:
    """Draw the rooflines, and speed over size, of every device, number type and thread count into `directory`.

    Returns
    -------
    list of Path
        An SVG and a PNG of each figure; records of ceilings alone give the roofs alone.

    Raises
    ------
    ValueError
        If there is neither a product nor a ceiling to draw.
    ReportUnavailable
        If matplotlib or Jinja2 is missing.
    CannotWrite
        If the directory cannot be written; what was in it stays.
    """
    require()
    from gemmlab.report.album import draw_rooflines as draw
    from gemmlab.report.groups import told_apart

    return draw(told_apart(records), directory)


def draw_comparison(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], names: tuple[str, str], directory: Path
) -> list[Path]:
    """Draw what two runs have in common into `directory`: a roofline for every device, number type and thread count.

    Parameters
    ----------
    old, new : sequence of dict
        Records of two runs on the same machine.
    names : tuple of str
        What the two are called in the figures.
    directory : Path
        Where to write; made if missing.

    Returns
    -------
    list of Path
        An SVG and a PNG for each; none where neither products nor roofs are in both.

    Raises
    ------
    ReportUnavailable
        If matplotlib or Jinja2 is missing.
    CannotWrite
        If the directory cannot be written; what was in it stays.
    """
    require()
    from gemmlab.report.comparison_figure import draw

    return draw(old, new, names, directory)
