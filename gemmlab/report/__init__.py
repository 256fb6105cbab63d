"""The report: a page and figures drawn from records. Nothing here measures, so a page can be made again from a file.

    page.py  page.html          everything in its place: index.html
    figure_set.py               which figures there are
      roofline_figures.py       rooflines over sizes, level by level, and of two runs
        roofline_axes.py        the ceilings that they have in common
      speed_figures.py          speed over size, the products of a suite, and bandwidth over the working set
      search_figure.py          the configurations that a search of `gemmlab tune` tried
    points.py                   points that show facts when they are pointed at
    drawing.py                  what all figures share: styles, labels, SVG for a page
    tables.py                   the tables, as text
    method.py                   how it was measured
    directory.py                files that are written whole or not at all

The verdicts, advice and findings on the page come from `gemmlab.analysis`. Drawing needs matplotlib and Jinja2, the
extra `report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gemmlab._errors import GemmlabError
from gemmlab.analysis.groups import with_unique_devices
from gemmlab.measure.records import Record

__all__ = ["ReportUnavailable", "draw_comparison", "draw_rooflines", "draw_search", "render", "require"]


class ReportUnavailable(GemmlabError, RuntimeError):
    """A package that the report is drawn with is not installed."""


def require() -> None:
    """Raise `ReportUnavailable` unless matplotlib and Jinja2 are installed; call it before a long measurement."""
    if not (find_spec("matplotlib") and find_spec("jinja2")):
        raise ReportUnavailable("the report needs matplotlib and jinja2: pip install 'gemmlab[report]'")


def render(records: Sequence[Record], directory: Path) -> Path:
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
        The page. Styles and figures are inside it, and it needs no network.

    Raises
    ------
    ValueError
        If there is no record.
    ReportUnavailable
        If matplotlib or Jinja2 is missing.
    CannotWrite
        If the directory cannot be written; its files stay as they were.
    """
    require()
    from gemmlab.report.page import write

    return write(with_unique_devices(records), directory)


def draw_rooflines(records: Sequence[Record], directory: Path) -> list[Path]:
    """Draw the rooflines, and speed over size, of every device, number type and thread count into `directory`.

    It returns the SVG and PNG files, and raises what `render` does; ValueError if there is neither a product nor a
    ceiling. From records of ceilings alone, the ceilings alone are drawn.
    """
    require()
    from gemmlab.report.figure_set import draw_rooflines as draw

    return draw(with_unique_devices(records), directory)


def draw_comparison(
    old: Sequence[Record], new: Sequence[Record], names: tuple[str, str], directory: Path
) -> list[Path]:
    """Draw what two runs on the same machine have in common: a roofline for every group of products.

    `names` is what the two runs are called in the figures. It returns the SVG and PNG files, none where the runs share
    neither products nor ceilings, and raises what `render` does.
    """
    require()
    from gemmlab.report.figure_set import draw_comparison as draw

    return draw(old, new, names, directory)


def draw_search(log: Path) -> list[Path]:
    """Draw the configurations that a search of `gemmlab tune` tried, over time, and the best so far.

    The figures are written beside the log, one for each dtype and shape. It returns the SVG and PNG files, and raises
    `ReportUnavailable` if matplotlib is missing, CannotGoOn if the file is no log, and OSError if the folder cannot be
    written.
    """
    require()
    from gemmlab.report.search_figure import draw

    return draw(log)
