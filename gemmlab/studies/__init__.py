"""The experiments of the source documents, run again here, with their figures beside ours.

    study.py                what a study is
    catalogue.py            all of them, as data
    engine.py               runs one: measures, judges, draws, writes
    isolated.py             samples that each need a new process
      cold_start.py         the first call: from source, from disk, loaded
      memory_modes.py       the ways to bring operands to a device
      gpp.py                the GPP contest, from loops to a product
      postings.py           methods and grains that intersect posting lists
      pair_counts.py        all pairs of lists, by bits and by a sparse product
    scale/                  several backends on one product
    rungs/                  the ideas of one rung, the schemes of emulated products
    cache_model.py          the rungs' traffic models against simulated caches; times nothing
    curves.py               records as lines and speed-ups
    judges.py               whether a finding holds here, with figures and the reason
    summary.py              a study as text
    speed_up_figure.py      a study as a figure

What is drawn or judged comes from records alone.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

from gemmlab._errors import suggestion
from gemmlab.measure.table import WIDTH
from gemmlab.studies.catalogue import STUDIES
from gemmlab.studies.engine import Options, Outcome, conclude, run
from gemmlab.studies.study import Study
from gemmlab.studies.summary import SOURCES

__all__ = ["STUDIES", "Options", "Outcome", "Study", "conclude", "listing", "listing_text", "named", "run"]


def named(name: str) -> Study:
    """The study of a name; ValueError with similar names for any other."""
    if name in STUDIES:
        return STUDIES[name]
    near = difflib.get_close_matches(name, STUDIES)
    raise ValueError(f"no study is named {name!r}: {suggestion(near, STUDIES)}")


def listing() -> list[dict[str, str]]:
    """Name, source and question of every study."""
    return [{"name": study.name, "source": study.source, "question": study.question} for study in STUDIES.values()]


def listing_text(listed: Sequence[dict[str, str]]) -> str:
    """The same in 80 columns, with the names of the sources below."""
    rows = [(f"{row['name']:<17}{row['source']:<6}", row["question"]) for row in listed]
    rows += [("", "")] + [(f"{letter}  ", title) for letter, title in SOURCES.items()]
    return "\n".join(textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
                     for head, text in rows)  # fmt: skip
