"""The source documents' experiments, run again here, their figures beside ours.

    study.py        what a study is
    catalogue.py    all of them, as data
    engine.py       one carried out: measured, judged, drawn, written
    children.py     experiments that need a fresh process for each sample
      cold_start.py     the first call: from source, from disk, loaded
      memory_modes.py   the ways to bring operands to a device
    cache_model.py  one that times nothing: the rungs' traffic models against simulated caches
    curves.py       from records to lines and speed-ups
    findings.py     whether a finding holds here, with numbers and the reason
    figure.py       text.py      what people look at, from records alone

`engine.py` measures through `gemmlab.measure` and `gemmlab.report.job`; what is drawn or judged comes from records.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

from gemmlab.measure.table import WIDTH
from gemmlab.studies.catalogue import STUDIES
from gemmlab.studies.engine import Options, Outcome, conclude, run
from gemmlab.studies.study import Study
from gemmlab.studies.text import SOURCES

__all__ = ["STUDIES", "Options", "Outcome", "Study", "conclude", "listing", "listing_text", "named", "run"]


def named(name: str) -> Study:
    """The study of a name; ValueError, with near names, for any other."""
    if name in STUDIES:
        return STUDIES[name]
    near = difflib.get_close_matches(name, STUDIES, n=3, cutoff=0.5) or list(STUDIES)
    raise ValueError(f"no study is named {name!r}: did you mean {' or '.join(near)}?")


def listing() -> list[dict[str, str]]:
    """Name, source and question of every study."""
    return [{"name": study.name, "source": study.source, "question": study.question} for study in STUDIES.values()]


def listing_text(listed: Sequence[dict[str, str]]) -> str:
    """The same in 80 columns, with the sources' letters explained."""
    rows = [(f"{row['name']:<17}{row['source']:<6}", row["question"]) for row in listed]
    rows += [("", "")] + [(f"{letter}  ", title) for letter, title in SOURCES.items()]
    return "\n".join(textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
                     for head, text in rows)  # fmt: skip
